package launch

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// setTOML puts values into a file of TOML. Those of the path's first step alone go before its
// tables, the others into a table of their own at its end. What it does not set stays as it is, to
// the byte.
func setTOML(file []byte, values []Value) ([]byte, error) {
	want, err := readTOML(file)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if err := put(want, v.Path, v.Value); err != nil {
			return nil, err
		}
		file = putTOML(file, v)
	}
	got, err := readTOML(file)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errShape, err)
	}
	if !reflect.DeepEqual(got, want) {
		return nil, errShape
	}
	return file, nil
}

func readTOML(file []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := toml.Unmarshal(file, &tree); err != nil {
		return nil, fmt.Errorf("it cannot be read as TOML: %w", err)
	}
	return tree, nil
}

// statement is a header or a setting of a file of TOML.
type statement struct {
	from, to int      // without the line's end
	table    []string // the table that it is in; of a header, the one that it begins
	key      []string // nil: a header
	value    int      // where the value begins
	end      int      // and ends
}

// statements are a file's, which can be read.
func statements(b []byte) (list []statement) {
	var table []string
	for at := 0; at < len(b); {
		switch c := b[at]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			at++
		case c == '#':
			at = lineEnd(b, at)
		case c == '[':
			s := statement{from: at}
			for at < len(b) && b[at] == '[' { // twice for one of an array of tables
				at++
			}
			table, at = dotted(b, at)
			s.table, s.to = table, lineEnd(b, at)
			list = append(list, s)
			at = s.to
		default:
			s := statement{from: at, table: table}
			s.key, at = dotted(b, at)
			if at < len(b) { // the equals sign
				at++
			}
			for at < len(b) && (b[at] == ' ' || b[at] == '\t') {
				at++
			}
			s.value = at
			s.end = tomlEnd(b, at)
			s.to = lineEnd(b, s.end)
			list = append(list, s)
			at = s.to
		}
	}
	return list
}

func lineEnd(b []byte, at int) int {
	if i := bytes.IndexByte(b[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(b)
}

// dotted reads a key of several parts, and the place of what ends it: a bracket or an equals sign.
func dotted(b []byte, at int) (path []string, end int) {
	part, open := "", false
	for ; at < len(b); at++ {
		switch c := b[at]; c {
		case '"', '\'':
			to := quoteEnd(b, at)
			text := string(b[at:to])
			if s, err := strconv.Unquote(text); err == nil && c == '"' {
				part += s
			} else {
				part += strings.Trim(text, string(c))
			}
			at = to - 1
			open = true
		case '.':
			path, part, open = append(path, part), "", false
		case ']', '=', '\n':
			if open || part != "" {
				path = append(path, part)
			}
			return path, at
		case ' ', '\t', '\r':
		default:
			part += string(c)
		}
	}
	return append(path, part), at
}

// quoteEnd is the place behind the text in quotes that begins at a place.
func quoteEnd(b []byte, at int) int {
	q := b[at]
	if long := bytes.Repeat([]byte{q}, 3); bytes.HasPrefix(b[at:], long) {
		for i := at + 3; i < len(b); i++ {
			if q == '"' && b[i] == '\\' {
				i++
			} else if bytes.HasPrefix(b[i:], long) {
				for i += 3; i < len(b) && b[i] == q; i++ { // quotes before the closing ones
				}
				return i
			}
		}
		return len(b)
	}
	for i := at + 1; i < len(b) && b[i] != '\n'; i++ {
		if q == '"' && b[i] == '\\' {
			i++
		} else if b[i] == q {
			return i + 1
		}
	}
	return len(b)
}

// tomlEnd is the place behind the value that begins at a place.
func tomlEnd(b []byte, at int) int {
	depth := 0
	end := at
	for at < len(b) {
		switch b[at] {
		case '"', '\'':
			at = quoteEnd(b, at)
			end = at
			continue
		case '#':
			if depth == 0 {
				return end
			}
			at = lineEnd(b, at)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '\n':
			if depth <= 0 {
				return end
			}
		}
		if strings.IndexByte(" \t\r", b[at]) < 0 {
			end = at + 1
		}
		at++
	}
	return end
}

func putTOML(b []byte, v Value) []byte {
	list := statements(b)
	table, name := v.Path[:len(v.Path)-1], v.Path[len(v.Path)-1]
	text := tomlText(v.Value)
	for _, s := range list {
		if s.key != nil && slices.Equal(slices.Concat(s.table, s.key), v.Path) {
			return splice(b, s.value, s.end, text)
		}
	}
	line := tomlKey(name) + " = " + text
	at := -1 // behind the last statement of the table
	for _, s := range list {
		if slices.Equal(s.table, table) {
			at = s.to
		}
	}
	switch {
	case at >= 0:
		return splice(b, at, at, "\n"+line)
	case len(table) == 0: // before all that is there
		if line += "\n"; len(list) > 0 {
			line += "\n"
		}
		return splice(b, 0, 0, line)
	}
	before := ""
	if len(b) > 0 && b[len(b)-1] != '\n' {
		before = "\n"
	}
	if len(b) > 0 {
		before += "\n"
	}
	var keys []string
	for _, k := range table {
		keys = append(keys, tomlKey(k))
	}
	return splice(b, len(b), len(b), before+"["+strings.Join(keys, ".")+"]\n"+line+"\n")
}

func tomlKey(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == "" {
		return s
	}
	return tomlText(s)
}

// tomlText writes a text or a number.
func tomlText(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
