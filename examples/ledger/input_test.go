package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cccgo/ccc/examples/ledger/internal/ledgertest"
	"github.com/stretchr/testify/require"
)

const aLine = `{"id":"k","op":"close","account":"A"}`

func readAll(t *testing.T, in *input) (all []line) {
	for l, err := range in.lines() {
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

func inputOf(files ...io.Reader) *input {
	in := &input{}
	for _, f := range files {
		in.sources = append(in.sources, source{name: "a file", from: f})
	}
	return in
}

func TestLines(t *testing.T) {
	blanks := strings.Repeat(" \t", 65536)
	pad := func(n int) string { return aLine + strings.Repeat(" ", n-len(aLine)) }
	for name, c := range map[string]struct {
		files []string
		want  string // v for a command, i for an invalid line
	}{
		"nothing":                       {nil, ""},
		"an empty file":                 {[]string{""}, ""},
		"one line":                      {[]string{aLine + "\n"}, "v"},
		"no line feed at the end":       {[]string{aLine}, "v"},
		"carriage returns":              {[]string{aLine + "\r\n\r\n" + aLine + "\r\n"}, "vv"},
		"blank lines":                   {[]string{"\n \n\t\n \t \r\n" + aLine + "\n\n  "}, "v"},
		"overlong blank lines":          {[]string{blanks + "\n" + blanks + "\r\n" + aLine + "\n" + blanks}, "v"},
		"nearly blank":                  {[]string{blanks + "x\n" + blanks + "\r\r\n" + blanks + "\r"}, "iii"},
		"a return at the buffer's end":  {[]string{strings.Repeat(" ", 65537) + "\r  \n", strings.Repeat(" ", 65537) + "\r\n", strings.Repeat(" ", 65537) + "\r"}, "ii"},
		"a lone carriage return":        {[]string{"\r\r\n\r"}, "ii"},
		"other spaces":                  {[]string{"\u00a0\n\v\n\f\n"}, "iii"},
		"the end of a file ends a line": {[]string{aLine, "", aLine + "\n", aLine}, "vvv"},
		"half a line in each file":      {[]string{aLine[:10], aLine[10:]}, "ii"},
		"as long as may be":             {[]string{pad(65536), pad(65536) + "\n", pad(65536) + "\r\n" + aLine}, "vvvv"},
		"too long":                      {[]string{pad(65537), pad(65537) + "\n", pad(65537) + "\r\n" + aLine}, "iiiv"},
		"far too long":                  {[]string{pad(200000), pad(500000) + "\n" + aLine + "\n", pad(65538) + "\r\n" + pad(65536) + "\r\n"}, "iiviv"},
		"a return that is content":      {[]string{pad(65536) + "\r", pad(65535) + "\r\r\n", pad(65536) + "\r\r\n"}, "ivi"},
	} {
		for style, wrap := range map[string]func(io.Reader) io.Reader{
			"":             func(r io.Reader) io.Reader { return r },
			", in pieces":  iotest.HalfReader,
			", end at end": iotest.DataErrReader,
		} {
			t.Run(name+style, func(t *testing.T) {
				in := inputOf()
				for _, f := range c.files {
					in.sources = append(in.sources, source{name: "a file", from: wrap(strings.NewReader(f))})
				}
				got := ""
				for i, l := range readAll(t, in) {
					require.EqualValues(t, i+1, l.number)
					if l.invalid != nil {
						require.Zero(t, l.parsed)
						got += "i"
					} else {
						require.Equal(t, "k", l.id)
						got += "v"
					}
				}
				require.Equal(t, c.want, got)
				require.EqualValues(t, len(strings.Join(c.files, "")), in.at)
			})
		}
	}
}

func TestLinesOfAGeneratedFile(t *testing.T) {
	lines := ledgertest.Generate(4, 3000)
	got := readAll(t, inputOf(strings.NewReader(string(ledgertest.Bytes(4, lines)))))
	for _, l := range lines {
		if l.Blank {
			continue
		}
		require.NotEmpty(t, got)
		require.Equal(t, l.Command == nil, got[0].invalid != nil, l)
		if l.Command != nil {
			require.Equal(t, *l.Command, flat(got[0].parsed))
		}
		got = got[1:]
	}
	require.Empty(t, got)
}

// However long a line is, it is not held.
func TestLongLinesTakeNoMemory(t *testing.T) {
	const size = 256 << 20
	in := inputOf(io.LimitReader(zeros{}, size), strings.NewReader("\n"+aLine))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := readAll(t, in)
	runtime.ReadMemStats(&after)
	require.Len(t, got, 2)
	require.ErrorIs(t, got[0].invalid, errTooLong)
	require.NoError(t, got[1].invalid)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestReadErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	in := inputOf(strings.NewReader(aLine+"\n"), io.MultiReader(strings.NewReader(aLine+"\n"+aLine), iotest.ErrReader(broken)))
	var numbers []int64
	var last error
	for l, err := range in.lines() {
		if last = err; err == nil {
			numbers = append(numbers, l.number)
		}
	}
	require.ErrorIs(t, last, broken)
	require.ErrorContains(t, last, "after line 2")
	require.Equal(t, []int64{1, 2}, numbers, "half a line is no line")
}

func TestOpenInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(aLine), 0o600))

	in, err := openInput([]string{file, "-", file}, strings.NewReader(aLine))
	require.NoError(t, err)
	require.Len(t, readAll(t, in), 3)
	require.Zero(t, in.total, "nobody knows how much comes from a pipe")
	require.NoError(t, in.close())

	in, err = openInput([]string{file, file}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2*len(aLine), in.total)
	require.NoError(t, in.close())

	_, err = openInput([]string{file, filepath.Join(dir, "missing")}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = openInput([]string{dir}, nil)
	require.ErrorContains(t, err, "is a directory")

	in, err = openInput(nil, nil)
	require.NoError(t, err)
	require.Greater(t, len(readAll(t, in)), 20, "the sample")
}
