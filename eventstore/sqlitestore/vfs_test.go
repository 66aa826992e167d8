package sqlitestore

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// The tests run SQLite over a layer of their own, between it and the file
// system, that counts syncs, slows them down and makes writes and syncs fail.
// It is the default of the test process, so every connection goes through it.

// disk is that layer.
var disk struct {
	walSyncs atomic.Int64
	slow     atomic.Int64 // nanoseconds that each sync of a write-ahead log takes longer
	trouble  atomic.Pointer[func(diskCall) int32]

	names   sync.Map // sqlite3_file* -> string
	mu      sync.Mutex
	tables  map[uintptr]uintptr // io_methods of the system -> ours
	below   sync.Map            // ours -> of the system
	vfs     uintptr             // of the system
	openSys uintptr
}

// diskCall is one call to the file system. What is done to it is decided by a
// test: 0 lets it through, other numbers are SQLite's codes, instead of it.
type diskCall struct {
	op   string // "open", "write" or "sync"
	name string // of the file
	at   int64  // of a write: its first byte
	size int    // of a write: its bytes
}

func (c diskCall) onWAL() bool { return strings.HasSuffix(c.name, "-wal") }

const (
	// readOnlyOpen, to an "open", opens the file for reading only.
	readOnlyOpen = -1
	// shortWrite, to a "write", writes the first half and calls the disk full.
	shortWrite = -2
)

// onDisk sets what happens to calls, for the rest of a test.
func onDisk(t testing.TB, f func(diskCall) int32) {
	if f == nil {
		disk.trouble.Store(nil)
		return
	}
	disk.trouble.Store(&f)
	t.Cleanup(func() { disk.trouble.Store(nil) })
}

func ask(c diskCall) int32 {
	if f := disk.trouble.Load(); f != nil {
		return (*f)(c)
	}
	return 0
}

// at gives C's memory a type.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointer makes what C code calls out of a Go function.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

// function makes a Go function out of what C code calls.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{p})) }

type (
	openFn  = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	closeFn = func(tls *libc.TLS, file uintptr) int32
	writeFn = func(tls *libc.TLS, file, data uintptr, size int32, at int64) int32
	syncFn  = func(tls *libc.TLS, file uintptr, flags int32) int32
)

func installDisk() {
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_initialize(tls)
	disk.tables = map[uintptr]uintptr{}
	disk.vfs = lib.Xsqlite3_vfs_find(tls, 0)
	system := at[lib.Tsqlite3_vfs](disk.vfs)
	disk.openSys = system.FxOpen

	ours := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(*system)))
	vfs := at[lib.Tsqlite3_vfs](ours)
	*vfs = *system
	name, err := libc.CString("test")
	if err != nil {
		panic(err)
	}
	vfs.FpNext, vfs.FzName, vfs.FxOpen = 0, name, pointer(diskOpen)
	if rc := lib.Xsqlite3_vfs_register(tls, ours, 1); rc != 0 {
		panic(rc)
	}
}

func diskOpen(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	text := libc.GoString(name)
	switch rc := ask(diskCall{op: "open", name: text}); {
	case rc == readOnlyOpen:
		flags = flags&^(lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE) | lib.SQLITE_OPEN_READONLY
	case rc != 0:
		return rc
	}
	rc := function[openFn](disk.openSys)(tls, disk.vfs, name, file, flags, out)
	f := at[lib.Tsqlite3_file](file)
	if rc == 0 && f.FpMethods != 0 {
		disk.names.Store(file, text)
		f.FpMethods = methods(tls, f.FpMethods)
	}
	return rc
}

// methods returns a table of calls that go through ours.
func methods(tls *libc.TLS, system uintptr) uintptr {
	disk.mu.Lock()
	defer disk.mu.Unlock()
	if have := disk.tables[system]; have != 0 {
		return have
	}
	ours := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	table := at[lib.Tsqlite3_io_methods](ours)
	*table = *at[lib.Tsqlite3_io_methods](system)
	table.FxClose, table.FxWrite, table.FxSync = pointer(diskClose), pointer(diskWrite), pointer(diskSync)
	disk.tables[system] = ours
	disk.below.Store(ours, system)
	return ours
}

func below(file uintptr) (*lib.Tsqlite3_io_methods, string) {
	system, _ := disk.below.Load(at[lib.Tsqlite3_file](file).FpMethods)
	name, _ := disk.names.Load(file)
	return at[lib.Tsqlite3_io_methods](system.(uintptr)), name.(string)
}

func diskClose(tls *libc.TLS, file uintptr) int32 {
	system, _ := below(file)
	disk.names.Delete(file)
	return function[closeFn](system.FxClose)(tls, file)
}

func diskWrite(tls *libc.TLS, file, data uintptr, size int32, at int64) int32 {
	system, name := below(file)
	write := function[writeFn](system.FxWrite)
	rc := ask(diskCall{op: "write", name: name, at: at, size: int(size)})
	if rc == shortWrite {
		if rc = write(tls, file, data, size/2, at); rc == 0 {
			rc = lib.SQLITE_FULL
		}
		return rc
	}
	if rc != 0 {
		return rc
	}
	return write(tls, file, data, size, at)
}

func diskSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	system, name := below(file)
	call := diskCall{op: "sync", name: name}
	if call.onWAL() {
		disk.walSyncs.Add(1)
		if d := disk.slow.Load(); d > 0 {
			time.Sleep(time.Duration(d))
		}
	}
	if rc := ask(call); rc != 0 {
		return rc
	}
	return function[syncFn](system.FxSync)(tls, file, flags)
}
