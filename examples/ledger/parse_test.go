package main

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cccgo/ccc/examples/ledger/internal/ledgertest"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 200)
	for text, want := range map[string]parsed{
		`{"id":"k1","op":"open","account":"A","owner":"Ada"}`:                          {"k1", Open{"A", "Ada"}, []string{"A"}},
		`{"id":"k1","op":"open","account":"A"}`:                                        {"k1", Open{"A", ""}, []string{"A"}},
		`{"id":"k1","op":"open","account":"A","owner":""}`:                             {"k1", Open{"A", ""}, []string{"A"}},
		" {\t\"amount\" : -0 ,\r\"account\":\"A\",\"op\":\"deposit\",\"id\":\"k\"} \t": {"k", Deposit{"A", 0}, []string{"A"}},
		`{"id":"k","op":"withdraw","account":"A","amount":9223372036854775807}`:        {"k", Withdraw{"A", math.MaxInt64}, []string{"A"}},
		`{"id":"k","op":"withdraw","account":"A","amount":-9223372036854775808}`:       {"k", Withdraw{"A", math.MinInt64}, []string{"A"}},
		`{"id":"k","op":"transfer","from":"A","to":"a","amount":1}`:                    {"k", Transfer{"A", "a", 1}, []string{"A", "a"}},
		`{"id":"k","op":"close","account":"A"}`:                                        {"k", Close{"A"}, []string{"A"}},
		`{"\u0069d":"\u006b","op":"\u0063lose","account":"\ud83d\ude42é\u0001"}`:       {"k", Close{"🙂é\x01"}, []string{"🙂é\x01"}},
		`{"id":"` + long + `","op":"close","account":"` + long + `"}`:                  {long, Close{long}, []string{long}},
	} {
		got, err := new(parser).parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, why := range map[string]string{
		``:                                       "ends too early",
		`{"id":"k","op":"close","account":"A"`:   "ends too early",
		`[]`:                                     "not a JSON object",
		`{} {}`:                                  "text after",
		`{"id":"k","op":"close","account":"A"},`: "text after",
		`{"id":"k","account":"A"}`:               `"op" is missing`,
		`{"op":"close","account":"A"}`:           `"id" is missing`,
		`{"id":"k","op":"deposit","account":"A"}`:                                 `"amount" is missing`,
		`{"id":"k","op":"deposit","account":"A","amount":1,"owner":"x"}`:          `no field "owner"`,
		`{"id":"k","op":"transfer","account":"A","from":"A","to":"B","amount":1}`: `no field "account"`,
		`{"id":"k","op":"mint","account":"A"}`:                                    `unknown op "mint"`,
		`{"ID":"k","op":"close","account":"A"}`:                                   `unknown field "ID"`,
		`{"id":"k","id":"k","op":"close","account":"A"}`:                          "duplicate",
		`{"id":"k","\u0069d":"k","op":"close","account":"A"}`:                     "duplicate",
		`{"id":null,"op":"close","account":"A"}`:                                  "id is not a text",
		`{"id":"","op":"close","account":"A"}`:                                    "id is empty",
		`{"id":"k","op":"close","account":""}`:                                    "account is empty",
		`{"id":"k","op":"close","account":"` + long + `x"}`:                       "account has more than 200 bytes",
		`{"id":"k","op":"close","account":"\u0000"}`:                              "U+0000",
		`{"id":"k","op":"close","account":"\ud800"}`:                              "surrogate",
		"{\"id\":\"k\",\"op\":\"close\",\"account\":\"\xff\"}":                    "UTF-8",
		`{"id":"k","op":"deposit","account":"A","amount":1.0}`:                    "integer literal",
		`{"id":"k","op":"deposit","account":"A","amount":1e2}`:                    "integer literal",
		`{"id":"k","op":"deposit","account":"A","amount":"1"}`:                    "not a number",
		`{"id":"k","op":"deposit","account":"A","amount":9223372036854775808}`:    "64 bits",
		`{"id":"k","op":"close","account":"A"}` + strings.Repeat(" ", 65536):      "longer than",
	} {
		_, err := new(parser).parse([]byte(text))
		require.ErrorContains(t, err, why, text)
	}
}

// Every line of a generated file is what its maker says it is.
func TestParseGenerated(t *testing.T) {
	p := new(parser) // one for all lines: nothing of a line stays in it
	for _, l := range ledgertest.Generate(2, 5000) {
		if l.Blank {
			continue
		}
		got, err := p.parse([]byte(l.Text))
		if l.Command == nil {
			require.Error(t, err, l)
			continue
		}
		require.NoError(t, err, l)
		require.Equal(t, *l.Command, flat(got), l)
	}
}

func flat(p parsed) ledgertest.Command {
	f := ledgertest.Command{ID: p.id}
	switch c := p.command.(type) {
	case Open:
		f.Op, f.Account, f.Owner = "open", c.Account, c.Owner
	case Deposit:
		f.Op, f.Account, f.Amount = "deposit", c.Account, c.Amount
	case Withdraw:
		f.Op, f.Account, f.Amount = "withdraw", c.Account, c.Amount
	case Transfer:
		f.Op, f.From, f.To, f.Amount = "transfer", c.From, c.To, c.Amount
	case Close:
		f.Op, f.Account = "close", c.Account
	}
	return f
}

// FuzzParse compares the parser with another reading of the same rules.
func FuzzParse(f *testing.F) {
	for _, l := range ledgertest.Generate(3, 400) {
		if len(l.Text) < 1000 { // long ones only make it slow
			f.Add([]byte(l.Text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, ok := naiveParse(text)
		got, err := new(parser).parse(text)
		require.Equal(t, ok, err == nil, "%q: %v", text, err)
		if ok {
			require.Equal(t, want, flat(got), "%q", text)
		}
	})
}

var (
	escapes   = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)
	integer   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	opMembers = map[string][]string{
		"open":    {"account", "id", "op"},
		"deposit": {"account", "amount", "id", "op"}, "withdraw": {"account", "amount", "id", "op"},
		"transfer": {"amount", "from", "id", "op", "to"},
		"close":    {"account", "id", "op"},
	}
)

// naiveParse is written on encoding/json, with all that it lets pass looked for
// by hand.
func naiveParse(text []byte) (c ledgertest.Command, ok bool) {
	if len(text) > 65536 || !utf8.Valid(text) || !json.Valid(text) || loneSurrogate(string(text)) {
		return c, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, _ := d.Token(); open != json.Delim('{') {
		return c, false
	}
	members := map[string]string{}
	for d.More() {
		token, _ := d.Token()
		name := token.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return c, false
		}
		if _, twice := members[name]; twice {
			return c, false
		}
		members[name] = string(value)
	}
	texts := map[string]string{}
	for name, value := range members {
		var s string
		switch name {
		case "amount":
			n, err := strconv.ParseInt(value, 10, 64)
			if !integer.MatchString(value) || err != nil {
				return c, false
			}
			c.Amount = n
			continue
		case "id", "op", "account", "owner", "from", "to":
		default:
			return c, false
		}
		if value[0] != '"' || json.Unmarshal([]byte(value), &s) != nil || strings.Contains(s, "\x00") {
			return c, false
		}
		if name != "owner" && (s == "" || len(s) > 200) {
			return c, false
		}
		texts[name] = s
	}
	c.ID, c.Op, c.Account, c.Owner, c.From, c.To = texts["id"], texts["op"], texts["account"], texts["owner"], texts["from"], texts["to"]
	needed, known := opMembers[c.Op]
	if !known {
		return c, false
	}
	for _, name := range needed {
		if _, have := members[name]; !have {
			return c, false
		}
		delete(members, name)
	}
	if c.Op == "open" {
		delete(members, "owner")
	}
	return c, len(members) == 0
}

// loneSurrogate looks at all escapes, one after the other.
func loneSurrogate(text string) bool {
	high, end := false, -1
	for _, at := range escapes.FindAllStringIndex(text, -1) {
		code := uint64(0)
		if escape := text[at[0]:at[1]]; escape[1] == 'u' && len(escape) == 6 {
			code, _ = strconv.ParseUint(escape[2:], 16, 32)
		}
		low := code >= 0xDC00 && code <= 0xDFFF
		if high && (at[0] != end || !low) || !high && low {
			return true
		}
		high, end = code >= 0xD800 && code <= 0xDBFF, at[1]
	}
	return high
}
