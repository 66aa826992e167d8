package orisun_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// onServers runs a test on the test servers, and on the real server that
// CCC_ORISUN names, each with the DSN of a fresh boundary.
func onServers(t *testing.T, test func(t *testing.T, dsn string, real bool)) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: v})
			test(t, server.DSN("bank"), false)
		})
	}
	if dsn := os.Getenv("CCC_ORISUN"); dsn != "" {
		t.Run("CCC_ORISUN", func(t *testing.T) {
			test(t, dsn[:strings.LastIndexByte(dsn, '/')+1]+"t"+strings.ReplaceAll(uuid.NewString(), "-", ""), true)
		})
	}
}

// Many callers of one ID, on three replicas: one event, and one answer for all.
func TestRacesOnOneID(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, real bool) {
		races := 1000
		if real {
			races = 10_000
		}
		id := command.NewID()
		var wins, left atomic.Int64
		var positions sync.Map
		left.Store(int64(races))
		var wg sync.WaitGroup
		stores := make([]eventstore.Store, 3)
		for i := range stores {
			stores[i] = openWith(t, dsn)
			runner := command.NewRunner(stores[i], command.Config{})
			for range 16 {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						out, err := command.Run(t.Context(), runner, id, deposit{"ada", 1})
						if err != nil {
							t.Error(err)
							return
						}
						positions.Store(out.Position, true)
						if !out.Replayed {
							wins.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, 1, wins.Load())
		one := 0
		positions.Range(func(any, any) bool { one++; return true })
		require.Equal(t, 1, one, "positions told")
		found, err := stores[0].Snapshot(t.Context(), eventstore.Part{Query: consistency.Where("accountId", "ada")})
		require.NoError(t, err)
		require.Len(t, found[0].Records, 1)
	})
}

// Racing withdrawals of three replicas never overdraw, and every cent is there.
func TestMoneyIsKept(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, real bool) {
		names := []string{"a", "b", "c", "d"}
		first := openWith(t, dsn)
		runner := command.NewRunner(first, command.Config{})
		for _, name := range names {
			_, err := command.Run(t.Context(), runner, command.NewID(), deposit{name, 50})
			require.NoError(t, err)
		}
		var wg sync.WaitGroup
		for i := range 3 {
			runner := command.NewRunner(openWith(t, dsn), command.Config{})
			for j := range 8 {
				wg.Go(func() {
					for k := range 20 {
						from, to := names[(i+j+k)%4], names[(i+j*k+k/3+1)%4]
						if from == to {
							continue
						}
						out, err := command.Run(t.Context(), runner, command.NewID(), transfer{from, to, int64(10 + k)})
						if out.Status != command.Committed && out.Status != command.Refused {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		money := map[string]int64{}
		for r, err := range eventstore.All(t.Context(), first, consistency.All().Type("MoneyPosted"), consistency.Position{}) {
			require.NoError(t, err)
			e, err := events.Decode(r)
			require.NoError(t, err)
			p := e.(posted)
			money[p.Account] += p.Cents
		}
		sum := int64(0)
		for _, cents := range money {
			require.GreaterOrEqual(t, cents, int64(0))
			sum += cents
		}
		require.EqualValues(t, 200, sum)
		require.ElementsMatch(t, names, slices.Collect(maps.Keys(money)))
	})
}
