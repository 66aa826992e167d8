package projector_test

import (
	"testing"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The log was exchanged or cut under a model that was kept.
func TestRuleCheckpointIsComparedWithTheLogAtTheStart(t *testing.T) {
	first := numbers(t, "a", 4)
	exchanged := append(numbers(t, "b", 3), numbers(t, "a", 4)...)
	for name, other := range map[string][]event.Record{
		"another log": exchanged, "a shorter one": first[:3], "an empty one": nil,
		"one event exchanged": {first[0], first[1], first[2], exchanged[0]},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				log, m := newFakeLog(first...), memtarget.New[string]()
				p := projector.New(log, m, config(), add)
				require.NoError(t, p.Check(t.Context()), "nothing to compare yet")
				run := start(t, p)
				require.NoError(t, p.WaitFor(short(t), log.all()[3].Position))
				run.stop(t)
				require.NoError(t, p.Check(t.Context()))
				before := stateOf(t, m)

				p = projector.New(newFakeLog(other...), m, config(), add)
				require.ErrorIs(t, p.Check(t.Context()), projector.ErrForeignLog)
				err := p.Run(t.Context())
				require.ErrorIs(t, err, projector.ErrForeignLog)
				var foreign *projector.ForeignLogError
				require.ErrorAs(t, err, &foreign)
				require.Equal(t, before.Checkpoint, foreign.Checkpoint)
				t.Log(err)

				after := stateOf(t, m)
				require.Equal(t, before.Checkpoint, after.Checkpoint)
				require.False(t, after.Held, "the name is given back")
				require.Equal(t, list(4), values(m)["a"])

				p = projector.New(log, m, config(), add) // the right log still does
				run = start(t, p)
				require.NoError(t, p.WaitFor(short(t), log.add(record(t, Added{"a", 5}))))
				run.stop(t)
			})
		})
	}
}

// A log that tells its identity is compared by it, even where the event at the
// checkpoint is the same: a copy of the log goes its own way.
func TestLogIdentityIsCompared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		records := numbers(t, "a", 2)
		mine, other, m := newFakeLog(records...), newFakeLog(records...), memtarget.New[string]()
		mine.features.Log, other.features.Log = uuid.New(), uuid.New()
		p := projector.New(mine, m, config(), add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), mine.all()[1].Position))
		run.stop(t)

		p = projector.New(other, m, config(), add)
		require.ErrorIs(t, p.Check(t.Context()), projector.ErrForeignLog)
		require.ErrorIs(t, p.Run(t.Context()), projector.ErrForeignLog)
		require.ErrorIs(t, p.WaitFor(t.Context(), other.all()[1].Position), projector.ErrForeignLog, "what is applied is not of this log")
	})
}

// A log that is cut while the projector runs is noticed, too.
func TestLogThatIsCutUnderARunningProjector(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 4)...), memtarget.New[string]()
		p := projector.New(log, m, config(), add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[3].Position))
		log.mu.Lock()
		log.records = log.records[:2]
		log.mu.Unlock()
		require.ErrorIs(t, <-run.ended, projector.ErrForeignLog)
	})
}
