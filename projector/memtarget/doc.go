// Package memtarget keeps a read model in the memory of the process: for tests,
// for simulations in virtual time, and for small models that are built anew at
// each start.
//
// The model is a map from strings to values of a type of yours:
//
//	model := memtarget.New[int]()
//	seats := projector.New(store, model, projector.Config{Name: "seats", Events: events},
//		func(_ context.Context, tx *memtarget.Tx[int], d projector.Delivery) error {
//			if e, ok := d.Event.(SeatTaken); ok {
//				taken, _ := tx.Get(e.Course)
//				tx.Put(e.Course, taken+1)
//			}
//			return nil
//		})
//
// Readers use [Target.Get], [Target.Len] and [Target.All]; what they see is
// always a state between two batches.
//
// It promises what a transactional target does: what a batch wrote, its marks
// and its checkpoint appear in one step or not at all, so each event changes
// the model once. Nothing outlives the process, and the checkpoint is gone
// together with the model. Batches of one Target run one after the other; one
// that belongs to a worker whose name was taken over ends right then, so a
// frozen worker holds nobody up for longer than its lease. Lanes
// (projector.Config.Lanes) run side by side, and beside batches: a transaction
// that has read what another one changed is run again.
//
// A [Generation] beside the live model is for projector.Rebuild: also in memory,
// so it has to be built and switched to in one life of the process.
//
// Several projectors of one name on one Target are replicas. A process that
// stands still cannot be had inside one process: [Target.Freeze] plays it.
package memtarget
