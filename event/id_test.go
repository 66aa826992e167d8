package event

import (
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDerivedID(t *testing.T) {
	require.Equal(t, command, DerivedID(command, 0))
	// Stored for ever: these never change.
	require.Equal(t, "45409590-89a9-5583-8103-0d91b9e52354", DerivedID(command, 1).String())
	rapid.Check(t, func(t *rapid.T) {
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		i := rapid.IntRange(1, 2000).Draw(t, "i")
		require.Equal(t, uuid.NewSHA1(id, []byte(strconv.Itoa(i))), DerivedID(id, i))
		require.Equal(t, id.String(), string(appendUUID(nil, id)))
	})
	require.Zero(t, testing.AllocsPerRun(100, func() { DerivedID(command, 7) }))
}
