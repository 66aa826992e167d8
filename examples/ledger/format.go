package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// lines writes results, one JSON object a line.
type lines struct{ encoder *json.Encoder }

func newLines(to io.Writer) lines {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return lines{e}
}

func (l lines) write(r result) error { return l.encoder.Encode(r) }

// object writes balances as one JSON object, member by member.
type object struct {
	to      io.Writer
	members int
	name    bytes.Buffer
	encoder *json.Encoder // of names
}

func newObject(to io.Writer) *object {
	o := &object{to: to}
	o.encoder = json.NewEncoder(&o.name)
	o.encoder.SetEscapeHTML(false)
	return o
}

func (o *object) write(account string, balance int64) error {
	start := ",\n  "
	if o.members == 0 {
		start = "{\n  "
	}
	o.members++
	o.name.Reset()
	if err := o.encoder.Encode(account); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.to, "%s%s: %d", start, bytes.TrimSpace(o.name.Bytes()), balance)
	return err
}

func (o *object) end() error {
	text := "\n}\n"
	if o.members == 0 {
		text = "{}\n"
	}
	_, err := io.WriteString(o.to, text)
	return err
}
