package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}))
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// program builds the ledger as a user has it: without the race detector, which
// makes a commit ten times slower. Once for all tests.
func program(t testing.TB) string {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "ledger-test-"); built.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", built.dir, ".").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	name := filepath.Join(built.dir, "ledger")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}
