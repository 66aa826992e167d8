package sqlitetarget

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// An owner shows that a Target lives, and its heartbeat keeps the leases of all
// its claims alive. It is there while the Target has claims, or is making one.
// Its fields are guarded by Target.mu.
type owner struct {
	id   string
	path string    // of the lock file
	lock io.Closer // free as soon as this process is gone, however it ends

	users int // claims, and claims in the making
	held  map[projector.Name]lease
	beat  time.Time // when the leases were renewed last
	ctx   context.Context
	end   context.CancelFunc
}

type lease struct{ generation, name, epoch int64 }

// enter counts a claim that is to be made; leave takes it back.
func (t *Target) enter() (*owner, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner == nil {
		t.file.base().sweep()
		o, err := t.file.base().newOwner()
		if err != nil {
			return nil, err
		}
		t.owner = o
		t.running.Go(func() { t.heartbeat(o) })
	}
	t.owner.users++
	return t.owner, nil
}

func (t *Target) leave(o *owner) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leaveLocked(o)
}

func (t *Target) leaveLocked(o *owner) error {
	if o.users--; o.users > 0 || t.owner != o {
		return nil
	}
	return t.endLocked(o)
}

func (t *Target) endLocked(o *owner) error {
	t.owner = nil
	o.end()
	return sqlitedb.EndLiveness(o.lock, o.path)
}

// lost forgets claims that others have taken over, and ends with the last one.
func (t *Target) lost(o *owner, names map[projector.Name]lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, l := range names {
		if o.held[name] == l {
			delete(o.held, name)
			_ = t.leaveLocked(o) // a file that stays is swept by others
		}
	}
}

const liveMark = "-live-"

func (f *file) livePath(owner string) string { return f.path + liveMark + owner }

func (f *file) newOwner() (*owner, error) {
	for {
		id := uuid.NewString()
		path := f.livePath(id)
		lock, err := sqlitedb.AcquireLiveness(path)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err != nil {
			// Somebody swept it away before it was locked.
			if err := lock.Close(); err != nil {
				return nil, err
			}
			continue
		}
		o := &owner{id: id, path: path, lock: lock, held: map[projector.Name]lease{}, beat: time.Now()}
		o.ctx, o.end = context.WithCancel(context.Background())
		return o, nil
	}
}

// sweep removes the lock files of dead owners. What it cannot remove the next
// one will.
func (f *file) sweep() {
	entries, _ := os.ReadDir(filepath.Dir(f.path))
	for _, e := range entries {
		owner, ours := strings.CutPrefix(e.Name(), filepath.Base(f.path)+liveMark)
		if ours && uuid.Validate(owner) == nil {
			_ = sqlitedb.RemoveDead(f.livePath(owner))
		}
	}
}

// signs remembers for a moment who was seen alive: states are read often.
type signs struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

// signAge is how old a sign of life may be for State.
const signAge = 50 * time.Millisecond

// live says whether a living owner holds what was read, as far as can be seen.
// A sign of life may be as old as age.
func (t *Target) live(k kept, age time.Duration) (bool, error) {
	if !k.held || k.until < time.Now().UnixMilli() {
		return false, nil
	}
	t.mu.Lock()
	mine := t.owner != nil && t.owner.id == k.owner
	t.mu.Unlock()
	if mine {
		return true, nil
	}
	base := t.file.base()
	return base.signs.alive(k.owner, base.livePath(k.owner), age)
}

func (s *signs) alive(owner, path string, age time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.seen[owner]; ok && now.Sub(at) < age {
		return true, nil
	}
	alive, err := sqlitedb.Alive(path)
	if err != nil || !alive {
		delete(s.seen, owner)
		return false, err
	}
	if s.seen == nil || len(s.seen) > 100 {
		s.seen = map[string]time.Time{}
	}
	s.seen[owner] = now
	return true, nil
}

// heartbeat renews the owner's leases until the owner ends. It has a connection
// of its own: it must not stand in line behind batches.
func (t *Target) heartbeat(o *owner) {
	var a apart
	defer a.close()
	timer := time.NewTimer(t.lease / 3)
	defer timer.Stop()
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-timer.C:
		}
		pause := t.lease / 3
		if due, wait := t.due(o); due == nil {
			pause = wait // a batch has done it
		} else if err := t.renewApart(&a, o, due); err != nil {
			pause = t.lease / 20
		}
		timer.Reset(pause)
	}
}

// due returns the leases that are to be renewed, or else how long there is time.
func (t *Target) due(o *owner) (due map[projector.Name]lease, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(o.held) == 0 {
		return nil, t.lease / 3
	}
	if wait := t.lease/3 - time.Since(o.beat); wait > 0 {
		return nil, wait
	}
	due = make(map[projector.Name]lease, len(o.held))
	for name, l := range o.held {
		due[name] = l
	}
	return due, 0
}

// apart is a connection beside the writer, to the generation that was live last.
type apart struct {
	session *session
	number  int64
}

func (a *apart) close() {
	if a.session != nil {
		_ = a.session.Close()
		a.session = nil
	}
}

// to connects to a generation.
func (a *apart) to(g *file) (err error) {
	if a.session != nil && a.number == g.number {
		return nil
	}
	a.close()
	if a.session, err = g.connect(sqlitedb.Options{CacheKiB: lookCacheKiB}); err != nil {
		a.session = nil
		return err
	}
	a.number = g.number
	// A lease that a power cut takes back is of no use anyway.
	return a.session.do("PRAGMA synchronous=NORMAL")
}

func (t *Target) renewApart(a *apart, o *owner, due map[projector.Name]lease) error {
	began := time.Now()
	var lost map[projector.Name]lease
	err := t.file.follow(o.ctx, nil, func(g *file) error {
		err := a.to(g)
		if err == nil {
			err = sqlitedb.Begin(o.ctx, a.session.conn, t.lease/3)
		}
		if err == nil {
			lost, err = a.session.renew(g.number, due, t.lease)
		}
		if err == nil {
			err = sqlitedb.Commit(a.session.conn)
		}
		if err != nil {
			a.close()
		}
		return err
	})
	if err == nil {
		t.renewed(o, began, lost)
	}
	return err
}

// renew writes new ends of leases, and returns those that are another's by now,
// or of another generation.
func (s *session) renew(generation int64, due map[projector.Name]lease, length time.Duration) (lost map[projector.Name]lease, err error) {
	until := time.Now().Add(length).UnixMilli()
	for name, l := range due {
		kept := false
		if l.generation == generation {
			if err := s.do(sqlRenew, l.name, l.epoch, until); err != nil {
				return nil, err
			}
			kept = s.conn.Changes() > 0
		}
		if !kept {
			if lost == nil {
				lost = map[projector.Name]lease{}
			}
			lost[name] = l
		}
	}
	return lost, nil
}

func (t *Target) renewed(o *owner, at time.Time, lost map[projector.Name]lease) {
	t.mu.Lock()
	o.beat = at
	t.mu.Unlock()
	t.lost(o, lost)
}
