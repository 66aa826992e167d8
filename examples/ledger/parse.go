package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxLine = 65536 // bytes of a line, its line ending not counted
	maxName = 200   // bytes of an id or an account's name
)

// parsed is a line that is exactly a command.
type parsed struct {
	id       string
	command  any      // Open, Deposit, Withdraw, Transfer or Close
	accounts []string // that it touches
}

// parser reads commands, and nothing that is only nearly one: what is guessed
// about a payment is paid. jsontext itself refuses names that stand twice (also
// with escapes), lone surrogates and bytes that are no UTF-8; unlike a struct's
// decoder, its tokens show null and the letter case of names.
type parser struct {
	in      bytes.Buffer
	decoder jsontext.Decoder
}

// fields of a command, as bits of a set.
type fields uint8

const (
	fieldID fields = 1 << iota
	fieldOp
	fieldAccount
	fieldOwner
	fieldFrom
	fieldTo
	fieldAmount
)

var fieldNames = []string{"id", "op", "account", "owner", "from", "to", "amount"}

func fieldOf(name string) (field fields, known bool) {
	i := slices.Index(fieldNames, name)
	return 1 << max(i, 0), i >= 0
}

func (f fields) first() string { return fieldNames[bits.TrailingZeros8(uint8(f))] }

// forms are the fields that an op needs, and those that it may have.
var forms = map[string]struct{ needs, may fields }{
	"open":     {fieldID | fieldOp | fieldAccount, fieldOwner},
	"deposit":  {fieldID | fieldOp | fieldAccount | fieldAmount, 0},
	"withdraw": {fieldID | fieldOp | fieldAccount | fieldAmount, 0},
	"transfer": {fieldID | fieldOp | fieldFrom | fieldTo | fieldAmount, 0},
	"close":    {fieldID | fieldOp | fieldAccount, 0},
}

// raw is a command whose op is not looked at yet.
type raw struct {
	given                            fields
	id, op, account, owner, from, to string
	amount                           int64
}

// parse reads one line without its line ending. The error says why it is not a
// command. What is returned shares nothing with the text.
func (p *parser) parse(text []byte) (parsed, error) {
	if len(text) > maxLine {
		return parsed{}, errTooLong
	}
	r, err := p.read(text)
	if err != nil {
		return parsed{}, err
	}
	form, known := forms[r.op]
	switch {
	case r.given&fieldOp == 0:
		return parsed{}, errors.New(`the field "op" is missing`)
	case !known:
		return parsed{}, fmt.Errorf("unknown op %.40q", r.op)
	}
	if missing := form.needs &^ r.given; missing != 0 {
		return parsed{}, fmt.Errorf("the field %q is missing", missing.first())
	}
	if extra := r.given &^ (form.needs | form.may); extra != 0 {
		return parsed{}, fmt.Errorf("%s has no field %q", r.op, extra.first())
	}
	return r.command(), nil
}

var errTooLong = fmt.Errorf("longer than %d bytes", maxLine)

func (r *raw) command() parsed {
	switch r.op {
	case "open":
		return parsed{r.id, Open{r.account, r.owner}, []string{r.account}}
	case "deposit":
		return parsed{r.id, Deposit{r.account, r.amount}, []string{r.account}}
	case "withdraw":
		return parsed{r.id, Withdraw{r.account, r.amount}, []string{r.account}}
	case "transfer":
		return parsed{r.id, Transfer{r.from, r.to, r.amount}, []string{r.from, r.to}}
	default:
		return parsed{r.id, Close{r.account}, []string{r.account}}
	}
}

func (p *parser) read(text []byte) (r raw, err error) {
	p.in.Reset()
	p.in.Write(text)
	p.decoder.Reset(&p.in)
	token, err := p.decoder.ReadToken()
	if err != nil {
		return r, notJSON(err)
	}
	if token.Kind() != jsontext.KindBeginObject {
		return r, errors.New("not a JSON object")
	}
	for {
		token, err := p.decoder.ReadToken()
		if err != nil {
			return r, notJSON(err)
		}
		if token.Kind() == jsontext.KindEndObject {
			break
		}
		if err := p.field(&r, token.String()); err != nil {
			return r, err
		}
	}
	switch _, err := p.decoder.ReadToken(); err {
	case io.EOF:
		return r, nil
	case nil:
		return r, errors.New("text after the object")
	default:
		return r, fmt.Errorf("text after the object: %w", err)
	}
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: it ends too early")
	}
	return fmt.Errorf("not JSON: %w", err)
}

func (p *parser) field(r *raw, name string) error {
	field, known := fieldOf(name)
	if !known {
		return fmt.Errorf("unknown field %.40q", name)
	}
	value, err := p.decoder.ReadToken()
	if err != nil {
		return notJSON(err)
	}
	r.given |= field
	if field == fieldAmount {
		r.amount, err = amount(value)
		return err
	}
	if value.Kind() != jsontext.KindString {
		return fmt.Errorf("%s is not a text", name)
	}
	text := value.String()
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s holds U+0000", name)
	case field&(fieldOp|fieldOwner) == 0 && text == "":
		return fmt.Errorf("%s is empty", name)
	case field&(fieldOp|fieldOwner) == 0 && len(text) > maxName:
		return fmt.Errorf("%s has more than %d bytes", name, maxName)
	}
	*r.text(field) = text
	return nil
}

func (r *raw) text(field fields) *string {
	switch field {
	case fieldID:
		return &r.id
	case fieldOp:
		return &r.op
	case fieldAccount:
		return &r.account
	case fieldOwner:
		return &r.owner
	case fieldFrom:
		return &r.from
	default:
		return &r.to
	}
}

// amount takes integer literals alone: 1.0 and 1e2 are other things.
func amount(value jsontext.Token) (int64, error) {
	if value.Kind() != jsontext.KindNumber {
		return 0, errors.New("amount is not a number")
	}
	n, err := strconv.ParseInt(value.String(), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errors.New("amount does not fit into 64 bits")
	}
	if err != nil {
		return 0, errors.New("amount is not an integer literal")
	}
	return n, nil
}
