package ledgertest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
)

// Line is a line of an input, without its line ending.
type Line struct {
	Text    string
	Blank   bool
	Command *Command // nil: blank, or invalid
	Class   string   // of an invalid line: what is wrong with it
}

// Generate makes an input with n lines that count. The same seed gives the same
// input. It knows what each line is because it made it so, not by reading it.
func Generate(seed uint64, n int) []Line {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x1ed9e2)), budget: 4 + n/300}
	var lines []Line
	for counted := 0; counted < n; {
		if g.IntN(25) == 0 {
			lines = append(lines, g.blank())
			continue
		}
		counted++
		if g.IntN(12) == 0 {
			lines = append(lines, g.broken())
			continue
		}
		c := g.command()
		g.model.Do(c)
		g.done = append(g.done, c)
		lines = append(lines, Line{Text: g.render(c), Command: &c})
	}
	return lines
}

// Bytes joins lines with the line endings of all sorts; the last one may have
// none.
func Bytes(seed uint64, lines []Line) []byte {
	r := rand.New(rand.NewPCG(seed, 0xe0f))
	var b bytes.Buffer
	for i, l := range lines {
		b.WriteString(l.Text)
		switch {
		case i == len(lines)-1 && r.IntN(2) == 0 && l.Text != "":
		case r.IntN(5) == 0:
			b.WriteString("\r\n")
		default:
			b.WriteString("\n")
		}
	}
	return b.Bytes()
}

type generator struct {
	*rand.Rand
	model  Model // what is so far, to hit the edges of the rules
	done   []Command
	ids    int
	budget int // how many more very long lines there may be
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// names are accounts that something may take for one another, or for something
// else.
var names = []string{
	"A", "a", "B", "b", "AB", "A ", " A", "A\t", "A\n", "A\r", "1", "01", "1.0", "-0", "1e3", "true", "null", "{}", "[]", `""`, `"`, `\`, `\\`, `\u0041`, `'`, "`", "--", ";", "'; DROP TABLE balance; --", "%", "_", "*", "?",
	"é", "e\u0301", "É", "ß", "ss", "SS", "İ", "i", "ı", "I", "K", "\u212a", "ﬁ", "fi", "中文", "العربية", "עברית", "🙂", "👩‍👩‍👧‍👦", "🇩🇪", "\u200b", "\u200bA", "\ufeffA", "\u202eA", "\u00a0", "\u2028", "\u2029", "\uffff", "\ufffd", "\U0010ffff", "\x01", "\x1f", "\x7f", "\u0085", "<b>&amp;</b>",
	"account", "commandId", "eventType", "__proto__", "../../etc/passwd", "a/b", "a.b", "a:b", "ledger",
	strings.Repeat("x", 199), strings.Repeat("x", 200), strings.Repeat("é", 100), strings.Repeat("中", 66) + "ab", strings.Repeat("🙂", 50), strings.Repeat(`"`, 200), strings.Repeat("\x01", 200),
}

func (g *generator) account() string {
	base := pick(g, names)
	if g.IntN(3) == 0 {
		base = pick(g, names[:8]) // so that there is much to wait for
	}
	// Closed accounts do not come back, so new ones take their place.
	name := base
	for i := int64(2); g.IntN(20) != 0; i++ {
		if a := g.model.accounts[name]; a == nil || !a.closed {
			break
		}
		if name = base + number(i); len(name) > 200 {
			return g.account()
		}
	}
	return name
}

func (g *generator) freshID() string {
	g.ids++
	id := "k" + number(int64(g.ids))
	switch g.IntN(12) {
	case 0:
		id += pick(g, []string{" ", "é", "e\u0301", "🙂", `"`, `\`, "\x01", "\u2028", "\ufeff", "\uffff", "\t", "\n", "<", "/"})
	case 1:
		id += strings.Repeat("y", 200-len(id))
	case 2:
		id = strings.ToUpper(id) + "k"
	case 3:
		id = pick(g, names) + id
		if len(id) > 200 {
			id = "k" + number(int64(g.ids)) + "z"
		}
	}
	return id
}

func (g *generator) command() Command {
	// Repeats, mostly of what is not long ago: such a repeat may meet the first
	// one on its way.
	if n := len(g.done); n > 0 {
		old := g.done[n-1-g.IntN(min(n, 1+g.IntN(1000)))]
		switch roll := g.IntN(20); {
		case roll < 3:
			return old
		case roll == 3:
			return g.other(old)
		}
	}
	c := Command{ID: g.freshID(), Op: pick(g, []string{"open", "open", "deposit", "deposit", "deposit", "withdraw", "withdraw", "withdraw", "transfer", "transfer", "transfer", "transfer", "deposit", "close"})}
	switch c.Op {
	case "open":
		c.Account, c.Owner = g.account(), g.owner()
	case "deposit":
		c.Account = g.account()
		c.Amount = g.amount(math.MaxInt64 - g.balance(c.Account))
	case "withdraw":
		c.Account = g.account()
		c.Amount = g.amount(g.balance(c.Account))
	case "transfer":
		c.From, c.To = g.account(), g.account()
		if g.IntN(15) == 0 {
			c.To = c.From
		}
		edge := g.balance(c.From)
		if g.IntN(2) == 0 {
			edge = math.MaxInt64 - g.balance(c.To)
		}
		c.Amount = g.amount(edge)
	case "close":
		if c.Account = g.account(); g.IntN(2) == 0 {
			c.Account = g.empty(c.Account)
		}
	}
	return c
}

// other changes something of a command that keeps its id.
func (g *generator) other(c Command) Command {
	changed := c
	switch c.Op {
	case "open":
		switch g.IntN(3) {
		case 0:
			changed.Owner += "x"
		case 1:
			changed.Account = g.account()
		default:
			changed = Command{ID: c.ID, Op: "close", Account: c.Account}
		}
	case "deposit", "withdraw":
		switch g.IntN(3) {
		case 0:
			changed.Amount = c.Amount/2 + 1
		case 1:
			changed.Op = map[string]string{"deposit": "withdraw", "withdraw": "deposit"}[c.Op]
		default:
			changed.Account = g.account()
		}
	case "transfer":
		switch g.IntN(3) {
		case 0:
			changed.From, changed.To = c.To, c.From
		case 1:
			changed.Amount = c.Amount/2 + 1
		default:
			changed = Command{ID: c.ID, Op: "deposit", Account: c.To, Amount: c.Amount}
		}
	case "close":
		if changed.Account = g.account(); g.IntN(2) == 0 {
			changed = Command{ID: c.ID, Op: "open", Account: c.Account}
		}
	}
	return changed
}

func (g *generator) balance(name string) int64 {
	if a := g.model.accounts[name]; a != nil {
		return a.balance
	}
	return 0
}

// empty looks for an open account with nothing on it.
func (g *generator) empty(otherwise string) string {
	for range 40 {
		name := g.account()
		if a := g.model.accounts[name]; a != nil && !a.closed && a.balance == 0 {
			return name
		}
	}
	return otherwise
}

// amount is often at the edge of what a rule allows.
func (g *generator) amount(edge int64) int64 {
	switch g.IntN(10) {
	case 0:
		return edge
	case 1:
		if edge < math.MaxInt64 {
			return edge + 1
		}
		return edge
	case 2:
		return pick(g, []int64{0, 0, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 / 2})
	case 3:
		return g.Int64()
	default:
		return 1 + g.Int64N(1000)
	}
}

func (g *generator) owner() string {
	switch g.IntN(6) {
	case 0:
		return ""
	case 1:
		return pick(g, names)
	case 2:
		if g.budget > 0 {
			g.budget--
			return strings.Repeat("o", 60000+g.IntN(3000))
		}
		return strings.Repeat("<", 300)
	default:
		return "Ada"
	}
}

func (g *generator) blank() Line {
	text := strings.Repeat(" ", g.IntN(4)) + strings.Repeat("\t", g.IntN(3))
	if g.IntN(10) == 0 && g.budget > 0 {
		g.budget--
		text = strings.Repeat(" \t", 35000+g.IntN(70000))
	}
	return Line{Text: text, Blank: true}
}
