package grammar

import (
	"context"
	"errors"
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

func compileSchema(m *meter, schema []byte, o Options) (*Grammar, error) {
	return widen(m, func(w *widened) (*compiler, *Grammar, error) {
		v, err := parseJSON(schema)
		if err != nil {
			return nil, nil, &Error{Msg: err.Error()}
		}
		m.step(len(schema) / 16)
		c := w.newCompiler()
		root, err := c.document(v, &document{strict: o.Strict, open: o.Open}, w)
		if err != nil {
			return c, nil, err
		}
		g, err := c.grammar(root)
		return c, g, err
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

// Where subschemas are.
var (
	oneSchema = []string{"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "unevaluatedItems",
		"unevaluatedProperties"}
	listSchema = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapSchema  = []string{"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"}
)

// document indexes a document's subschemas, their $ids and anchors, and returns the root.
func (c *compiler) document(v *value, d *document, w *widened) (*schema, error) {
	w.apply(v, d.num)
	d.open = d.open || w.open[d.num]
	root := &schema{v: v, ptr: "#", base: &url.URL{}, doc: d}
	root.root = root
	c.roots = append(c.roots, root)
	c.known[v] = root
	c.ids = map[string]*schema{} // a tool's anchors are its own
	return root, c.index(root)
}

func (c *compiler) index(s *schema) error {
	if s.v.kind == kindBool {
		return nil
	}
	if s.v.kind != kindObject {
		return s.err("", "a schema must be an object or a boolean")
	}
	if err := c.identify(s); err != nil {
		return err
	}
	if !s.doc.strict {
		s.v.modernise()
	}
	if d := s.v.get("$schema"); d != nil && d.kind == kindString && s.ptr == "#" {
		if !strings.Contains(d.text, "2020-12") && !strings.Contains(d.text, "2019-09") && !strings.Contains(d.text, "draft-07") &&
			!strings.Contains(d.text, "draft-06") {
			return s.cannot("$schema", "%s is not a draft this understands: it is read as 2020-12", d.text)
		}
	}
	for i, key := range s.v.keys {
		v, path := s.v.items[i], escape(key)
		switch {
		case slices.Contains(oneSchema, key):
			if key == "items" && v.kind == kindArray {
				return s.err("items", "a list of schemas is draft 2019 and before: use prefixItems")
			}
			sub := c.sub(s, path, v)
			sub.aside = sub.aside || key == "if" || key == "not" || s.aside && (key == "then" || key == "else")
			if err := c.index(sub); err != nil {
				return err
			}
		case slices.Contains(listSchema, key):
			if err := c.indexList(s, key, v); err != nil {
				return err
			}
		case slices.Contains(mapSchema, key):
			if v.kind != kindObject {
				return s.err(key, "must be an object of schemas")
			}
			for j, name := range v.keys {
				if err := c.index(c.sub(s, path+escape(name), v.items[j])); err != nil {
					return err
				}
			}
		case key == "dependencies", key == "additionalItems", key == "$recursiveRef", key == "divisibleBy", key == "disallow",
			key == "extends":
			return s.cannot(key, "is not in draft 2020-12")
		}
	}
	return nil
}

// indexList is index for the schemas of a keyword that has a list of them.
func (c *compiler) indexList(s *schema, key string, list *value) error {
	if list.kind != kindArray || len(list.items) == 0 {
		return s.err(key, "must be a list of schemas that is not empty")
	}
	for j, item := range list.items {
		sub := c.sub(s, escape(key)+"/"+strconv.Itoa(j), item)
		sub.aside = sub.aside || s.aside && key != "prefixItems"
		if err := c.index(sub); err != nil {
			return err
		}
	}
	return nil
}

// identify notes by which names a schema may be referred to.
func (c *compiler) identify(s *schema) error {
	if id := s.v.get("$id"); id != nil {
		u, err := url.Parse(id.text)
		if id.kind != kindString || err != nil || u.Fragment != "" {
			return s.err("$id", "must be a URI without fragment")
		}
		s.base, s.root = s.base.ResolveReference(u), s
		c.ids[s.base.String()] = s
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if a := s.v.get(key); a != nil {
			if a.kind != kindString {
				return s.err(key, "must be a string")
			}
			c.ids[s.base.String()+"#"+a.text] = s
		}
	}
	return nil
}

// refer resolves s's $ref.
func (c *compiler) refer(s *schema) (*schema, error) {
	ref := s.v.get("$ref")
	if ref.kind != kindString {
		return nil, s.err("$ref", "must be a string")
	}
	u, err := url.Parse(ref.text)
	if err != nil {
		return nil, s.err("$ref", "%q is not a URI", ref.text)
	}
	abs := s.base.ResolveReference(u)
	fragment := abs.Fragment
	abs.Fragment, abs.RawFragment = "", ""
	at := c.ids[abs.String()]
	if ref.text == "" || strings.HasPrefix(ref.text, "#") {
		at = s.root
	}
	if at == nil {
		return nil, s.err("$ref", "%q is not within this schema, and nothing is fetched", ref.text)
	}
	if fragment == "" {
		return at, nil
	}
	if fragment[0] != '/' {
		if to := c.ids[at.base.String()+"#"+fragment]; to != nil {
			return to, nil
		}
		return nil, s.err("$ref", "there is no anchor %q", fragment)
	}
	v, path := at.v, ""
	for _, part := range strings.Split(fragment[1:], "/") {
		path += "/" + part
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var next *value
		if v.kind == kindArray {
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v.items) {
				next = v.items[i]
			}
		} else {
			next = v.get(part)
		}
		if next == nil {
			return nil, s.err("$ref", "%q leads nowhere", ref.text)
		}
		v = next
	}
	if to := c.known[v]; to != nil {
		return to, nil
	}
	to := c.sub(at, path, v) // somewhere that no keyword makes a schema
	return to, c.index(to)
}

// compiler turns a document into frames, one for each conjunction of subschemas that some value
// must satisfy.
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
	unions  map[*value]*schema // what dependent and conditional made of a keyword's values
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

// grammar compiles everything that root needs.
func (c *compiler) grammar(root *schema) (*Grammar, error) {
	top := c.program.add("root")
	f, err := c.frame([]*schema{root})
	if err != nil {
		return nil, err
	}
	n := top.nfa
	n.call(n.then(0, c.b.space), f, n.end)
	return c.link(top, root)
}

// drain fills the frames that were asked for.
func (c *compiler) drain() error {
	for len(c.work) > 0 {
		t := c.work[len(c.work)-1]
		c.work = c.work[:len(c.work)-1]
		if err := c.fill(t.f, t.set); err != nil {
			return err
		}
		if c.nodes += len(t.f.nfa.states); c.nodes > maxNodes {
			return t.set[0].tooLarge("")
		}
	}
	return nil
}

// link fills the frames still to be filled and finishes the program whose root frame is top.
func (c *compiler) link(top *frame, root *schema) (*Grammar, error) {
	if err := c.drain(); err != nil {
		return nil, err
	}
	if err := c.finish(); err != nil {
		return nil, c.largest(root).tooLarge("")
	}
	switch need := top.need[0]; {
	case need >= never:
		return nil, root.err("", "no value satisfies the schema")
	case need >= jsonDepth:
		return nil, root.err("", "every value that satisfies it nests more than %d deep, which is the most there may be: ask for less in "+
			"each other", jsonDepth-2)
	}
	return &Grammar{root: top, depth: jsonDepth, bytes: c.bytes()}, nil
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
func (c *compiler) frame(set []*schema) (*frame, error) {
	set = slices.DeleteFunc(slices.Clone(set), func(s *schema) bool {
		return s.v.kind == kindBool && s.v.bool || s.v.kind == kindObject && len(s.v.keys) == 0
	})
	slices.SortFunc(set, func(a, b *schema) int { return a.num - b.num })
	set = slices.Compact(set)
	if len(set) == 0 {
		return c.b.value, nil
	}
	key := ""
	c.m.step(1 + len(set))
	for _, s := range set {
		key += strconv.Itoa(s.num) + ","
	}
	if f := c.frames[key]; f != nil {
		return f, nil
	}
	f := c.program.add(set[0].ptr)
	c.frames[key], c.of[f] = f, set[0]
	if len(c.frames) > 20_000 {
		return nil, set[0].tooLarge("")
	}
	c.work = append(c.work, task{f, set})
	return f, nil
}

// fill builds the frame of set: an alternative for each way to satisfy it, and each type.
func (c *compiler) fill(f *frame, set []*schema) error {
	alts, err := c.alternatives(set)
	if err != nil {
		return err
	}
	for _, a := range alts {
		if err := c.alternative(f.nfa, a); err != nil {
			return err
		}
	}
	return nil
}

// alternative is a conjunction with nothing left to choose: schemas of which only their own
// keywords count, or, where finite is set, the values that satisfy them.
type alternative struct {
	leaves []*schema
	kinds  kind
	values []*value
	finite bool
}

const maxAlternatives = 256

// alternatives resolves $ref, allOf, anyOf and oneOf.
func (c *compiler) alternatives(set []*schema) ([]alternative, error) {
	var out []alternative
	err := c.expand(set, nil, nil, nil, &out)
	return out, err
}

// choice is an anyOf or oneOf of which one branch is to be taken. line are the owners of the
// choices that led to it.
type choice struct {
	s       *schema
	keyword string
	line    []*schema
}

// expand adds todo, to which the choices of line led, to the leaves, then takes every branch of the
// open choices.
func (c *compiler) expand(todo, line, leaves []*schema, open []choice, out *[]alternative) error {
	work := 1 + len(todo) + len(line) + len(leaves) + len(open)
	c.m.step(work)
	if c.steps += work; c.steps > 1_000_000 {
		return todoLarge(todo, leaves, "anyOf")
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
				return nil
			}
			continue
		}
		leaves = append(leaves, s)
		more, err := c.with(s)
		if err != nil {
			return err
		}
		todo = append(todo, more...)
		for _, keyword := range []string{"anyOf", "oneOf"} {
			if s.v.get(keyword) != nil {
				open = append(open, choice{s, keyword, line})
			}
		}
	}
	slices.SortFunc(leaves, func(a, b *schema) int { return a.num - b.num })
	if values, ok, err := c.finite(leaves); ok || err != nil {
		if err == nil && len(values) > 0 {
			*out = append(*out, alternative{leaves: leaves, values: values, finite: true})
		}
		return err
	}
	if len(open) == 0 {
		kinds, err := c.kinds(leaves)
		if err != nil || kinds == 0 {
			return err
		}
		if len(*out) >= maxAlternatives {
			return chooser(leaves).tooMany()
		}
		*out = append(*out, alternative{leaves: leaves, kinds: kinds})
		return nil
	}
	first := open[0]
	branches := first.s.v.get(first.keyword).items
	if first.keyword == "oneOf" && len(branches) > 1 {
		if !c.checked[first.s] {
			c.checked[first.s] = true // also while at it: a recursive oneOf asks about itself
			if err := c.exclusive(first.s, branches); err != nil {
				var own *Error
				if first.s.doc.strict || !errors.As(err, &own) || own.at != first.s {
					return err
				}
				c.note(first.s, "oneOf", "is taken as anyOf: %s", own.Msg)
			}
		}
	}
	line = append(slices.Clone(first.line), first.s)
	for _, v := range branches {
		// A branch that leads back without reading anything adds no text.
		if slices.ContainsFunc(line, func(s *schema) bool { return c.leadsTo(c.known[v], s, map[*schema]bool{}) }) {
			continue
		}
		if err := c.expand([]*schema{c.known[v]}, line, leaves, open[1:], out); err != nil {
			return err
		}
	}
	return nil
}

// with gives the schemas that hold wherever s does.
func (c *compiler) with(s *schema) (all []*schema, err error) {
	if s.v.get("$dynamicRef") != nil {
		return nil, s.cannot("$dynamicRef", "is not supported")
	}
	if s.v.get("$ref") != nil {
		to, err := c.refer(s)
		if err != nil {
			return nil, err
		}
		all = append(all, to)
	}
	if of := s.v.get("allOf"); of != nil {
		for _, v := range of.items {
			all = append(all, c.known[v])
		}
	}
	more, err := c.dependent(s)
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	if more, err = c.conditional(s); err != nil {
		return nil, err
	}
	return append(all, more...), nil
}

// todoLarge names one of the schemas that have the keyword, or the first.
func todoLarge(todo, leaves []*schema, keyword string) error {
	all := append(slices.Clone(todo), leaves...)
	if len(all) == 0 {
		return &Error{Keyword: keyword, Msg: errTooLarge.Error()}
	}
	return asker(all, keyword).tooLarge(keyword)
}

// chooser is the leaf with the most branches to choose from: the one to do without.
func chooser(leaves []*schema) *schema {
	best, most := leaves[0], 0
	for _, s := range leaves {
		for _, keyword := range []string{"anyOf", "oneOf"} {
			if v := s.v.get(keyword); v != nil && len(v.items) > most {
				best, most = s, len(v.items)
			}
		}
	}
	return best
}

func (s *schema) tooMany() *Error {
	keyword := "anyOf"
	if s.v.get(keyword) == nil && s.v.get("oneOf") != nil {
		keyword = "oneOf"
	}
	e := s.cannot(keyword, "more than %d combinations", maxAlternatives)
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
	if s.v.get("$ref") != nil {
		if r, err := c.refer(s); err == nil && c.leadsTo(r, to, seen) {
			return true
		}
	}
	if all := s.v.get("allOf"); all != nil {
		for _, v := range all.items {
			if c.leadsTo(c.known[v], to, seen) {
				return true
			}
		}
	}
	return false
}
