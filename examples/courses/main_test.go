package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}))
}

func Example() {
	if err := run(context.Background(), nil, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a1   offer go 2       offered with 2 seats
	// a2   offer sql 1      offered with 1 seats
	// a3   enrol go ada     enrolled, 1 of 2 seats left
	// a4   enrol go bob     enrolled, 0 of 2 seats left
	// a5   enrol go cem     number 1 on the waiting list
	// a6   enrol go dee     number 2 on the waiting list
	// a7   enrol go ada     refused: already_enrolled
	// a8   enrol sql ada    enrolled, 0 of 1 seats left
	// a9   offer art 5      offered with 5 seats
	// a10  offer law 5      offered with 5 seats
	// a11  enrol art ada    enrolled, 4 of 5 seats left
	// a12  enrol law ada    refused: too_many_courses
	// a13  enrol sql eve    number 1 on the waiting list
	// a14  enrol tea eve    refused: course_not_found
	// art: 4 of 5 seats free, 0 waiting
	// go: 0 of 2 seats free, 2 waiting
	// law: 5 of 5 seats free, 0 waiting
	// sql: 0 of 1 seats free, 1 waiting
}

func runHere(t testing.TB, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), args, &out))
	return out.String()
}

const again = " (as before)"

// The second run gives the first one's answers, and changes nothing.
func TestSecondRun(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "courses.db")
	first, second := runHere(t, "-store", store), runHere(t, "-store", store)
	require.NotContains(t, first, again)
	require.Equal(t, 14, strings.Count(second, again))
	require.Equal(t, first, strings.ReplaceAll(second, again, ""))
	require.Equal(t, first, runHere(t), "in memory")
}

// The same over a server, of both generations.
func TestOrisun(t *testing.T) {
	for _, v := range []orisuntest.Version{orisuntest.V010, orisuntest.V014} {
		t.Run(string(v), func(t *testing.T) {
			server, err := orisuntest.Start(orisuntest.Config{Version: v})
			require.NoError(t, err)
			t.Cleanup(server.Close)
			t.Chdir(t.TempDir())
			first, second := runHere(t, "-store", server.DSN("school")), runHere(t, "-store", server.DSN("school"))
			require.Equal(t, first, strings.ReplaceAll(second, again, ""))
			require.Equal(t, first, runHere(t))
			require.FileExists(t, "school.seats")
		})
	}
}

func TestRunRefuses(t *testing.T) {
	script := func(text string) string {
		name := filepath.Join(t.TempDir(), "script.txt")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for says, args := range map[string][]string{
		"give sqlite:FILE for a file":    {"-store", "postgres:x"},
		"flag provided but not defined":  {"-x"},
		"no such file":                   {"nowhere.txt"},
		"line 2: give KEY offer COURSE":  {script("# one\na offer\n")},
		`line 1: "many" is no number`:    {script("a offer go many\n")},
		`line 1: "leave" is no command`:  {script("a leave go ada\n")},
		command.ErrIDReused.Error():      {script("a offer go 1\na offer go 2\n")},
		"a enrol go ada: command enrol ": {script("b offer go 1\na offer art 1\na enrol go ada\n")},
	} {
		err := run(t.Context(), args, &bytes.Buffer{})
		require.ErrorContains(t, err, says, args)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, nil, &bytes.Buffer{}), context.Canceled)
}
