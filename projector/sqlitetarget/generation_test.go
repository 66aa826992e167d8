package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/stretchr/testify/require"
)

func always(context.Context) error { return nil }

// next opens a generation that is closed with the test, if not before.
func next(t *testing.T, target *Target, tag string) *generation {
	t.Helper()
	g, err := target.Next(t.Context(), tag)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g.(*generation)
}

// switched makes a filled generation live.
func switched(t *testing.T, target *Target, tag string) {
	t.Helper()
	g := next(t, target, tag)
	require.NoError(t, fill(t.Context(), g))
	require.NoError(t, g.Switch(t.Context(), always))
	require.NoError(t, g.Close())
}

// worker claims and adds one, and releases.
func worker(t *testing.T, target *Target) projector.Claim {
	t.Helper()
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	from := stateOf(t, target).Checkpoint
	require.NoError(t, target.Apply(t.Context(), claim, from, addOne(from)))
	require.NoError(t, target.Release(t.Context(), claim))
	return claim
}

func generations(t *testing.T, path string) (files []string) {
	t.Helper()
	for _, name := range dirNames(t, filepath.Dir(path)) {
		if strings.HasPrefix(name, filepath.Base(path)+genMark) && !strings.HasSuffix(name, "-wal") && !strings.HasSuffix(name, "-shm") {
			files = append(files, strings.TrimPrefix(name, filepath.Base(path)))
		}
	}
	return files
}

// A Read that is under way keeps its generation, even when that is dropped; the
// next one sees the new one.
func TestReadAcrossASwitch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target := open(t, path, 0)
	worker(t, target)
	for i := range 3 {
		want := read(t, target, "sum")
		require.NoError(t, target.Read(t.Context(), func(x *Tx) error {
			v, _, err := get(x, "sum")
			require.NoError(t, err)
			require.Equal(t, want, v)
			switched(t, target, fmt.Sprint(i))
			require.Equal(t, "new", read(t, target, "sum"))
			_, err = target.Drop(t.Context())
			require.NoError(t, err)
			v, _, err = get(x, "sum")
			require.Equal(t, want, v)
			return err
		}))
		require.Equal(t, "new", read(t, target, "sum"))
		worker(t, target)
		require.Equal(t, "1", read(t, target, "sum"))
	}
	require.Equal(t, []string{"-gen-4"}, generations(t, path))
}

// What is dropped is gone from the base, but the pointer; other generations are
// gone altogether.
func TestDropEmptiesTheBase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	const schema = schemaKV + `;
		CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE TABLE child (of REFERENCES parent);
		CREATE VIEW v AS SELECT id FROM parent; CREATE TRIGGER tr AFTER INSERT ON kv BEGIN INSERT INTO parent VALUES (NULL); INSERT INTO child SELECT id FROM parent; END;
		CREATE TRIGGER tv INSTEAD OF INSERT ON v BEGIN SELECT 1; END;
		CREATE VIRTUAL TABLE f USING fts5(x); CREATE INDEX i ON child (of); CREATE TABLE "odd "" name" (x); ANALYZE`
	target, err := Open(path, schema)
	require.NoError(t, err)
	defer target.Close()
	in := batches(t, target)
	require.NoError(t, in(park(parkedAt(3, "a"))))
	require.NoError(t, in(func(b projector.Batch[*Tx]) error { return b.Tx().Exec(`INSERT INTO f VALUES ('words')`) }))
	from := stateOf(t, target).Checkpoint
	require.NoError(t, in(func(b projector.Batch[*Tx]) error {
		for i := range 2000 {
			if err := b.Tx().Exec(`INSERT INTO kv VALUES (?1, ?2)`, i, strings.Repeat("x", 1000)); err != nil {
				return err
			}
			if i == 0 {
				require.NoError(t, b.Tx().Exec(`DROP TRIGGER tr`))
			}
		}
		return nil
	}))
	require.Equal(t, from, stateOf(t, target).Checkpoint)
	n, err := target.Drop(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	switched(t, target, "a")
	n, err = target.Drop(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, target.Close())

	conn := raw(t, path)
	var left []string
	stmt, _, err := conn.PrepareTransient(`SELECT name FROM sqlite_schema WHERE name NOT LIKE 'ccc%' AND name NOT LIKE 'sqlite%'`)
	require.NoError(t, err)
	for {
		more, err := stmt.Step()
		require.NoError(t, err)
		if !more {
			break
		}
		left = append(left, stmt.ColumnText(0))
	}
	require.NoError(t, stmt.Finalize())
	require.Empty(t, left)
	for _, table := range []string{"name", "epoch", "lease", "checkpoint", "done", "failure", "parked", "parked_key", "count", "script"} {
		stmt, _, err := conn.PrepareTransient("SELECT count(*) FROM ccc_" + table)
		require.NoError(t, err)
		_, err = stmt.Step()
		require.NoError(t, err)
		require.Zero(t, stmt.ColumnInt64(0), table)
		require.NoError(t, stmt.Finalize())
	}
	require.NoError(t, conn.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(1<<20), "the room is given back")

	target, err = Open(path, schema)
	require.NoError(t, err)
	require.Equal(t, "new", read(t, target, "sum"))
	switched(t, target, "b")
	require.Equal(t, []string{"-gen-2", "-gen-3"}, generations(t, path))
	n, err = target.Drop(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, target.Close())
	require.Equal(t, []string{"model.db", "model.db-gen-3"}, dirNames(t, filepath.Dir(path)))
}

// The scripts of a program are for the generation that is live, and NextOnly
// those of the next one.
func TestScriptsOfGenerations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	const other = `CREATE TABLE kv (k TEXT PRIMARY KEY, v TEXT NOT NULL, more TEXT) STRICT`
	const put = `INSERT INTO kv (k, v) VALUES ('sum', 'new')`
	target := open(t, path, 0)
	_, err := Open(path, other)
	require.ErrorIs(t, err, ErrScriptChanged)
	builder, err := Config{NextOnly: true}.Open(path, other, put)
	require.NoError(t, err)
	defer builder.Close()
	require.Empty(t, read(t, builder, "sum"))
	g := next(t, builder, "a")
	require.NoError(t, g.Switch(t.Context(), always))
	require.Equal(t, "new", read(t, builder, "sum"))
	require.Equal(t, "new", read(t, target, "sum"))
	_, err = Open(path, schemaKV)
	require.ErrorIs(t, err, ErrScriptChanged)
	require.ErrorContains(t, err, path+"-gen-2")
	again, err := Open(path, other, put, `UPDATE kv SET v = 'newer'`)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, "newer", read(t, target, "sum"), "a further script has run on the live one")

	plain, err := Open(path)
	require.NoError(t, err)
	defer plain.Close()
	g = next(t, plain, "b") // with those of the live one
	require.NoError(t, g.Switch(t.Context(), always))
	require.Equal(t, "newer", read(t, target, "sum"))

	g = next(t, again, "c")
	_, err = g.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.NoError(t, g.Close())
	g = next(t, builder, "c") // fewer scripts: what was built is not it
	require.Equal(t, projector.State{}, stateOf(t, g.Target))
	require.Equal(t, "model.db-gen-5", filepath.Base(g.file.path))
}

// A generation of another tag is dropped, whoever builds it; it finds out.
func TestGenerationOfAnotherTag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target := open(t, path, 0)
	g := next(t, target, "a")
	claim, err := g.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.NoError(t, g.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
	second := next(t, target, "b")
	require.Equal(t, []string{"-gen-3"}, generations(t, path))
	require.ErrorIs(t, g.Apply(t.Context(), claim, at(1), put("a", "1", at(2))), projector.ErrTakenOver)
	require.NoError(t, g.Release(t.Context(), claim))
	_, err = g.Claim(t.Context(), testName)
	require.ErrorIs(t, err, projector.ErrClosed)
	require.ErrorContains(t, err, "generation 2 of the model is neither live nor being built any more, but dropped")
	called := false
	require.ErrorIs(t, g.Switch(t.Context(), func(context.Context) error { called = true; return nil }), projector.ErrTakenOver)
	require.False(t, called)
	require.NoError(t, second.Switch(t.Context(), always))
	require.ErrorIs(t, second.Switch(t.Context(), always), projector.ErrTakenOver, "twice")
	_, err = second.Next(t.Context(), "c")
	require.ErrorIs(t, err, errOneGeneration)
	_, err = second.Drop(t.Context())
	require.ErrorIs(t, err, errOneGeneration)
}

// A base and its generations belong together.
func TestGenerationsOfABackup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	target, err := Open(path, schemaKV)
	require.NoError(t, err)
	worker(t, target)
	require.NoError(t, target.Close())
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	target, err = Open(path, schemaKV)
	require.NoError(t, err)
	switched(t, target, "a")
	require.NoError(t, target.Close())

	other := filepath.Join(t.TempDir(), "model.db")
	alone, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other, alone, 0o600))
	_, err = Open(other, schemaKV)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "generation 2 of the model is live, and its file "+other+"-gen-2 is missing: restore both from one backup")

	// The base is of yesterday, and a generation of today stands beside it.
	require.NoError(t, os.WriteFile(path, backup, 0o600))
	target = open(t, path, 0)
	require.Equal(t, "1", read(t, target, "sum"))
	require.Equal(t, projector.State{}, stateOf(t, next(t, target, "a").Target))
}

// A file of the first schema is brought to this one, with all that is in it.
func TestFirstSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	first, err := fs.ReadFile(scripts, "schema/001_target.sql")
	require.NoError(t, err)
	conn, err := sqlitedb.Open(path, sqlitedb.Options{Create: true})
	require.NoError(t, err)
	was := schema()
	was.Scripts = fstest.MapFS{"001_target.sql": {Data: first}}
	require.NoError(t, sqlitedb.Migrate(t.Context(), conn, path, was))
	for _, sql := range []string{
		schemaKV, `INSERT INTO kv VALUES ('sum', '7')`, `INSERT INTO ccc_script VALUES (1, '` + schemaKV + `', 1)`,
		`INSERT INTO ccc_name VALUES (1, 'model', 'default')`, `INSERT INTO ccc_epoch VALUES (1, 4, 0)`,
		`INSERT INTO ccc_checkpoint (name, position, event_id, log, moved) VALUES (1, 'a7', zeroblob(16), zeroblob(16), 1000000)`,
		`INSERT INTO ccc_done (name, event_id) VALUES (1, x'000102030405060708090a0b0c0d0e0f')`,
		`INSERT INTO ccc_failure (name, position, event_id, type, attempts, error, halted) VALUES (1, 'a8', zeroblob(16), 'T', 3, 'no', 1)`,
	} {
		require.NoError(t, sqlitedb.Exec(conn, sql), sql)
	}
	require.NoError(t, conn.Close())
	target := open(t, path, 0)
	s, err := target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, projector.State{Checkpoint: at(7), Epoch: 4, Marked: true, Moved: time.Unix(1, 0).UTC(),
		Failure: projector.Failure{Position: position(8), Type: "T", Attempts: 3, Error: "no", Halted: true}}, s)
	claim := worker(t, target)
	require.EqualValues(t, 5, claim.Epoch)
	require.Equal(t, "8", read(t, target, "sum"))
	in := batches(t, target)
	require.NoError(t, in(park(parkedAt(8, "a"))))
	switched(t, target, "a")
	require.EqualValues(t, 7, worker(t, target).Epoch-1)
}

func TestCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	const schema = `CREATE TABLE same (a TEXT COLLATE NOCASE, b, twice AS (b || b)); CREATE TABLE "d ""1" (a TEXT COLLATE NOCASE, b);
		CREATE VIRTUAL TABLE words USING fts5(x); CREATE VIRTUAL TABLE none USING fts5(x, content=''); CREATE TABLE later (x)`
	target, err := Open(path, schema)
	require.NoError(t, err)
	defer target.Close()
	g := next(t, target, "a")
	write := func(to projector.Target[*Tx], all ...string) {
		t.Helper()
		claim, err := to.Claim(t.Context(), testName)
		require.NoError(t, err)
		require.NoError(t, to.Apply(t.Context(), claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
			for _, sql := range all {
				if err := b.Tx().Exec(sql); err != nil {
					return at(0), err
				}
			}
			return at(0), nil
		}))
		require.NoError(t, to.Release(t.Context(), claim))
	}
	compare := func() []projector.Difference {
		t.Helper()
		d, err := g.Compare(t.Context())
		require.NoError(t, err)
		return d
	}
	write(target, `INSERT INTO same (a, b) VALUES ('x', 1), ('y', x'00'), ('y', NULL), ('x', 1)`, `INSERT INTO words VALUES ('one two')`, `INSERT INTO none VALUES ('one')`)
	write(g, `INSERT INTO same (a, b) VALUES ('y', NULL), ('x', 1), ('x', 1), ('y', x'00')`, `INSERT INTO words VALUES ('one two')`, `INSERT INTO none VALUES ('one')`)
	require.Empty(t, compare())

	write(target, `INSERT INTO "d ""1" VALUES ('x', 1), ('x', 1), ('x', 1), ('Y', 2), ('z', ''), ('ok', 7)`, `DROP TABLE later`, `INSERT INTO words VALUES ('three')`)
	write(g, `INSERT INTO "d ""1" VALUES ('x', 1), ('x', 1.0), ('y', 2), ('z', x''), ('z', NULL), ('ok', 7)`, `INSERT INTO later VALUES (1), (2)`, `CREATE TABLE ours (b, a)`)
	write(target, `CREATE TABLE ours (a)`, `INSERT INTO ours VALUES (5)`)
	found := compare()
	require.ElementsMatch(t, found[0].Examples, []string{
		`only live: a = "x", b = 1 (2 times)`, `only live: a = "Y", b = 2`, `only live: a = "z", b = ""`,
		`only new: a = "x", b = 1.0`, `only new: a = "y", b = 2`, `only new: a = "z", b = a BLOB of 0 bytes`, `only new: a = "z", b = NULL`,
	})
	found[0].Examples = nil
	require.Equal(t, []projector.Difference{
		{Table: `d "1`, Live: 4, Next: 4},
		{Table: "later", Next: 2, Examples: []string{"the table is missing in the live generation"}},
		{Table: "ours", Live: 1, Examples: []string{"the columns are (a) in the live generation and (b, a) in the new one"}},
		{Table: "words", Live: 1, Examples: []string{`only live: x = "three"`}},
	}, found)

	many := `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO same (a, b) SELECT i, `
	write(target, many+`'live' FROM n`)
	write(g, many+`'next' FROM n`)
	same := compare()[3]
	require.Equal(t, "same", same.Table)
	require.EqualValues(t, 5000, same.Live)
	require.EqualValues(t, 5000, same.Next)
	require.Len(t, same.Examples, maxExamples)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.Compare(ended)
	require.ErrorIs(t, err, context.Canceled)
}

// Who claims a name in the new generation after its epochs were raised, and
// before the pointer moves, has lost it all the same.
func TestClaimInsideASwitch(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "model.db"), 0)
	g := next(t, target, "a")
	require.NoError(t, fill(t.Context(), g))
	var claims []projector.Claim
	g.moment = func(m string) {
		if m == "between" && len(claims) < 2 {
			claim, err := g.Claim(t.Context(), testName)
			require.NoError(t, err)
			claims = append(claims, claim)
		}
	}
	require.NoError(t, g.Switch(t.Context(), always))
	require.Len(t, claims, 2)
	for _, claim := range claims {
		require.ErrorIs(t, target.Apply(t.Context(), claim, at(5), addOne(at(5))), projector.ErrTakenOver)
		require.Greater(t, stateOf(t, target).Epoch, claim.Epoch)
	}
	require.False(t, stateOf(t, target).Held)
}

// An error after the pointer has moved is none of the switch, and one of ready
// comes back as it is.
func TestSwitchErrors(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "model.db"), 0)
	worker(t, target)
	g := next(t, target, "a")
	sorry := errors.New("not yet")
	require.Equal(t, sorry, g.Switch(t.Context(), func(context.Context) error { return sorry }))
	require.Panics(t, func() { _ = g.Switch(t.Context(), func(context.Context) error { panic("no") }) })
	worker(t, target)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, g.Switch(ctx, func(context.Context) error { cancel(); return nil }), context.Canceled)
	require.Equal(t, "2", read(t, target, "sum"))
	ctx, cancel = context.WithCancel(t.Context())
	g.moment = func(m string) {
		if m == "moved" {
			cancel()
		}
	}
	require.NoError(t, g.Switch(ctx, always))
	require.Empty(t, read(t, target, "sum"))
}
