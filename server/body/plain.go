package body

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Plain is a chat's body taken apart: the fields that most bodies consist of, read in one go, and
// the rest as it stands. encoding/json would look at every byte of the messages four times.
type Plain struct {
	Model    string
	Messages []Said
	Stream   *bool
	Rest     []byte // an object with every other field; nil: there is none
}

// Said is one message: its text, or where there is more to it than a role and a text, the object
// that it is.
type Said struct {
	Role, Content string
	Object        []byte
}

// mostRest bounds what is copied: a body with more than its messages goes the other way.
const mostRest = 64 << 10

// TakeApart reads a body of /api/chat or /v1/chat/completions. ok is false for any that
// encoding/json might read in another way, or whose error it has to tell: fields given twice, in
// other letters or as null, invalid UTF-8, more than one value. What is returned has the meaning
// that encoding/json finds, provided that Rest and each Object are JSON, which is not looked at
// here.
func TakeApart(body []byte) (p Plain, ok bool) {
	t := taker{b: body}
	var seen [3]bool
	ok = t.object(func(key []byte) bool {
		i, at := -1, t.at
		switch string(key) {
		case "model":
			i = 0
			p.Model, ok = t.text()
		case "messages":
			i = 1
			p.Messages = make([]Said, 0, 1)
			ok = t.list(func() bool {
				m, ok := t.said()
				p.Messages = append(p.Messages, m)
				return ok
			})
		case "stream":
			i = 2
			p.Stream, ok = t.truth()
		default:
			if !another(key) || !t.skip() {
				return false
			}
			if p.Rest == nil {
				p.Rest = append(p.Rest, '{')
			} else {
				p.Rest = append(p.Rest, ',')
			}
			p.Rest = append(append(append(append(p.Rest, '"'), key...), `":`...), body[at:t.at]...)
			return len(p.Rest) <= mostRest
		}
		if !ok || seen[i] {
			return false
		}
		seen[i] = true
		return true
	})
	t.space()
	ok = ok && t.at == len(body)
	if p.Rest != nil {
		p.Rest = append(p.Rest, '}')
	}
	return p, ok
}

// another says whether a key is none that encoding/json could take for one that TakeApart reads
// itself.
func another(key []byte) bool {
	for _, c := range key {
		if c >= utf8.RuneSelf { // some letters beyond ASCII count as ASCII's
			return false
		}
	}
	for _, name := range []string{"model", "messages", "stream"} {
		if bytes.EqualFold(key, []byte(name)) {
			return false
		}
	}
	return true
}

// taker reads JSON as far as it is plain. Each method begins at the first byte of what it reads and
// leaves at behind the last; false: it looks otherwise.
type taker struct {
	b  []byte
	at int
}

// space skips white space and is the byte behind it, 0 at the end.
func (t *taker) space() byte {
	for ; t.at < len(t.b); t.at++ {
		if c := t.b[t.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// takes reads one byte, with white space before and behind it.
func (t *taker) takes(c byte) bool {
	if t.space() != c {
		return false
	}
	t.at++
	t.space()
	return true
}

// items reads what stands between two brackets, calling one at the first byte of each item.
func (t *taker) items(open, shut byte, one func() bool) bool {
	if !t.takes(open) {
		return false
	}
	if t.space() == shut {
		t.at++
		return true
	}
	for one() {
		switch c := t.space(); c {
		case shut:
			t.at++
			return true
		case ',':
			t.at++
			t.space()
		default:
			return false
		}
	}
	return false
}

// object reads an object, calling one at the first byte of each field's value.
func (t *taker) object(one func(key []byte) bool) bool {
	return t.items('{', '}', func() bool {
		raw, simple := t.quoted()
		return simple && t.takes(':') && one(raw[1:len(raw)-1])
	})
}

func (t *taker) list(one func() bool) bool { return t.items('[', ']', one) }

// quoted reads a string with its quotes; nil: there is none. It is simple where it means what
// stands between them.
func (t *taker) quoted() (raw []byte, simple bool) {
	if t.at == len(t.b) || t.b[t.at] != '"' {
		return nil, false
	}
	n := stringEnd(t.b[t.at+1:])
	if t.at+1+n == len(t.b) {
		return nil, false
	}
	raw = t.b[t.at : t.at+n+2]
	t.at += len(raw)
	ascii := true
	for _, c := range raw[1 : n+1] {
		if c < ' ' || c == '\\' {
			return raw, false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return raw, ascii || utf8.Valid(raw)
}

func (t *taker) text() (s string, ok bool) {
	raw, simple := t.quoted()
	switch {
	case simple:
		return string(raw[1 : len(raw)-1]), true
	case raw == nil:
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

func (t *taker) truth() (*bool, bool) {
	at := t.at
	if !t.skip() {
		return nil, false
	}
	is := string(t.b[at:t.at]) == "true"
	return &is, is || string(t.b[at:t.at]) == "false"
}

// said reads one message.
func (t *taker) said() (m Said, ok bool) {
	at := t.at
	if t.space() != '{' {
		return m, false
	}
	role, content := false, false
	if t.object(func(key []byte) (ok bool) {
		switch {
		case string(key) == "role" && !role:
			role = true
			m.Role, ok = t.text()
		case string(key) == "content" && !content:
			content = true
			m.Content, ok = t.text()
		}
		return ok
	}) && content {
		return m, true
	}
	t.at = at
	ok = t.skip()
	return Said{Object: t.b[at:t.at]}, ok
}

// skip reads a value without a look at what it is.
func (t *taker) skip() bool {
	at := t.at
	for depth := 0; t.at < len(t.b); {
		switch c := t.b[t.at]; c {
		case '"':
			if raw, _ := t.quoted(); raw == nil {
				return false
			}
		case '{', '[':
			depth++
			t.at++
		case '}', ']', ',', ':', ' ', '\n', '\t', '\r':
			switch {
			case depth == 0:
				return t.at > at
			case c == '}' || c == ']':
				depth--
			}
			t.at++
		default:
			t.at++
			continue
		}
		if depth == 0 {
			return true
		}
	}
	return false
}
