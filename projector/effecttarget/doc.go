// Package effecttarget is for effects outside of any database of ours: mails,
// calls, files, a search index. There is no transaction that holds such an effect
// and a projector's checkpoint, so each kind of target says what it promises
// instead.
//
// # Effects that cannot be taken back
//
// A handler of a [Target] sends the mail, or makes the call:
//
//	mails := effecttarget.New(effecttarget.File("/var/lib/shop/mails"), effecttarget.Config{})
//	receipts := projector.New(store, mails, projector.Config{Name: "receipts", Events: events},
//		func(ctx context.Context, tx *effecttarget.Tx, d projector.Delivery) error {
//			if e, ok := d.Event.(OrderPaid); ok && !d.Replay {
//				return post.Send(ctx, tx.Key(d), e.Customer, "Thank you")
//			}
//			return nil
//		})
//
// It promises at least once. After each handler the event is marked, and the
// mark is durable before the next handler begins. So nothing is lost, and an
// effect comes again in these cases only:
//
//   - The process dies after the effect and before its mark is durable: a few
//     milliseconds with [File]. It is that one event; with [projector.Config.Lanes]
//     one for each lane; with a parked event that is tried again, that one.
//   - The process stands still between the two for longer than its lease, and
//     another one takes over. What it does next is refused, and it asks before
//     the next event whether its lease still runs.
//   - The handler fails after its effect, or halfway through several: it is run
//     again as a whole.
//   - The log holds an event_id twice, with more than 1,000 events of the
//     projector between them.
//
// While the keeper is out of order, nothing is repeated: what could not be kept
// is kept in mind, as long as the process lives and nobody takes over.
//
// Where the other system takes an idempotency key, [Tx.Key] closes the window.
//
// # Values that are set as a whole
//
// A handler of [Upserts] says which values an event sets, and which it removes;
// a [Store] of yours writes them. Each carries the position of its event and only
// moves forward. So a repetition changes nothing, a worker that wakes up too late
// leaves no older value behind, and the store converges to what the log says,
// whatever crashes. Do not add to what is there: that would be done twice.
//
// # Bookkeeping
//
// The checkpoint, the marks, the lease and the parked events of a name are one
// document of a [Keeper]: a file ([File]), or a row in a table of yours. Every
// change of it compares its version, and so holds the epoch; a worker that was
// taken over changes nothing. Changes that come together, as those of lanes do,
// are one save.
//
// The document is saved as a whole with each event, so it has to stay small. At
// most 1,000 parked events wait: at the next one the projector stands still,
// with [ErrParkFull] in its log, until some are settled. The last 1,000 settled
// ones are kept. With large events, or where many are parked as a matter of
// course, keep the parked ones few.
//
// # Several processes
//
// Any number of processes may share a Keeper; each name has one worker at a
// time. A standby takes over at once after a clean stop, and when the lease of
// [Config] has run out after a death or while the worker stands still: no keeper
// sees that a process is gone.
package effecttarget
