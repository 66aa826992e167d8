package effecttarget

import (
	"errors"
	"fmt"

	"github.com/cccgo/ccc/projector"
)

var (
	// ErrParkFull: 1,000 events are parked and wait already. The projector stays
	// where it is, trying again, until some are settled.
	ErrParkFull = errors.New("no more events can be parked: apply or discard some of those that wait")
	// ErrCorrupt: a document cannot be read. Nothing is saved over it.
	ErrCorrupt = errors.New("the projector's document is damaged")
	// ErrNewer: a document was written by a newer version of this package, and
	// must not be changed by this one.
	ErrNewer = errors.New("the projector's document was written by a newer program: update this one")
)

// failure names the package, what was done and the projector, once.
func failure(doing string, name projector.Name, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("effecttarget: %s %s: %w", doing, name, err)
}
