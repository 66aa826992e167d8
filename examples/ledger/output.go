package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// output is a file that appears whole, or stays as it was. What is written goes
// into a spool beside it until [publish]. What is no regular file (a pipe, a
// terminal, /dev/stdout) gets it at the end.
type output struct {
	*bufio.Writer
	name     string
	path     string // of the file to replace, links followed; empty: none
	spool    *os.File
	named    string      // the spool's name, where it could not be taken away yet
	to       io.Writer   // what is no regular file
	close    io.Closer   // the same, if it is ours
	mode     fs.FileMode // of the file that is replaced; 0: a new one
	fresh    string      // the new file until it has its name
	replaced bool        // it has
	saved    string      // the old file until all is done
	info     os.FileInfo // of the file that is there already; nil: none
}

// newOutput notices early what would go wrong at the end. stdout is what the
// program prints to: a name may mean the same file.
func newOutput(name string, stdout io.Writer) (_ *output, err error) {
	o := &output{name: name}
	dir := ""
	o.info, err = os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if o.path, err = followLinks(name); err != nil {
			return nil, err
		}
		dir = filepath.Dir(o.path)
	case err != nil:
		return nil, err
	case o.info.IsDir():
		return nil, fmt.Errorf("%s is a directory: give a file name", name)
	case sameAs(o.info, stdout):
		o.to = stdout
	case !o.info.Mode().IsRegular():
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		o.to, o.close = file, file
	default:
		if o.path, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
		dir, o.mode = filepath.Dir(o.path), o.info.Mode().Perm()
	}
	if o.spool, err = os.CreateTemp(dir, ".ledger-*.tmp"); err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be written: %w", name, err), o.discard())
	}
	// Without a name it is gone with the process, however that ends. Windows
	// keeps it until discard.
	if os.Remove(o.spool.Name()) != nil {
		o.named = o.spool.Name()
	}
	o.Writer = bufio.NewWriterSize(o.spool, 64<<10)
	return o, nil
}

// followLinks finds where a file will be that is not there yet.
func followLinks(name string) (string, error) {
	for range 40 {
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			return "", err
		}
		name = filepath.Join(dir, filepath.Base(name))
		to, err := os.Readlink(name)
		if err != nil {
			return name, nil // no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		name = to
	}
	return "", fmt.Errorf("%s: too many links", name)
}

func sameAs(info os.FileInfo, w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	other, err := file.Stat()
	return err == nil && os.SameFile(info, other)
}

// is says whether o would replace the file of that name, or info.
func (o *output) is(name string, info os.FileInfo) bool {
	if o.path == "" {
		return false
	}
	if o.info != nil && info != nil {
		return os.SameFile(o.info, info)
	}
	path, err := followLinks(name)
	return err == nil && samePath(path, o.path)
}

func samePath(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

// publish gives all outputs their names, then calls last. If anything fails,
// the files are as they were.
func publish(outputs []*output, last func() error) (err error) {
	defer func() {
		for _, o := range outputs {
			if err != nil {
				err = errors.Join(err, o.restore())
			} else if o.saved != "" {
				_ = os.Remove(o.saved) // its new content is in place
			}
		}
	}()
	// What has gone down a pipe does not come back: it goes when all else that
	// may fail has been done.
	for _, step := range []func(*output) error{(*output).prepare, (*output).send, (*output).replace} {
		for _, o := range outputs {
			if err := step(o); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
	}
	return last()
}

// prepare makes the new file complete and durable under another name.
func (o *output) prepare() (err error) {
	if err := o.Flush(); err != nil {
		return err
	}
	if _, err := o.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if o.to != nil {
		return nil
	}
	o.fresh = o.beside("tmp")
	file, err := os.OpenFile(o.fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		o.fresh = ""
		return err
	}
	if o.mode != 0 {
		err = file.Chmod(o.mode)
	}
	if err == nil {
		_, err = io.Copy(file, o.spool)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func (o *output) beside(what string) string {
	return filepath.Join(filepath.Dir(o.path), fmt.Sprintf(".ledger-%016x.%s", rand.Uint64(), what))
}

// send is for what is no regular file.
func (o *output) send() (err error) {
	if o.to != nil {
		_, err = io.Copy(o.to, o.spool)
	}
	return err
}

// replace keeps the old file under another name, so that it can come back.
func (o *output) replace() error {
	if o.to != nil {
		return nil
	}
	// Where a file system has no links, the old file cannot come back.
	if saved := o.beside("old"); os.Link(o.path, saved) == nil {
		o.saved = saved
	}
	if err := os.Rename(o.fresh, o.path); err != nil {
		return err
	}
	o.fresh, o.replaced = "", true
	return syncDir(filepath.Dir(o.path))
}

func (o *output) restore() error {
	switch {
	case o.saved != "" && o.replaced:
		return os.Rename(o.saved, o.path)
	case o.saved != "":
		return os.Remove(o.saved)
	case o.replaced && o.info == nil:
		return os.Remove(o.path)
	}
	return nil
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, syscall.EINVAL) {
		err = nil // it cannot be asked for there
	}
	return errors.Join(err, dir.Close())
}

// discard removes what is left beside the file. It may be called more than once.
func (o *output) discard() (err error) {
	if o.fresh != "" {
		err = os.Remove(o.fresh)
		o.fresh = ""
	}
	if o.spool != nil {
		err = errors.Join(err, o.spool.Close())
		o.spool = nil
	}
	if o.named != "" {
		err = errors.Join(err, os.Remove(o.named))
		o.named = ""
	}
	if o.close != nil {
		err = errors.Join(err, o.close.Close())
		o.close = nil
	}
	return err
}
