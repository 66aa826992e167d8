package sqlitestore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// seeksOf counts how often an index is searched by a read.
func seeksOf(t testing.TB, s *Store, p eventstore.Part) (seeks int64, found int) {
	t.Helper()
	before := s.file.seeks.Load()
	results, err := s.Snapshot(t.Context(), p)
	require.NoError(t, err)
	return s.file.seeks.Load() - before, len(results[0].Records)
}

// What a read costs depends on what it finds, not on the log around it.
func TestSeeks(t *testing.T) {
	s := open(t, tempDB(t))
	var all []event.Record
	for i := range 3000 {
		r := fact("common", "yes", "half", fmt.Sprint(i%2))
		switch {
		case i%1000 == 500: // 3 of them, at even places
			r = fact("common", "yes", "half", "0", "rare", "yes")
			r.Type = "Rare"
		case i == 1001:
			r.Type = "Once"
		}
		all = append(all, r)
	}
	for part := range slices.Chunk(all, 1000) {
		save(t, s, nil, part...)
	}
	common, half, rare := consistency.Where("common", "yes"), consistency.Where("half", "1"), consistency.Where("rare", "yes")
	for _, c := range []struct {
		name      string
		part      eventstore.Part
		found     int
		mostSeeks int64
	}{
		{"latest of a common key", eventstore.Part{Query: common, LatestOnly: true}, 1, 2},
		{"latest of a missing key", eventstore.Part{Query: consistency.Where("no", "no"), LatestOnly: true}, 0, 1},
		{"a rare key", eventstore.Part{Query: rare}, 3, 2 + 3},
		{"rare and common", eventstore.Part{Query: rare.And(common)}, 3, 2 + 3 + 4},
		{"common and rare", eventstore.Part{Query: common.And(rare)}, 3, 2 + 3 + 4},
		{"latest rare and common", eventstore.Part{Query: common.And(rare), LatestOnly: true}, 1, 6},
		{"rare and half, which never meet", eventstore.Part{Query: rare.And(half)}, 0, 8},
		{"rare, of its type", eventstore.Part{Query: rare.Type("Rare")}, 3, 2 + 3},
		{"common, of a rare type", eventstore.Part{Query: common.Type("Rare")}, 3, 16},
		{"latest common, of a type that is there once", eventstore.Part{Query: common.Type("Once"), LatestOnly: true}, 1, 8},
		{"common, of a type that is missing", eventstore.Part{Query: common.Type("No")}, 0, 4},
		{"either of two", eventstore.Part{Query: rare.Or(common.Type("Once"))}, 4, 14},
		{"all that is common", eventstore.Part{Query: common}, 3000, 3000 + 12},
		{"by type", eventstore.Part{Query: consistency.All().Type("Fact", "Once", "Rare")}, 3000, 3000 + 20},
	} {
		seeks, found := seeksOf(t, s, c.part)
		require.Equal(t, c.found, found, c.name)
		require.LessOrEqual(t, seeks, c.mostSeeks, c.name)
		t.Log(seeks, c.name)
	}
}

// An append searches for each observation once, and for its event_id once.
func TestSeeksOfAnAppend(t *testing.T) {
	s := open(t, tempDB(t))
	last := save(t, s, nil, facts(500, "account", "a")...)[499]
	id := uuid.New()
	r := fact("account", "a", "commandId", id.String())
	r.ID = id
	before := s.file.seeks.Load()
	save(t, s, append(unseen("commandId", id.String()), consistency.Observation{Query: consistency.Where("account", "a"), At: last}), r)
	require.LessOrEqual(t, s.file.seeks.Load()-before, int64(4))
}

// The order of what is asked must not matter, nor what shares a hash: random
// queries against the plain matcher, forwards, backwards and in pages.
func TestScansAgreeWithTheMatcher(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, mask := range []uint64{^uint64(0), 15} {
		collide(t, mask)
		path := tempDB(t)
		s, other := openWith(t, path, Config{Boundary: "a"}), openWith(t, path, Config{Boundary: "b"})
		pick := func(of string) string { return of[:1] + fmt.Sprint(rng.IntN(int(of[1]-'0'))) }
		var stored []event.Record
		for len(stored) < 200 {
			records := facts(rng.IntN(9) + 1)
			for i := range records {
				records[i].Data = fact("x", pick("x2"), "y", pick("y5"), "z", pick("z9")).Data
				records[i].Type = pick("T3")
			}
			if rng.IntN(3) == 0 {
				save(t, other, nil, records...)
				continue
			}
			for i, p := range save(t, s, nil, records...) {
				records[i].Position = p
			}
			stored = append(stored, records...)
		}
		for range 300 {
			q := consistency.Query{}
			for range rng.IntN(3) + 1 {
				c := consistency.All()
				for _, k := range []string{"x2", "y5", "z9"} {
					if rng.IntN(2) == 0 {
						c = c.And(consistency.Where(k[:1], pick(k)))
					}
				}
				if rng.IntN(2) == 0 {
					c = c.Type(pick("T3"), pick("T3"))
				}
				q = q.Or(c)
			}
			agree(t, s, stored, q, stored[rng.IntN(len(stored))].Position, stored[rng.IntN(len(stored))].Position, rng.IntN(20)+1)
		}
	}
}

func agree(t *testing.T, s *Store, stored []event.Record, q consistency.Query, after, upTo consistency.Position, limit int) {
	t.Helper()
	var want []event.Record
	var last, lastEver consistency.Position
	for _, r := range stored {
		if !q.Matches(r.Type, r.Data) {
			continue
		}
		lastEver = r.Position
		if !r.Position.After(upTo) {
			last = r.Position
			if r.Position.After(after) {
				want = append(want, r)
			}
		}
	}
	results, err := s.Snapshot(t.Context(), eventstore.Part{Query: q, After: after, UpTo: upTo}, eventstore.Part{Query: q, LatestOnly: true})
	require.NoError(t, err)
	require.Equal(t, ids(want), ids(results[0].Records), "%s from %s to %s", q, after, upTo)
	require.Equal(t, last, results[0].Last, "%s up to %s", q, upTo)
	require.Equal(t, lastEver, results[1].Last, q)

	page, err := s.Page(t.Context(), q, after, limit)
	require.NoError(t, err)
	require.LessOrEqual(t, len(page.Records), limit)
	for _, r := range stored {
		if r.Position.After(after) && !r.Position.After(page.UpTo) && q.Matches(r.Type, r.Data) {
			require.Equal(t, r.ID, page.Records[0].ID, q)
			page.Records = page.Records[1:]
		}
	}
	require.Empty(t, page.Records, q)
}

func ids(records []event.Record) (out []uuid.UUID) {
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}
