package orisun_test

import (
	"testing"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// An index for each key of the codec, with the type, and one for the guard.
func TestSetup(t *testing.T) {
	for v, typeKey := range map[orisuntest.Version]string{orisuntest.V010: "eventType", orisuntest.V014: "__eventType"} {
		t.Run(string(v), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: v})
			config, err := orisun.ParseDSN(server.DSN("bank"))
			require.NoError(t, err)
			config.Keys = append(events.Keys(), "a.b-c", "commandId")
			for range 2 { // at each start of a program
				require.NoError(t, config.Setup(t.Context()))
			}
			require.NoError(t, save(t.Context(), open(t, server.DSN("bank")), `{"accountId":"ada"}`))

			conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			defer conn.Close()
			answer, err := wire.NewEventStoreClient(conn).ListIndexes(t.Context(), &wire.ListIndexesRequest{Boundary: "bank"})
			require.NoError(t, err)
			got := map[string][]string{}
			for _, index := range answer.Indexes {
				for _, f := range index.Fields {
					got[index.Name] = append(got[index.Name], f.JsonKey)
				}
			}
			require.Equal(t, map[string][]string{
				"ccc_commandId": {"commandId"},
				"ccc_accountId": {"accountId", typeKey},
				"ccc_cents":     {"cents", typeKey},
				"ccc_till":      {"till", typeKey},
				"ccc_balance":   {"balance", typeKey},
				"ccc_a_2eb_2dc": {"a.b-c", typeKey},
			}, got)
		})
	}
}

// What a server cannot do, its operator has to: the error says what.
func TestSetupWhereAServerCannot(t *testing.T) {
	for _, c := range []struct {
		method string
		code   codes.Code
		want   string // empty: it goes on
	}{
		{"CreateBoundary", codes.Unimplemented, "ORISUN_BOUNDARIES"},
		{"CreateBoundary", codes.PermissionDenied, "ADMIN for Setup"},
		{"CreateBoundary", codes.AlreadyExists, ""},
		{"CreateIndex", codes.Unimplemented, "operator has to index"},
		{"CreateIndex", codes.AlreadyExists, "DropIndex"},
		{"CreateIndex", codes.PermissionDenied, "ADMIN for Setup"},
		{"ListIndexes", codes.Unimplemented, ""},
		{"ListIndexes", codes.PermissionDenied, "ADMIN for Setup"},
	} {
		server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
		config, err := orisun.ParseDSN(server.DSN("bank"))
		require.NoError(t, err)
		server.Refuse(c.method, status.Error(c.code, "no"))
		err = config.Setup(t.Context())
		if c.want == "" {
			require.NoError(t, err, "%v", c)
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "set-up of orisun://"+server.Addr()+"/bank")
	}
	server := start(t, orisuntest.Config{})
	config, err := orisun.ParseDSN(server.DSN("bank"))
	require.NoError(t, err)
	config.Keys = []string{"__own"}
	require.Error(t, config.Setup(t.Context()))
}

// A server that was built by hand does not say its version: what it has and
// what is stored tells the key of the type, or the configuration.
func TestUnknownVersion(t *testing.T) {
	mute := changed(func(method string, out any) {
		if info, ok := out.(*wire.GetServerInfoResponse); ok {
			info.Version = "unknown"
		}
	})
	for _, v := range versions {
		server := start(t, orisuntest.Config{Version: v, Boundaries: []string{"bank"}})
		store := openWith(t, server.DSN("bank"), mute)
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`), v)
		found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda.Type("MoneyPosted")})
		require.NoError(t, err)
		require.Len(t, found[0].Records, 1, v)
	}
}
