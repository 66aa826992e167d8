package event_test

import (
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/google/uuid"
)

type Opened struct {
	Account string `json:"accountId"`
	Limit   int64  `json:"limit,string"`
}

func (Opened) EventType() string { return "AccountOpened" }

type Posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"`
}

func (Posted) EventType() string { return "MoneyPosted" }

// openedV1 is how an account was opened before it had a limit.
type openedV1 struct {
	Account string `json:"accountId"`
	Gold    bool   `json:"gold"`
}

func withLimit(o openedV1) Opened {
	if o.Gold {
		return Opened{Account: o.Account, Limit: 1_000_000}
	}
	return Opened{Account: o.Account, Limit: 10_000}
}

var events = event.NewCodec(
	event.Of[Opened](event.From(withLimit)).Formerly("AccountCreated"),
	event.Of[Posted](),
)

func Example() {
	id := uuid.MustParse("0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f")
	data, version, err := events.Encode(Posted{"ada", -30}, id)
	fmt.Println(string(data), version, err)

	e, err := events.Decode(event.Record{Type: "MoneyPosted", Data: data})
	fmt.Printf("%#v %v\n", e, err)

	_, err = events.Decode(event.Record{Type: "MoneyStolen", Data: data})
	fmt.Println(errors.Is(err, event.ErrUnknownType))
	// Output:
	// {"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","accountId":"ada","cents":"-30"} 1 <nil>
	// event_test.Posted{Account:"ada", Cents:-30} <nil>
	// true
}

// An event of an older version, stored under an older name, reads as today's.
func ExampleFrom() {
	e, err := events.Decode(event.Record{
		Type:     "AccountCreated",
		Data:     []byte(`{"accountId":"ada","gold":true}`),
		Metadata: event.Metadata{Version: 1},
	})
	fmt.Printf("%#v %v\n", e, err)
	// Output: event_test.Opened{Account:"ada", Limit:1000000} <nil>
}

func ExampleCodec_Query() {
	q, err := events.Query(consistency.Where("accountId", "ada").Type(event.TypeOf[Opened]()))
	fmt.Println(q, err)

	_, err = events.Query(consistency.Where("acountId", "ada"))
	fmt.Println(err)
	_, err = events.Query(consistency.Where("gold", "true"))
	fmt.Println(err)
	// Output:
	// type "AccountCreated"|"AccountOpened" accountId="ada" <nil>
	// event: query cannot be asked: key would never match: "acountId" is not in any event type of the codec (did you mean "accountId"?)
	// event: query cannot be asked: key would never match: "gold" is never a JSON string: field openedV1.Gold is of type bool: store it as a string (the option ",string" in its JSON tag, and a new version of the type if events are stored)
}

func ExampleFingerprint() {
	type Withdraw struct {
		Account string
		Cents   int64
	}
	type WithdrawToday struct { // a field was added
		Account string
		Note    string
		Cents   int64
	}
	before, _, _ := event.Fingerprint("withdraw", Withdraw{"ada", 30})
	today, _, _ := event.Fingerprint("withdraw", WithdrawToday{Account: "ada", Cents: 30})
	other, _, _ := event.Fingerprint("withdraw", WithdrawToday{Account: "ada", Cents: 31})
	fmt.Println(before == today, before == other)
	// Output: true false
}
