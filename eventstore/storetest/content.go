package storetest

import (
	"time"

	"github.com/cccgo/ccc/event"
)

var contentCases = []Case{
	{Name: "data_is_kept", Proves: "every value of an event's data comes back: big integers and decimals as strings, text of all kinds, nesting", run: func(e *env) {
		e.keeps(
			raw("T", `{}`),
			raw("T", `{"max":"9223372036854775807","odd":"9007199254740993","decimal":"0.10","minus":"-0"}`),
			raw("T", `{"text":"<a href=\"x\">&amp;</a> \\ \/ \b\f\n\r\t \u001f \u007f \u2028 \u2029 é ß 日本 🙂 \ud834\udd1e"}`),
			raw("T", `{"":"empty key","ключ":"x","a b":"y","🙂":"z","a\"b":"q","a\\b":"r","$":"d","%s":"%d"}`),
			raw("T", `{"nested":{"a":[1,2,{"b":null}],"commandId":"x","eventType":"y","__x":1},"null":null,"t":true,"f":false,"e":[],"o":{}}`),
			raw("T", " {\n\t\"spaced\" : [ 1 , 2 ]\r\n} "),
			raw("T", `{"z":"1","a":"2","m":"3"}`),
			raw("T", `{"n":1,"d":0.5,"e":100,"minus":-17,"small":0.000001,"exact":9007199254740991}`),
			raw("T", `{"deep":[[[[[[[[[[[[[[[[[[[[{"x":"y"}]]]]]]]]]]]]]]]]]]]]}`),
		)
	}},
	{Name: "numbers_are_kept", Proves: "JSON numbers beyond 2^53, and decimals, keep every digit", skip: func(f Features) string {
		if f.FloatNumbers {
			return "the store's JSON numbers are floats"
		}
		return ""
	}, run: func(e *env) {
		e.keeps(
			raw("T", `{"max":9223372036854775807,"min":-9223372036854775808,"odd":9007199254740993,"unsigned":18446744073709551615}`),
			raw("T", `{"pi":3.14159265358979323846264338327950288,"tenth":0.1,"long":123456789012345678901234567890}`),
		)
	}},
	{Name: "metadata_is_kept", Proves: "all metadata comes back: the framework's and what callers gave", run: func(e *env) {
		full := fact("k", "1")
		full.Metadata = event.Metadata{Command: "withdraw", Fingerprint: "f00d", Events: 3, Version: 2, Correlation: "corr", Causation: "cause",
			Depth: 4, Custom: map[string]string{"actor": "ada", "tenant": "один", "": "empty key", "empty": "", "number": "1", "json": `{"a":[1]}`,
				"quote": `"`, "eventType": "x", "commandId": "y", "__z": "z", "ccc": "near", "cccx": "near too"}}
		custom := fact("k", "2")
		custom.Metadata.Custom = map[string]string{"only": "this"}
		e.keeps(full, custom, fact("k", "3"))
	}},
	{Name: "times_are_kept", Proves: "a record's time comes back in UTC and whole microseconds; where there was none the store sets one", run: func(e *env) {
		var log []event.Record
		for _, t := range []time.Time{
			time.Date(2026, 2, 3, 4, 5, 6, 789_123_000, time.UTC),
			time.Date(2026, 2, 3, 4, 5, 6, 789_123_999, time.FixedZone("east", 5*3600+1800)),
			time.Date(1999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -8*3600)),
			time.Date(2262, 1, 1, 0, 0, 0, 1000, time.UTC),
			time.Now(),
			{},
		} {
			r := fact()
			r.Time = t
			log = append(log, r)
		}
		e.keeps(log...)
	}},
}

// keeps stores the records, one by one and all together, and compares all that
// can be read.
func (e *env) keeps(records ...event.Record) {
	s := e.open()
	m := e.fill(s, records...)
	again := make([]event.Record, len(records))
	for i, r := range records {
		r.ID = fact().ID
		again[i] = r
	}
	m = append(m, placed(again, e.save(s, nil, again...))...)
	e.asks(s, m, everything)
}
