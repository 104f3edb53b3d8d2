package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// runes is a DFA over Unicode code points (surrogates are none): what strings, property names and
// the digits of numbers are constrained by, before anything is said about how they are written in
// bytes. State 0 is the start; a missing transition means the text is not in the language. Every
// state can reach an accepting one, except the start of the empty language.
type runes struct {
	accept []bool
	trans  [][]span
	m      *meter // of the compilation that it is part of; nil for what all share
}

// span is a transition on the code points lo to hi. A state's spans are sorted and disjoint.
type span struct {
	lo, hi rune
	to     int32
}

func byRune(a, b span) int { return int(a.lo - b.lo) }

const (
	surrogateMin = 0xd800
	surrogateMax = 0xdfff
)

func (d *runes) add(accept bool) int32 {
	d.accept = append(d.accept, accept)
	d.trans = append(d.trans, nil)
	return int32(len(d.accept) - 1)
}

func (d *runes) step(s int32, r rune) int32 {
	for _, t := range d.trans[s] {
		if r >= t.lo && r <= t.hi {
			return t.to
		}
	}
	return dead
}

func (d *runes) match(s string) bool {
	at := int32(0)
	d.m.step(len(s))
	for _, r := range s {
		if at = d.step(at, r); at == dead {
			return false
		}
	}
	return d.accept[at]
}

func (d *runes) empty() bool { return !slices.Contains(d.accept, true) }

// anyText is the language of all texts.
func anyText() *runes { return oneOf(nil).not() }

func everything(to int32) []span {
	return []span{{0, surrogateMin - 1, to}, {surrogateMax + 1, utf8.MaxRune, to}}
}

// lengths is the language of texts of lo to hi code points, as the leaves ask for; hi < 0: no
// maximum.
func lengths(leaves []*schema, lo, hi int) *runes {
	last := hi
	if hi < 0 {
		last = lo
	}
	if last > maxRunes {
		panic(tooLarge(leaves, "maxLength"))
	}
	d := &runes{}
	for i := range last + 1 {
		d.add(i >= lo)
		if i < last || hi < 0 {
			d.trans[i] = everything(int32(min(i+1, last)))
		}
	}
	return d
}

// oneOf is the language of the given texts.
func oneOf(words []string) *runes {
	d := &runes{}
	d.add(false)
	for _, w := range words {
		at := int32(0)
		for _, r := range w {
			to := d.step(at, r)
			if to == dead {
				to = d.add(false)
				d.trans[at] = append(d.trans[at], span{r, r, to})
			}
			at = to
		}
		d.accept[at] = true
	}
	for _, t := range d.trans {
		slices.SortFunc(t, byRune)
	}
	return d
}

// not is the language of all other texts.
func (d *runes) not() *runes {
	out := &runes{m: d.m}
	for s := range d.accept {
		out.add(!d.accept[s])
	}
	rest := out.add(true)
	out.trans[rest] = everything(rest)
	for s, spans := range d.trans {
		d.m.step(2 + 2*len(spans))
		next := rune(0)
		gap := func(lo, hi rune) {
			for _, e := range everything(rest) {
				if a, b := max(lo, e.lo), min(hi, e.hi); a <= b {
					out.trans[s] = append(out.trans[s], span{a, b, rest})
				}
			}
		}
		for _, t := range spans {
			gap(next, t.lo-1)
			out.trans[s] = append(out.trans[s], t)
			next = t.hi + 1
		}
		gap(next, utf8.MaxRune)
	}
	return out.trim()
}

// and is the language of the texts in both.
func (d *runes) and(e *runes) (*runes, error) {
	type pair struct{ a, b int32 }
	out := &runes{m: cmp.Or(d.m, e.m)}
	known := map[pair]int32{{0, 0}: 0}
	work := []pair{{0, 0}}
	out.add(d.accept[0] && e.accept[0])
	for i := 0; i < len(work); i++ {
		p := work[i]
		x, y := d.trans[p.a], e.trans[p.b]
		for len(x) > 0 && len(y) > 0 {
			out.m.step(6)
			if lo, hi := max(x[0].lo, y[0].lo), min(x[0].hi, y[0].hi); lo <= hi {
				q := pair{x[0].to, y[0].to}
				to, ok := known[q]
				if !ok {
					if len(work) > 2*maxRunes {
						return nil, errTooLarge
					}
					to = out.add(d.accept[q.a] && e.accept[q.b])
					known[q] = to
					work = append(work, q)
				}
				out.trans[i] = append(out.trans[i], span{lo, hi, to})
			}
			if x[0].hi < y[0].hi {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
	}
	return out.trim(), nil
}

// trim drops the states that lead nowhere and joins spans that touch.
func (d *runes) trim() *runes {
	live := slices.Clone(d.accept)
	from := make([][]int32, len(live))
	for s, t := range d.trans {
		d.m.step(2 + len(t))
		for _, e := range t {
			from[e.to] = append(from[e.to], int32(s))
		}
	}
	var work []int32
	for s, ok := range live {
		if ok {
			work = append(work, int32(s))
		}
	}
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range from[s] {
			if !live[p] {
				live[p] = true
				work = append(work, p)
			}
		}
	}
	out, number := &runes{m: d.m}, make([]int32, len(live))
	for s := range live {
		if live[s] || s == 0 {
			number[s] = out.add(d.accept[s])
		}
	}
	for s, t := range d.trans {
		if !live[s] {
			continue
		}
		for _, e := range t {
			if !live[e.to] {
				continue
			}
			e.to = number[e.to]
			list := &out.trans[number[s]]
			if n := len(*list); n > 0 && (*list)[n-1].to == e.to && (*list)[n-1].hi+1 == e.lo {
				(*list)[n-1].hi = e.hi
			} else {
				*list = append(*list, e)
			}
		}
	}
	return out
}

// embed adds d to n behind from, each code point written by write, and returns the state behind an
// accepted text.
func (p *program) embed(n *nfa, from int32, d *runes, write writer) int32 {
	at := make([]int32, len(d.accept))
	end := n.state()
	for s := range at {
		at[s] = n.state()
		if d.accept[s] {
			n.eps(at[s], end)
		}
	}
	n.eps(from, at[0])
	// Spans with the same target are written once, however many states have them; classes of many
	// spans (all letters) once for all targets, in a frame of their own.
	done := map[span]int32{}
	for s, t := range d.trans {
		p.m.step(4 + 8*len(t))
		byTarget := map[int32]int{}
		for _, e := range t {
			byTarget[e.to]++
		}
		called := map[int32]bool{}
		for _, e := range t {
			if byTarget[e.to] > 16 {
				if !called[e.to] {
					called[e.to] = true
					n.call(at[s], p.classFrame(t, e.to, write), at[e.to])
				}
				continue
			}
			in, ok := done[e]
			if !ok {
				in = n.state()
				write(n, in, e.lo, e.hi, at[e.to])
				done[e] = in
			}
			n.eps(at[s], in)
		}
	}
	return end
}

// quoted is embed for a JSON string.
func (p *program) quoted(n *nfa, from int32, d *runes) int32 {
	return n.text(p.embed(n, n.text(from, `"`), d, writeString), `"`)
}

// classFrame is the frame of one code point of the spans that lead to to.
func (p *program) classFrame(spans []span, to int32, write writer) *frame {
	spans = slices.DeleteFunc(slices.Clone(spans), func(e span) bool { return e.to != to })
	// The writers differ in what they do with a quote, so they do not share frames.
	probe := &nfa{}
	probe.state()
	write(probe, probe.state(), '"', '"', 0)
	id := fmt.Sprint(len(probe.states))
	for _, e := range spans {
		id += fmt.Sprintf(" %x-%x", e.lo, e.hi)
	}
	if f := p.classes[id]; f != nil {
		return f
	}
	f := p.add("class")
	for _, e := range spans {
		write(f.nfa, 0, e.lo, e.hi, f.nfa.end)
	}
	if p.classes == nil {
		p.classes = map[string]*frame{}
	}
	p.classes[id] = f
	return f
}

// writer adds to n the ways to write a code point of lo to hi, leading from one state to another.
type writer func(n *nfa, from int32, lo, hi rune, to int32)

// writeUTF8 writes code points as they are.
func writeUTF8(n *nfa, from int32, lo, hi rune, to int32) {
	if lo > hi {
		return
	}
	if lo <= surrogateMax && hi >= surrogateMin {
		writeUTF8(n, from, lo, surrogateMin-1, to)
		writeUTF8(n, from, surrogateMax+1, hi, to)
		return
	}
	for _, top := range []rune{0x7f, 0x7ff, 0xffff} {
		if lo <= top && hi > top {
			writeUTF8(n, from, lo, top, to)
			writeUTF8(n, from, top+1, hi, to)
			return
		}
	}
	if hi <= 0x7f {
		n.edge(from, byte(lo), byte(hi), to)
		return
	}
	// Cut until every byte but the first that differs spans all of 80..BF.
	for shift := uint(6); shift <= 18; shift += 6 {
		m := rune(1)<<shift - 1
		if lo&^m == hi&^m {
			continue
		}
		if lo&m != 0 {
			writeUTF8(n, from, lo, lo|m, to)
			writeUTF8(n, from, (lo|m)+1, hi, to)
			return
		}
		if hi&m != m {
			writeUTF8(n, from, lo, hi&^m-1, to)
			writeUTF8(n, from, hi&^m, hi, to)
			return
		}
	}
	a, b := utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi)
	for i := range a {
		next := to
		if i < len(a)-1 {
			next = n.state()
		}
		n.edge(from, a[i], b[i], next)
		from = next
	}
}

// writeString writes code points within a JSON string in their one canonical form: as they are but
// for ", \ and the controls, which have their short escape or else \u00XX. One form a text, so that
// "any name but these" is exact.
func writeString(n *nfa, from int32, lo, hi rune, to int32) {
	plain := func(a, b rune) { writeUTF8(n, from, max(lo, a), min(hi, b), to) }
	plain(0x20, '"'-1)
	plain('"'+1, '\\'-1)
	plain('\\'+1, utf8.MaxRune)
	in := func(r rune) bool { return lo <= r && r <= hi }
	if lo >= 0x20 && !in('"') && !in('\\') {
		return
	}
	esc := n.text(from, `\`)
	for i, r := range escaping {
		if in(r) {
			n.edge(esc, escapes[i], escapes[i], to)
		}
	}
	if lo >= 0x20 {
		return
	}
	hex := n.text(esc, "u00")
	for row := range rune(2) {
		digit := n.text(hex, string('0'+row))
		for r := max(lo, row<<4); r <= min(hi, row<<4+15); r++ {
			if strings.ContainsRune(escaping, r) {
				continue
			}
			low := fmt.Sprintf("%x", r&15)
			n.edge(digit, low[0], low[0], to)
			if upper := strings.ToUpper(low); upper != low {
				n.edge(digit, upper[0], upper[0], to)
			}
		}
	}
}

// The characters that have a short escape, and those escapes.
const escaping, escapes = "\"\\\b\f\n\r\t", `"\bfnrt`

var canonicalForms = func() *strings.Replacer {
	var pairs []string
	for i, r := range escaping {
		pairs = append(pairs, string(r), `\`+escapes[i:i+1])
	}
	for r := range rune(0x20) { // the first of two counts
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()

// canonical is the one way writeString writes s.
func canonical(s string) string { return canonicalForms.Replace(s) }
