package effecttarget

import (
	"context"

	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// Target is for effects that cannot be taken back nor told from a repetition, as
// a mail or a call. Make it with [New]. Its methods may be called by any number
// of goroutines.
//
// It promises at least once, and no more: see the package's documentation.
type Target struct{ *core[*Tx] }

// New makes a Target. Close it after its projectors have ended.
func New(k Keeper, c Config) *Target {
	t := newCore[*Tx](k, c)
	t.durable = true
	t.begin = func(_ context.Context, claim projector.Claim) *Tx { return &Tx{claim.Name} }
	return &Target{t}
}

// Promise implements [projector.Target].
func (*Target) Promise() projector.Promise { return projector.AtLeastOnce }

// Tx is what a handler of a [Target] gets. Nothing that it does waits for the
// end of the batch.
type Tx struct{ name projector.Name }

// keySpace is where idempotency keys come from. It is a storage format: of the
// other system.
var keySpace = uuid.MustParse("6f0b7a53-7d0c-5a0e-9f5c-7a54c1f0d2be")

// Key is an idempotency key of 36 letters, digits and hyphens for the other
// system: always the same for an event and a projector's name, and for no other.
// Where that system does nothing a second time for a key that it has seen, the
// effect is there once. An event with several effects names each of them.
func (x *Tx) Key(d projector.Delivery, effect ...string) string {
	key := uuid.NewSHA1(keySpace, []byte(x.name.Projector))
	for _, part := range append([]string{x.name.Boundary, d.ID.String()}, effect...) {
		key = uuid.NewSHA1(key, []byte(part))
	}
	return key.String()
}
