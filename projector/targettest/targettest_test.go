package targettest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/targettest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type target = projector.Target[*flawedTx]

func subject(flaw string) targettest.Subject[*flawedTx] {
	made := map[string]*flawed{}
	return targettest.Subject[*flawedTx]{
		Open: func(name string) (target, error) {
			if made[name] == nil || made[name].closed && flaw == "forgets all when closed" {
				made[name] = newFlawed(flaw)
			}
			f := made[name]
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.closed {
				f.reopened()
			}
			f.closed = false
			return f, nil
		},
		Close: func(t target) error {
			f := t.(*flawed)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.closed = true
			return nil
		},
		Put: func(x *flawedTx, key, value string) error { return x.put(key, value) },
		Get: func(x *flawedTx, key string) (string, bool, error) { return x.get(key) },
		Read: func(t target, key string) (string, bool, error) {
			f, ok := t.(*flawed)
			if !ok {
				f = t.(*generation).flawed
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			v, ok := f.space().values[key]
			return v, ok, nil
		},
		Freeze: func(t target, n projector.Name) {
			f := t.(*flawed)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.row(n).frozen = time.Now()
		},
	}
}

var features = targettest.Features{Durable: true}

// The plain target passes, in a run of the suite and in a check.
func TestPlainTargetPasses(t *testing.T) {
	virtual := features
	virtual.Virtual = true
	targettest.Run(t, virtual, subject("none"))
	synctest.Test(t, func(t *testing.T) { require.NoError(t, targettest.Check(features, subject("none"))) })
}

// Each wrong target fails, with a message that says what is wrong.
func TestWrongTargetsFail(t *testing.T) {
	for flaw, says := range flaws {
		t.Run(flaw, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := targettest.Check(features, subject(flaw))
				require.Error(t, err, "the suite does not notice")
				require.ErrorContains(t, err, says)
			})
		})
	}
}

// What a target cannot do is skipped, not failed.
func TestFeaturesLeaveOut(t *testing.T) {
	least := func() targettest.Subject[*flawedTx] {
		s := subject("none")
		open, read := s.Open, s.Read
		s.Open = func(name string) (target, error) {
			t, err := open(name)
			return plain{t}, err
		}
		s.Read = func(t target, key string) (string, bool, error) { return read(t.(plain).Target, key) }
		s.Close, s.Freeze = nil, nil
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, targettest.Check(targettest.Features{WriterBlocks: true}, least()))
	})
	targettest.Run(t, targettest.Features{WriterBlocks: true, Virtual: true}, least())
}

// plain has neither lanes nor generations.
type plain struct{ projector.Target[*flawedTx] }

// A target without transactions, which says so, may keep effects and marks of
// what failed.
func TestTargetWithoutTransactionsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, targettest.Check(features, subject("none, but the effect comes first")))
	})
}

func TestOpenThatFails(t *testing.T) {
	s := subject("none")
	broken := errors.New("no such disk")
	s.Open = func(string) (target, error) { return nil, broken }
	require.ErrorIs(t, targettest.Check(features, s), broken)
}
