package command

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// pauses gives the delays between tries; the loop and its limits are in run.go.
type pauses struct {
	first, most time.Duration
	delays      *backoff.ExponentialBackOff // made when first needed
}

// wait pauses, and says whether the context and the time limit let it.
func (p *pauses) wait(ctx context.Context, until time.Time) bool {
	if p.delays == nil {
		p.delays = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(p.first), backoff.WithMaxInterval(p.most),
			backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))
	}
	delay := p.delays.NextBackOff()
	if time.Until(until) < delay {
		return false
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
