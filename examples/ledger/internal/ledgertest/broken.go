package ledgertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// class is a way to break a command that would be right. It gets the members
// and returns the whole line; ok is false where the way does not fit.
type class struct {
	name string
	make func(g *generator, m []member) (text string, ok bool)
}

func whole(text string) func(*generator, []member) (string, bool) {
	return func(*generator, []member) (string, bool) { return text, true }
}

func around(before, after string) func(*generator, []member) (string, bool) {
	return func(g *generator, m []member) (string, bool) { return before + g.object(m) + after, true }
}

// value writes another value for a field that the command has.
func value(field, text string) func(*generator, []member) (string, bool) {
	return func(g *generator, m []member) (string, bool) {
		for i := range m {
			if m[i].name == `"`+field+`"` {
				m[i].value = text
				return g.object(m), true
			}
		}
		return "", false
	}
}

func rename(field, name string) func(*generator, []member) (string, bool) {
	return func(g *generator, m []member) (string, bool) {
		for i := range m {
			if m[i].name == `"`+field+`"` {
				m[i].name = name
				return g.object(m), true
			}
		}
		return "", false
	}
}

func without(field string) func(*generator, []member) (string, bool) {
	return func(g *generator, m []member) (string, bool) {
		for i := range m {
			if m[i].name == `"`+field+`"` {
				return g.object(append(m[:i:i], m[i+1:]...)), true
			}
		}
		return "", false
	}
}

func extra(name, text string) func(*generator, []member) (string, bool) {
	return func(g *generator, m []member) (string, bool) {
		for _, have := range m {
			if have.name == name {
				return "", false
			}
		}
		return g.object(append(m, member{name, text})), true
	}
}

func twice(field, name string) func(*generator, []member) (string, bool) {
	return func(g *generator, m []member) (string, bool) {
		for _, have := range m {
			if have.name == `"`+field+`"` {
				return g.object(append(m, member{name, have.value})), true
			}
		}
		return "", false
	}
}

var classes = func() (all []class) {
	add := func(name string, make func(*generator, []member) (string, bool)) {
		all = append(all, class{name, make})
	}
	for _, text := range []string{
		`x`, `{`, `}`, `{}`, `[]`, `null`, `42`, `"text"`, `true`, `{"id"}`, `{"id":}`, `{'id':'k','op':'close','account':'A'}`,
		`{id:"k",op:"close",account:"A"}`, `[{"id":"k","op":"close","account":"A"}]`, `"{\"id\":\"k\"}"`, `// k`, "\x00", "\u00a0", "\v", "\ufeff", "\u3000",
	} {
		add("not a command", whole(text))
	}
	add("cut", func(g *generator, m []member) (string, bool) {
		text := strings.TrimSpace(g.object(m))
		return text[:1+g.IntN(len(text)-1)], true
	})
	for _, after := range []string{`x`, `{}`, `,`, `}`, `]`, ` null`, `0`, "\x00", ` {"id":"k","op":"close","account":"A"}`, `//`, `;`} {
		add("text after", around("", after))
	}
	for _, before := range []string{`x`, "\ufeff", `,`, `[`, "\x00", "\u00a0", "\f"} {
		add("text before", around(before, ""))
	}
	for _, field := range []string{"id", "op", "account", "owner", "from", "to", "amount"} {
		if field != "owner" {
			add("missing "+field, without(field))
		}
		add("null "+field, value(field, "null"))
		add("twice "+field, twice(field, `"`+field+`"`))
		add("twice, once escaped", twice(field, escapeAll(field)))
		add("letter case", rename(field, `"`+strings.ToUpper(field)+`"`))
		add("letter case", rename(field, `"`+strings.ToUpper(field[:1])+field[1:]+`"`))
		add("letter case, beside", twice(field, `"`+strings.ToUpper(field)+`"`))
		add("other name", rename(field, `"`+field+` "`))
		for _, text := range []string{`true`, `false`, `{}`, `[]`, `[1]`, `{"a":1}`, `undefined`, ``} {
			add("wrong type "+field, value(field, text))
		}
		if field == "amount" {
			continue
		}
		for _, text := range []string{`1`, `-0`, `1.5`, `["A"]`} {
			add("wrong type "+field, value(field, text))
		}
		for _, text := range []string{"\"\xff\"", "\"a\xc3\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\x80\""} {
			add("not UTF-8", value(field, text))
		}
		for _, text := range []string{`"\ud800"`, `"\udfff"`, `"\udc00\ud800"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"x\ud83d"`, `"\uD83D\uD83D\uDE00"`} {
			add("lone surrogate", value(field, text))
		}
		for _, text := range []string{`"\u0000"`, `"a\u0000"`, `"\u0000a"`} {
			add("U+0000", value(field, text))
		}
		for _, text := range []string{"\"\x00\"", "\"\t\"", "\"a\x01\"", `"\x41"`, `"\u12"`, `"\U00000041"`, `"a`, `'a'`, `"a\"`} {
			add("bad string", value(field, text))
		}
		if field == "op" {
			continue
		}
		if field != "owner" {
			add("empty "+field, value(field, `""`))
			for _, text := range []string{strings.Repeat("x", 201), strings.Repeat("é", 100) + "x", strings.Repeat("中", 67), strings.Repeat("🙂", 50) + "x"} {
				add("too long "+field, value(field, quote(text)))
				add("too long "+field, value(field, escapeAll(text)))
			}
		}
	}
	for _, op := range []string{"", "Open", "OPEN", "deposit ", " close", "transfers", "refund", "open\u200b"} {
		add("unknown op", value("op", quote(op)))
	}
	for _, text := range []string{
		`1.0`, `1.5`, `0.0`, `-0.0`, `1e2`, `1E2`, `1e0`, `0e0`, `1e+2`, `100e-2`, `9223372036854775807.0`,
	} {
		add("fraction or exponent", value("amount", text))
	}
	for _, text := range []string{
		`9223372036854775808`, `-9223372036854775809`, `18446744073709551616`, `99999999999999999999999`, `1` + strings.Repeat("0", 400), `-1` + strings.Repeat("0", 400),
	} {
		add("out of range", value("amount", text))
	}
	for _, text := range []string{`"5"`, `""`, `01`, `-01`, `00`, `+1`, `--1`, `-`, `.5`, `5.`, `0x10`, `1_000`, `1,5`, `NaN`, `Infinity`, `-Infinity`, `1e`, `٣`, `5n`, `5 5`} {
		add("bad number", value("amount", text))
	}
	for _, m := range []member{{`"note"`, `"x"`}, {`""`, `1`}, {`"owner"`, `"x"`}, {`"account"`, `"A"`}, {`"from"`, `"A"`}, {`"to"`, `"B"`}, {`"amount"`, `5`}, {`"commandId"`, `"x"`}, {`"amount\u0000"`, `5`}, {`"\ud800"`, `1`}, {"\"\xff\"", `1`}} {
		name, text := m.name, m.value
		add("unknown field "+name, func(g *generator, m []member) (string, bool) {
			if name == `"owner"` && isOpen(m) {
				return "", false
			}
			return extra(name, text)(g, m)
		})
	}
	add("extra comma", func(g *generator, m []member) (string, bool) {
		return strings.Replace(g.object(m), "{", "{,", 1), true
	})
	add("last comma", func(g *generator, m []member) (string, bool) {
		return strings.TrimSuffix(strings.TrimRight(g.object(m), " \t"), "}") + ",}", true
	})
	add("comment", func(g *generator, m []member) (string, bool) {
		return strings.Replace(g.object(m), "{", "{/* x */", 1), true
	})
	for _, size := range []int{65537, 65538, 65539, 66000, 200000} {
		add("too long a line", func(g *generator, m []member) (string, bool) {
			if g.budget == 0 {
				return "", false
			}
			g.budget--
			text := g.object(m)
			fill := strings.Repeat(" ", size-len(text))
			return pick(g, []string{text + fill, fill + text}), true
		})
	}
	return all
}()

func isOpen(m []member) bool {
	for _, have := range m {
		if have.name == `"op"` {
			return have.value == `"open"` || have.value == escapeAll("open")
		}
	}
	return false
}

// broken is a command with something wrong, each class as often as another. Its
// id may be used later, and may have been before.
func (g *generator) broken() Line {
	name := pick(g, Classes())
	for tries := 0; ; tries++ {
		if tries == 1000 { // no room for another long line
			name, tries = pick(g, Classes()), 0
		}
		c := g.command()
		if len(c.Owner) > 1000 {
			continue
		}
		k := pick(g, byName[name])
		if text, ok := k.make(g, g.members(c)); ok {
			return Line{Text: text, Class: k.name}
		}
	}
}

// byName are the ways that have a name in common.
var byName = func() map[string][]class {
	all := map[string][]class{}
	for _, k := range classes {
		all[k.name] = append(all[k.name], k)
	}
	return all
}()

// Classes names all ways in which lines are broken.
func Classes() []string { return slices.Sorted(maps.Keys(byName)) }

func (l Line) String() string {
	text := l.Text
	if len(text) > 200 {
		text = fmt.Sprintf("%s… (%d bytes)", text[:200], len(l.Text))
	}
	return fmt.Sprintf("%q %s", text, l.Class)
}
