package ledgertest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// member is a field of a command as it is written.
type member struct{ name, value string }

func number(n int64) string { return strconv.FormatInt(n, 10) }

// render writes a command in one of the many ways JSON has for it.
func (g *generator) render(c Command) string {
	text := g.object(g.members(c))
	switch {
	case g.IntN(200) == 0 && g.budget > 0 && len(text) < 65536:
		g.budget-- // as long as a line may be, to the byte
		text = strings.Repeat(" ", 65536-len(text)) + text
	case len(text) > 65536:
		text = g.object([]member{{`"id"`, quote(c.ID)}, {`"op"`, `"open"`}, {`"account"`, quote(c.Account)}, {`"owner"`, quote(c.Owner)}})
	}
	return text
}

func (g *generator) members(c Command) []member {
	m := []member{{`"id"`, g.quote(c.ID)}, {`"op"`, g.quote(c.Op)}}
	switch c.Op {
	case "transfer":
		m = append(m, member{`"from"`, g.quote(c.From)}, member{`"to"`, g.quote(c.To)})
	default:
		m = append(m, member{`"account"`, g.quote(c.Account)})
	}
	switch c.Op {
	case "deposit", "withdraw", "transfer":
		m = append(m, member{`"amount"`, g.number(c.Amount)})
	case "open":
		if c.Owner != "" || g.IntN(3) == 0 {
			m = append(m, member{`"owner"`, g.quote(c.Owner)})
		}
	}
	return m
}

func (g *generator) number(n int64) string {
	if n == 0 && g.IntN(2) == 0 {
		return "-0"
	}
	return number(n)
}

func (g *generator) object(members []member) string {
	space := func() string { return "" }
	if g.IntN(4) == 0 {
		space = func() string { return pick(g, []string{"", "", " ", "\t", "  \t"}) }
	}
	if g.IntN(2) == 0 {
		g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	var b strings.Builder
	b.WriteString(space() + "{" + space())
	for i, m := range members {
		if i > 0 {
			b.WriteString(space() + "," + space())
		}
		name := m.name
		if g.IntN(40) == 0 {
			name = escapeAll(strings.Trim(name, `"`))
		}
		b.WriteString(name + space() + ":" + space() + m.value)
	}
	b.WriteString(space() + "}" + space())
	return b.String()
}

func (g *generator) quote(s string) string {
	if g.IntN(8) == 0 && len(s) < 1000 {
		return escapeAll(s)
	}
	return quote(s)
}

// quote escapes what has to be.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func escapeAll(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, `\u%04X`, unit)
	}
	b.WriteByte('"')
	return b.String()
}
