package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
)

//go:embed sample.jsonl
var sample string

// line is one line of the input that counts: blank ones do not.
type line struct {
	parsed
	number  int64 // from 1, over all files
	invalid error // why it is no command; parsed is zero then
	size    int   // bytes
	end     int64 // where it ends in the whole input
}

// input is what the commands are read from: several files as one.
type input struct {
	sources []source
	total   int64 // bytes; 0: not known
	at      int64 // bytes read
	number  int64
	parser  parser
}

type source struct {
	name string
	from io.Reader
	file *os.File // nil: not ours to close
}

// openInput opens all of them, so that a mistyped name shows before anything
// was done. No names: the bundled sample.
func openInput(names []string, stdin io.Reader) (_ *input, err error) {
	in := &input{}
	if len(names) == 0 {
		in.total = int64(len(sample))
		in.sources = []source{{name: "the bundled sample", from: strings.NewReader(sample)}}
	}
	known := true
	for _, name := range names {
		if name == "-" {
			in.sources = append(in.sources, source{name: "standard input", from: stdin})
			known = false
			continue
		}
		file, err := os.Open(name)
		if err != nil && strings.HasPrefix(name, "-") {
			err = fmt.Errorf("%w (flags come before files)", err)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("input: %w", err), in.close())
		}
		in.sources = append(in.sources, source{name, file, file})
		info, err := file.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory: give the files in it", name)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("input: %w", err), in.close())
		}
		known = known && info.Mode().IsRegular()
		in.total += info.Size()
	}
	if !known {
		in.total = 0
	}
	return in, nil
}

func (in *input) close() (err error) {
	for _, s := range in.sources {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	return err
}

// files are the open files, to tell them from those that are written.
func (in *input) files() (files []*os.File) {
	for _, s := range in.sources {
		if s.file != nil {
			files = append(files, s.file)
		}
	}
	return files
}

// lines walks over the lines that count. An error of reading is the last pair.
func (in *input) lines() iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		// One byte more than a line with its line ending may have: a full buffer
		// is too long for certain.
		buffer := bufio.NewReaderSize(nil, maxLine+len("\r\n"))
		for _, s := range in.sources {
			buffer.Reset(s.from)
			for {
				text, size, err := readLine(buffer)
				in.at += int64(size)
				if err != nil && err != io.EOF {
					yield(line{}, fmt.Errorf("read %s, after line %d: %w", s.name, in.number, err))
					return
				}
				if !text.blank && !yield(in.line(text, size), nil) {
					return
				}
				if err != nil {
					break
				}
			}
		}
	}
}

func (in *input) line(text content, size int) line {
	in.number++
	l := line{number: in.number, size: min(size, maxLine), end: in.at}
	if text.tooLong {
		l.invalid = errTooLong
	} else {
		l.parsed, l.invalid = in.parser.parse(text.bytes)
	}
	return l
}

// content is a line without its line ending.
type content struct {
	bytes   []byte // until the next read; not where it is too long
	tooLong bool   // and not held; what is held may be too long by a byte
	blank   bool
}

// readLine reads up to the next line feed, or to the end of the file: then the
// error is io.EOF, and the text is blank where nothing was left. However long
// the line is, no more than the buffer is held.
func readLine(from *bufio.Reader) (t content, size int, err error) {
	chunk, err := from.ReadSlice('\n')
	size = len(chunk)
	if err != bufio.ErrBufferFull {
		t.bytes = withoutEnding(chunk)
		t.blank = isBlank(t.bytes)
		return t, size, err
	}
	t.tooLong, t.blank = true, true
	for {
		// A carriage return may be the first half of the line ending.
		rest, open := bytes.CutSuffix(chunk, []byte{'\r'})
		if err != bufio.ErrBufferFull {
			rest, open = withoutEnding(chunk), false
		}
		t.blank = t.blank && isBlank(rest)
		if err != bufio.ErrBufferFull {
			return t, size, err
		}
		chunk, err = from.ReadSlice('\n')
		size += len(chunk)
		if open && !bytes.Equal(chunk, []byte{'\n'}) {
			t.blank = false
		}
	}
}

func withoutEnding(line []byte) []byte {
	if rest, ok := bytes.CutSuffix(line, []byte("\r\n")); ok {
		return rest
	}
	rest, _ := bytes.CutSuffix(line, []byte{'\n'})
	return rest
}

func isBlank(line []byte) bool { return len(bytes.Trim(line, " \t")) == 0 }
