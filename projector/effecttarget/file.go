package effecttarget

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cccgo/ccc/projector"
)

// File is a [Keeper] with a file for each name in a directory, which is made
// where it is missing. Any number of processes on one machine may share it; its
// clock is the machine's. A document is written beside the old one, synced, and
// put in its place; a lock of the operating system on a file next to it makes
// the comparison and the exchange one step. The lock is held for that moment
// only, and ends with the process.
//
// The files may be copied and, while no process uses them, deleted or put back;
// so the effects after that point are done again. A network file system is as
// good for this as its locks and renames are.
func File(dir string) Keeper { return &file{dir} }

type file struct{ dir string }

// lockRetry is the time between two tries for a lock that somebody holds for
// some microseconds.
const lockRetry = 200 * time.Microsecond

// path is a readable file name that no other name shares, also where case does
// not count.
func (f *file) path(name projector.Name) string {
	plain := func(s string) string {
		s = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToLower(s))
		return s[:min(len(s), 40)]
	}
	sum := sha256.Sum256([]byte(strconv.Quote(name.Projector) + strconv.Quote(name.Boundary)))
	return filepath.Join(f.dir, plain(name.Projector)+"-"+plain(name.Boundary)+"-"+hex.EncodeToString(sum[:10])+".json")
}

// Load implements [Keeper]. It needs no lock: a file is exchanged in one step.
func (f *file) Load(ctx context.Context, name projector.Name) ([]byte, int64, time.Time, error) {
	if ctx.Err() != nil {
		return nil, 0, time.Time{}, context.Cause(ctx)
	}
	path := f.path(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, time.Now(), nil
	}
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	version, doc, err := cutVersion(path, data)
	return doc, version, time.Now(), err
}

// cutVersion reads the version, which is the file's first line.
func cutVersion(path string, data []byte) (version int64, doc []byte, err error) {
	line, doc, found := bytes.Cut(data, []byte("\n"))
	if version, err = strconv.ParseInt(string(line), 10, 64); err != nil || !found || version < 1 {
		return 0, nil, fmt.Errorf("%w: %s does not begin with its version: put back a copy, or delete it to begin with the first event again", ErrCorrupt, path)
	}
	return version, doc, nil
}

// Save implements [Keeper].
func (f *file) Save(ctx context.Context, name projector.Name, doc []byte, version int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path := f.path(name)
	if err := f.make(); err != nil {
		return err
	}
	written, err := f.write(path, doc, version+1)
	if err != nil {
		return err
	}
	err = f.exchange(ctx, path, written, version)
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(written)))
	}
	return syncDir(f.dir)
}

// make makes the directory. Its own entry in the one above is synced too: what
// is written into it must not be lost with it.
func (f *file) make() error {
	if _, err := os.Stat(f.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(f.dir)))
}

// write makes the document durable under a name of its own.
func (f *file) write(path string, doc []byte, version int64) (written string, err error) {
	tmp, err := os.CreateTemp(f.dir, filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(append(strconv.AppendInt(nil, version, 10), '\n'))
	if err == nil {
		_, err = tmp.Write(doc)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return "", errors.Join(err, ignoreMissing(os.Remove(tmp.Name())))
	}
	return tmp.Name(), nil
}

// exchange puts it in the place of the version that it was made from.
func (f *file) exchange(ctx context.Context, path, written string, version int64) (err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	for {
		locked, err := tryLock(lock)
		if err != nil {
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		if locked {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w", lock.Name(), context.Cause(ctx))
		case <-time.After(lockRetry):
		}
	}
	is, err := versionOf(path)
	if err != nil {
		return err
	}
	if is != version {
		return ErrChanged
	}
	if version%sweepEvery == 0 {
		sweep(path)
	}
	return os.Rename(written, path)
}

func versionOf(path string) (version int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var begin [24]byte
	n, err := io.ReadFull(file, begin[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return 0, err
	}
	version, _, err = cutVersion(path, begin[:n])
	return version, err
}

// ignoreMissing drops the error of a removal of what is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
