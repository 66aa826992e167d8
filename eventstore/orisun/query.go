package orisun

import (
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
)

// maxJoined is the greatest number of criteria in one request that asks for
// several queries: SQLite servers take 500 and fail before 999.
const maxJoined = 480

// criteria are a query's, as the server has them: one value per key, the type
// among them.
func (s *Store) criteria(q consistency.Query) (out []*wire.Criterion) {
	for _, c := range q.Criteria() {
		types := c.Types
		if len(types) == 0 {
			types = noType[:]
		}
		for _, t := range types {
			tags := make([]*wire.Tag, 0, len(c.Tags)+1)
			for _, tag := range c.Tags {
				tags = append(tags, &wire.Tag{Key: tag.Key, Value: tag.Value})
			}
			if t != "" {
				tags = append(tags, &wire.Tag{Key: s.typeKey, Value: t})
			}
			out = append(out, &wire.Criterion{Tags: tags})
		}
	}
	return out
}

var noType = [1]string{""}

// isAll says whether q meets every event. No server can be asked that: empty
// criteria mean something else on each.
func isAll(q consistency.Query) bool {
	for _, c := range q.Criteria() {
		if len(c.Types)+len(c.Tags) == 0 {
			return true
		}
	}
	return false
}

// join asks for all queries at once; nil where one of them is All.
func (s *Store) join(queries []consistency.Query) (*wire.Query, error) {
	var all []*wire.Criterion
	for _, q := range queries {
		if isAll(q) {
			return nil, nil
		}
		all = append(all, s.criteria(q)...)
	}
	if len(all) > maxJoined {
		return nil, invalid("%d criteria in one request (of %d queries, each type counts), servers take %d: ask for fewer at once", len(all), len(queries), maxJoined)
	}
	return &wire.Query{Criteria: all}, nil
}
