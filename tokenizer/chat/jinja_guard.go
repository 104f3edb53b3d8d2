package chat

import (
	"cmp"
	"fmt"
	"slices"
)

// The engine evaluates operators itself, without limits: 'a' * n takes all memory there is, a value that holds itself is compared and printed until the stack
// ends the process. So what can grow or recurse is made a call of ours before the engine sees it; jinja_grow.go has the functions.

// tmplPart is what a token is in its expression.
type tmplPart struct {
	role  byte // 'o' of an operand, 'u' a sign before one, 'b' a binary operator, 0 what separates operands
	level int  // of a binary operator: the higher, the tighter it binds
	atom  int  // of an operand's token: where the operand begins
	last  int  // of an operand's first token: where it ends
	match int  // of a bracket: its partner, or -1
	after bool // of an opening bracket: it calls or subscripts what stands before it
	fn    bool // and that is a value, not a filter or a test
}

var tmplLevels = map[string]int{"==": 0, "!=": 0, "<": 0, ">": 0, "<=": 0, ">=": 0, "+": 1, "-": 1, "~": 2, "*": 3, "/": 3, "//": 3, "%": 3, "**": 4}

// tmplParts reads tokens as the engine's parser does.
func tmplParts(toks []tmplToken) []tmplPart {
	parts := make([]tmplPart, len(toks))
	type frame struct{ atom, open int }
	var open []frame
	want, atom, value := true, -1, false // whether an operand is to come; the one at hand, and whether it is a value
	operand := func(i int) { parts[i].role, parts[i].atom, parts[atom].last = 'o', atom, i }
	begin := func(i int) {
		atom = i
		operand(i)
		want, value = false, true
	}
	push := func(i int) {
		parts[i].match = -1
		open = append(open, frame{atom, i})
		want = true
	}
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		next := func() { // a name that belongs to what stands before it
			if i++; i < len(toks) {
				operand(i)
			}
		}
		level, binary := tmplLevels[t.text]
		switch {
		case t.kind == ')' || t.kind == ']' || t.kind == '}':
			parts[i].match = -1
			if len(open) == 0 {
				continue
			}
			f := open[len(open)-1]
			open = open[:len(open)-1]
			atom, want, value = f.atom, false, true
			operand(i)
			parts[i].match, parts[f.open].match = f.open, i
		case want && (t.kind == '+' || t.kind == '-'):
			parts[i].role = 'u'
		case want && t.kind == 'n' && t.text == "not":
		case t.kind == 's' || t.kind == 'd' || want && t.kind == 'n':
			begin(i)
		case t.kind == '{' || want && (t.kind == '(' || t.kind == '['):
			begin(i)
			push(i)
		case want:
		case t.kind == '(' || t.kind == '[':
			parts[i].after, parts[i].fn = true, value
			operand(i)
			push(i)
		case t.kind == '.' || t.kind == '|':
			operand(i)
			value = t.kind == '.'
			next()
		case t.kind == 'n' && t.text == "is":
			operand(i)
			value = false
			if i+1 < len(toks) && toks[i+1].text == "not" {
				next()
			}
			next()
		case t.kind == 'n' && t.text == "not" && i+1 < len(toks) && toks[i+1].text == "in":
			i++
			parts[i].role = 'b'
			want = true
		case t.kind == 'n' && t.text == "in":
			parts[i].role = 'b'
			want = true
		case t.kind == 'n' && !tmplOperator(t.text) && t.text != "recursive":
			begin(i)
		default:
			if binary && t.kind != 's' {
				parts[i].role, parts[i].level = 'b', level
			}
			want = true
		}
	}
	return parts
}

// tmplSpan returns the operands of the binary operator toks[i]: the first token of the left one and the last of the right one, or -1 where one is missing.
func tmplSpan(parts []tmplPart, i int) (from, to int) {
	level := parts[i].level
	from, to = -1, -1
	j := i - 1
	if j > 0 && parts[j].role == 0 { // the not of "not in"
		j--
	}
	for j >= 0 && parts[j].role == 'o' {
		from = parts[j].atom
		for from > 0 && parts[from-1].role == 'u' {
			from--
		}
		if j = from - 1; j < 0 || parts[j].role != 'b' || parts[j].level < level {
			break
		}
		if j--; j > 0 && parts[j].role == 0 {
			j--
		}
	}
	for j = i + 1; ; j++ {
		for j < len(parts) && parts[j].role == 'u' {
			j++
		}
		if j >= len(parts) || parts[j].role != 'o' || parts[j].atom != j {
			return from, to
		}
		to = parts[j].last
		if j = to + 1; j >= len(parts) || parts[j].role != 'b' || parts[j].level <= level {
			return from, to
		}
	}
}

// around makes a call of f of toks[from:to+1].
func (r *tmplRewriter) around(toks []tmplToken, from, to int, f, end string) {
	r.edits = append(r.edits, tmplEdit{toks[from].start, toks[from].start, " " + f + "(", len(r.edits), toks[to].end})
	r.edits = append(r.edits, tmplEdit{toks[to].end, toks[to].end, end + ")", len(r.edits), 0})
}

// tmplOurs are the methods of lists and mappings that are ours; those of strings are in tmplMethods.
var tmplOurs = []string{"append", "insert", "update"}

// guard rewrites the calls, subscripts and operators of an expression.
func (r *tmplRewriter) guard(toks []tmplToken) {
	parts := tmplParts(toks)
	// Values that the engine will compare or print must not be too large to be walked. Literals are what they are.
	var flats [][2]int
	flat := func(from, to int) {
		if from >= 0 && to >= from && (from < to || toks[from].kind != 's' && toks[from].kind != 'd') {
			flats = append(flats, [2]int{from, to})
		}
	}
	// The first argument: until a comma at its depth; one that is named is no method's.
	argument := func(open int) (from, to int) {
		from = open + 1
		for to = from; to < len(toks) && toks[to].kind != ',' && to != parts[open].match; to++ {
			if m := parts[to].match; m > to {
				to = m
			}
		}
		if from+1 < len(toks) && toks[from+1].text == "=" {
			return -1, -1
		}
		return from, to - 1
	}
	for i, t := range toks {
		p := parts[i]
		switch {
		case t.kind == '|' && i+1 < len(toks) && !slices.Contains(tmplFilters, toks[i+1].text):
			r.edit(t.end, t.end, "axle_flat|")
		case t.kind == '(' && p.after && p.match > 0 && !p.fn:
			if i > 0 && toks[i-1].kind == 'n' && !(i > 1 && toks[i-2].kind == '|') { // a test
				flat(i+1, p.match-1)
			}
		case t.kind == '(' && p.after && p.match > 0:
			name, method := toks[i-1].text, i > 2 && toks[i-1].kind == 'n' && toks[i-2].kind == '.'
			if method && (slices.Contains(tmplMethods, name) || slices.Contains(tmplOurs, name)) {
				sep := ", "
				if p.match == i+1 {
					sep = ""
				}
				from := parts[i].atom
				r.edits = append(r.edits, tmplEdit{toks[from].start, toks[from].start, " axle_" + name + "(", len(r.edits), toks[p.match].end})
				r.edit(toks[i-2].start, t.end, sep)
				continue
			}
			r.around(toks, p.atom, i-1, "axle_fn", "")
			if method {
				from, to := argument(i)
				flat(from, to)
			}
		case t.kind == '[' && p.after && p.match > 0:
			if !r.slice(toks, parts, i) {
				flat(i+1, p.match-1)
			}
		case t.kind == '{' && !p.after && p.match > 0:
			from := i + 1
			for k := from; k < p.match; k++ {
				switch {
				case parts[k].match > k:
					k = parts[k].match
				case toks[k].kind == ':':
					flat(from, k-1)
				case toks[k].kind == ',':
					from = k + 1
				}
			}
		}
	}
	// Operators that share operands nest by where they end. Of what ends together the later is the outer one, so the flat ones come last.
	for i, t := range toks {
		f, ok := map[string]string{"+": "axle_add", "~": "axle_cat", "*": "axle_mul"}[t.text]
		if parts[i].role != 'b' && (t.kind == '*' || t.kind == '~') {
			panic(fmt.Sprintf("the operator at byte %d lacks an operand", t.start))
		}
		if parts[i].role != 'b' || !ok || t.kind == 's' {
			continue
		}
		from, to := tmplSpan(parts, i)
		if from < 0 || to < 0 {
			panic(fmt.Sprintf("the operator at byte %d lacks an operand", t.start))
		}
		r.around(toks, from, to, f, "")
		r.edit(t.start, t.end, ",")
	}
	for i := range toks {
		if parts[i].role == 'b' && parts[i].level == 0 {
			if _, to := tmplSpan(parts, i); to > 0 {
				flat(i+1, to)
			}
		}
	}
	for _, x := range flats {
		r.around(toks, x[0], x[1], "axle_flat", "")
	}
}

// slice makes a call of x[a:b], for the engine runs through all numbers between two far ends. It reports whether there was one.
func (r *tmplRewriter) slice(toks []tmplToken, parts []tmplPart, i int) bool {
	end := parts[i].match
	var colons []int
	for k := i + 1; k < end; k++ {
		if m := parts[k].match; m > k {
			k = m
		} else if toks[k].kind == ':' {
			colons = append(colons, k)
		}
	}
	if len(colons) == 0 {
		return false
	}
	from := parts[i].atom
	r.edits = append(r.edits, tmplEdit{toks[from].start, toks[from].start, " axle_slice(", len(r.edits), toks[end].end})
	for n, k := range append([]int{i}, colons...) {
		text := ", "
		if next := k + 1; next == end || n < len(colons) && next == colons[n] {
			text += "none"
		}
		r.edit(toks[k].start, toks[k].end, text)
	}
	r.edit(toks[end].start, toks[end].end, ")")
	return true
}

// tmplEditOrder sorts edits: at one place closing brackets come first, then what opens, the widest first, then replacements.
func tmplEditOrder(a, b tmplEdit) int {
	rank := func(e tmplEdit) int {
		switch {
		case e.end > e.start:
			return 2
		case e.until > 0:
			return 1
		}
		return 0
	}
	if c := cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(rank(a), rank(b))); c != 0 {
		return c
	}
	if rank(a) == 1 {
		return cmp.Or(cmp.Compare(b.until, a.until), cmp.Compare(b.order, a.order)) // of equals the later is the outer one
	}
	return cmp.Compare(a.order, b.order)
}
