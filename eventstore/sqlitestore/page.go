package sqlitestore

import (
	"context"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
)

const (
	pageEvents = 1000    // where the caller does not care
	pageBytes  = 4 << 20 // of data and metadata, and one event more
)

// Page implements [eventstore.Store]. A page also ends at about 4 MiB.
func (s *Store) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	if err := eventstore.CheckParts(eventstore.Part{Query: q}); err != nil {
		return eventstore.Page{}, err
	}
	if limit < 1 {
		limit = pageEvents
	}
	compiled := compile(s.boundary.id, q)
	var page eventstore.Page
	err := s.read(ctx, func(c *session) (err error) {
		page, err = c.page(s.boundary, &compiled, place(after), limit)
		return err
	})
	if err != nil {
		return eventstore.Page{}, err
	}
	return page, nil
}

// page reads in one transaction, so that the head and what lies before it are
// as of one moment.
func (s *session) page(b *boundary, q *query, after int64, limit int) (page eventstore.Page, err error) {
	head, id, err := s.head(b)
	if err != nil || head == 0 {
		return page, err
	}
	size, full := 0, false
	err = s.history(q, after+1, head, func() (more bool, err error) {
		r, err := s.row.record()
		page.Records = append(page.Records, r)
		size += len(s.row.data) + len(s.row.metadata)
		full = len(page.Records) >= limit || size >= pageBytes
		return !full, err
	})
	if full {
		last := page.Records[len(page.Records)-1]
		page.UpTo, page.UpToID = last.Position, last.ID
	} else {
		page.UpTo, page.UpToID = position(head), id
	}
	return page, err
}
