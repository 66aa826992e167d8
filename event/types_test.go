package event

import (
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/google/uuid"
)

// The domain of the tests: an account, as it is today and as it was.

type Opened struct { // version 3 of AccountOpened
	Account string `json:"accountId"`
	Owner   Person `json:"owner"`
	Cents   int64  `json:"cents,string"`
}

type Person struct{ First, Last string }

type openedV1 struct {
	Account string `json:"account"`
	Owner   string `json:"owner"`
}

type openedV2 struct {
	Account string `json:"accountId"`
	Owner   string `json:"owner"`
}

func (Opened) EventType() string { return "AccountOpened" }

type Posted struct { // by pointer in the codec
	Account string      `json:"accountId"`
	Cents   int64       `json:"cents"`
	Rate    float64     `json:"rate"`
	Note    any         `json:"note,omitempty"`
	Amount  json.Number `json:"amount,omitempty"`
}

func (*Posted) EventType() string { return "MoneyPosted" }

// Free is open: nobody knows its keys.
type Free map[string]any

func (Free) EventType() string { return "Free" }

// Custom is open too, and sees its data raw.
type Custom struct{ raw string }

func (Custom) EventType() string               { return "Custom" }
func (c Custom) MarshalJSON() ([]byte, error)  { return []byte(c.raw), nil }
func (c *Custom) UnmarshalJSON(b []byte) error { c.raw = string(b); return nil }

// Refused is a refusal: an error and an event.
type Refused struct{ Code string }

func (Refused) EventType() string { return "Refused" }
func (r Refused) Error() string   { return "refused: " + r.Code }

// Touchy panics where it is told to.
type Touchy struct{ Fuse fuse }
type fuse string

func (Touchy) EventType() string { return "Touchy" }
func (f fuse) MarshalText() ([]byte, error) {
	if f == "out" {
		panic("boom")
	}
	return []byte(f), nil
}
func (f *fuse) UnmarshalText(text []byte) error {
	switch *f = fuse(text); *f {
	case "in":
		panic("boom")
	case "bad":
		return fmt.Errorf("a bad fuse")
	}
	return nil
}

func splitName(o openedV2) Opened {
	var p Person
	if _, err := fmt.Sscanf(o.Owner, "%s %s", &p.First, &p.Last); err != nil {
		panic("an owner of one word: " + o.Owner)
	}
	return Opened{Account: o.Account, Owner: p}
}

func testCodec() *Codec {
	return NewCodec(
		Of[Opened](From(func(o openedV1) openedV2 { return openedV2(o) }), From(splitName)).Formerly("Opened", "AccountCreated"),
		Of[*Posted](), Of[Free](), Of[Custom](), Of[Refused](), Of[Touchy](),
	)
}

var (
	command = uuid.MustParse("0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f")
	someDay = time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	bigSum  = new(big.Int).Lsh(big.NewInt(1), 100)
)
