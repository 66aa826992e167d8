package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// onRecord changes what reads give of each record.
func onRecord(f func(r *event.Record)) func(*wrong) {
	return onRecords(func(_ eventstore.Part, all records) records {
		all = slices.Clone(all)
		for i := range all {
			f(&all[i])
		}
		return all
	})
}

// onRecords changes what snapshots and pages give.
func onRecords(f func(p eventstore.Part, all records) records) func(*wrong) {
	return func(w *wrong) {
		onResult(func(p eventstore.Part, r *eventstore.Result) { r.Records = f(p, r.Records) })(w)
		w.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			page, err := w.Store.Page(ctx, q, after, limit)
			page.Records = f(eventstore.Part{Query: q, After: after}, page.Records)
			return page, err
		}
	}
}

// onResult changes what snapshots give.
func onResult(f func(p eventstore.Part, r *eventstore.Result)) func(*wrong) {
	return func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			results, err := w.Store.Snapshot(ctx, parts...)
			for i := range results {
				f(parts[i], &results[i])
			}
			return results, err
		}
	}
}

// onPart changes what snapshots ask for.
func onPart(f func(p *eventstore.Part)) func(*wrong) {
	return func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			parts = slices.Clone(parts)
			for i := range parts {
				f(&parts[i])
			}
			return w.Store.Snapshot(ctx, parts...)
		}
	}
}

// matching makes histories of all that match finds.
func matching(match func(c consistency.Criterion, eventType string, data map[string]any) bool) func(*wrong) {
	return func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			results := make([]eventstore.Result, len(parts))
			for i, p := range parts {
				all, err := w.Store.Snapshot(ctx, eventstore.Part{Query: everything, After: p.After, UpTo: p.UpTo})
				if err != nil {
					return nil, err
				}
				for _, r := range all[0].Records {
					var data map[string]any
					_ = json.Unmarshal(r.Data, &data)
					if slices.ContainsFunc(p.Query.Criteria(), func(c consistency.Criterion) bool {
						return (len(c.Types) == 0 || slices.Contains(c.Types, r.Type)) && match(c, r.Type, data)
					}) {
						results[i].Records, results[i].Last = append(results[i].Records, r), r.Position
					}
				}
				if p.LatestOnly {
					results[i].Records = results[i].Records[max(0, len(results[i].Records)-1):]
				}
			}
			return results, nil
		}
	}
}

func everyTag(good func(value any, t consistency.Tag) bool) func(consistency.Criterion, string, map[string]any) bool {
	return func(c consistency.Criterion, _ string, data map[string]any) bool {
		return !slices.ContainsFunc(c.Tags, func(t consistency.Tag) bool { return !good(data[t.Key], t) })
	}
}

var wrongMatches = []wrongStore{
	{"gives a match of two criteria twice", "queries_and_or_types", onRecords(func(p eventstore.Part, all records) (out records) {
		for _, r := range all {
			for _, c := range p.Query.Criteria() {
				tags, _ := consistency.Tags(r.Data)
				if c.Matches(r.Type, tags) {
					out = append(out, r)
				}
			}
		}
		return out
	})},
	{"folds case", "queries_byte_by_byte", matching(everyTag(func(v any, t consistency.Tag) bool {
		s, ok := v.(string)
		return ok && strings.EqualFold(s, t.Value)
	}))},
	{"trims spaces", "queries_byte_by_byte", matching(everyTag(func(v any, t consistency.Tag) bool {
		s, ok := v.(string)
		return ok && strings.TrimRight(s, " ") == strings.TrimRight(t.Value, " ")
	}))},
	{"takes numbers for strings", "queries_see_strings_only", matching(everyTag(func(v any, t consistency.Tag) bool {
		return v != nil && fmt.Sprint(v) == t.Value
	}))},
	{"takes a dot for a path", "queries_see_strings_only", matching(func(c consistency.Criterion, _ string, data map[string]any) bool {
		return !slices.ContainsFunc(c.Tags, func(t consistency.Tag) bool {
			v := data[t.Key]
			if outer, inner, ok := strings.Cut(t.Key, "."); ok {
				nested, _ := data[outer].(map[string]any)
				v = nested[inner]
			}
			s, ok := v.(string)
			return !ok || s != t.Value
		})
	})},
	{"looks into arrays", "queries_see_strings_only", matching(everyTag(func(v any, t consistency.Tag) bool {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		s, ok := v.(string)
		return ok && s == t.Value
	}))},
	{"indexes the beginning of long strings", "long_strings_are_not_indexed", matching(everyTag(func(v any, t consistency.Tag) bool {
		s, ok := v.(string)
		return ok && s[:min(len(s), 256)] == t.Value
	}))},
	{"gives up after a thousand events", "many_values", matching(func() func(consistency.Criterion, string, map[string]any) bool {
		right, n := everyTag(func(v any, t consistency.Tag) bool { return v == t.Value }), 0
		return func(c consistency.Criterion, eventType string, data map[string]any) bool {
			n++
			return n < 1000 && right(c, eventType, data)
		}
	}())},
	{"answers what cannot be asked", "reads_are_refused", func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			results, err := w.Store.Snapshot(ctx, parts...)
			if eventstore.CheckParts(parts...) != nil {
				return make([]eventstore.Result, len(parts)), nil
			}
			return results, err
		}
	}},
}

var wrongContents = []wrongStore{
	{"loses keys that are no identifiers", "data_is_kept", onRecord(func(r *event.Record) { r.Data = bytes.ReplaceAll(r.Data, []byte(`"ключ":"x",`), nil) })},
	{"makes arrays out of nothing", "data_is_kept", onRecord(func(r *event.Record) { r.Data = bytes.ReplaceAll(r.Data, []byte(`:null`), []byte(`:[]`)) })},
	{"reads numbers as floats", "numbers_are_kept", onRecord(func(r *event.Record) {
		var data map[string]any
		_ = json.Unmarshal(r.Data, &data)
		r.Data, _ = json.Marshal(data)
	})},
	{"forgets what callers gave", "metadata_is_kept", onRecord(func(r *event.Record) { r.Metadata.Custom = nil })},
	{"forgets the version", "metadata_is_kept", onRecord(func(r *event.Record) { r.Metadata.Version = 0 })},
	{"gives local times", "times_are_kept", onRecord(func(r *event.Record) { r.Time = r.Time.In(time.FixedZone("here", 3600)) })},
	{"takes its own time always", "times_are_kept", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		r = slices.Clone(r)
		for i := range r {
			r[i].Time = time.Time{}
		}
		return right(ctx, r, seen)
	})},
	{"keeps milliseconds", "times_are_kept", onRecord(func(r *event.Record) { r.Time = r.Time.Truncate(time.Millisecond) })},
}

var wrongSnapshots = []wrongStore{
	{"says the head where nothing matches", "snapshot_of_nothing", func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			results, err := w.Store.Snapshot(ctx, parts...)
			for i := range results {
				if results[i].Last.IsZero() {
					results[i].Last = w.last(ctx, everything)
				}
			}
			return results, err
		}
	}},
	{"gives histories backwards", "append_saves_all", onResult(func(_ eventstore.Part, r *eventstore.Result) { slices.Reverse(r.Records) })},
	{"ignores UpTo for the latest match", "snapshot_bounds", onPart(func(p *eventstore.Part) {
		if p.LatestOnly {
			p.UpTo = none
		}
	})},
	{"ignores UpTo in a history", "snapshot_bounds", onPart(func(p *eventstore.Part) {
		if !p.LatestOnly {
			p.UpTo = none
		}
	})},
	{"bounds the latest match by After", "snapshot_bounds", onResult(func(p eventstore.Part, r *eventstore.Result) {
		if p.LatestOnly && !r.Last.After(p.After) {
			*r = eventstore.Result{}
		}
	})},
	{"says Last of what it read only", "snapshot_bounds", onResult(func(_ eventstore.Part, r *eventstore.Result) {
		if len(r.Records) == 0 {
			r.Last = none
		}
	})},
	{"takes After for the first wanted", "snapshot_bounds", onPart(func(p *eventstore.Part) { p.After = p.After.Prev() })},
	{"takes a position beyond the head for none", "snapshot_bounds", func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			parts = slices.Clone(parts)
			for i := range parts {
				if parts[i].After.After(w.last(ctx, everything)) {
					parts[i].After = none
				}
			}
			return w.Store.Snapshot(ctx, parts...)
		}
	}},
	{"answers equal parts once", "snapshot_parts_keep_their_order", func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			results, err := w.Store.Snapshot(ctx, parts...)
			seen := map[string]bool{}
			for i := range results {
				key := fmt.Sprint(parts[i])
				if seen[key] {
					results[i] = eventstore.Result{}
				}
				seen[key] = true
			}
			return results, err
		}
	}},
	{"cuts histories at a page", "long_history", onResult(func(_ eventstore.Part, r *eventstore.Result) { r.Records = r.Records[:min(len(r.Records), 4000)] })},
	{"names its log anew each time", "features_never_change", func(w *wrong) {
		w.features = func() eventstore.Features {
			return eventstore.Features{UniqueEventIDs: true, Log: fact().ID}
		}
	}},
	{"gives what it has when the context ends", "reads_are_complete", func(w *wrong) {
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
			results, err := w.Store.Snapshot(context.WithoutCancel(ctx), parts...)
			time.Sleep(1)
			if ctx.Err() != nil {
				results[0].Records = results[0].Records[:5]
			}
			return results, err
		}
	}},
}

// onPage changes pages.
func onPage(f func(w *wrong, ctx context.Context, after consistency.Position, p *eventstore.Page)) func(*wrong) {
	return func(w *wrong) {
		w.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			page, err := w.Store.Page(ctx, q, after, limit)
			if err == nil {
				f(w, ctx, after, &page)
			}
			return page, err
		}
	}
}

// moveTo sets UpTo to the last event at or before p.
func (w *wrong) moveTo(ctx context.Context, page *eventstore.Page, p consistency.Position) {
	results, _ := w.Store.Snapshot(ctx, eventstore.Part{Query: everything, UpTo: p, LatestOnly: true})
	page.UpTo = results[0].Last
	if len(results[0].Records) > 0 {
		page.UpToID = results[0].Records[0].ID
	}
}

var wrongPages = []wrongStore{
	{"says it went to the end where the limit cut it", "page_limits", onPage(func(w *wrong, ctx context.Context, _ consistency.Position, p *eventstore.Page) {
		w.moveTo(ctx, p, none)
	})},
	{"gives the event at the position again", "page_limits", func(w *wrong) {
		w.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			return w.Store.Page(ctx, q, after.Prev(), limit)
		}
	}},
	{"gives more than the limit", "page_limits", func(w *wrong) {
		w.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			return w.Store.Page(ctx, q, after, limit+1)
		}
	}},
	{"names the event of the last match", "page_up_to_is_an_event", onPage(func(_ *wrong, _ context.Context, _ consistency.Position, p *eventstore.Page) {
		if len(p.Records) > 0 {
			p.UpToID = p.Records[len(p.Records)-1].ID
		}
	})},
	{"invents a position between events", "page_up_to_is_an_event", onPage(func(_ *wrong, _ context.Context, _ consistency.Position, p *eventstore.Page) {
		_, minor := p.UpTo.Parts()
		p.UpTo = consistency.NewPosition(0, minor+1)
	})},
	{"repeats the position asked for", "page_of_an_empty_log", onPage(func(_ *wrong, _ context.Context, after consistency.Position, p *eventstore.Page) {
		if after.After(p.UpTo) {
			p.UpTo, p.UpToID = after, fact().ID
		}
	})},
	{"begins again beyond the head", "page_beyond_the_head", func(w *wrong) {
		w.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			if after.After(w.last(ctx, everything)) {
				after = none
			}
			return w.Store.Page(ctx, q, after, limit)
		}
	}},
	{"stays at the last match", "page_moves_over_others", onPage(func(_ *wrong, _ context.Context, after consistency.Position, p *eventstore.Page) {
		if n := len(p.Records); n > 0 {
			p.UpTo, p.UpToID = p.Records[n-1].Position, p.Records[n-1].ID
		} else if !after.IsZero() {
			p.UpTo = after
		}
	})},
	{"asks for the end after the page", "pages_skip_nothing", func(w *wrong) {
		onPage(func(w *wrong, ctx context.Context, after consistency.Position, p *eventstore.Page) {
			if n := len(p.Records); n < 3 && p.UpTo.After(after) {
				time.Sleep(2)
				w.moveTo(ctx, p, none)
			}
		})(w)
		onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			time.Sleep(1) // so that writers are at work while a page is read
			return right(ctx, r, seen)
		})(w)
		paced(w)
	}},
	{"lags without saying so", "pages_can_be_complete_up_to", onPage(func(_ *wrong, _ context.Context, _ consistency.Position, p *eventstore.Page) {
		if n := len(p.Records); n > 5 {
			p.Records = slices.Delete(slices.Clone(p.Records), n-3, n-2)
		}
	})},
	{"skips an event between two pages", "all_walks_over_pages", onPage(func(w *wrong, ctx context.Context, _ consistency.Position, p *eventstore.Page) {
		if n := len(p.Records); n == 500 {
			_, minor := p.UpTo.Parts()
			w.moveTo(ctx, p, consistency.NewPosition(0, minor+1))
		}
	})},
}
