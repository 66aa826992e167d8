package orisun_test

import (
	"context"
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	benchClients  = 64
	benchCommands = 20 // of a client, on one account
)

// clients runs 64 clients, each on an account of its own, and says how long all
// of them took.
func clients(b *testing.B, one func(account string) error) time.Duration {
	begun := time.Now()
	var all sync.WaitGroup
	for range benchClients {
		all.Go(func() {
			account := uuid.NewString()
			for range benchCommands {
				if err := one(account); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(begun)
}

// What the framework writes beside an event.
const benchMetadata = `{"ccc.causation":"01a24fdb-4268-78f2-a654-6308c3f97ac7","ccc.command":"deposit","ccc.correlation":"01a24fdb-4268-78f2-a654-6308c3f97ac7",` +
	`"ccc.events":1,"ccc.fingerprint":"-tB3KfFF1mtJqHMyjQX1O2wXjtJ90qUzRd-IZ2sdZ_w","ccc.version":1,"ccc.time":"2026-12-07T09:34:59.177144Z"}`

// bare is a client of the same calls with nothing around them: it reads an
// account's history and what an id has led to, and saves if neither changed.
type bare struct {
	client   wire.EventStoreClient
	auth     metadata.MD
	boundary string
	typeKey  string
	v2       bool
}

func (c *bare) run(account string) error {
	ctx := metadata.NewOutgoingContext(context.Background(), c.auth)
	id := uuid.NewString()
	history := &wire.Criterion{Tags: []*wire.Tag{{Key: "accountId", Value: account}, {Key: c.typeKey, Value: "MoneyPosted"}}}
	guard := &wire.Criterion{Tags: []*wire.Tag{{Key: "commandId", Value: id}}}
	both := &wire.Query{Criteria: []*wire.Criterion{history, guard}}
	seen, err := c.client.GetEvents(ctx, &wire.GetEventsRequest{Boundary: c.boundary, Query: both, Count: 1000, Direction: wire.Direction_DESC})
	if err != nil {
		return err
	}
	none := &wire.Position{CommitPosition: -1, PreparePosition: -1}
	at := none
	if len(seen.Events) > 0 {
		at = seen.Events[0].Position
	}
	events := []*wire.EventToSave{{EventId: uuid.NewString(), EventType: "MoneyPosted", Metadata: benchMetadata,
		Data: `{"accountId":"` + account + `","cents":"100","commandId":"` + id + `"}`}}
	if c.v2 {
		_, err = c.client.SaveEventsV2(ctx, &wire.SaveEventsV2Request{Boundary: c.boundary, Events: events, Consistency: []*wire.ConsistencyObservation{
			{Query: &wire.Query{Criteria: []*wire.Criterion{history}}, Position: at}, {Query: &wire.Query{Criteria: []*wire.Criterion{guard}}, Position: none}}})
		return err
	}
	_, err = c.client.SaveEvents(ctx, &wire.SaveEventsRequest{Boundary: c.boundary, Events: events, Query: &wire.SaveQuery{SubsetQuery: both, ExpectedPosition: at}})
	return err
}

func newBare(b *testing.B, dsn string) *bare {
	config, err := orisun.ParseDSN(dsn)
	require.NoError(b, err)
	conn, err := grpc.NewClient(config.Addresses[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	c := &bare{client: wire.NewEventStoreClient(conn), boundary: config.Boundary, typeKey: "eventType", auth: metadata.MD{}}
	if config.User != "" { // checked once, as a token
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(config.User+":"+config.Password))
		var header metadata.MD
		_, err := c.client.GetServerInfo(metadata.AppendToOutgoingContext(context.Background(), "authorization", basic), &wire.GetServerInfoRequest{}, grpc.Header(&header))
		require.NoError(b, err)
		c.auth = metadata.Pairs("authorization", basic)
		if token := header.Get("x-auth-token"); len(token) > 0 {
			c.auth.Set("x-auth-token", token[0])
		}
	}
	_, err = c.client.SaveEventsV2(metadata.NewOutgoingContext(context.Background(), c.auth), &wire.SaveEventsV2Request{Boundary: c.boundary})
	if c.v2 = status.Code(err) != codes.Unimplemented; c.v2 {
		c.typeKey = "__eventType"
	}
	return c
}

// The framework against the bare calls, at 64 clients, in one run: at least
// 0.95 of their throughput.
func BenchmarkOverhead(b *testing.B) {
	type server struct{ name, dsn string }
	var servers []server
	for _, v := range versions {
		s, err := orisuntest.Start(orisuntest.Config{Version: v})
		require.NoError(b, err)
		defer s.Close()
		servers = append(servers, server{string(v), s.DSN("bank")})
	}
	if dsn := os.Getenv("CCC_ORISUN"); dsn != "" {
		servers = append(servers, server{"CCC_ORISUN", dsn[:strings.LastIndexByte(dsn, '/')+1] + "t" + strings.ReplaceAll(uuid.NewString(), "-", "")})
	}
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) { overhead(b, s.dsn) })
	}
}

func overhead(b *testing.B, dsn string) {
	runner := command.NewRunner(openWith(b, dsn), command.Config{CacheBytes: -1})
	calls := newBare(b, dsn)
	framework := func(account string) error {
		_, err := command.Run(context.Background(), runner, command.NewID(), deposit{account, 100})
		return err
	}
	clients(b, framework)
	clients(b, calls.run)
	var ratios []float64
	for b.Loop() {
		// A log that grows slows down: neither always goes second.
		plain := clients(b, calls.run)
		ours := clients(b, framework) + clients(b, framework)
		plain += clients(b, calls.run)
		ratios = append(ratios, float64(plain)/float64(ours))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-bare")
	b.ReportMetric(float64(b.N)*4*benchClients*benchCommands/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(0, "ns/op")
}
