package effecttarget_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
)

const (
	killDir   = "EFFECTTARGET_TEST_DIR"
	killPoint = "EFFECTTARGET_TEST_POINT"
	killed    = 5 // events
)

// A process sends its mails into a file and is killed around the third one;
// another one goes on. Both are this test.
func TestKilledProcess(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir != "" {
		mailAll(t, dir, os.Getenv(killPoint))
		return
	}
	for point, repeated := range map[string]int{"before the effect": 0, "before the mark": 1, "after the mark": 0} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, p := range []string{point, ""} {
				child := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$", "-test.timeout=60s")
				child.Env = append(os.Environ(), killDir+"="+dir, killPoint+"="+p)
				out, err := child.CombinedOutput()
				require.Equal(t, p != "", err != nil, "%v: %s", err, out)
			}
			text, err := os.ReadFile(filepath.Join(dir, "sent"))
			require.NoError(t, err)
			want := "0\n1\n2\n" + strings.Repeat("2\n", repeated) + "3\n4\n"
			require.Equal(t, want, string(text))
		})
	}
}

func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func mailAll(t *testing.T, dir, point string) {
	sent, err := os.OpenFile(filepath.Join(dir, "sent"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer sent.Close()
	store, last := sameOrders(t, killed)
	marked := false
	keeper := &hooked{Keeper: effecttarget.File(dir), after: func([]byte) error {
		if marked && point == "after the mark" {
			die()
		}
		return nil
	}}
	target := effecttarget.New(keeper, short)
	p := projector.New(store, target, config(), func(_ context.Context, _ tx, d projector.Delivery) error {
		n := d.Event.(Ordered).N
		third := n == 2 && point != ""
		if third && point == "before the effect" {
			die()
		}
		if _, err := fmt.Fprintln(sent, n); err != nil {
			return err
		}
		if third && point == "before the mark" {
			die()
		}
		marked = third
		return nil
	})
	end := run(t, p)
	require.NoError(t, p.WaitFor(within(t, time.Minute), last))
	end()
	require.NoError(t, target.Close())
}
