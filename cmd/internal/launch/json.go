package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Value is an entry of a configuration: a text, a whole number, or a map of text to such.
type Value struct {
	Path  []string
	Value any
}

// errShape is that a file says something at a place where an entry wants to say more.
var errShape = errors.New("it is written in a way that this program does not change")

// setJSON puts values into a file of JSON, in which comments and commas behind the last value may
// be. What it does not set stays as it is, to the byte. An empty file is an empty object.
func setJSON(file []byte, values []Value) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		file = []byte("{}\n")
	}
	want, err := readJSON(file)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if file, err = putJSON(file, v); err != nil {
			return nil, err
		}
		if err = put(want, v.Path, v.Value); err != nil {
			return nil, err
		}
	}
	got, err := readJSON(file)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errShape, err)
	}
	if !sameJSON(got, want) {
		return nil, errShape
	}
	return file, nil
}

// sameJSON compares what was read with what was set, by what they would be written as.
func sameJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// put sets a value in a tree of maps.
func put(tree map[string]any, path []string, value any) error {
	for _, name := range path[:len(path)-1] {
		below, ok := tree[name].(map[string]any)
		if _, there := tree[name]; there && !ok {
			return fmt.Errorf("%s is something other than a group of settings", name)
		}
		if below == nil {
			below = map[string]any{}
			tree[name] = below
		}
		tree = below
	}
	tree[path[len(path)-1]] = value
	return nil
}

func readJSON(file []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(plainJSON(file)))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("it cannot be read as JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("it cannot be read as JSON: there is more behind its end")
	}
	if tree == nil {
		return nil, errors.New("it holds no object")
	}
	return tree, nil
}

// plainJSON is the file with blanks for its comments, for the commas behind a last value and for a
// mark of the byte order.
func plainJSON(file []byte) []byte {
	out := bytes.Clone(file)
	if bytes.HasPrefix(out, []byte("\xef\xbb\xbf")) {
		copy(out, "   ")
	}
	comma := -1
	for at := 0; at < len(out); {
		if end := comment(out, at); end > at {
			for i := at; i < end; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			at = end
			continue
		}
		switch c := out[at]; c {
		case '"':
			at = stringEnd(out, at)
			comma = -1
			continue
		case ',':
			comma = at
		case '}', ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case ' ', '\t', '\n', '\r':
		default:
			comma = -1
		}
		at++
	}
	return out
}

// comment is where the comment ends that begins at a place; at: none does.
func comment(b []byte, at int) int {
	rest := b[at:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			return at + i
		}
		return len(b)
	case bytes.HasPrefix(rest, []byte("/*")):
		if i := bytes.Index(rest[2:], []byte("*/")); i >= 0 {
			return at + 2 + i + 2
		}
		return len(b)
	}
	return at
}

// stringEnd is the place behind the string that begins at a place.
func stringEnd(b []byte, at int) int {
	for at++; at < len(b); at++ {
		switch b[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(b)
}

// blank is the next place that is neither blank nor comment.
func blank(b []byte, at int) int {
	if at == 0 && bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		at = 3
	}
	for at < len(b) {
		if end := comment(b, at); end > at {
			at = end
		} else if strings.IndexByte(" \t\r\n", b[at]) >= 0 {
			at++
		} else {
			break
		}
	}
	return at
}

// valueEnd is the place behind the value that begins at a place of a file that was read.
func valueEnd(b []byte, at int) int {
	depth := 0
	for at < len(b) {
		if end := comment(b, at); end > at {
			at = end
			continue
		}
		switch c := b[at]; c {
		case '"':
			if at = stringEnd(b, at); depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}

// putJSON sets one value in a file that can be read.
func putJSON(file []byte, v Value) ([]byte, error) {
	open := blank(file, 0) // of the object
	for depth, name := range v.Path {
		if open >= len(file) || file[open] != '{' {
			return nil, fmt.Errorf("%s is something other than a group of settings", strings.Join(v.Path[:depth], "."))
		}
		from, to, last, close := member(file, open, name)
		if from < 0 {
			value := v.Value
			for i := len(v.Path) - 1; i > depth; i-- {
				value = map[string]any{v.Path[i]: value}
			}
			return insert(file, open, last, close, name, value)
		}
		if depth == len(v.Path)-1 {
			text, err := written(v.Value, indentAt(file, from))
			if err != nil {
				return nil, err
			}
			return splice(file, from, to, text), nil
		}
		open = from
	}
	return file, nil
}

// member finds a member's value in the object that begins at open, the last of its name, as readers
// do. last is the place behind the last member's value, or its comma; open+1: there is none. close
// is the object's end.
func member(b []byte, open int, name string) (from, to, last, close int) {
	from, last = -1, open+1
	for at := blank(b, open+1); at < len(b) && b[at] == '"'; at = blank(b, at) {
		end := stringEnd(b, at)
		key, err := strconv.Unquote(string(b[at:end]))
		if err != nil { // JSON's own escapes
			_ = json.Unmarshal(b[at:end], &key)
		}
		at = blank(b, blank(b, end)+1) // behind the colon
		end = valueEnd(b, at)
		if key == name {
			from, to = at, end
		}
		last = end
		if at = blank(b, end); at < len(b) && b[at] == ',' {
			at++
			last = at
		}
	}
	return from, to, last, blank(b, last)
}

// insert puts a member behind the last one of an object.
func insert(b []byte, open, last, close int, name string, value any) ([]byte, error) {
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	outer := indentAt(b, open)
	inner := outer + "  "
	empty := last == open+1
	if first := blank(b, open+1); !empty {
		inner = indentAt(b, first)
	}
	oneLine := !empty && !bytes.Contains(b[open:close], []byte("\n"))
	before, after := "", ""
	if !empty && b[last-1] != ',' {
		before = ","
	}
	switch {
	case oneLine:
		before, inner = before+" ", outer
	case empty && !bytes.Contains(b[open:close], []byte("\n")):
		before, after = before+"\n"+inner, "\n"+outer
	default:
		before += "\n" + inner
	}
	text, err := written(value, inner)
	if err != nil {
		return nil, err
	}
	member := string(key) + ": " + text + after
	// A comment behind the last value stays behind it.
	if end := lineEnd(b, last); !empty && !oneLine && blank(b, last) >= end {
		comma, line := strings.CutPrefix(before, ",")
		b = splice(b, end, end, comma+member)
		if line {
			b = splice(b, last, last, ",")
		}
		return b, nil
	}
	return splice(b, last, last, before+member), nil
}

func written(value any, indent string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(indent, "  ")
	err := e.Encode(value)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// indentAt is the blanks with which the line of a place begins.
func indentAt(b []byte, at int) string {
	line := b[bytes.LastIndexByte(b[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func splice(b []byte, from, to int, text string) []byte {
	return append(append(bytes.Clone(b[:from]), text...), b[to:]...)
}
