package grammar

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/ask"
)

// Options says how a schema is read. The zero Options suits a server that takes schemas from
// anyone.
type Options struct {
	// Strict refuses a schema that cannot be enforced whole. Without it what cannot be is left out
	// and told: see [Grammar.Notes].
	Strict bool
	// Open admits any further property where additionalProperties is absent, as the draft has it.
	// Without it an object that lists properties has those only, as llama.cpp has it: small models
	// go on inventing others.
	Open bool
}

// Note is what a schema asks for and its grammar does not hold a text to.
type Note = ask.Note

// placeOf is a JSON pointer with names that the schema chose left out.
func placeOf(ptr string) string {
	parts := strings.Split(ptr, "/")
	for i := 1; i < len(parts); i++ {
		around := subschemas[parts[i-1]]
		if _, err := strconv.Atoi(parts[i]); err == nil && around == holdsList {
			continue
		}
		if subschemas[parts[i]] == 0 || around == holdsNames {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

// Notes is what of its schema the grammar leaves out. A strict one leaves out nothing.
func (g *Grammar) Notes() []Note { return g.notes }

// document is a schema as it was given.
type document struct {
	num    int    // which tool's
	prefix string // of places in it
	strict bool
	open   bool // see Options.Open
}

// cannot is an error that a document which is not strict does without: the keyword is left out.
func (s *schema) cannot(keyword, format string, args ...any) *Error {
	for s.owner != nil { // it was made of a keyword
		s, keyword = s.owner, s.made
	}
	e := s.err(keyword, format, args...)
	e.at = s
	for _, a := range args {
		if err, ok := a.(error); ok && errors.Is(err, errTooLarge) {
			e.large = true
		}
	}
	return e
}

// note is the error as a note, of what is done without.
func (e *Error) note() Note {
	return Note{Where: e.Where, Keyword: e.Keyword, Msg: e.Msg, Place: placeOf(e.at.ptr)}
}

// tooLarge is cannot for an automaton that would be.
func (s *schema) tooLarge(keyword string) *Error { return s.cannot(keyword, "%v", errTooLarge) }

// widened is what was left out so far of the documents that are compiled together.
type widened struct {
	cuts  []omission
	notes []Note
	large int
	work  int // what trying has cost
	m     *meter
	c     *compiler // of the last try
}

// omission is a keyword to leave out, at a place. Without a keyword it is all but the type.
type omission struct {
	doc     int
	ptr     string
	keyword string
}

const (
	maxLarge = 4   // automata that are too large before all that is asked for is the type
	maxCuts  = 100 // keywords left out
	maxWork  = 2_000_000
)

// widen compiles until nothing is left that cannot be enforced, leaving out a keyword after the
// other, or what is around it.
func widen(m *meter, compile func(*widened) *Grammar) (*Grammar, error) {
	w := &widened{m: m}
	for spent := 0; ; {
		g, err := w.try(compile)
		if err == nil {
			for _, n := range append(w.notes, w.c.notes...) {
				if !slices.ContainsFunc(g.notes, func(o Note) bool { return o.Where == n.Where && o.Keyword == n.Keyword }) {
					g.notes = append(g.notes, n)
				}
			}
			return g, nil
		}
		if errors.Is(err, errSpent) {
			if spent++; spent > 2 {
				return nil, err
			}
			m.again()
			if err = w.spent(spent > 1); err != nil {
				return nil, err
			}
			continue
		}
		if w.c != nil {
			w.work += w.c.steps + 10*len(w.c.known)
			for _, f := range w.c.program.frames {
				if f.nfa != nil {
					w.work += 10 * len(f.nfa.states)
				}
			}
		}
		var own *Error
		if !errors.As(err, &own) || own.at == nil || own.at.doc.strict || !w.leaveOut(own) {
			return nil, err
		}
	}
}

// try is compile, with the error that it panics with.
func (w *widened) try(compile func(*widened) *Grammar) (g *Grammar, err error) {
	defer catch(&err)
	w.c = nil
	return compile(w), nil
}

// spent leaves all but its type out of the document at which the steps ran out, or of all of them.
// The error is that of one that is to be enforced whole.
func (w *widened) spent(all bool) error {
	left := false
	if w.c != nil && len(w.c.roots) > 0 {
		at := w.c.largest(w.c.roots[len(w.c.roots)-1]).doc
		for _, root := range w.c.roots {
			if root.doc != at && !all {
				continue
			}
			e := root.err("", "%s", errSpent.Msg)
			if root.doc.strict {
				return e
			}
			w.work = maxWork + 1
			e.at, e.large = root, true
			left = w.leaveOut(e) || left
		}
	}
	if !left {
		return errSpent
	}
	return nil
}

// leaveOut notes what is to be left out for e not to come again; false: nothing is left.
func (w *widened) leaveOut(e *Error) bool {
	s, keyword := e.at, e.Keyword
	if e.large {
		w.large++
	}
	if w.large > maxLarge || len(w.cuts) > maxCuts || w.work > maxWork {
		for s.up != nil {
			s = s.up
		}
		keyword = ""
	}
	if keyword == "properties" || s.v.get(keyword) == nil {
		keyword = "" // of an object without its properties nothing is left but the type
	}
	for ; s != nil; s, keyword = s.up, "" {
		c := omission{s.doc.num, s.ptr, keyword}
		if s.v.kind != kindObject || keyword == "" && bare(s.v) || slices.Contains(w.cuts, c) {
			continue
		}
		w.cuts = append(w.cuts, c)
		does := "is not enforced"
		if keyword == "" {
			does = "only its type is enforced"
		}
		w.notes = append(w.notes, s.cannot(keyword, "%s: %s", does, e.Msg).note())
		return true
	}
	return false
}

// bare says whether a schema asks for nothing but a type.
func bare(v *value) bool {
	return !slices.ContainsFunc(v.keys, func(k string) bool { return k != "type" })
}

// apply leaves out of a document what is to be.
func (w *widened) apply(root *value, doc int) {
	for _, c := range w.cuts {
		if c.doc != doc {
			continue
		}
		if v := root.at(c.ptr); v != nil && v.kind == kindObject { // else it was within what another cut has taken away
			v.without(c.keyword)
		}
	}
}

// goTogether are keywords that mean nothing without another one.
var goTogether = map[string][]string{"if": {"then", "else"}, "contains": {"minContains", "maxContains"}}

// without takes a keyword out of a schema, or all but the type.
func (v *value) without(keyword string) {
	kinds := kind(0)
	if v.get("type") == nil {
		kinds = implied(v, keyword)
	}
	opens := keyword == "patternProperties" // whose names are told no longer
	for i := len(v.keys) - 1; i >= 0; i-- {
		k := v.keys[i]
		if keyword == "" && k != "type" || k == keyword || slices.Contains(goTogether[keyword], k) || opens &&
			k == "additionalProperties" && v.items[i].kind == kindBool {
			v.keys, v.items = slices.Delete(v.keys, i, i+1), slices.Delete(v.items, i, i+1)
		}
	}
	v.index = nil
	if opens && v.get("additionalProperties") == nil {
		v.put("additionalProperties", boolOf(true))
	}
	if kinds != 0 {
		v.put("type", typeValue(kinds))
	}
}

func (v *value) put(key string, item *value) {
	v.keys, v.items, v.index = append(v.keys, key), append(v.items, item), nil
}

// implied is the type that a schema without one has by the keyword that goes, or by all it has; 0:
// any.
func implied(v *value, keyword string) (kinds kind) {
	var values []*value
	if e := v.get("enum"); e != nil && (keyword == "enum" || keyword == "") {
		values = e.items
	}
	if c := v.get("const"); c != nil && (keyword == "const" || keyword == "") {
		values = append(values, c)
	}
	for _, x := range values {
		kinds |= x.kind
	}
	if keyword == "" && kinds == 0 {
		for _, k := range []struct {
			key  string
			kind kind
		}{{"properties", kindObject}, {"required", kindObject}, {"items", kindArray}, {"prefixItems", kindArray}, {"pattern", kindString}} {
			if v.get(k.key) != nil {
				return k.kind
			}
		}
	}
	return kinds
}

// typeValue is a type keyword's value.
func typeValue(kinds kind) *value {
	types := listOf()
	for name, k := range kindNames {
		if kinds&k == k && !(k == kindInteger && kinds&kindNumber != 0) {
			types.items = append(types.items, textOf(name))
		}
	}
	slices.SortFunc(types.items, func(a, b *value) int { return strings.Compare(a.text, b.text) })
	return types
}

// note tells of something that is not enforced and needs no other compilation.
func (c *compiler) note(s *schema, keyword, format string, args ...any) {
	c.notes = append(c.notes, s.cannot(keyword, format, args...).note())
}

// modernise gives keywords of older drafts their names of today.
func (v *value) modernise() {
	rename := func(from, to string) {
		for i, k := range v.keys {
			if k == from {
				v.keys[i], v.index = to, nil
			}
		}
	}
	if items := v.get("items"); items != nil && items.kind == kindArray && len(items.items) > 0 && v.get("prefixItems") == nil {
		rename("items", "prefixItems")
		rename("additionalItems", "items")
	} else if v.get("additionalItems") != nil {
		v.without("additionalItems") // which meant nothing
	}
	if d := v.get("dependencies"); d != nil && d.kind == kindObject && v.get("dependentRequired") == nil &&
		v.get("dependentSchemas") == nil {
		names, schemas := objectOf(), objectOf()
		for i, k := range d.keys {
			if d.items[i].kind == kindArray {
				names.put(k, d.items[i])
			} else {
				schemas.put(k, d.items[i])
			}
		}
		v.without("dependencies")
		v.put("dependentRequired", names)
		v.put("dependentSchemas", schemas)
	}
}
