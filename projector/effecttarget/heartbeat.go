package effecttarget

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
)

// closeLimit bounds how long Close tries to give claims back.
const closeLimit = 5 * time.Second

// heldClaim is one that the heartbeat keeps alive.
type heldClaim struct {
	projector.Claim
	frozen bool // by a test
}

// hold has the heartbeat renew a claim's lease. An older claim of the name
// through this Target is over.
func (t *core[Tx]) hold(claim projector.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[claim.Name]; h != nil && h.Epoch > claim.Epoch {
		return
	}
	t.held[claim.Name] = &heldClaim{Claim: claim}
	if !t.beating && !t.closed {
		t.beating = true
		t.beats.Go(t.beat)
	}
}

func (t *core[Tx]) drop(claim projector.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[claim.Name]; h == nil || h.Epoch != claim.Epoch {
		return
	}
	delete(t.held, claim.Name)
	select {
	case t.fewer <- struct{}{}:
	default:
	}
}

// beat renews the leases of all claims, as long as there are any.
func (t *core[Tx]) beat() {
	ticker := time.NewTicker(max(t.config.Lease/3, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.renewAll()
		case <-t.fewer:
		case <-t.ctx.Done():
		}
		if t.idle() {
			return
		}
	}
}

// idle says whether the heartbeat ends.
func (t *core[Tx]) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) == 0 || t.closed {
		t.beating = false
	}
	return !t.beating
}

// renewAll renews them side by side: a keeper that is slow with one name must
// not cost the others their lease.
func (t *core[Tx]) renewAll() {
	ctx, cancel := context.WithTimeout(t.ctx, t.config.Lease/3)
	defer cancel()
	var all sync.WaitGroup
	t.mu.Lock()
	for name, h := range t.held {
		if !h.frozen {
			c, claim := t.cell(name), h.Claim
			all.Go(func() {
				if err := t.renew(ctx, c, claim); errors.Is(err, projector.ErrTakenOver) {
					t.drop(claim)
				}
			})
		}
	}
	t.mu.Unlock()
	all.Wait()
}

// renew loads the document each time, so that the keeper's clock is read anew.
func (t *core[Tx]) renew(ctx context.Context, c *cell, claim projector.Claim) error {
	return c.submit(ctx, &change{fresh: true, do: func(d *document, now time.Time) (bool, error) {
		return true, d.renew(claim, now.Add(t.config.Lease))
	}})
}

// giveBack releases all claims. No call is under way, and no heartbeat.
func (t *core[Tx]) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	t.mu.Lock()
	held := t.held
	t.held = map[projector.Name]*heldClaim{}
	t.mu.Unlock()
	errs := make(chan error, len(held))
	for name, h := range held {
		c := t.cell(name)
		go func() { errs <- failure("release", name, c.release(ctx, h.Claim)) }()
	}
	var err error
	for range held {
		err = errors.Join(err, <-errs)
	}
	return err
}
