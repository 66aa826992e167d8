package event

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Fingerprint tells a command's payload apart from every other: the same name
// and fields give the same text (43 letters, digits, '-' and '_'), on every
// machine and in every version of the program. It is stored with the command's
// events, so that the same ID with another payload is noticed.
//
// It covers the name and every exported field, by name (the JSON tag's where it
// has one, else the Go name; a field tagged json:"-" counts under its Go name),
// also in nested structs. Zero values are left out, empty slices and maps too,
// so a field that is added later changes nothing for older commands. A pointer
// that is not nil counts, even to zero. Numbers keep all their digits; integer
// types of different size are alike. What an interface holds counts with the
// name of its Go type. Types with MarshalJSON or MarshalText, such as time.Time,
// count as their encoded form, JSON by value: spaces and the order of keys do
// not matter.
//
// A field tagged ccc:"-" is left out: one that may differ between repeats, such
// as a time. volatile says that the payload's type has such a field, at any
// depth: what is decided on it is not the same on each try.
//
// Errors wrap [ErrFingerprint] and name the field: what nobody could see differ
// (fields that are not exported), what has no value to compare (functions,
// channels, complex numbers, NaN), and what does not end (cycles).
func Fingerprint(name string, command any) (fingerprint string, volatile bool, err error) {
	w := writers.Get().(*writer)
	defer w.release()
	if err := w.command(name, command); err != nil {
		return "", false, fmt.Errorf("event: %w: %q: %w", ErrFingerprint, name, err)
	}
	sum := sha256.Sum256(w.out)
	var out [43]byte
	base64.RawURLEncoding.Encode(out[:], sum[:])
	return string(out[:]), w.volatile, nil
}

func (w *writer) command(name string, command any) (err error) {
	defer recovered(&err) // in a method of the payload
	v := reflect.ValueOf(command)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return errors.New("the command is nil")
	}
	p := planOf(v.Type())
	if p.err != nil {
		return p.err
	}
	w.text(name)
	w.volatile = p.volatile
	_, err = p.write(w, v)
	return err
}

// writer collects the canonical form of a payload. Each value begins with a
// letter for its kind, and says how long it is or where it ends, so that no two
// payloads have the same form.
type writer struct {
	out      []byte
	depth    int
	volatile bool
}

var writers = sync.Pool{New: func() any { return &writer{out: make([]byte, 0, 512)} }}

const (
	maxKept  = 64 << 10 // of a writer's buffer, between uses
	maxDepth = 10_000
	maxForm  = 64 << 20
)

func (w *writer) release() {
	if cap(w.out) <= maxKept {
		w.out, w.depth, w.volatile = w.out[:0], 0, false
		writers.Put(w)
	}
}

var (
	errDepth = fmt.Errorf("nested deeper than %d, or holds itself", maxDepth)
	errSize  = fmt.Errorf("the command has more than %d bytes: put a reference into it", maxForm)
	errNaN   = errors.New("NaN equals nothing, not even itself")
)

func (w *writer) enter() error {
	if w.depth++; w.depth > maxDepth {
		return errDepth
	}
	if len(w.out) > maxForm { // shared parts can blow up a small value
		return errSize
	}
	return nil
}

func (w *writer) leave() { w.depth-- }

// text is a length and that many bytes.
func (w *writer) text(s string) {
	w.out = binary.AppendUvarint(w.out, uint64(len(s)))
	w.out = append(w.out, s...)
}

func (w *writer) string(s string) {
	w.out = append(w.out, 's')
	w.text(s)
}

// number is a JSON number, as its text.
func (w *writer) number(s string) {
	w.out = append(w.out, 'n')
	w.text(s)
}

func (w *writer) bool(b bool) {
	if b {
		w.out = append(w.out, 't')
	} else {
		w.out = append(w.out, 'f')
	}
}

// pathError says where in a payload err is. The way to it can be long: it is
// kept as its steps, innermost first.
type pathError struct {
	steps []string
	err   error
}

func within(step string, err error) error {
	p, ok := err.(*pathError)
	if !ok {
		p = &pathError{err: err}
	}
	p.steps = append(p.steps, step)
	return p
}

func (p *pathError) Error() string {
	const most = 12
	var b strings.Builder
	for i, step := range slices.Backward(p.steps) {
		if len(p.steps)-i > most {
			b.WriteString("…")
			break
		}
		b.WriteString(step)
	}
	return fmt.Sprintf("%s: %v", strings.TrimPrefix(b.String(), "."), p.err)
}

func (p *pathError) Unwrap() error { return p.err }
