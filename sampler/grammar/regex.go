package grammar

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
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

const (
	// ECMA's white space and line ends, as class items in Go's syntax.
	ecmaSpace = `\t\n\x0b\x0c\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	ecmaLines = `\n\r\x{2028}\x{2029}`
	anyRune   = `\x{0}-\x{10ffff}`
)

// ecmaTokens finds what ECMA's syntax may write in another way than Go's: escapes, classes, groups,
// dots.
var ecmaTokens = regexp.MustCompile(`(?s)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]+\}` +
	`|\\x[0-9a-fA-F]{2}|\\c[a-zA-Z]|\\[pP]\{[^}]*\}|\\.?|\[\^?\]?|\]|\(\?(?:<?[=!]|<[^>]*>|.)?|\.`)

// translate rewrites ECMA's syntax where Go's differs. Go's parser refuses what is left and wrong.
func translate(source string) (string, error) {
	if len(source) > 10_000 {
		return "", errTooLarge
	}
	var err error
	class := false
	out := ecmaTokens.ReplaceAllStringFunc(source, func(token string) string {
		switch {
		case token[0] == '\\':
			to, wrong := unescape(token, class)
			if wrong != "" && err == nil {
				err = errors.New(wrong)
			}
			return to
		case token == "]":
			class = false
		case class && token[0] == '[': // which means itself, and the class may end behind it
			class = !strings.HasSuffix(token, "]")
			return `\` + token
		case class:
		case token == "[]":
			return "[^" + anyRune + "]"
		case token == "[^]":
			return "[" + anyRune + "]"
		case token[0] == '[':
			class = true
		case token == ".":
			return "[^" + ecmaLines + "]"
		case strings.HasSuffix(token, ">"):
			return "("
		case strings.HasSuffix(token, "=") || strings.HasSuffix(token, "!"):
			err = errors.New("look-around is not supported")
		case token != "(?:":
			err = errors.New("this kind of group is not supported")
		}
		return token
	})
	return out, err
}

// unescape is an escape in Go's syntax, or what is wrong with it.
func unescape(token string, class bool) (to, wrong string) {
	e := token[1:]
	switch {
	case e == "":
		return "", "it ends with a backslash"
	case e == "s" && class:
		return ecmaSpace, ""
	case e == "s":
		return "[" + ecmaSpace + "]", ""
	case e == "S" && class:
		return "", `\S in a class is not supported`
	case e == "S":
		return "[^" + ecmaSpace + "]", ""
	case e == "b" && class:
		return `\x08`, ""
	case e == "b" || e == "B":
		return "", `word boundaries (` + token + `) are not supported`
	case e == "0":
		return `\x00`, ""
	case e == "k" || e >= "1" && e <= "9":
		return "", `back references (` + token + `) are not regular`
	case len(e) == len(`ud83d\ude00`) && e[0] == 'u' && e[1] != '{':
		high, _ := strconv.ParseUint(e[1:5], 16, 16)
		low, _ := strconv.ParseUint(e[7:], 16, 16)
		return fmt.Sprintf(`\x{%x}`, utf16.DecodeRune(rune(high), rune(low))), ""
	case len(e) > 1 && (e[0] == 'u' || e[0] == 'x'):
		return `\x{` + strings.Trim(e[1:], "{}") + `}`, ""
	case len(e) == 2 && e[0] == 'c':
		return fmt.Sprintf(`\x{%x}`, e[1]&31), ""
	case len(e) > 1 && (e[0] == 'p' || e[0] == 'P'):
		if _, value, ok := strings.Cut(e, "="); ok {
			return token[:2] + "{" + value, ""
		}
		return token, ""
	case e[0] >= utf8.RuneSelf:
		return e, ""
	case e[0]|0x20 >= 'a' && e[0]|0x20 <= 'z' && !strings.Contains("dDwWnrtfv", e):
		return "", token + " is not an escape"
	}
	return token, ""
}

// maxInstructions bounds what an expression's repetitions are written out to.
const maxInstructions = 100_000

// instructions is about how many instructions re is compiled to.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1)
	}
	return min(n, maxInstructions+1)
}

// compileRegex compiles an expression in Go's syntax, which with search may match anywhere in the
// text: the subset construction over the program that package regexp/syntax makes of it.
func compileRegex(m *meter, source string, search bool) (*runes, error) {
	re, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if search {
		before := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{{Op: syntax.OpAnyChar}}}
		re = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{before, re}}
	}
	if instructions(re) > maxInstructions {
		return nil, errTooLarge
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	m.step(2 * len(prog.Inst))
	final := int32(slices.IndexFunc(prog.Inst, func(in syntax.Inst) bool { return in.Op == syntax.InstMatch }))
	// The instructions that are reached without reading anything, at a place of the text.
	closure := func(work []int32, at syntax.EmptyOp) (out []int32) {
		seen := map[int32]bool{}
		for len(work) > 0 {
			s := work[len(work)-1]
			work = work[:len(work)-1]
			if seen[s] {
				continue
			}
			seen[s] = true
			m.step(8) // a map is dear
			switch in := prog.Inst[s]; in.Op {
			case syntax.InstAlt, syntax.InstAltMatch:
				work = append(work, int32(in.Out), int32(in.Arg))
			case syntax.InstCapture, syntax.InstNop:
				work = append(work, int32(in.Out))
			case syntax.InstEmptyWidth:
				if out = append(out, s); syntax.EmptyOp(in.Arg)&^at == 0 {
					work = append(work, int32(in.Out))
				}
			default:
				out = append(out, s)
			}
		}
		slices.Sort(out)
		if search && at&syntax.EmptyEndText == 0 && slices.Contains(out, final) {
			return []int32{final} // whatever follows
		}
		return out
	}
	d := &runes{m: m}
	var found subsets
	intern := func(set []int32, at syntax.EmptyOp) int32 {
		id, fresh := found.number(set, byte(at)) // the start is not shared: more may end there
		if fresh {
			d.add(slices.Contains(closure(slices.Clone(set), at|syntax.EmptyEndText), final))
		}
		return id
	}
	intern(closure([]int32{int32(prog.Start)}, syntax.EmptyBeginText), syntax.EmptyBeginText)
	work := 0
	for id := 0; id < len(found.sets); id++ {
		var spans []span
		cuts := []rune{surrogateMin, surrogateMax + 1}
		for _, s := range found.sets[id] {
			to := int32(prog.Inst[s].Out)
			pairs := ranges(&prog.Inst[s])
			if s == final && search {
				to, pairs = s, []rune{0, utf8.MaxRune}
			}
			for i := 0; i < len(pairs); i += 2 {
				spans = append(spans, span{pairs[i], pairs[i+1], to})
				cuts = append(cuts, pairs[i], pairs[i+1]+1)
			}
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		slices.SortFunc(spans, byRune)
		var open []span // those that reach over the cut looked at
		for i := 0; i+1 < len(cuts); i++ {
			lo, hi := cuts[i], cuts[i+1]-1
			open = slices.DeleteFunc(open, func(e span) bool { return e.hi < lo })
			for len(spans) > 0 && spans[0].lo <= lo {
				open = append(open, spans[0])
				spans = spans[1:]
			}
			if lo >= surrogateMin && lo <= surrogateMax || len(open) == 0 {
				continue
			}
			var set []int32
			for _, e := range open {
				set = append(set, e.to)
			}
			m.step(4 + len(open))
			if work += len(open); work > 2_000_000 {
				return nil, errTooLarge
			}
			slices.Sort(set)
			to := intern(closure(slices.Compact(set), 0), 0)
			if len(found.sets) > maxRunes {
				return nil, errTooLarge
			}
			d.trans[id] = append(d.trans[id], span{lo, hi, to})
		}
	}
	return d.trim(), nil
}

// ranges are the code points that an instruction reads, as pairs of the first and the last.
func ranges(in *syntax.Inst) []rune {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1:
		if len(in.Rune) != 1 {
			return in.Rune
		}
		r := in.Rune[0]
		pairs := []rune{r, r}
		if syntax.Flags(in.Arg)&syntax.FoldCase != 0 { // what [eE] was made
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				pairs = append(pairs, f, f)
			}
		}
		return pairs
	case syntax.InstRuneAny:
		return []rune{0, utf8.MaxRune}
	case syntax.InstRuneAnyNotNL:
		return []rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}
	}
	return nil
}
