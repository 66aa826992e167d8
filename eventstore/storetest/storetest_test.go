package storetest

import (
	"testing"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memory(string) (eventstore.Store, error) { return memstore.New(), nil }

func TestMemstore(t *testing.T) { Run(t, Features{}, memory) }
