package effecttarget_test

import (
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ projector.LaneTarget[*effecttarget.Tx]            = (*effecttarget.Target)(nil)
	_ projector.LaneTarget[*effecttarget.UpsertTx[int]] = (*effecttarget.Upserts[int])(nil)

	name = projector.Name{Projector: "mails", Boundary: "default"}
)

type pos = consistency.Position
