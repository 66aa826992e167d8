package projector

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// reports tells of trouble: the first time at once, then once per interval with
// the number of times it happened meanwhile. It is safe for concurrent use.
type reports struct {
	mu    sync.Mutex
	log   *slog.Logger
	every time.Duration
	open  map[string]*repeated
}

// repeated is one kind of trouble.
type repeated struct {
	told   time.Time
	untold int
}

func newReports(c Config) *reports {
	return &reports{log: c.Logger, every: c.ReportEvery, open: map[string]*repeated{}}
}

func (r *reports) warn(what string, err error, attrs ...any) {
	r.report(slog.LevelWarn, what, err, attrs)
}

func (r *reports) error(what string, err error, attrs ...any) {
	r.report(slog.LevelError, what, err, attrs)
}

func (r *reports) tell(what string, err error) { r.report(slog.LevelInfo, what, err, nil) }

func (r *reports) report(level slog.Level, what string, err error, attrs []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	k := r.open[what]
	switch {
	case k == nil:
		k = &repeated{}
		r.open[what] = k
	case now.Sub(k.told) < r.every:
		k.untold++
		return
	}
	attrs = append(attrs, "error", text(err), "times", k.untold+1)
	r.log.Log(context.Background(), level, what, attrs...)
	*k = repeated{told: now}
}

// ok tells that things go well, and that trouble from now on is new.
func (r *reports) ok(what string, attrs ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.open)
	r.log.Info(what, attrs...)
}
