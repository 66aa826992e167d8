package command

import (
	"time"

	"github.com/cccgo/ccc/eventstore"
)

// Config sets a runner. The zero Config is ready for production.
type Config struct {
	// MaxElapsed bounds one call as a whole, waiting included. Zero means 15 s.
	MaxElapsed time.Duration
	// MaxAttempts bounds the tries of one call. Zero means 100: time is the
	// limit that counts.
	MaxAttempts int
	// AttemptTimeout bounds one try: its reads and its append. Zero means 10 s:
	// an append that is cut short may have landed.
	AttemptTimeout time.Duration
	// LastLook is the time that finding out what became of a lost answer may
	// take after the call's other limits, or the caller's context, have ended.
	// Zero means 2 s.
	LastLook time.Duration
	// FirstDelay and MaxDelay bound the pause between tries, which grows by
	// half to double with jitter. Zero means 2 ms and 500 ms.
	FirstDelay, MaxDelay time.Duration
	// CacheBytes bounds the weight of the states kept between commands (see
	// NewModel), about. Zero means 64 MiB; below zero nothing is kept.
	CacheBytes int64
	// RecordRefusals makes every refusal and every "nothing to do" the last
	// word for its ID. A refusal that is no event type is then misuse. See also
	// WithRecordedRefusals.
	RecordRefusals bool
	// Clock gives the time that events carry. It decides nothing. Zero means
	// time.Now.
	Clock func() time.Time
}

// Runner runs commands over one store, for any number of goroutines. It has
// nothing to close. Use one per store and process: commands that collide queue
// up in it, and states are kept in it.
type Runner struct {
	store  eventstore.Store
	config Config
	cache  *cache
	queue  queue
}

// NewRunner makes a runner. The store stays the caller's to close, after the
// last command has ended.
func NewRunner(store eventstore.Store, cfg Config) *Runner {
	def := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	def(&cfg.MaxElapsed, 15*time.Second)
	def(&cfg.AttemptTimeout, 10*time.Second)
	def(&cfg.LastLook, 2*time.Second)
	def(&cfg.FirstDelay, 2*time.Millisecond)
	def(&cfg.MaxDelay, 500*time.Millisecond)
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = 100
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 64 << 20
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Runner{store: store, config: cfg, cache: newCache(cfg.CacheBytes)}
}

// now is the time that events carry.
func (r *Runner) now() time.Time { return r.config.Clock().UTC().Truncate(time.Microsecond) }
