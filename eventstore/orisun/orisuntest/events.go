package orisuntest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"sync"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// boundary holds a log. Its events have event_ids of their own, since a server
// takes one twice; what else was sent is kept beside the log.
type boundary struct {
	version Version
	log     eventstore.Store
	store   *storefault.Store // of log

	mu      sync.Mutex
	held    *consistency.Position // ascending reads end there
	shown   consistency.Position  // an ascending read has been up to there
	indexes map[string]*wire.IndexDefinition
	sent    map[uuid.UUID]sent // by the event_id in the log; of refused saves too, whose copy may land
}

type sent struct {
	id, metadata string
	left         int // how many events of the save follow
}

func (b *boundary) hold() {
	head, _ := b.store.Snapshot(context.Background(), eventstore.Part{Query: consistency.All(), LatestOnly: true})
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(head) > 0 {
		b.held = &head[0].Last
	}
}

func (b *boundary) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = nil
}

// show finds out up to where an ascending read goes. That may lag behind, but
// never goes back.
func (b *boundary) show(ctx context.Context) (consistency.Position, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held != nil {
		return *b.held, nil
	}
	for {
		page, err := b.store.Page(ctx, consistency.All(), b.shown, 0)
		if err != nil {
			return b.shown, err
		}
		if page.UpTo.After(b.shown) {
			b.shown = page.UpTo
		}
		if len(page.Records) == 0 || page.UpTo != page.Records[len(page.Records)-1].Position {
			return b.shown, nil
		}
	}
}

// normal writes data as the servers do: keys sorted; 0.10 through float64.
func (v Version) normal(text string) (string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	if v != V010 {
		d.UseNumber()
	}
	var object map[string]any
	if err := d.Decode(&object); err != nil || object == nil {
		return "", status.Error(codes.InvalidArgument, "not a JSON object")
	}
	if v == V010 {
		delete(object, "eventType")
	} else {
		for key := range object {
			if strings.HasPrefix(key, "__") {
				return "", status.Errorf(codes.InvalidArgument, "key %q is reserved", key)
			}
		}
	}
	out, err := json.Marshal(object)
	return string(out), err
}

// records makes what the log gets, and keeps the rest.
func (s *Server) records(b *boundary, events []*wire.EventToSave) ([]event.Record, error) {
	if len(events) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no events")
	}
	records := make([]event.Record, len(events))
	beside := make(map[uuid.UUID]sent, len(events))
	for i, e := range events {
		data, err := s.cfg.Version.normal(e.GetData())
		if err != nil {
			return nil, err
		}
		var metadata bytes.Buffer
		if err := json.Compact(&metadata, []byte(e.GetMetadata())); err != nil {
			return nil, status.Error(codes.InvalidArgument, "metadata is not JSON")
		}
		records[i] = event.Record{ID: uuid.New(), Type: e.GetEventType(), Data: json.RawMessage(data)}
		beside[records[i].ID] = sent{e.GetEventId(), metadata.String(), len(events) - 1 - i}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.sent, beside)
	return records, nil
}

func (s *Server) typeKey() string {
	if s.cfg.Version == V010 {
		return "eventType"
	}
	return "__eventType"
}

// most criteria that fit in a query of the log.
const most = consistency.MaxCriteria

// queries reads a query; no queries where it is empty. What does not fit in one
// is several.
func (s *Server) queries(q *wire.Query) (out []consistency.Query, err error) {
	criteria := q.GetCriteria()
	if len(criteria) > 500 {
		return nil, status.Error(codes.Internal, "Expression tree is too large (maximum depth 1000)")
	}
	for i, c := range criteria {
		one := s.query(c)
		if i%most == 0 {
			out = append(out, one)
		} else {
			out[len(out)-1] = out[len(out)-1].Or(one)
		}
	}
	return out, nil
}

func (s *Server) query(c *wire.Criterion) consistency.Query {
	tags := map[string]string{} // a key that stands twice: the last one
	for _, t := range c.GetTags() {
		tags[t.GetKey()] = t.GetValue()
	}
	q := consistency.All()
	for key, value := range tags {
		if key == s.typeKey() {
			q = q.Type(value)
		} else {
			q = q.And(consistency.Where(key, value))
		}
	}
	return q
}

// toWire makes what is sent: of 0.10 the type stands in the data too.
func (b *boundary) toWire(r event.Record) *wire.Event {
	if b.version == V010 {
		var object map[string]json.RawMessage
		_ = json.Unmarshal(r.Data, &object)
		object["eventType"], _ = json.Marshal(r.Type)
		r.Data, _ = json.Marshal(object)
	}
	_, k := r.Position.Parts()
	b.mu.Lock()
	sent := b.sent[r.ID]
	b.mu.Unlock()
	return &wire.Event{EventId: sent.id, EventType: r.Type, Data: string(r.Data), Metadata: sent.metadata,
		Position: &wire.Position{CommitPosition: int64(k) + int64(sent.left), PreparePosition: int64(k)}, DateCreated: timestamppb.New(r.Time)}
}

// place reads a position that the server gave.
func place(p *wire.Position) consistency.Position {
	if p.GetPreparePosition() < 0 || p == nil {
		return consistency.Position{}
	}
	return consistency.NewPosition(0, uint64(p.PreparePosition))
}

// genuine says whether p is one of an event's, or {-1,-1}.
func (b *boundary) genuine(ctx context.Context, p *wire.Position) bool {
	if p == nil || p.CommitPosition == -1 && p.PreparePosition == -1 {
		return true
	}
	if p.PreparePosition < 1 {
		return false
	}
	found, err := b.store.Snapshot(ctx, eventstore.Part{Query: consistency.All(), UpTo: place(p), LatestOnly: true})
	if err != nil || len(found[0].Records) == 0 {
		return false
	}
	is := b.toWire(found[0].Records[0]).Position
	return is.CommitPosition == p.CommitPosition && is.PreparePosition == p.PreparePosition
}

// SaveEvents is the save of 0.10: one query.
func (s *Server) SaveEvents(ctx context.Context, in *wire.SaveEventsRequest) (*wire.WriteResult, error) {
	if s.cfg.Version != V010 {
		return nil, status.Error(codes.Unimplemented, "unknown method SaveEvents")
	}
	var seen []*wire.ConsistencyObservation
	if q := in.GetQuery().GetSubsetQuery(); len(q.GetCriteria()) > 0 {
		seen = append(seen, &wire.ConsistencyObservation{Query: q, Position: in.GetQuery().GetExpectedPosition()})
	}
	return s.save(ctx, in.GetBoundary(), in.GetEvents(), seen)
}

// SaveEventsV2 is the save of later servers: any number of observations.
func (s *Server) SaveEventsV2(ctx context.Context, in *wire.SaveEventsV2Request) (*wire.WriteResult, error) {
	if s.cfg.Version == V010 {
		return nil, status.Error(codes.Unimplemented, "unknown method SaveEventsV2")
	}
	for _, o := range in.GetConsistency() {
		if len(o.GetQuery().GetCriteria()) == 0 {
			return nil, status.Error(codes.InvalidArgument, "empty query")
		}
		for _, c := range o.GetQuery().GetCriteria() {
			if len(c.GetTags()) == 0 {
				return nil, status.Error(codes.InvalidArgument, "criterion without tags")
			}
		}
	}
	return s.save(ctx, in.GetBoundary(), in.GetEvents(), in.GetConsistency())
}

func (s *Server) active(name string) (*boundary, error) {
	if b := s.find(name); b != nil {
		return b, nil
	}
	return nil, status.Errorf(codes.FailedPrecondition, "boundary %q is not active", name)
}

func (s *Server) save(ctx context.Context, name string, events []*wire.EventToSave, in []*wire.ConsistencyObservation) (*wire.WriteResult, error) {
	b, err := s.active(name)
	if err != nil {
		return nil, err
	}
	records, err := s.records(b, events)
	if err != nil {
		return nil, err
	}
	var seen []consistency.Observation
	for _, o := range in {
		queries, err := s.queries(o.GetQuery())
		if err != nil {
			return nil, err
		}
		if !b.genuine(ctx, o.GetPosition()) {
			return nil, status.Error(codes.AlreadyExists, "no event is at the expected position")
		}
		at := place(o.GetPosition())
		if len(queries) == 1 {
			seen = append(seen, consistency.Observation{Query: queries[0], At: at})
			continue
		}
		// Several that stand for one: the latest of all is to be there.
		var latest consistency.Position
		for _, q := range queries {
			found, err := b.store.Snapshot(ctx, eventstore.Part{Query: q, LatestOnly: true})
			if err != nil {
				return nil, statusOf(err)
			}
			if found[0].Last.After(latest) {
				latest = found[0].Last
			}
			seen = append(seen, consistency.Observation{Query: q, At: found[0].Last})
		}
		if latest != at {
			return nil, status.Error(codes.AlreadyExists, "the latest match is elsewhere")
		}
	}
	receipt, err := b.store.Append(ctx, records, seen)
	if err != nil {
		return nil, statusOf(err)
	}
	_, last := receipt.Positions[len(records)-1].Parts()
	return &wire.WriteResult{LogPosition: &wire.Position{CommitPosition: int64(last), PreparePosition: int64(last)}}, nil
}

// statusOf is what a server would answer.
func statusOf(err error) error {
	switch eventstore.KindOf(err) {
	case eventstore.Conflict:
		return status.Error(codes.AlreadyExists, err.Error())
	case eventstore.NotApplied:
		return status.Error(codes.FailedPrecondition, "boundary is not active: "+err.Error())
	case eventstore.Permanent:
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Unavailable, "connection reset: "+err.Error())
}

// GetEvents reads from a position, inclusive.
func (s *Server) GetEvents(ctx context.Context, in *wire.GetEventsRequest) (*wire.GetEventsResponse, error) {
	if in.GetCount() < 1 || in.GetCount() > 10_000 {
		return nil, status.Error(codes.InvalidArgument, "count must be 1 to 10000")
	}
	b, err := s.active(in.GetBoundary())
	if err != nil {
		return nil, err
	}
	queries, err := s.queries(in.GetQuery())
	if err != nil {
		return nil, err
	}
	if len(queries) == 0 {
		queries = []consistency.Query{consistency.All()}
	}
	var records []event.Record
	if in.GetDirection() == wire.Direction_DESC {
		records, err = b.down(ctx, queries, in.GetFromPosition(), int(in.GetCount()))
	} else {
		records, err = b.up(ctx, queries, in.GetFromPosition(), int(in.GetCount()))
	}
	if err != nil {
		return nil, statusOf(err)
	}
	out := &wire.GetEventsResponse{Events: make([]*wire.Event, len(records))}
	size := 0
	for i, r := range records {
		out.Events[i] = b.toWire(r)
		size += len(r.Data) + len(out.Events[i].Metadata)
	}
	if size > 64<<20 {
		return nil, status.Error(codes.ResourceExhausted, "the page is larger than the limit")
	}
	return out, nil
}

func before(e *wire.Position, p *wire.Position) bool {
	if e.CommitPosition != p.CommitPosition {
		return e.CommitPosition < p.CommitPosition
	}
	return e.PreparePosition < p.PreparePosition
}

func (b *boundary) down(ctx context.Context, queries []consistency.Query, from *wire.Position, count int) ([]event.Record, error) {
	upTo := consistency.Position{}
	if from != nil {
		if from.CommitPosition <= 0 {
			return nil, nil
		}
		upTo = consistency.NewPosition(0, uint64(from.CommitPosition))
	}
	parts := make([]eventstore.Part, len(queries))
	for i, q := range queries {
		parts[i] = eventstore.Part{Query: q, UpTo: upTo, LatestOnly: count == 1 && from == nil}
	}
	results, err := b.store.Snapshot(ctx, parts...)
	if err != nil {
		return nil, err
	}
	all := map[consistency.Position]event.Record{}
	for _, result := range results {
		for _, r := range result.Records {
			if from == nil || !before(from, b.toWire(r).Position) {
				all[r.Position] = r
			}
		}
	}
	sorted := sortedByPosition(all)
	out := make([]event.Record, 0, min(count, len(sorted)))
	for i := len(sorted) - 1; i >= 0 && len(out) < count; i-- {
		out = append(out, sorted[i])
	}
	return out, nil
}

func sortedByPosition(all map[consistency.Position]event.Record) []event.Record {
	out := make([]event.Record, 0, len(all))
	for _, r := range all {
		out = append(out, r)
	}
	sortRecords(out)
	return out
}

func (b *boundary) up(ctx context.Context, queries []consistency.Query, from *wire.Position, count int) ([]event.Record, error) {
	upTo, err := b.show(ctx)
	if err != nil {
		return nil, err
	}
	var after consistency.Position
	if from != nil && from.CommitPosition > 0 {
		n := max(0, from.CommitPosition-eventstore.MaxEvents)
		if p := from.PreparePosition; p > 0 && p-1 <= from.CommitPosition {
			n = p - 1
		}
		after = consistency.NewPosition(0, uint64(min(n, math.MaxInt64-1)))
	}
	all := map[consistency.Position]event.Record{}
	for _, q := range queries {
		taken := 0
		for r, err := range eventstore.All(ctx, b.log, q, after) {
			if err != nil {
				return nil, err
			}
			if r.Position.After(upTo) || taken == count {
				break
			}
			if from == nil || !before(b.toWire(r).Position, from) {
				all[r.Position] = r
				taken++
			}
		}
	}
	sorted := sortedByPosition(all)
	return sorted[:min(count, len(sorted))], nil
}

// GetLatestByCriteria reads as of one moment.
func (s *Server) GetLatestByCriteria(ctx context.Context, in *wire.GetLatestByCriteriaRequest) (*wire.GetLatestByCriteriaResponse, error) {
	b, err := s.active(in.GetBoundary())
	if err != nil {
		return nil, err
	}
	if _, err := s.queries(&wire.Query{Criteria: in.GetCriteria()}); err != nil {
		return nil, err
	}
	var parts []eventstore.Part
	for _, c := range in.GetCriteria() {
		if len(c.GetTags()) == 0 {
			return nil, status.Error(codes.InvalidArgument, "criterion without tags")
		}
		parts = append(parts, eventstore.Part{Query: s.query(c), LatestOnly: true})
	}
	if len(parts) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no criteria")
	}
	results, err := b.store.Snapshot(ctx, parts...)
	if err != nil {
		return nil, statusOf(err)
	}
	out := &wire.GetLatestByCriteriaResponse{ContextPosition: &wire.Position{CommitPosition: -1, PreparePosition: -1}}
	for i, result := range results {
		latest := &wire.LatestResult{Criterion: in.GetCriteria()[i]}
		if len(result.Records) > 0 {
			latest.Event = b.toWire(result.Records[0])
			if before(out.ContextPosition, latest.Event.Position) {
				out.ContextPosition = latest.Event.Position
			}
		}
		out.Results = append(out.Results, latest)
	}
	return out, nil
}

// CatchUpSubscribeToEvents sends what comes after a position.
func (s *Server) CatchUpSubscribeToEvents(in *wire.CatchUpSubscribeToEventStoreRequest, stream wire.EventStore_CatchUpSubscribeToEventsServer) error {
	for _, c := range in.GetSubscriberName() {
		if !strings.ContainsRune("-_", c) && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return status.Errorf(codes.AlreadyExists, "bad subscriber name %q", in.GetSubscriberName())
		}
	}
	b, err := s.active(in.GetBoundary())
	if err != nil {
		return err
	}
	after := place(in.GetAfterPosition())
	for {
		if err := b.store.Wait(stream.Context(), after); err != nil {
			return status.FromContextError(err).Err()
		}
		page, err := b.store.Page(stream.Context(), consistency.All(), after, 0)
		if err != nil {
			return statusOf(err)
		}
		for _, r := range page.Records {
			after = r.Position
			if s.isSilent() {
				continue
			}
			if err := stream.Send(b.toWire(r)); err != nil {
				return err
			}
		}
	}
}

// Ping says that the server is there.
func (s *Server) Ping(context.Context, *wire.PingRequest) (*wire.PingResponse, error) {
	return &wire.PingResponse{}, nil
}

// GetServerInfo tells the version.
func (s *Server) GetServerInfo(context.Context, *wire.GetServerInfoRequest) (*wire.GetServerInfoResponse, error) {
	return &wire.GetServerInfoResponse{Version: string("v" + s.cfg.Version), Backend: wire.Backend_SQLITE}, nil
}

// CreateIndex takes every definition; nothing here needs one.
func (s *Server) CreateIndex(_ context.Context, in *wire.CreateIndexRequest) (*wire.CreateIndexResponse, error) {
	b, err := s.active(in.GetBoundary())
	if err != nil {
		return nil, err
	}
	b.index(in)
	return &wire.CreateIndexResponse{}, nil
}

// CreateBoundary makes a boundary that is active at once.
func (s *Server) CreateBoundary(_ context.Context, in *wire.CreateBoundaryRequest) (*wire.CreateBoundaryResponse, error) {
	if !s.create(in.GetName()) {
		return nil, status.Errorf(codes.AlreadyExists, "boundary %q exists", in.GetName())
	}
	return &wire.CreateBoundaryResponse{Boundary: info(in.GetName())}, nil
}

// GetBoundary tells that a boundary is active.
func (s *Server) GetBoundary(_ context.Context, in *wire.GetBoundaryRequest) (*wire.GetBoundaryResponse, error) {
	if s.find(in.GetName()) == nil {
		return nil, status.Errorf(codes.NotFound, "boundary %q", in.GetName())
	}
	return &wire.GetBoundaryResponse{Boundary: info(in.GetName())}, nil
}

func info(name string) *wire.BoundaryInfo {
	return &wire.BoundaryInfo{Name: name, Status: wire.BoundaryStatus_ACTIVE}
}
