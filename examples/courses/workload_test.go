package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

const (
	someCourses  = 5
	someStudents = 20
	workers      = 8
	tries        = 15 // enrolments per worker and half
)

// workload offers courses, and has workers on two replicas enrol students at
// random; half of them when the waiting lists of the full ones are open.
func workload(t *testing.T, replicas [2]*command.Runner, lists follower, seed uint64) {
	for c := range someCourses {
		say(t, replicas[0], command.NewID(), Offer{fmt.Sprint("c", c), 1 + c*c})
	}
	for half := range uint64(2) {
		enrolAtRandom(t, replicas, seed+half)
		catchUp(t, lists)
	}
}

func enrolAtRandom(t *testing.T, replicas [2]*command.Runner, seed uint64) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for range tries {
				c := Enrol{fmt.Sprint("c", random.IntN(someCourses)), fmt.Sprint("s", random.IntN(someStudents))}
				id := command.NewID()
				say(t, replicas[w%2], id, c)
				if random.IntN(4) == 0 {
					say(t, replicas[random.IntN(2)], id, c) // a double click
				}
			}
		})
	}
	all.Wait()
}

// say runs a command until its last word.
func say[C command.Command[S], S any](t *testing.T, r *command.Runner, id uuid.UUID, c C) {
	for range 100 {
		out, err := command.Run(context.Background(), r, id, c)
		switch out.Status {
		case command.Committed, command.Refused:
			return
		case command.Contended, command.Unavailable, command.Unknown:
		default:
			t.Errorf("%+v: %v", c, err)
			return
		}
	}
	t.Errorf("%+v never has a last word", c)
}

// holds checks the rules against the log, and gives the seats that it adds up to.
func holds(t *testing.T, store eventstore.Store, seed uint64) []Seats {
	t.Helper()
	seats, taken := map[string]*Seats{}, map[string][]string{}
	filled, opened, queued := map[string]int{}, map[string]int{}, map[string][]string{}
	for r, err := range eventstore.All(t.Context(), store, consistency.All(), consistency.Position{}) {
		require.NoError(t, err)
		e, err := events.Decode(r)
		require.NoError(t, err)
		switch e := e.(type) {
		case CourseOffered:
			require.Nil(t, seats[e.Course], "seed %d", seed)
			seats[e.Course] = &Seats{e.Course, e.Seats, e.Seats, 0}
		case StudentEnrolled:
			s := seats[e.Course]
			s.Free--
			require.GreaterOrEqual(t, s.Free, 0, "seed %d: %s is oversold", seed, e.Course)
			require.NotContains(t, taken[e.Student], e.Course, "seed %d", seed)
			require.NotContains(t, queued[e.Course], e.Student, "seed %d", seed)
			taken[e.Student] = append(taken[e.Student], e.Course)
			require.LessOrEqual(t, len(taken[e.Student]), maxCourses, "seed %d: %s has too many courses", seed, e.Student)
		case CourseFilled:
			require.Zero(t, seats[e.Course].Free, "seed %d", seed)
			filled[e.Course]++
		case WaitingListOpened:
			require.Equal(t, 1, filled[e.Course], "seed %d", seed)
			require.Equal(t, 1, r.Metadata.Depth)
			opened[e.Course]++
		case StudentQueued:
			require.Equal(t, 1, opened[e.Course], "seed %d", seed)
			require.NotContains(t, queued[e.Course], e.Student, "seed %d", seed)
			queued[e.Course] = append(queued[e.Course], e.Student)
			require.Len(t, queued[e.Course], e.Place, "seed %d: places have a gap", seed)
			seats[e.Course].Waiting++
		}
	}
	require.Len(t, seats, someCourses)
	require.Equal(t, filled, opened, "seed %d: a list per full course", seed)
	require.GreaterOrEqual(t, len(filled), 2, "seed %d: the test tries too little", seed)
	require.NotEmpty(t, queued, "seed %d: the test tries too little", seed)
	var rows []Seats
	for _, c := range slices.Sorted(maps.Keys(seats)) {
		if seats[c].Free == 0 {
			require.Equal(t, 1, opened[c], "seed %d: %s has no list", seed, c)
		}
		rows = append(rows, *seats[c])
	}
	return rows
}

// Everything that can go wrong with a store does, in virtual time.
func TestWorkload(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			log := memstore.New()
			defer log.Close()
			store := storefault.New(log, storefault.Rough(seed, 0.1))
			defer store.Close()
			replicas := [2]*command.Runner{command.NewRunner(store, command.Config{}), command.NewRunner(store, command.Config{})}
			lists := projector.New(store, memtarget.New[int](), projector.Config{Name: "waiting lists", Events: events},
				openWaitingLists[*memtarget.Tx[int]](replicas[0]))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			for range 2 { // one of them stands by
				go func() { ended <- lists.Run(ctx) }()
			}
			workload(t, replicas, lists, seed)
			stop()
			require.NoError(t, errors.Join(<-ended, <-ended))
			store.Settle()
			holds(t, log, seed)
		})
	}
}

// The whole program with its files: the read model is the fold of the log.
func TestWorkloadInFiles(t *testing.T) {
	seed := rand.Uint64()
	log := memstore.New()
	store := storefault.New(log, storefault.Config{Seed: seed, LoseAnswer: 0.05, Double: 0.05, LandLate: 0.05, Refuse: 0.05, ReadError: 0.05, LagPages: 0.1})
	s, err := newSchool(store, filepath.Join(t.TempDir(), "courses"), func() error { return nil })
	require.NoError(t, err)
	require.NoError(t, s.work(t.Context(), func(ctx context.Context) error {
		workload(t, [2]*command.Runner{s.runner, command.NewRunner(store, command.Config{})}, s.lists, seed)
		store.Settle()
		catchUp(t, s.seats)
		shown, err := readSeats(ctx, s.model)
		require.Equal(t, holds(t, log, seed), shown, "seed %d", seed)
		return err
	}))
	require.NoError(t, s.close())
}

// follower is a projector.
type follower interface {
	Lag(context.Context) (projector.Lag, error)
	WaitFor(context.Context, consistency.Position, ...string) error
}

// catchUp waits until a projector is done with what is in the log.
func catchUp(t *testing.T, p follower) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	for range 100 {
		var lag projector.Lag
		if lag, err = p.Lag(ctx); err == nil { // reads fail, too
			if err = p.WaitFor(ctx, lag.Head); err == nil {
				return
			}
		}
	}
	require.NoError(t, err)
}
