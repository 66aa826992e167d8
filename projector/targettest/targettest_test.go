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
				for _, r := range f.names {
					r.Held = false // the target sees that the owner is gone
				}
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
			f := t.(*flawed)
			f.mu.Lock()
			defer f.mu.Unlock()
			v, ok := f.values[key]
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

var features = targettest.Features{Durable: true, WriterBlocks: true}

// The plain target passes, in a run of the suite and in a check.
func TestPlainTargetPasses(t *testing.T) {
	virtual := features
	virtual.Virtual = true
	targettest.Run(t, virtual, subject("none"))
	synctest.Test(t, func(t *testing.T) { require.NoError(t, targettest.Check(features, subject("none"))) })
}

// Each wrong target fails, with a message that says what is wrong.
func TestWrongTargetsFail(t *testing.T) {
	for flaw, says := range map[string]string{
		"two owners":                         "claim of a held name",
		"own error for a held name":          "another worker holds the name",
		"epochs do not grow":                 "it must grow with each claim",
		"a claim begins anew":                "took over",
		"a claim forgets the failure":        "a release and a claim the failure is",
		"release does nothing":               "the state after a release",
		"an old claim releases the new one":  "after the release of an old claim",
		"a released claim works":             "a released claim",
		"a lease never ends":                 "after its owner froze",
		"epoch is not checked":               "apply of an older epoch",
		"anybody stores a failure":           "fail of an older epoch",
		"checkpoint is not compared":         "with the checkpoint at",
		"only positions are compared":        "with the checkpoint at",
		"checkpoint first":                   "while a batch runs: the checkpoint is",
		"moves back":                         "moved the checkpoint back",
		"commits what failed":                "after work failed",
		"commits what panicked":              "after work panicked",
		"hides the handler's error":          "the handler said no",
		"writes at once":                     "while a batch runs",
		"a writer blocks readers":            "state: context deadline exceeded",
		"does not see its own writes":        "the transaction sees",
		"does not see its own marks":         "not seen in the batch that marked it",
		"forgets marks":                      "for the event_id that was marked",
		"marks alone do not count":           "left the checkpoint where it was",
		"one list of marks":                  "is seen under",
		"boundaries run together":            "never used",
		"names run together":                 "never used",
		"transactions run side by side":      "each adding 1",
		"forgets the event_id":               "the checkpoint is",
		"forgets the log":                    "the checkpoint is",
		"cuts the reason":                    "the failure comes back as",
		"whole seconds":                      "the failure comes back as",
		"keeps the failure":                  "which is still there",
		"any checkpoint removes the failure": "a checkpoint before the failure changed it",
		"deaf":                               "it must return at once",
		"edge-triggered":                     "it must return at once",
		"ignores contexts":                   "context canceled",
		"works when closed":                  "target is closed",
		"forgets all when closed":            "after the target was opened again",
	} {
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
	s := subject("none")
	s.Close, s.Freeze = nil, nil
	synctest.Test(t, func(t *testing.T) { require.NoError(t, targettest.Check(targettest.Features{}, s)) })
}

func TestOpenThatFails(t *testing.T) {
	s := subject("none")
	broken := errors.New("no such disk")
	s.Open = func(string) (target, error) { return nil, broken }
	require.ErrorIs(t, targettest.Check(features, s), broken)
}
