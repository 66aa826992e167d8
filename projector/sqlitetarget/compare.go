package sqlitetarget

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"zombiezen.com/go/sqlite"
)

const (
	maxExamples = 10
	// compareBuckets is how finely a table's rows are summed up. Only rows of
	// sums that differ are looked at one by one.
	compareBuckets = 1 << 12
	// compareAtOnce is about how many of those are kept in memory: 100 bytes each.
	compareAtOnce = 2_000_000
)

// Compare implements [projector.Generation]. Tables are compared as multisets of
// rows, in which a value is what it is: 1, 1.0 and '1' are three, so are 'a' and
// 'A' under every collation, and a row that is there twice is two rows. Virtual
// tables count as what can be selected from them; indexes, views and triggers do
// not count.
//
// Each table is read once on both sides, and rows are compared by their SHA-256,
// so a million of them take some seconds.
func (g *generation) Compare(ctx context.Context) ([]projector.Difference, error) {
	t := g.Target
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	var differences []projector.Difference
	err := t.file.root.follow(ctx, nil, func(from *file) error {
		return from.snapshot(ctx, func(a *session) error {
			return t.file.snapshot(ctx, func(b *session) (err error) {
				differences, err = compareModels(a, b)
				return err
			})
		})
	})
	if err != nil {
		return nil, t.file.failure("compare generations", err)
	}
	return differences, nil
}

// snapshot runs read on a connection of its own, as of one moment.
func (f *file) snapshot(ctx context.Context, read func(*session) error) error {
	s, err := f.connect(sqlitedb.Options{QueryOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	s.conn.SetInterrupt(ctx.Done())
	if err := s.do("BEGIN"); err != nil {
		return err
	}
	if err = read(s); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// shape is how a table looks on one side.
type shape struct {
	there   bool
	virtual bool
	columns []string // in the order of the table
}

func (s *session) shapes() (map[string]shape, error) {
	shapes := map[string]shape{}
	err := s.each(`SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')
			AND name NOT LIKE 'ccc\_%' ESCAPE '\' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`, func(stmt *sqlite.Stmt) error {
		shapes[stmt.ColumnText(0)] = shape{there: true, virtual: stmt.ColumnText(1) == "virtual"}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for table, is := range shapes {
		// Hidden is 1: a virtual table's parameter or rank.
		err := s.each(`SELECT name FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid`, func(stmt *sqlite.Stmt) error {
			is.columns = append(is.columns, stmt.ColumnText(0))
			return nil
		}, table)
		if err != nil {
			return nil, err
		}
		shapes[table] = is
	}
	return shapes, nil
}

func compareModels(live, next *session) (differences []projector.Difference, err error) {
	a, err := live.shapes()
	if err != nil {
		return nil, err
	}
	b, err := next.shapes()
	if err != nil {
		return nil, err
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, table := range slices.Sorted(maps.Keys(all)) {
		c := comparison{table: table, live: live, next: next, found: projector.Difference{Table: table}}
		differs, err := c.compare(a[table], b[table])
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		if differs {
			differences = append(differences, c.found)
		}
	}
	return differences, nil
}

// comparison is that of one table.
type comparison struct {
	table      string
	live, next *session
	columns    []string
	found      projector.Difference
}

func (c *comparison) compare(a, b shape) (differs bool, err error) {
	sort := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	switch {
	case !a.there || !b.there:
		where := "the new generation"
		if !a.there {
			where = "the live generation"
		}
		c.found.Examples = []string{"the table is missing in " + where}
		return true, c.countAll(a.there, b.there)
	case !slices.Equal(sort(a.columns), sort(b.columns)):
		c.found.Examples = []string{fmt.Sprintf("the columns are (%s) in the live generation and (%s) in the new one",
			strings.Join(a.columns, ", "), strings.Join(b.columns, ", "))}
		return true, c.countAll(true, true)
	}
	c.columns = a.columns
	var lives, nexts []bucket
	var beside error
	var both sync.WaitGroup // each has its own connection
	both.Go(func() { lives, beside = c.sums(c.live) })
	nexts, err = c.sums(c.next)
	both.Wait()
	if err = cmp.Or(beside, err); err == nil {
		return c.details(lives, nexts)
	}
	if a.virtual && b.virtual && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultError {
		return false, nil // it does not tell its content
	}
	return false, err
}

// countAll counts rows that nothing corresponds to.
func (c *comparison) countAll(live, next bool) error {
	for _, side := range []struct {
		there bool
		s     *session
		n     *int64
	}{{live, c.live, &c.found.Live}, {next, c.next, &c.found.Next}} {
		if !side.there {
			continue
		}
		err := side.s.each("SELECT count(*) FROM main."+quoted(c.table), func(stmt *sqlite.Stmt) error {
			*side.n = stmt.ColumnInt64(0)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// digest stands for a row's content.
type digest [16]byte

func (d digest) bucket() int { return int(binary.LittleEndian.Uint16(d[:])) % compareBuckets }

// bucket sums up the rows that fall into it; the order does not count.
type bucket struct {
	rows int64
	sum  [2]uint64
}

func (c *comparison) sums(s *session) ([]bucket, error) {
	buckets := make([]bucket, compareBuckets)
	err := c.rows(s, func(d digest, _ *sqlite.Stmt) bool {
		b := &buckets[d.bucket()]
		b.rows++
		b.sum[0] += binary.LittleEndian.Uint64(d[:8])
		b.sum[1] += binary.LittleEndian.Uint64(d[8:])
		return true
	})
	return buckets, err
}

// rows walks over the table until each returns false.
func (c *comparison) rows(s *session, each func(digest, *sqlite.Stmt) bool) error {
	if len(c.columns) == 0 {
		return nil
	}
	names := make([]string, len(c.columns))
	for i, name := range c.columns {
		names[i] = quoted(name)
	}
	stmt, _, err := s.conn.PrepareTransient("SELECT " + strings.Join(names, ", ") + " FROM main." + quoted(c.table))
	if err != nil {
		return err
	}
	defer stmt.Finalize()
	var text []byte
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		text = text[:0]
		for i := range names {
			text = appendValue(text, stmt, i)
		}
		sum := sha256.Sum256(text)
		if !each(digest(sum[:16]), stmt) {
			return nil
		}
	}
}

// appendValue writes a column's value so that no two rows have the same bytes.
func appendValue(to []byte, stmt *sqlite.Stmt, col int) []byte {
	kind := stmt.ColumnType(col)
	to = append(to, byte(kind))
	switch kind {
	case sqlite.TypeInteger:
		return binary.LittleEndian.AppendUint64(to, uint64(stmt.ColumnInt64(col)))
	case sqlite.TypeFloat:
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(stmt.ColumnFloat(col)))
	case sqlite.TypeText, sqlite.TypeBlob:
		n := stmt.ColumnLen(col)
		to = binary.AppendUvarint(to, uint64(n))
		at := len(to)
		to = slices.Grow(to, n)[:at+n]
		stmt.ColumnBytes(col, to[at:])
	}
	return to
}

// details counts the rows that only one side has, and finds examples.
func (c *comparison) details(live, next []bucket) (differs bool, err error) {
	chosen := map[digest]int64{} // examples, with how many rows more the live side has
	wanted := make([]bool, compareBuckets)
	var some int64
	for i := range live {
		if live[i] != next[i] {
			differs, wanted[i] = true, true
			some += live[i].rows + next[i].rows
		}
		if some == 0 || some < compareAtOnce && i < len(live)-1 {
			continue
		}
		if err := c.count(wanted, chosen); err != nil {
			return false, err
		}
		clear(wanted)
		some = 0
	}
	if !differs {
		return false, nil
	}
	return true, c.examples(chosen)
}

func (c *comparison) count(wanted []bool, chosen map[digest]int64) error {
	more := map[digest]int64{}
	for _, side := range []struct {
		s   *session
		one int64
	}{{c.live, 1}, {c.next, -1}} {
		err := c.rows(side.s, func(d digest, _ *sqlite.Stmt) bool {
			if wanted[d.bucket()] {
				if more[d] += side.one; more[d] == 0 {
					delete(more, d)
				}
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	perSide := map[bool]int{}
	for _, n := range chosen {
		perSide[n > 0]++
	}
	for d, n := range more {
		if n > 0 {
			c.found.Live += n
		} else {
			c.found.Next -= n
		}
		if perSide[n > 0] < maxExamples {
			perSide[n > 0]++
			chosen[d] = n
		}
	}
	return nil
}

// examples puts rows into words: half of them, or what there is, of each side.
func (c *comparison) examples(chosen map[digest]int64) error {
	of := func(s *session, sign int64, where string) (found []string, err error) {
		err = c.rows(s, func(d digest, stmt *sqlite.Stmt) bool {
			n := chosen[d] * sign
			if n <= 0 {
				return len(found) < maxExamples
			}
			delete(chosen, d)
			found = append(found, fmt.Sprintf("only %s: %s", where, c.describe(stmt, n)))
			return len(found) < maxExamples
		})
		return found, err
	}
	live, err := of(c.live, 1, "live")
	if err != nil {
		return err
	}
	next, err := of(c.next, -1, "new")
	if err != nil {
		return err
	}
	take := min(len(live), max(maxExamples/2, maxExamples-len(next)))
	c.found.Examples = append(live[:take:take], next[:min(len(next), maxExamples-take)]...)
	return nil
}

func (c *comparison) describe(stmt *sqlite.Stmt, times int64) string {
	var b strings.Builder
	for i, column := range c.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(column + " = ")
		switch stmt.ColumnType(i) {
		case sqlite.TypeNull:
			b.WriteString("NULL")
		case sqlite.TypeInteger:
			b.WriteString(strconv.FormatInt(stmt.ColumnInt64(i), 10))
		case sqlite.TypeFloat:
			f := strconv.FormatFloat(stmt.ColumnFloat(i), 'g', -1, 64)
			if !strings.ContainsAny(f, ".eIN") {
				f += ".0"
			}
			b.WriteString(f)
		case sqlite.TypeBlob:
			fmt.Fprintf(&b, "a BLOB of %d bytes", stmt.ColumnLen(i))
		default:
			fmt.Fprintf(&b, "%.80q", stmt.ColumnText(i))
		}
	}
	if times > 1 {
		fmt.Fprintf(&b, " (%d times)", times)
	}
	return b.String()
}
