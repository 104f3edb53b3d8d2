package models

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Variables may name variables: without a bound on words a small script could grow by doubling.
const (
	maxScript = 64 << 10
	maxWord   = 8 << 10
)

// parseScript reads the flags of the first command in a run_*.sh that names an axmodel template, as
// legacy packages keep their whole configuration there. It understands what those scripts use:
// continued lines, comments, quotes, and variables set in the same file. Nothing is run. The result
// is empty when there is no such command.
func parseScript(src string) object {
	if len(src) > maxScript {
		return nil
	}
	vars := map[string]string{}
	for src != "" {
		var words []string
		words, src = shellWords(src, vars)
		for len(words) > 0 { // export NAME=value, NAME=value command …
			name, value, ok := strings.Cut(words[0], "=")
			if words[0] != "export" && (!ok || !isIdent(name)) {
				break
			}
			if words[0] != "export" {
				vars[name] = value
			}
			words = words[1:]
		}
		if o := scriptFlags(words); o.str("template_filename_axmodel") != "" {
			return o
		}
	}
	return nil
}

// continued is a line's end that does not end a command: a backslash, also before a comment, as
// people write them.
var continued = regexp.MustCompile(`^\\[ \t\r]*(#[^\n]*)?(\n|$)`)

// shellWords reads the words of the first command, with variables set in, and gives what follows
// its line.
func shellWords(src string, vars map[string]string) (words []string, rest string) {
	var w strings.Builder
	var quote byte
	open := false // a word has begun, perhaps an empty one in quotes
	end := func() {
		if open {
			words = append(words, w.String())
		}
		w.Reset()
		open = false
	}
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\\' && continued.MatchString(src[i:]):
			i += len(continued.FindString(src[i:])) - 1
			if quote != 0 {
				w.WriteByte(' ')
			} else {
				end()
			}
		case c == '\\' && quote != '\'' && i+1 < len(src):
			i++
			w.WriteByte(src[i])
			open = true
		case c == '\n', c == '#' && quote == 0 && !open:
			end()
			_, rest, _ = strings.Cut(src[i:], "\n")
			return words, rest
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, open = c, true
		case c == '$' && quote != '\'':
			name, n := varName(src[i+1:])
			if n == 0 {
				w.WriteByte(c)
			} else if w.Len()+len(vars[name]) <= maxWord {
				w.WriteString(vars[name])
			}
			i, open = i+n, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r'):
			end()
		default:
			w.WriteByte(c)
			open = true
		}
	}
	end()
	return words, ""
}

// varName reads NAME or {NAME} or {NAME:-x} after a dollar sign and says how many bytes it took.
func varName(s string) (string, int) {
	if strings.HasPrefix(s, "{") {
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return "", 0
		}
		name, _, _ := strings.Cut(s[1:end], ":")
		return name, end + 1
	}
	n := 0
	for n < len(s) && (s[n] == '_' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	if n == 0 && len(s) > 0 && s[0] >= '0' && s[0] <= '9' { // $1: an argument, empty here
		n = 1
	}
	return s[:n], n
}

func isIdent(s string) bool {
	name, n := varName(s)
	return n > 0 && n == len(s) && name == s
}

// scriptFlags turns --name value and --name=value into the object a config.json would have been.
func scriptFlags(words []string) object {
	o := object{}
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "--")
		if !ok || name == "" {
			continue
		}
		name, value, ok := strings.Cut(name, "=")
		if name == "" {
			continue // --=value
		}
		if !ok && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			continue
		}
		o[name] = quoted
	}
	return o
}
