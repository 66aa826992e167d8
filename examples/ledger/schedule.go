package main

import (
	"context"
	"iter"
	"sync"
)

// What may be on the way at once: read, and not answered in order yet. More
// finds more that can run together, and takes more memory.
const (
	windowLines = 4096
	windowBytes = 8 << 20
)

// schedule runs lines on several workers so that the answers are those of
// running them one after the other: a line waits for every earlier one that
// shares an account or an id with it, and for no other.
type schedule struct {
	workers int
	run     func(context.Context, line) (result, error)
	emit    func(line, result) error // called in the order of the input
}

// key is what lines may share.
type key struct {
	id   bool // else an account
	name string
}

// job is a line on its way to its answer.
type job struct {
	line   line
	keys   []key
	waits  int    // earlier jobs that share a key and are not done
	next   []*job // later ones that wait for this one
	done   bool
	result result
	err    error
}

// plan is the work in the window. One goroutine owns it.
type plan struct {
	order []*job       // not emitted, in the order of the input
	ready []*job       // nothing to wait for, not begun
	last  map[key]*job // the latest job with the key, if it is not done
	// doubtful are the keys of lines that are contended or unknown: what comes
	// later and shares one of them must not be run, for it was to be decided
	// after them.
	doubtful map[key]struct{}
	bytes    int
}

// do runs all lines. It returns the first error of reading, of a run or of
// emit, or ctx's cause when ctx ends; no line is being run then.
func (s schedule) do(ctx context.Context, lines iter.Seq2[line, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	input, readError := pump(ctx, lines)
	p := plan{last: map[key]*job{}, doubtful: map[key]struct{}{}}
	workers := workers{run: s.run, most: min(s.workers, windowLines)}
	workers.start(ctx)
	defer workers.stop()
	defer cancel(nil) // before the workers are waited for

	for input != nil || len(p.order) > 0 {
		read := input
		if p.full() {
			read = nil
		}
		var begin chan<- *job
		var first *job
		if len(p.ready) > 0 {
			begin, first = workers.offer(), p.ready[0]
		}
		select {
		case l, ok := <-read:
			if ok {
				p.add(l)
			} else if input = nil; *readError != nil {
				return *readError
			}
		case begin <- first:
			p.ready[0], p.ready = nil, p.ready[1:]
		case j := <-workers.ended:
			if j.err != nil && ctx.Err() == nil {
				return j.err
			}
			p.finish(j)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if ctx.Err() != nil { // answers of a run that is being broken off are none
			return context.Cause(ctx)
		}
		for len(p.order) > 0 && p.order[0].done {
			j := p.order[0]
			p.order[0], p.order = nil, p.order[1:]
			p.bytes -= j.line.size
			if err := s.emit(j.line, j.result); err != nil {
				return err
			}
		}
	}
	return nil
}

// pump reads ahead. It may stand in a read after ctx has ended, of a terminal
// for example, so nobody waits for it. The error is to be read once the channel
// is closed.
func pump(ctx context.Context, lines iter.Seq2[line, error]) (<-chan line, *error) {
	to, failed := make(chan line, 64), new(error)
	go func() {
		defer close(to)
		for l, err := range lines {
			if err != nil {
				*failed = err
				return
			}
			select {
			case to <- l:
			case <-ctx.Done():
				*failed = context.Cause(ctx)
				return
			}
		}
	}()
	return to, failed
}

func (p *plan) full() bool { return len(p.order) >= windowLines || p.bytes >= windowBytes }

func (p *plan) add(l line) {
	j := &job{line: l}
	p.order = append(p.order, j)
	p.bytes += l.size
	if l.invalid != nil {
		j.result = result{Line: l.number, Status: invalid}
		j.done = true
		return
	}
	j.keys = append(j.keys, key{true, l.id})
	for _, name := range l.accounts {
		j.keys = append(j.keys, key{false, name})
	}
	for _, k := range j.keys {
		if before := p.last[k]; before != nil && before != j {
			before.next = append(before.next, j)
			j.waits++
		}
		p.last[k] = j
	}
	if j.waits == 0 {
		p.free(j)
	}
}

// free begins with a job that waits for nothing any more, unless it is in doubt
// what it would be decided on: then that is its answer.
func (p *plan) free(j *job) {
	for _, k := range j.keys {
		if _, doubt := p.doubtful[k]; doubt {
			j.result = result{Line: j.line.number, ID: j.line.id, Status: contended}
			p.finish(j)
			return
		}
	}
	p.ready = append(p.ready, j)
}

func (p *plan) finish(j *job) {
	j.done = true
	for _, k := range j.keys {
		if p.last[k] == j {
			delete(p.last, k)
		}
		if j.result.Status == contended || j.result.Status == unknown {
			p.doubtful[k] = struct{}{}
		}
	}
	for _, n := range j.next {
		if n.waits--; n.waits == 0 {
			p.free(n)
		}
	}
	j.next = nil
}

// workers run jobs, as many at once as there are workers.
type workers struct {
	run   func(context.Context, line) (result, error)
	most  int
	ctx   context.Context
	begin chan *job
	ended chan *job // has room for a job of each worker: none ever stands there
	alive int
	group sync.WaitGroup
}

func (w *workers) start(ctx context.Context) {
	w.ctx, w.begin, w.ended = ctx, make(chan *job), make(chan *job, w.most)
}

// offer is where a job is begun; it makes another worker if there may be one.
func (w *workers) offer() chan<- *job {
	if w.alive < w.most {
		w.alive++
		w.group.Go(func() {
			for j := range w.begin {
				j.result, j.err = w.run(w.ctx, j.line)
				w.ended <- j
			}
		})
	}
	return w.begin
}

func (w *workers) stop() {
	close(w.begin)
	w.group.Wait()
}
