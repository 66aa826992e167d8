package orisun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Setup makes the boundary, if it is not there, and the indexes that queries
// need: for each of Keys one of (key, event type), and one of commandId. It
// returns when the boundary takes saves and the indexes are ready. The user
// needs the role ADMIN. It may run at each start of a program: what is there
// stays.
//
// Where a server cannot, the error says what its operator has to do.
func (c Config) Setup(ctx context.Context) error {
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = s.ensureBoundary(ctx)
	if err == nil {
		err = s.ensureIndexes(ctx)
	}
	if err != nil {
		err = fmt.Errorf("orisun: set-up of %s: %w", c, err)
	}
	return errors.Join(err, s.Close())
}

func (s *Store) ensureBoundary(ctx context.Context) error {
	admin := wire.NewAdminClient(s.conn)
	name := s.cfg.Boundary
	placement := &wire.BoundaryPlacement{Backend: "sqlite", Namespace: name}
	if s.backend == wire.Backend_POSTGRES {
		placement = &wire.BoundaryPlacement{Backend: "postgres", Namespace: "public"}
	}
	_, err := admin.CreateBoundary(ctx, &wire.CreateBoundaryRequest{Name: name, Placement: placement})
	switch status.Code(err) {
	case codes.OK, codes.AlreadyExists:
	case codes.Unimplemented:
		return fmt.Errorf("the server has no admin service for boundaries: name boundary %s in its configuration (ORISUN_BOUNDARIES) and start it again: %w", name, err)
	default:
		return s.readError(ctx, "CreateBoundary", err)
	}
	return s.until(ctx, func() (bool, error) {
		answer, err := admin.GetBoundary(ctx, &wire.GetBoundaryRequest{Name: name})
		if err != nil {
			return false, s.readError(ctx, "GetBoundary", err)
		}
		if b := answer.GetBoundary(); b.GetStatus() == wire.BoundaryStatus_FAILED {
			return false, fmt.Errorf("the server could not make the boundary: %s", b.GetLastError())
		} else if b.GetStatus() != wire.BoundaryStatus_ACTIVE {
			return false, nil
		}
		_, err = s.get(ctx, &wire.GetEventsRequest{Count: 1})
		if eventstore.KindOf(err) == eventstore.NotApplied && ctx.Err() == nil {
			return false, nil // it is starting
		}
		return err == nil, err
	})
}

// ensureIndexes makes indexes one after the other.
func (s *Store) ensureIndexes(ctx context.Context) error {
	wanted := map[string][]string{indexName(consistency.CommandKey): {consistency.CommandKey}}
	for _, key := range s.cfg.Keys {
		if err := consistency.Where(key, "").Validate(); err != nil {
			return err
		}
		if key != consistency.CommandKey {
			wanted[indexName(key)] = []string{key, s.typeKey}
		}
	}
	for name, keys := range wanted {
		request := &wire.CreateIndexRequest{Boundary: s.cfg.Boundary, Name: name}
		for _, key := range keys {
			request.Fields = append(request.Fields, &wire.IndexField{JsonKey: key, ValueType: wire.ValueType_TEXT})
		}
		_, err := s.client.CreateIndex(ctx, request)
		switch status.Code(err) {
		case codes.OK:
		case codes.AlreadyExists:
			return fmt.Errorf("index %s is there with another definition: drop it (DropIndex) and run the set-up again: %w", name, err)
		case codes.Unimplemented:
			return fmt.Errorf("the server has no CreateIndex: its operator has to index %s of the data of boundary %s: %w", strings.Join(keys, " and "), s.cfg.Boundary, err)
		default:
			return s.readError(ctx, "CreateIndex "+name, err)
		}
	}
	return s.until(ctx, func() (bool, error) {
		answer, err := s.client.ListIndexes(ctx, &wire.ListIndexesRequest{Boundary: s.cfg.Boundary})
		if status.Code(err) == codes.Unimplemented {
			return true, nil // those servers answer when it is built
		}
		if err != nil {
			return false, s.readError(ctx, "ListIndexes", err)
		}
		ready := 0
		for _, index := range answer.GetIndexes() {
			if _, ours := wanted[index.GetName()]; ours && index.GetState() == wire.IndexState_READY {
				ready++
			}
		}
		return ready == len(wanted), nil
	})
}

// indexName is made of what index names may hold; other characters are written
// as their number.
func indexName(key string) string {
	var name strings.Builder
	name.WriteString("ccc_")
	for _, c := range []byte(key) {
		if c == '.' || c == '-' {
			fmt.Fprintf(&name, "_%02x", c)
		} else {
			name.WriteByte(c)
		}
	}
	return name.String()
}

// until asks again and again, until there is an answer or ctx ends.
func (s *Store) until(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
