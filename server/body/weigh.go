package body

import (
	"bytes"
	"encoding/json"
	"strings"
)

// What a request body may hold (promise T7). A few bytes of JSON can become a hundred times as many
// in memory, so that its parts are counted before any of it is decoded.
const (
	Max        = 32 << 20 // bytes, where pictures can be
	MaxDepth   = 128      // deepest nesting
	MaxParts   = 1 << 16  // objects, arrays and strings
	MaxNumbers = 1 << 20  // numbers and the like
	MaxText    = 4 << 20  // bytes of strings that are no image: no context holds more
)

// Weight is what a body holds. Coded are the bytes of long strings that may be base64, as images
// are, and are not counted as text.
type Weight struct{ Bytes, Parts, Numbers, Text, Coded int }

// TextCost is how much memory a byte of text takes.
const TextCost = 16

// Cost is about how much memory a request takes from its body's decoding to its answer's end:
// measured, and rounded up.
func (w Weight) Cost() int64 {
	return int64(w.Bytes)*3 + int64(w.Text)*TextCost + int64(w.Parts)*1024 + int64(w.Numbers)*64
}

// Check fails when a body holds more than it may.
func Check(body []byte) error {
	_, err := Weigh(body)
	return err
}

// Weigh counts what a body holds, and fails when that is more than it may. It scans once and
// allocates nothing, but for strings that hold JSON, which is counted too; what is no JSON is left
// to the decoder.
func Weigh(body []byte) (Weight, error) { return weigh(body, false) }

// weigh is Weigh; where all is set, every string that looks like JSON is taken for some.
func weigh(body []byte, all bool) (w Weight, err error) {
	w.Bytes = len(body)
	inner := none
	for depth, i := 0, 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			n := stringEnd(body[i+1:])
			s := body[i+1 : i+1+n]
			if n < 4096 || !encoded(s) {
				w.Text += n
			} else {
				w.Coded += n
			}
			i += n + 1
			w.Parts++
			switch {
			case i >= len(body): // cut off
			case isKey(body[i+1:]):
				inner = holds(s)
			//rule:T7 TestWeigh false
			case inner != none || all:
				in, err := within(body[i-n-1:i+1], inner == some)
				if err != nil {
					return w, err
				}
				w.Parts, w.Numbers, inner = w.Parts+in.Parts, w.Numbers+in.Numbers, none
			}
		case '{', '[':
			inner = none
			w.Parts++
			//rule:T7 TestDepth false
			if depth++; depth > MaxDepth {
				return w, Fail(400, "the request body nests deeper than %d levels", MaxDepth)
			}
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
		default: // a number or a word; each begins after something else
			if i == 0 || !word(body[i-1]) {
				w.Numbers++
			}
		}
		switch {
		//rule:T7 TestWeigh false
		case w.Parts > MaxParts:
			return w, Fail(400, "the request body holds more than %d objects, lists and strings", MaxParts)
		case w.Numbers > MaxNumbers:
			return w, Fail(400, "the request body holds more than %d numbers", MaxNumbers)
		//rule:T7 TestWeigh false
		case w.Text > MaxText:
			return w, TextTooLong()
		}
	}
	return w, nil
}

// TextTooLong is the error of a request with more than [MaxText] bytes of text.
func TextTooLong() error {
	return Fail(400, "the request's text is too long: the limit is %d MiB", MaxText>>20)
}

// What the string under a key holds that is decoded again.
type holding int

const (
	none   holding = iota
	some           // JSON
	nested         // JSON whose strings may hold more
)

// isKey says whether what comes after a string makes a key of it.
func isKey(rest []byte) bool {
	for _, c := range rest {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c == ':'
		}
	}
	return false
}

// holds tells what the string under a key holds, reading the key as package json does: escapes and
// letters of either case.
func holds(key []byte) holding {
	if len(key) < len("arguments") || len(key) > 6*len("encrypted_content") {
		return none
	}
	name := string(key)
	if bytes.IndexByte(key, '\\') >= 0 && json.Unmarshal([]byte(`"`+name+`"`), &name) != nil {
		return none
	}
	switch {
	case strings.EqualFold(name, "arguments"): // of a call, in OpenAI's dialects
		return some
	case strings.EqualFold(name, "encrypted_content"): // of a compaction, whose messages may hold tools
		return nested
	}
	return none
}

// within weighs the JSON that a string holds, given with its quotes. What is none weighs nothing,
// and neither does text that only looks like it: where it may be either, it is decoded only if it
// is.
func within(quoted []byte, sure bool) (Weight, error) {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return Weight{}, nil
	}
	if s = strings.TrimLeft(s, " \t\r\n"); s == "" || s[0] != '{' && s[0] != '[' {
		return Weight{}, nil
	}
	return weigh([]byte(s), !sure)
}

func word(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// stringEnd is where the string that s begins within ends.
func stringEnd(s []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(s[at:], '"')
		if n < 0 {
			return len(s)
		}
		at += n
		back := 0
		for back < at && s[at-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return at
		}
		at++
	}
}

// encoded says whether a string may be base64, as images are: letters, digits and few signs, those
// of a data URL among them.
func encoded(s []byte) bool {
	for _, c := range s {
		if !word(c) && c != '/' && c != '=' && c != '_' && c != ':' && c != ';' && c != ',' && c != '\\' {
			return false
		}
	}
	return true
}
