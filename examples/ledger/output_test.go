package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string, outputs ...*output) {
	for _, o := range outputs {
		_, err := io.WriteString(o, text)
		require.NoError(t, err)
	}
}

func textOf(t testing.TB, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, want, got)
}

func create(t *testing.T, name string) *output {
	o, err := newOutput(name, io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.discard()) })
	return o
}

func done() error { return nil }

func TestOutputsAppearWhole(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "fresh")
	require.NoError(t, os.WriteFile(old, []byte("before"), 0o640))
	a, b := create(t, old), create(t, fresh)
	write(t, strings.Repeat("after", 100_000), a, b)
	require.NoError(t, a.Flush())
	require.Equal(t, "before", textOf(t, old))
	require.NoFileExists(t, fresh)
	if runtime.GOOS != "windows" {
		only(t, dir, "old") // what is written so far is gone with the process
	}
	require.NoError(t, publish([]*output{a, b}, func() error {
		require.Len(t, textOf(t, old), 500_000)
		return nil
	}))
	require.NoError(t, errors.Join(a.discard(), b.discard()))
	require.Len(t, textOf(t, fresh), 500_000)
	only(t, dir, "old", "fresh")
	info, err := os.Stat(old)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), "who may read it stays")
	}
}

// Whatever fails, the files are as they were.
func TestOutputsComeBack(t *testing.T) {
	broken := errors.New("broken")
	for name, last := range map[string]func(t *testing.T, b *output) func() error{
		"the last step":      func(*testing.T, *output) func() error { return func() error { return broken } },
		"the second's spool": func(t *testing.T, b *output) func() error { require.NoError(t, b.spool.Close()); return done },
		"the second's name": func(t *testing.T, b *output) func() error {
			require.NoError(t, os.MkdirAll(filepath.Join(b.path, "x"), 0o700)) // in the way
			return done
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, other := t.TempDir(), t.TempDir()
			old, fresh, second := filepath.Join(dir, "old"), filepath.Join(dir, "fresh"), filepath.Join(other, "second")
			require.NoError(t, os.WriteFile(old, []byte("before"), 0o600))
			a, b := create(t, old), create(t, fresh)
			c, err := newOutput(second, io.Discard)
			require.NoError(t, err)
			write(t, "after", a, b, c)
			require.Error(t, publish([]*output{a, b, c}, last(t, c)))
			_ = c.discard()
			require.NoError(t, errors.Join(a.discard(), b.discard()))
			require.Equal(t, "before", textOf(t, old))
			only(t, dir, "old")
		})
	}
}

func TestOutputErrorsShowEarly(t *testing.T) {
	dir := t.TempDir()
	_, err := newOutput(dir, io.Discard)
	require.ErrorContains(t, err, "is a directory")
	_, err = newOutput(filepath.Join(dir, "missing", "file"), io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = newOutput(filepath.Join(dir, "file", "x"), io.Discard)
	require.Error(t, err)
	only(t, dir, "file")
}

func TestOutputFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
	for _, link := range []struct{ name, to string }{{"link", "there/file"}, {"dir", "there"}, {"link2", "link"}} {
		if err := os.Symlink(link.to, filepath.Join(dir, link.name)); err != nil {
			t.Skip(err)
		}
	}
	for _, name := range []string{"link", "link2", "dir/file"} {
		for range 2 { // the file is not there, and is there
			o := create(t, filepath.Join(dir, name))
			write(t, name, o)
			require.NoError(t, publish([]*output{o}, done))
			require.NoError(t, o.discard())
			require.Equal(t, name, textOf(t, filepath.Join(dir, "there", "file")))
			only(t, dir, "link", "link2", "dir", "there")
			only(t, filepath.Join(dir, "there"), "file")
		}
		require.NoError(t, os.Remove(filepath.Join(dir, "there", "file")))
	}
}

// What is no regular file gets it at the end.
func TestOutputToAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	name := fmt.Sprint("/dev/fd/", w.Fd())
	if _, err := os.Stat(name); err != nil {
		t.Skip(err)
	}
	o := create(t, name)
	require.NoError(t, w.Close())
	write(t, "text", o)
	require.NoError(t, publish([]*output{o}, done))
	require.NoError(t, o.discard())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}

// A name that means what standard output goes to is written there: replaced,
// the summary would go to a file without a name.
func TestOutputToStandardOutput(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	stdout, err := os.Create(name)
	require.NoError(t, err)
	defer stdout.Close()
	o, err := newOutput(name, stdout)
	require.NoError(t, err)
	write(t, "results, ", o)
	require.NoError(t, publish([]*output{o}, func() error {
		_, err := io.WriteString(stdout, "summary")
		return err
	}))
	require.NoError(t, o.discard())
	require.Equal(t, "results, summary", textOf(t, name))
}

func TestObject(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, newObject(&b).end())
	require.JSONEq(t, `{}`, b.String())
	b.Reset()
	o := newObject(&b)
	require.NoError(t, errors.Join(o.write(`a"<&`, 1), o.write("\x01é\n", -0), o.end()))
	require.Equal(t, "{\n  \"a\\\"<&\": 1,\n  \"\\u0001é\\n\": 0\n}\n", b.String())
}
