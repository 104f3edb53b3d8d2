package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern compiles an ECMA-262 regular expression, searched anywhere in the text as JSON Schema's
// pattern is. What is not regular (look-around, back references) and word boundaries are errors.
func pattern(m *meter, source string) (*runes, error) {
	translated, err := translate(source)
	if err != nil {
		return nil, err
	}
	return compileRegex(m, translated, true)
}

// whole compiles a regular expression of our own, in Go's syntax, that must match the whole text.
func whole(source string) *runes {
	d, err := compileRegex(nil, `^(?:`+source+`)$`, false)
	if err != nil {
		panic("grammar: " + source + ": " + err.Error()) // a constant of this package
	}
	return d
}

// ECMA's white space and line ends, as class items in Go's syntax.
const (
	ecmaSpace = `\t\n\x0b\x0c\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	ecmaLines = `\n\r\x{2028}\x{2029}`
)

// translate rewrites ECMA's syntax where Go's differs.
func translate(source string) (string, error) {
	if len(source) > 10_000 {
		return "", errTooLarge
	}
	var out strings.Builder
	in, class := source, false
	for in != "" {
		r, n := utf8.DecodeRuneInString(in)
		c := in[:n]
		in = in[n:]
		switch {
		case r == utf8.RuneError && n == 1:
			return "", errors.New("not UTF-8")
		case c == "\\":
			if in == "" {
				return "", errors.New("it ends with a backslash")
			}
			_, n = utf8.DecodeRuneInString(in)
			e := in[:n]
			in = in[n:]
			hex := 0
			switch e {
			case "s":
				out.WriteString(bracket(ecmaSpace, class))
			case "S":
				if class {
					return "", errors.New(`\S in a class is not supported`)
				}
				out.WriteString("[^" + ecmaSpace + "]")
			case "c":
				if in == "" || in[0]|0x20 < 'a' || in[0]|0x20 > 'z' {
					return "", errors.New(`\c must be followed by a letter`)
				}
				fmt.Fprintf(&out, `\x{%x}`, in[0]&31)
				in = in[1:]
			case "x":
				hex = 2
			case "u":
				hex = 4
			case "b", "B":
				if !class || e == "B" {
					return "", fmt.Errorf(`word boundaries (\%s) are not supported`, e)
				}
				out.WriteString(`\x08`)
			case "0":
				out.WriteString(`\x00`)
			case "1", "2", "3", "4", "5", "6", "7", "8", "9", "k":
				return "", fmt.Errorf(`back references (\%s) are not regular`, e)
			case "p", "P":
				end := strings.IndexByte(in, '}')
				if !strings.HasPrefix(in, "{") || end < 0 {
					return "", fmt.Errorf(`\%s must be followed by {property}`, e)
				}
				name := in[1:end]
				in = in[end+1:]
				if _, value, ok := strings.Cut(name, "="); ok {
					name = value
				}
				if long, ok := longCategories[name]; ok {
					name = long
				}
				if unicode.Categories[name] == nil && unicode.Scripts[name] == nil {
					return "", fmt.Errorf(`\%s{%s} is not a known property`, e, name)
				}
				out.WriteString(`\` + e + "{" + name + "}")
			case "d", "D", "w", "W", "n", "r", "t", "f", "v":
				out.WriteString(`\` + e)
			default:
				if len(e) == 1 && (e[0]|0x20 >= 'a' && e[0]|0x20 <= 'z') {
					return "", fmt.Errorf(`\%s is not an escape`, e)
				}
				quote(&out, e)
			}
			if hex == 0 {
				continue
			}
			var v rune
			if e == "u" && strings.HasPrefix(in, "{") {
				end := strings.IndexByte(in, '}')
				if end < 0 || !parseHex(in[1:end], &v) {
					return "", errors.New(`\u{…} must hold hexadecimal digits`)
				}
				in = in[end+1:]
			} else {
				if len(in) < hex || !parseHex(in[:hex], &v) {
					return "", fmt.Errorf(`\%s must be followed by %d hexadecimal digits`, e, hex)
				}
				in = in[hex:]
				var low rune
				if v >= 0xd800 && v < 0xdc00 && len(in) >= 6 && in[:2] == `\u` && parseHex(in[2:6], &low) && low >= 0xdc00 && low < 0xe000 {
					v = 0x10000 + (v-0xd800)<<10 + low - 0xdc00
					in = in[6:]
				}
			}
			fmt.Fprintf(&out, `\x{%x}`, v)
		case class:
			switch c {
			case "]":
				class = false
				out.WriteString(c)
			case "[":
				out.WriteString(`\[`)
			default:
				out.WriteString(c)
			}
		case c == "[":
			switch {
			case strings.HasPrefix(in, "^]"):
				out.WriteString(`[\x{0}-\x{10ffff}]`)
				in = in[2:]
			case strings.HasPrefix(in, "]"):
				out.WriteString(`[^\x{0}-\x{10ffff}]`)
				in = in[1:]
			default:
				class = true
				out.WriteString(c)
				if strings.HasPrefix(in, "^") {
					out.WriteString("^")
					in = in[1:]
				}
			}
		case c == ".":
			out.WriteString("[^" + ecmaLines + "]")
		case c == "(" && strings.HasPrefix(in, "?"):
			switch {
			case strings.HasPrefix(in, "?:"):
				out.WriteString("(?:")
				in = in[2:]
			case strings.HasPrefix(in, "?="), strings.HasPrefix(in, "?!"), strings.HasPrefix(in, "?<="), strings.HasPrefix(in, "?<!"):
				return "", errors.New("look-around is not supported")
			case strings.HasPrefix(in, "?<") && strings.Contains(in, ">"):
				out.WriteString("(?:")
				in = in[strings.IndexByte(in, '>')+1:]
			default:
				return "", errors.New("this kind of group is not supported")
			}
		case c == "(":
			out.WriteString("(?:")
		default:
			out.WriteString(c)
		}
	}
	if class {
		return "", errors.New("a class is not closed")
	}
	return out.String(), nil
}

var longCategories = map[string]string{
	"Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd",
	"Punctuation": "P", "punct": "P", "Symbol": "S", "Separator": "Z", "Space_Separator": "Zs", "Mark": "M", "Other": "C", "Control": "Cc",
}

func bracket(items string, class bool) string {
	if class {
		return items
	}
	return "[" + items + "]"
}

func quote(out *strings.Builder, c string) {
	if strings.ContainsAny(c, `\.+*?()|[]{}^$-/&~#`) {
		out.WriteString(`\`)
	}
	out.WriteString(c)
}

func parseHex(s string, v *rune) bool {
	*v = 0
	for _, c := range []byte(s) {
		d := rune(strings.IndexByte("0123456789abcdef", c|0x20))
		if c >= '0' && c <= '9' {
			d = rune(c - '0')
		} else if d < 10 {
			return false
		}
		if *v = *v<<4 | d; *v > utf8.MaxRune {
			return false
		}
	}
	return s != ""
}

// regexNFA is Thompson's construction over code points. Edges with at set are passed only at the
// text's begin or end.
type regexNFA struct {
	spans [][]span
	eps   [][]regexEps
	m     *meter
}

type regexEps struct {
	to int32
	at syntax.Op // OpBeginText, OpEndText or 0
}

func (n *regexNFA) state() int32 {
	n.spans = append(n.spans, nil)
	n.eps = append(n.eps, nil)
	return int32(len(n.eps) - 1)
}

func (n *regexNFA) skip(from, to int32) { n.eps[from] = append(n.eps[from], regexEps{to: to}) }

func compileRegex(m *meter, source string, search bool) (*runes, error) {
	re, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	n := &regexNFA{m: m}
	in := n.state()
	if search {
		outer := in
		in = n.state()
		n.spans[outer] = everything(outer)
		n.skip(outer, in)
	}
	final, err := n.build(re, in)
	if err != nil {
		return nil, err
	}
	if search {
		end := final
		final = n.state()
		n.skip(end, final)
		n.spans[final] = everything(final)
	}
	return n.determinise(final, search)
}

func (n *regexNFA) build(re *syntax.Regexp, from int32) (int32, error) {
	n.m.step(2)
	if len(n.eps) > 400_000 {
		return 0, errTooLarge
	}
	chars := func(pairs []rune) int32 {
		to := n.state()
		for i := 0; i < len(pairs); i += 2 {
			n.spans[from] = append(n.spans[from], span{pairs[i], pairs[i+1], to})
		}
		return to
	}
	var err error
	switch re.Op {
	case syntax.OpEmptyMatch:
		return from, nil
	case syntax.OpNoMatch:
		return n.state(), nil
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 {
				pairs := []rune{r, r}
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					pairs = append(pairs, f, f)
				}
				from = chars(pairs)
			} else {
				from = chars([]rune{r, r})
			}
		}
		return from, nil
	case syntax.OpCharClass:
		return chars(re.Rune), nil
	case syntax.OpAnyChar:
		return chars([]rune{0, utf8.MaxRune}), nil
	case syntax.OpAnyCharNotNL:
		return chars([]rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}), nil
	case syntax.OpBeginText, syntax.OpEndText:
		to := n.state()
		n.eps[from] = append(n.eps[from], regexEps{to, re.Op})
		return to, nil
	case syntax.OpCapture:
		return n.build(re.Sub[0], from)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if from, err = n.build(sub, from); err != nil {
				return 0, err
			}
		}
		return from, nil
	case syntax.OpAlternate:
		end := n.state()
		for _, sub := range re.Sub {
			in := n.state()
			n.skip(from, in)
			out, err := n.build(sub, in)
			if err != nil {
				return 0, err
			}
			n.skip(out, end)
		}
		return end, nil
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		least, most := re.Min, re.Max
		switch re.Op {
		case syntax.OpStar:
			least, most = 0, -1
		case syntax.OpPlus:
			least, most = 1, -1
		case syntax.OpQuest:
			least, most = 0, 1
		}
		for range least {
			if from, err = n.build(re.Sub[0], from); err != nil {
				return 0, err
			}
		}
		if most < 0 {
			loop := n.state()
			n.skip(from, loop)
			body := n.state()
			n.skip(loop, body)
			out, err := n.build(re.Sub[0], body)
			if err != nil {
				return 0, err
			}
			n.skip(out, loop)
			end := n.state()
			n.skip(loop, end)
			return end, nil
		}
		end := n.state()
		for range most - least {
			n.skip(from, end)
			if from, err = n.build(re.Sub[0], from); err != nil {
				return 0, err
			}
		}
		n.skip(from, end)
		return end, nil
	}
	return 0, fmt.Errorf("%s is not supported", re)
}

// determinise is the subset construction. With search, a set that holds the final state accepts
// whatever follows.
func (n *regexNFA) determinise(final int32, search bool) (*runes, error) {
	closure := func(set []int32, begin, end bool) []int32 {
		seen := map[int32]bool{}
		var out []int32
		for len(set) > 0 {
			s := set[len(set)-1]
			set = set[:len(set)-1]
			if seen[s] {
				continue
			}
			seen[s] = true
			n.m.step(8) // a map is dear
			out = append(out, s)
			for _, e := range n.eps[s] {
				if e.at == 0 || e.at == syntax.OpBeginText && begin || e.at == syntax.OpEndText && end {
					set = append(set, e.to)
				}
			}
		}
		slices.Sort(out)
		if search && slices.Contains(out, final) && !end {
			return []int32{final}
		}
		return out
	}
	d := &runes{m: n.m}
	known := map[string]int32{}
	var sets [][]int32
	intern := func(set []int32, begin bool) int32 {
		key := make([]byte, 0, 4*len(set)+1)
		if begin {
			key = append(key, 1) // the start is not shared: more may end there
		}
		for _, s := range set {
			key = append(key, byte(s), byte(s>>8), byte(s>>16), byte(s>>24))
		}
		if id, ok := known[string(key)]; ok {
			return id
		}
		sets = append(sets, set)
		id := d.add(slices.Contains(closure(slices.Clone(set), begin, true), final))
		known[string(key)] = id
		return id
	}
	intern(closure([]int32{0}, true, false), true)
	work := 0
	for id := 0; id < len(sets); id++ {
		var spans []span
		var cuts []rune
		for _, s := range sets[id] {
			for _, e := range n.spans[s] {
				spans = append(spans, e)
				cuts = append(cuts, e.lo, e.hi+1)
			}
		}
		cuts = append(cuts, surrogateMin, surrogateMax+1)
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		slices.SortFunc(spans, func(a, b span) int { return int(a.lo - b.lo) })
		var open []span // those that reach over the cut looked at
		for i := 0; i+1 < len(cuts); i++ {
			lo, hi := cuts[i], cuts[i+1]-1
			open = slices.DeleteFunc(open, func(e span) bool { return e.hi < lo })
			for len(spans) > 0 && spans[0].lo <= lo {
				if spans[0].hi >= lo {
					open = append(open, spans[0])
				}
				spans = spans[1:]
			}
			if lo == surrogateMin || hi > utf8.MaxRune {
				continue
			}
			var set []int32
			for _, e := range open {
				set = append(set, e.to)
			}
			n.m.step(4 + len(open))
			if work += len(open); work > 2_000_000 {
				return nil, errTooLarge
			}
			if len(set) == 0 {
				continue
			}
			slices.Sort(set)
			to := intern(closure(slices.Compact(set), false, false), false)
			if len(sets) > maxRunes {
				return nil, errTooLarge
			}
			d.trans[id] = append(d.trans[id], span{lo, hi, to})
		}
	}
	return d.trim(), nil
}
