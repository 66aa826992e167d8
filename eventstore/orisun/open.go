package orisun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Store is one boundary of an Orisun cluster; use [Open]. It is safe for
// concurrent use and holds one connection.
type Store struct {
	cfg    Config
	conn   *grpc.ClientConn
	client wire.EventStoreClient

	typeKey string // of the event type, as a tag
	v2      bool   // the server has SaveEventsV2
	backend wire.Backend

	moments moments
	waiters waiters

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	closing <-chan struct{}
}

var _ eventstore.Store = (*Store)(nil)

// Event types as tags: up to 0.11, and from 0.12 (reference of the servers;
// neither knows the other's).
const (
	oldTypeKey = "eventType"
	newTypeKey = "__eventType"
)

// Open opens a boundary that a DSN names, see [ParseDSN] and [Config.Open].
func Open(ctx context.Context, dsn string) (*Store, error) {
	c, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx)
}

// Open connects, logs in and learns what the server can do. It waits for a
// server until ctx ends, or Timeout is over. The boundary must be there
// ([Config.Setup] makes it).
func (c Config) Open(ctx context.Context) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("orisun: %w: %w: %w", eventstore.Permanent, eventstore.ErrInvalid, err)
	}
	c.Timeout, c.Poll = cmp.Or(c.Timeout, 30*time.Second), cmp.Or(c.Poll, 2*time.Second)
	conn, err := c.dial()
	if err != nil {
		return nil, fmt.Errorf("orisun: %s: %w", c, err)
	}
	s := &Store{cfg: c, conn: conn, client: wire.NewEventStoreClient(conn)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.closing = s.ctx.Done()
	s.waiters.init()
	if err := s.learn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("orisun: open %s: %w", c, err), s.Close())
	}
	return s, nil
}

// Features implements [eventstore.Store]. A server takes an event_id twice, and
// has no identity of a log to tell.
func (s *Store) Features() eventstore.Features { return eventstore.Features{} }

// Close implements [eventstore.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	s.cancel()
	err := s.conn.Close()
	s.calls.Wait()
	return err
}

// begin counts a call, which calls s.calls.Done when it is over.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return eventstore.Closed()
	}
	s.calls.Add(1)
	return nil
}

// bound gives a call a time limit, if its caller did not.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.cfg.Timeout)
}

var versionForm = regexp.MustCompile(`^v?(\d+)\.(\d+)(?:\.|-|$)`)

// learn asks the server what it is: by its version, or, where a server built by
// hand does not say one, by what it has.
func (s *Store) learn(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	info, err := s.client.GetServerInfo(ctx, &wire.GetServerInfoRequest{}, grpc.WaitForReady(true))
	if status.Code(err) == codes.Unimplemented {
		info, err = &wire.GetServerInfoResponse{}, nil
	}
	if err != nil {
		return s.readError(ctx, "GetServerInfo", err)
	}
	s.backend = info.GetBackend()
	// A save without events stores nothing; one that the server does not have
	// is Unimplemented.
	_, err = s.client.SaveEventsV2(ctx, &wire.SaveEventsV2Request{Boundary: s.cfg.Boundary})
	s.v2 = status.Code(err) != codes.Unimplemented
	if err := s.unusable(ctx, err); err != nil {
		return err
	}
	if s.typeKey = s.cfg.EventTypeKey; s.typeKey != "" {
		return nil
	}
	if m := versionForm.FindStringSubmatch(info.GetVersion()); m != nil {
		major, _ := strconv.Atoi(m[1])
		minor, _ := strconv.Atoi(m[2])
		s.typeKey = oldTypeKey
		if major > 0 || minor >= 12 {
			s.typeKey = newTypeKey
		}
		return nil
	}
	return s.probeTypeKey(ctx, info.GetVersion())
}

// unusable is err where a server has refused for a reason that every call will
// meet.
func (s *Store) unusable(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return s.readError(ctx, "save", err)
	}
	return nil
}

func (s *Store) probeTypeKey(ctx context.Context, version string) error {
	if !s.v2 {
		s.typeKey = oldTypeKey
		return nil
	}
	_, err := s.client.SaveEvents(ctx, &wire.SaveEventsRequest{Boundary: s.cfg.Boundary})
	if err := s.unusable(ctx, err); err != nil {
		return err
	}
	if status.Code(err) == codes.Unimplemented { // 0.14
		s.typeKey = newTypeKey
		return nil
	}
	// 0.11 to 0.13: see which of the two meets an event that is there.
	last, err := s.get(ctx, &wire.GetEventsRequest{Direction: wire.Direction_DESC, Count: 1})
	if err != nil {
		return err
	}
	for _, e := range last {
		for _, key := range []string{oldTypeKey, newTypeKey} {
			query := &wire.Query{Criteria: []*wire.Criterion{{Tags: []*wire.Tag{{Key: key, Value: e.EventType}}}}}
			met, err := s.get(ctx, &wire.GetEventsRequest{Query: query, Direction: wire.Direction_DESC, Count: 1})
			if err == nil && len(met) > 0 {
				s.typeKey = key
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %w: the server says version %q, and nothing stored tells which one it is: set EventTypeKey (eventTypeKey=… in the DSN) to %s for servers up to 0.11, to %s from 0.12",
		eventstore.Permanent, eventstore.ErrInvalid, version, oldTypeKey, newTypeKey)
}
