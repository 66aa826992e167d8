package memstore

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Every read and every check must say what a walk over the whole log would.
func TestIndexAgreesWithAScan(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		x := newIndex()
		var log []event.Record
		for range rng.IntN(60 + 200*round/rounds) {
			// Keys of very different frequency, so that lists differ in length.
			data := map[string]string{"a": fmt.Sprint(rng.IntN(2)), "b": fmt.Sprint(rng.IntN(40))}
			if rng.IntN(3) > 0 {
				data["c"] = fmt.Sprint(rng.IntN(5))
			}
			raw, _ := json.Marshal(data)
			r := event.Record{ID: uuid.New(), Type: fmt.Sprint("T", rng.IntN(3)), Data: raw}
			tags, err := consistency.Tags(raw)
			require.NoError(t, err)
			x.add(&r, tags)
			log = append(log, r)
		}
		for range 25 {
			q := randomQuery(rng)
			from, end := rng.IntN(len(log)+2), rng.IntN(len(log)+2)
			what := fmt.Sprintf("seed %d: %s in [%d, %d) of %d", seed, q, from, end, len(log))

			want := scan(log, q, from, min(end, len(log)))
			var got []int
			w := x.walk(q)
			w.matches(min(from, len(log)), min(end, len(log)), func(place int) bool { got = append(got, place); return true })
			require.Equal(t, want, got, what)

			last := -1
			if all := scan(log, q, 0, min(end, len(log))); len(all) > 0 {
				last = all[len(all)-1]
			}
			w = x.walk(q)
			require.Equal(t, last, w.latest(min(end, len(log))), what)

			o := consistency.Observation{Query: q, At: consistency.NewPosition(0, uint64(from))}
			latest := 0
			if all := scan(log, q, 0, len(log)); len(all) > 0 {
				latest = all[len(all)-1] + 1
			}
			for _, at := range []int{from, latest} {
				o.At = consistency.NewPosition(0, uint64(at))
				require.Equal(t, at == latest, x.check(&o) == nil, "%s, observed at %d, latest %d", what, at, latest)
			}
		}
	}
}

func scan(log []event.Record, q consistency.Query, from, end int) (places []int) {
	for i := from; i < end; i++ {
		if q.Matches(log[i].Type, log[i].Data) {
			places = append(places, i)
		}
	}
	return places
}

func randomQuery(rng *rand.Rand) consistency.Query {
	one := func() consistency.Query {
		q := consistency.All()
		for key, n := range map[string]int{"a": 3, "b": 41, "c": 6} {
			if rng.IntN(2) == 0 {
				q = q.And(consistency.Where(key, fmt.Sprint(rng.IntN(n))))
			}
		}
		switch rng.IntN(4) {
		case 0:
			q = q.Type("T0")
		case 1:
			q = q.Type("T0", "T2", "T9")
		}
		return q
	}
	q := one()
	for range rng.IntN(4) {
		q = q.Or(one())
	}
	return q
}

// A rare and a common key: what is looked at must follow the rare one.
func BenchmarkAndOfRareAndCommon(b *testing.B) {
	s := New()
	for i := range 300_000 {
		rare := "no"
		if i%10_000 == 0 {
			rare = "yes"
		}
		_, err := s.Append(b.Context(), []event.Record{{ID: uuid.New(), Type: "T",
			Data: fmt.Appendf(nil, `{"tenant":"one","rare":%q}`, rare)}}, nil)
		require.NoError(b, err)
	}
	part := eventstore.Part{Query: consistency.Where("tenant", "one").And(consistency.Where("rare", "yes"))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Snapshot(b.Context(), part); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	s := New()
	ids := make([]uuid.UUID, 1<<16)
	for i := range ids {
		ids[i] = uuid.New()
	}
	account := consistency.Where("accountId", "ada")
	var at consistency.Position
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if i%len(ids) == 0 {
			s, at = New(), consistency.Position{}
		}
		id := ids[i%len(ids)]
		i++
		receipt, err := s.Append(b.Context(), []event.Record{{ID: id, Type: "MoneyPosted",
			Data: json.RawMessage(`{"commandId":"` + id.String() + `","accountId":"ada","cents":"100"}`)}},
			[]consistency.Observation{{Query: account, At: at}, {Query: consistency.Where("commandId", id.String())}})
		if err != nil {
			b.Fatal(err)
		}
		at = receipt.Positions[0]
	}
}
