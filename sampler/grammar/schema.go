package grammar

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Schema compiles a JSON schema (draft 2020-12) to the grammar of the texts it validates; the
// package comment says which spellings of a value are among them. A schema that cannot be honoured
// exactly is refused with an [*Error] that names the keyword and where it is. [SchemaWith] is for
// schemas that may be honoured less exactly.
//
// Understood: type, enum, const, $ref with $defs, $id and $anchor, allOf, anyOf, oneOf whose
// branches can be shown to exclude each other, not and if, then, else where what is negated can be
// told otherwise (types, values, patterns, sizes, bounds, required, properties, and allOf and anyOf
// of these), properties, required, additionalProperties, patternProperties, propertyNames,
// minProperties and maxProperties, items, prefixItems, minItems, maxItems, contains with
// minContains and maxContains of small numbers, uniqueItems over a few values,
// unevaluatedProperties and unevaluatedItems, minLength, maxLength, pattern, format, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, dependentRequired, dependentSchemas.
// Where enum or const leaves finitely many values, every keyword of the draft is understood but the
// dynamic and unevaluated ones: the values are tried. Annotations and unknown keywords mean
// nothing, as the draft has it.
func Schema(schema []byte) (*Grammar, error) {
	return SchemaWith(schema, Options{Strict: true, Open: true})
}

// SchemaWith compiles a schema as the options say. What it has to leave out it tells: see
// [Grammar.Notes]. Errors are then those of a schema that is none (not JSON, a type that is no
// type, a $ref that leads nowhere), that no value satisfies, or that is beyond all limits. Without
// Strict an unknown format is an annotation, and the keywords of drafts before 2020-12 are read as
// what they are called there.
func SchemaWith(schema []byte, o Options) (*Grammar, error) {
	return SchemaFor(context.Background(), "", schema, o)
}

// SchemaFor is SchemaWith for somebody who may leave: asker is the key they came with, whose turn
// it waits for where others compile, and with ctx it ends. Errors are those of SchemaWith, ctx's
// cause, and [ErrRoom].
func SchemaFor(ctx context.Context, asker string, schema []byte, o Options) (*Grammar, error) {
	if len(schema) > 1<<20 {
		return nil, &Error{Msg: fmt.Sprintf("a schema of %d bytes is longer than 1 MiB", len(schema))}
	}
	return recent.get(ctx, asker, fmt.Sprintf("schema %v\x00%s", o, schema),
		func(m *meter) (*Grammar, error) { return compileSchema(m, schema, o) })
}

func compileSchema(m *meter, source []byte, o Options) (*Grammar, error) {
	return widen(m, func(w *widened) *Grammar {
		v, err := parseJSON(source)
		if err != nil {
			panic(&Error{Msg: err.Error()})
		}
		m.step(len(source) / 16)
		c := w.newCompiler()
		root := c.document(v, &document{strict: o.Strict, open: o.Open}, w)
		top := c.program.add("root")
		n := top.nfa
		n.call(n.then(0, c.b.space), c.frame([]*schema{root}), n.end)
		return c.link(top, root)
	})
}

// schema is one subschema of a document.
type schema struct {
	v    *value
	ptr  string // JSON pointer, beginning with #
	num  int    // its place in the order of the document
	base *url.URL
	root *schema // the resource it belongs to: what "#" refers to
	doc  *document
	up   *schema // the one around it
	// aside: what it says of the value is a condition, so that its properties list none.
	aside bool
	owner *schema // whose keyword it was made of; nil for one that stands in the document
	made  string
}

func (s *schema) err(keyword, format string, args ...any) *Error {
	return &Error{Where: s.doc.prefix + s.ptr, Keyword: keyword, Msg: fmt.Sprintf(format, args...)}
}

// sub is a keyword's value as a subschema.
func (c *compiler) sub(s *schema, path string, v *value) *schema {
	if have := c.known[v]; have != nil {
		return have
	}
	c.m.step(4)
	out := &schema{v: v, ptr: s.ptr + path, num: len(c.known), base: s.base, root: s.root, doc: s.doc, up: s, owner: s.owner, made: s.made}
	c.known[v] = out
	return out
}

// escape makes a key a part of a JSON pointer.
func escape(key string) string { return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// at is the value that a JSON pointer, "" or one that begins with a slash, leads to; nil: nowhere.
func (v *value) at(pointer string) *value {
	for _, part := range strings.Split(pointer, "/")[1:] {
		if v == nil {
			return nil
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if v.kind != kindArray {
			v = v.get(part)
		} else if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v.items) {
			v = v.items[i]
		} else {
			v = nil
		}
	}
	return v
}

// holds says where in a keyword's value schemas are.
type holds uint8

const (
	holdsOne   holds = iota + 1 // it is one
	holdsList                   // its items are
	holdsNames                  // its values are, by names that the schema chose
)

var subschemas = map[string]holds{
	"items": holdsOne, "additionalProperties": holdsOne, "propertyNames": holdsOne, "contains": holdsOne, "not": holdsOne, "if": holdsOne,
	"then": holdsOne, "else": holdsOne, "unevaluatedItems": holdsOne, "unevaluatedProperties": holdsOne,
	"allOf": holdsList, "anyOf": holdsList, "oneOf": holdsList, "prefixItems": holdsList,
	"$defs": holdsNames, "definitions": holdsNames, "properties": holdsNames, "patternProperties": holdsNames,
	"dependentSchemas": holdsNames,
}

// drafts are those that are read as 2020-12 without a note.
var drafts = []string{"2020-12", "2019-09", "draft-07", "draft-06"}

// older are keywords of drafts before 2020-12 that have no other name today.
var older = []string{"dependencies", "additionalItems", "$recursiveRef", "divisibleBy", "disallow", "extends"}

// document indexes a document's subschemas, their $ids and anchors, and returns the root.
func (c *compiler) document(v *value, d *document, w *widened) *schema {
	w.apply(v, d.num)
	root := &schema{v: v, ptr: "#", base: &url.URL{}, doc: d}
	root.root = root
	c.roots = append(c.roots, root)
	c.known[v] = root
	c.ids = map[string]*schema{} // a tool's anchors are its own
	c.index(root)
	return root
}

func (c *compiler) index(s *schema) {
	if s.v.kind == kindBool {
		return
	}
	if s.v.kind != kindObject {
		panic(s.err("", "a schema must be an object or a boolean"))
	}
	c.identify(s)
	if !s.doc.strict {
		s.v.modernise()
	}
	if d := s.v.get("$schema"); d != nil && d.kind == kindString && s.ptr == "#" &&
		!slices.ContainsFunc(drafts, func(draft string) bool { return strings.Contains(d.text, draft) }) {
		panic(s.cannot("$schema", "%s is not a draft this understands: it is read as 2020-12", d.text))
	}
	enter := func(path string, v *value, aside bool) {
		sub := c.sub(s, path, v)
		sub.aside = sub.aside || aside
		c.index(sub)
	}
	for i, key := range s.v.keys {
		v, path := s.v.items[i], escape(key)
		switch subschemas[key] {
		case holdsOne:
			if key == "items" && v.kind == kindArray {
				panic(s.err("items", "a list of schemas is draft 2019 and before: use prefixItems"))
			}
			enter(path, v, key == "if" || key == "not" || s.aside && (key == "then" || key == "else"))
		case holdsList:
			if v.kind != kindArray || len(v.items) == 0 {
				panic(s.err(key, "must be a list of schemas that is not empty"))
			}
			for j, item := range v.items {
				enter(path+"/"+strconv.Itoa(j), item, s.aside && key != "prefixItems")
			}
		case holdsNames:
			if v.kind != kindObject {
				panic(s.err(key, "must be an object of schemas"))
			}
			for j, name := range v.keys {
				enter(path+escape(name), v.items[j], false)
			}
		default:
			if slices.Contains(older, key) {
				panic(s.cannot(key, "is not in draft 2020-12"))
			}
		}
	}
}

// identify notes by which names a schema may be referred to.
func (c *compiler) identify(s *schema) {
	if id := s.v.get("$id"); id != nil {
		u, err := url.Parse(id.text)
		if id.kind != kindString || err != nil || u.Fragment != "" {
			panic(s.err("$id", "must be a URI without fragment"))
		}
		s.base, s.root = s.base.ResolveReference(u), s
		c.ids[s.base.String()] = s
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if a := s.v.get(key); a != nil {
			if a.kind != kindString {
				panic(s.err(key, "must be a string"))
			}
			c.ids[s.base.String()+"#"+a.text] = s
		}
	}
}

// refer resolves s's $ref.
func (c *compiler) refer(s *schema) *schema {
	ref := s.v.get("$ref")
	if ref.kind != kindString {
		panic(s.err("$ref", "must be a string"))
	}
	u, err := url.Parse(ref.text)
	if err != nil {
		panic(s.err("$ref", "%q is not a URI", ref.text))
	}
	abs := s.base.ResolveReference(u)
	fragment := abs.Fragment
	abs.Fragment, abs.RawFragment = "", ""
	at := c.ids[abs.String()]
	if ref.text == "" || strings.HasPrefix(ref.text, "#") {
		at = s.root
	}
	if at == nil {
		panic(s.err("$ref", "%q is not within this schema, and nothing is fetched", ref.text))
	}
	if fragment == "" {
		return at
	}
	if fragment[0] != '/' {
		if to := c.ids[at.base.String()+"#"+fragment]; to != nil {
			return to
		}
		panic(s.err("$ref", "there is no anchor %q", fragment))
	}
	v := at.v.at(fragment)
	if v == nil {
		panic(s.err("$ref", "%q leads nowhere", ref.text))
	}
	to := c.known[v]
	if to == nil { // somewhere that no keyword makes a schema
		to = c.sub(at, fragment, v)
		c.index(to)
	}
	return to
}

// compiler turns a document into frames, one for each conjunction of subschemas that some value
// must satisfy. What it finds wrong it panics with, as an [*Error] that catch returns at the
// compilation's beginning.
type compiler struct {
	program
	b      *shared
	known  map[*value]*schema
	ids    map[string]*schema
	frames map[string]*frame
	work   []task
	strs   map[[2]int32]*frame
	regex  map[string]*runes
	// checked are the schemas whose oneOf was shown to be exclusive.
	checked map[*schema]bool
	unions  map[*value]*schema // what was made of a keyword's values, see instead
	reach   map[*schema]map[*schema]bool
	of      map[*frame]*schema // whose a frame is
	notes   []Note
	steps   int
	roots   []*schema
}

// task is a frame that still has to be filled.
type task struct {
	f   *frame
	set []*schema
}

// newCompiler begins anew.
func (w *widened) newCompiler() *compiler {
	w.c = &compiler{
		program: program{m: w.m},

		b: builtins(), known: map[*value]*schema{}, ids: map[string]*schema{}, frames: map[string]*frame{},
		strs: map[[2]int32]*frame{}, regex: map[string]*runes{}, checked: map[*schema]bool{}, unions: map[*value]*schema{},
		reach: map[*schema]map[*schema]bool{}, of: map[*frame]*schema{},
	}
	return w.c
}

// drain fills the frames that were asked for: an alternative for each way to satisfy the schemas.
func (c *compiler) drain() {
	for len(c.work) > 0 {
		t := c.work[len(c.work)-1]
		c.work = c.work[:len(c.work)-1]
		for _, a := range c.alternatives(t.set, maxAlternatives) {
			c.alternative(t.f.nfa, a)
		}
		if c.nodes += len(t.f.nfa.states); c.nodes > maxNodes {
			panic(t.set[0].tooLarge(""))
		}
	}
}

// link fills the frames still to be filled and finishes the program whose root frame is top.
func (c *compiler) link(top *frame, root *schema) *Grammar {
	c.drain()
	if err := c.finish(); err != nil {
		panic(c.largest(root).tooLarge(""))
	}
	switch need := top.need[0]; {
	case need >= never:
		panic(root.err("", "no value satisfies the schema"))
	case need >= jsonDepth:
		panic(root.err("", "every value that satisfies it nests more than %d deep, which is the most there may be: ask for less in "+
			"each other", jsonDepth-2))
	}
	return &Grammar{root: top, depth: jsonDepth, bytes: c.bytes()}
}

// largest is the schema whose automaton is the largest so far, done or not.
func (c *compiler) largest(root *schema) *schema {
	most := 0
	for _, f := range c.program.frames {
		if s, n := c.of[f], len(f.accept)+len(f.nfa.states); s != nil && n > most {
			root, most = s, n
		}
	}
	return root
}

// frame returns the frame of the values that satisfy every schema of set.
func (c *compiler) frame(set []*schema) *frame {
	set = slices.DeleteFunc(slices.Clone(set), func(s *schema) bool {
		return s.v.kind == kindBool && s.v.bool || s.v.kind == kindObject && len(s.v.keys) == 0
	})
	set = inOrder(set)
	if len(set) == 0 {
		return c.b.value
	}
	key := ""
	c.m.step(1 + len(set))
	for _, s := range set {
		key += strconv.Itoa(s.num) + ","
	}
	if f := c.frames[key]; f != nil {
		return f
	}
	f := c.program.add(set[0].ptr)
	c.frames[key], c.of[f] = f, set[0]
	if len(c.frames) > 20_000 {
		panic(set[0].tooLarge(""))
	}
	c.work = append(c.work, task{f, set})
	return f
}

// inOrder sorts a set of schemas in place, and drops those that are there twice.
func inOrder(set []*schema) []*schema {
	slices.SortFunc(set, func(a, b *schema) int { return a.num - b.num })
	return slices.Compact(set)
}

// alternative is a conjunction with nothing left to choose: schemas whose own keywords alone count,
// or, where finite is set, the values that satisfy them.
type alternative struct {
	leaves []*schema
	kinds  kind
	values []*value
	finite bool
}

const maxAlternatives = 256

// alternatives resolves $ref, allOf, anyOf and oneOf; there may be as many as most.
func (c *compiler) alternatives(set []*schema, most int) []alternative {
	x := expansion{compiler: c, most: most}
	x.expand(set, nil, nil, nil)
	return x.out
}

// expansion is the alternatives found so far.
type expansion struct {
	*compiler
	most int
	out  []alternative
}

// choice is an anyOf or oneOf, one branch of it to be taken. line are the owners of the choices
// that led to it.
type choice struct {
	s       *schema
	keyword string
	line    []*schema
}

// expand adds todo, to which the choices of line led, to the leaves, then takes every branch of the
// open choices.
func (c *expansion) expand(todo, line, leaves []*schema, open []choice) {
	work := 1 + len(todo) + len(line) + len(leaves) + len(open)
	c.m.step(work)
	if c.steps += work; c.steps > 1_000_000 {
		panic(tooLarge(slices.Concat(todo, leaves), "anyOf"))
	}
	leaves, open = slices.Clone(leaves), slices.Clone(open)
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[: len(todo)-1 : len(todo)-1]
		if slices.Contains(leaves, s) {
			continue
		}
		if s.v.kind == kindBool {
			if !s.v.bool {
				return
			}
			continue
		}
		leaves = append(leaves, s)
		todo = append(todo, c.with(s)...)
		for _, keyword := range []string{"anyOf", "oneOf"} {
			if s.v.get(keyword) != nil {
				open = append(open, choice{s, keyword, line})
			}
		}
	}
	leaves = inOrder(leaves)
	if values, ok := c.finite(leaves); ok {
		if len(values) > 0 {
			c.out = append(c.out, alternative{leaves: leaves, values: values, finite: true})
		}
		return
	}
	if len(open) == 0 {
		kinds := c.kinds(leaves)
		if kinds == 0 {
			return
		}
		if len(c.out) >= c.most {
			panic(tooMany(leaves, c.most))
		}
		c.out = append(c.out, alternative{leaves: leaves, kinds: kinds})
		return
	}
	first := open[0]
	branches := first.s.v.get(first.keyword).items
	if first.keyword == "oneOf" && len(branches) > 1 && !c.checked[first.s] {
		c.checked[first.s] = true // also while at it: a recursive oneOf asks about itself
		if e := attempt(func() { c.exclusive(first.s, branches) }); e != nil {
			if first.s.doc.strict || e.at != first.s {
				panic(e)
			}
			c.note(first.s, "oneOf", "is taken as anyOf: %s", e.Msg)
		}
	}
	line = append(slices.Clone(first.line), first.s)
	for _, v := range branches {
		// A branch that leads back without reading anything adds no text.
		if slices.ContainsFunc(line, func(s *schema) bool { return c.leadsTo(c.known[v], s, map[*schema]bool{}) }) {
			continue
		}
		c.expand([]*schema{c.known[v]}, line, leaves, open[1:])
	}
}

// with gives the schemas that hold wherever s does.
func (c *compiler) with(s *schema) []*schema {
	if s.v.get("$dynamicRef") != nil {
		panic(s.cannot("$dynamicRef", "is not supported"))
	}
	return slices.Concat(c.same(s), c.dependent(s), c.conditional(s))
}

// same are the schemas that s is by $ref and allOf.
func (c *compiler) same(s *schema) (all []*schema) {
	if s.v.get("$ref") != nil {
		all = append(all, c.refer(s))
	}
	if of := s.v.get("allOf"); of != nil {
		for _, v := range of.items {
			all = append(all, c.known[v])
		}
	}
	return all
}

// tooMany is the error for more combinations than may be, of the leaf with the most branches.
func tooMany(leaves []*schema, most int) *Error {
	best, choices, keyword := leaves[0], 0, "anyOf"
	for _, s := range leaves {
		for _, k := range []string{"anyOf", "oneOf"} {
			if v := s.v.get(k); v != nil && len(v.items) > choices {
				best, choices, keyword = s, len(v.items), k
			}
		}
	}
	e := best.cannot(keyword, "more than %d combinations", most)
	e.large = true
	return e
}

// leadsTo reports whether s is to, or must be to by $ref and allOf alone.
func (c *compiler) leadsTo(s, to *schema, seen map[*schema]bool) bool {
	c.m.step(2)
	if s == to {
		return true
	}
	if seen[s] || s.v.kind != kindObject {
		return false
	}
	seen[s] = true
	return slices.ContainsFunc(c.same(s), func(s *schema) bool { return c.leadsTo(s, to, seen) })
}

// asker is the leaf that has the keyword, or the first.
func asker(leaves []*schema, keyword string) *schema {
	for _, s := range leaves {
		if s.v.get(keyword) != nil {
			return s
		}
	}
	return leaves[0]
}

// tooLarge is the error for what the leaves ask for by a keyword.
func tooLarge(leaves []*schema, keyword string) *Error {
	if len(leaves) == 0 {
		return &Error{Keyword: keyword, Msg: errTooLarge.Error()}
	}
	return asker(leaves, keyword).tooLarge(keyword)
}
