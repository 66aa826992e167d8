package projector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

type (
	generation = projector.Generation[tx]
	rebuilding = projector.RebuildConfig[tx]
)

// genSteps is steps with generations: the calls to one that is being built are
// steps that begin with "next".
type genSteps struct {
	steps[tx]
	m model
}

func newGenSteps(m model, hook func(context.Context, string) error) *genSteps {
	return &genSteps{steps[tx]{m, hook}, m}
}

func (s *genSteps) Names(ctx context.Context) (names []projector.Name, err error) {
	err = s.around(ctx, "names", func() (err error) { names, err = s.m.Names(ctx); return err })
	return names, err
}

func (s *genSteps) Parked(ctx context.Context, n projector.Name, q projector.ParkedQuery) (p []projector.Parked, err error) {
	err = s.around(ctx, "parked", func() (err error) { p, err = s.m.Parked(ctx, n, q); return err })
	return p, err
}

func (s *genSteps) Ahead(ctx context.Context, n projector.Name, after consistency.Position) ([]uuid.UUID, error) {
	return s.m.Ahead(ctx, n, after)
}

func (s *genSteps) Lane(ctx context.Context, c projector.Claim, work func(projector.Batch[tx]) error) error {
	return s.around(ctx, "lane", func() error { return s.m.Lane(ctx, c, work) })
}

func (s *genSteps) Next(ctx context.Context, tag string) (g generation, err error) {
	err = s.around(ctx, "next", func() (err error) { g, err = s.m.Next(ctx, tag); return err })
	if err != nil {
		return nil, err
	}
	return &nextSteps{steps[tx]{g, func(ctx context.Context, step string) error { return s.hook(ctx, "next "+step) }}, g}, nil
}

func (s *genSteps) Drop(ctx context.Context) (int, error) { return s.m.Drop(ctx) }

type nextSteps struct {
	steps[tx]
	g generation
}

func (s *nextSteps) Parked(ctx context.Context, n projector.Name, q projector.ParkedQuery) (p []projector.Parked, err error) {
	err = s.around(ctx, "parked", func() (err error) { p, err = s.g.Parked(ctx, n, q); return err })
	return p, err
}

func (s *nextSteps) Switch(ctx context.Context, ready func(context.Context) error) error {
	if err := s.hook(ctx, "switch"); err != nil {
		return err
	}
	err := s.g.Switch(ctx, func(ctx context.Context) error {
		err := s.hook(ctx, "held")
		if err == nil {
			err = ready(ctx)
		}
		if err == nil {
			err = s.hook(ctx, "ready")
		}
		return err
	})
	if lost := s.hook(ctx, "switch done"); lost != nil && err == nil {
		return lost
	}
	return err
}

func (s *nextSteps) Compare(ctx context.Context) (d []projector.Difference, err error) {
	err = s.around(ctx, "compare", func() (err error) { d, err = s.g.Compare(ctx); return err })
	return d, err
}

func (s *nextSteps) Close() error { return s.g.Close() }

// any difference is welcome.
func welcome([]projector.Difference) error { return nil }

// wrong is a handler with a fault, that a rebuild is to cure.
func wrong(_ context.Context, x tx, d projector.Delivery) error {
	e := d.Event.(Added)
	was, _ := x.Get(e.Key)
	x.Put(e.Key, fmt.Sprint(was, ";", e.N))
	return nil
}

// live projects all of a log, so that there is something to rebuild.
func live(t testing.TB, log *fakeLog, m model, cfg projector.Config, h projector.Handler[tx]) {
	t.Helper()
	p := projector.New(log, m, cfg, h)
	run := start(t, p)
	all := log.all()
	require.NoError(t, p.WaitFor(short(t), all[len(all)-1].Position))
	run.stop(t)
}

// peek reads the generation of a tag that is being built.
func peek(t testing.TB, m model, tag string) (map[string]string, projector.State) {
	t.Helper()
	g, err := m.Next(context.Background(), tag)
	require.NoError(t, err)
	defer g.Close()
	s, err := g.State(context.Background(), name)
	require.NoError(t, err)
	return maps.Collect(g.(*memtarget.Generation[string]).All()), s
}

// reports checks and keeps what a rebuild tells of its progress.
type told struct {
	t    testing.TB
	list []projector.Progress
	when []time.Time
}

func (r *told) hear(p projector.Progress) {
	if math.IsNaN(p.Rate) || math.IsInf(p.Rate, 0) || p.Rate < 0 || p.Left < 0 || p.Done > p.About || p.Done < 0 {
		r.t.Errorf("progress %+v", p)
	}
	r.list, r.when = append(r.list, p), append(r.when, time.Now())
}

func isMisuse(t testing.TB, err error, texts ...string) {
	t.Helper()
	require.ErrorIs(t, err, projector.ErrMisuse)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
}

var errKilled = errors.New("the rebuild was killed")
