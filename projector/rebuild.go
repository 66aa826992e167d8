package projector

import "github.com/cccgo/ccc/event"

type replay[Tx any] struct{}

func (w *worker[Tx]) copyParked(b Batch[Tx], r event.Record) (bool, error) { return false, nil }
