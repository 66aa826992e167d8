package orisun_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/cccgo/ccc/eventstore/storetest"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var versions = []orisuntest.Version{orisuntest.V010, orisuntest.V014}

func start(t *testing.T, cfg orisuntest.Config) *orisuntest.Server {
	t.Helper()
	server, err := orisuntest.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

func open(t *testing.T, dsn string) *orisun.Store {
	t.Helper()
	store, err := orisun.Open(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// opener opens a boundary for each log of the suite, on the server that a DSN
// names.
func opener(dsn string) func(string) (eventstore.Store, error) {
	run := strings.ReplaceAll(uuid.NewString()[:8], "-", "")
	return func(name string) (eventstore.Store, error) {
		config, err := orisun.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		config.Boundary = "t" + run + "_" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, name)
		config.Boundary = config.Boundary[:min(len(config.Boundary), 60)]
		config.Keys = []string{"a"}
		ctx := context.Background()
		if err := config.Setup(ctx); err != nil {
			return nil, err
		}
		return config.Open(ctx)
	}
}

func TestConformance(t *testing.T) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: v})
			storetest.Run(t, features, opener(server.DSN("x")))
		})
	}
}

var features = storetest.Features{Durable: true, SecondHandle: true, FloatNumbers: true, NamedTypesOnly: true}

// The suite on a real server, whose DSN CCC_ORISUN holds (docs/guides/orisun.md
// says how to start one).
func TestConformanceOnARealServer(t *testing.T) {
	dsn := os.Getenv("CCC_ORISUN")
	if dsn == "" {
		t.Skip("CCC_ORISUN is not set")
	}
	f := features
	f.ScalarsMatch = true
	storetest.Run(t, f, opener(dsn))
}
