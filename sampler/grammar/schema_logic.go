package grammar

import (
	"math/big"
	"slices"
	"unicode/utf8"
)

// exclusive refuses a oneOf unless no value can satisfy two of its branches: then it is an anyOf.
func (c *compiler) exclusive(s *schema, branches []*value) {
	if len(branches) > 64 {
		panic(s.cannot("oneOf", "more than 64 branches"))
	}
	for i, a := range branches {
		for j, b := range branches[:i] {
			if !c.nothing([]*schema{c.known[b], c.known[a]}, 0) {
				panic(s.cannot("oneOf", "branches %d and %d are not seen to exclude each other; use anyOf, or a property with a "+
					"different const in each", j, i))
			}
		}
	}
}

// maxPairs is how many alternatives are looked at for a value that satisfies two schemas.
const maxPairs = 20_000

// nothing reports whether it can show that no value satisfies the set.
func (c *compiler) nothing(set []*schema, depth int) bool {
	if depth > 8 {
		return false
	}
	c.m.step(2)
	if c.steps++; c.steps > 200_000 {
		panic(tooLarge(set, "oneOf"))
	}
	return !slices.ContainsFunc(c.alternatives(set, maxPairs), func(a alternative) bool { return !c.noValue(a, depth) })
}

// noValue reports whether it can show that an alternative has no value.
func (c *compiler) noValue(a alternative, depth int) bool {
	if a.finite || a.kinds&(kindNull|kindBool) != 0 {
		return false
	}
	if a.kinds&kindString != 0 {
		none := false
		e := attempt(func() {
			d, lo, hi := c.text(a.leaves)
			none = d == nil && hi >= 0 && hi < lo || d != nil && d.empty()
		})
		if e != nil && !e.large {
			panic(e)
		}
		if !none {
			return false
		}
	}
	if a.kinds&(kindNumber|kindInteger) != 0 && !numbers(c.m, a.leaves, a.kinds, true).empty() {
		return false
	}
	if a.kinds&kindArray != 0 {
		lo, hi := limits(a.leaves, "minItems", "maxItems")
		none := hi >= 0 && hi < lo
		for i := 0; i < min(lo, 16) && !none; i++ { // there must be an item i
			set, _ := c.children(a.leaves, i)
			none = c.nothing(set, depth+1)
		}
		if !none {
			return false
		}
	}
	return a.kinds&kindObject == 0 || slices.ContainsFunc(a.leaves, func(s *schema) bool {
		return slices.ContainsFunc(s.required(), func(name string) bool { return c.nothing(c.property(a.leaves, name), depth+1) })
	})
}

// required are the names of the properties that there must be.
func (s *schema) required() (names []string) {
	r := s.v.get("required")
	if r == nil {
		return nil
	}
	if r.kind != kindArray || slices.ContainsFunc(r.items, func(v *value) bool { return v.kind != kindString }) {
		panic(s.err("required", "must be a list of names"))
	}
	for _, v := range r.items {
		names = append(names, v.text)
	}
	return names
}

// property is what the leaves ask of the value of a property.
func (c *compiler) property(leaves []*schema, name string) []*schema {
	return c.valueSet(leaves, name, true, func(s *schema, source string) bool {
		return c.compilePattern(s, "patternProperties", source).match(name)
	})
}

// valueSet is what the leaves ask of the value of a property that properties may name if declared
// is set, and whose name the patterns match that matches says.
func (c *compiler) valueSet(leaves []*schema, name string, declared bool, matches func(s *schema, source string) bool) (out []*schema) {
	told := map[*schema]bool{} // which leaves evaluate it
	for _, s := range leaves {
		c.m.step(2)
		before := len(out)
		if p := s.v.get("properties"); p != nil && declared {
			if v := p.get(name); v != nil {
				out = append(out, c.known[v])
			}
		}
		if p := s.v.get("patternProperties"); p != nil {
			for i, source := range p.keys {
				if matches(s, source) {
					out = append(out, c.known[p.items[i]])
				}
			}
		}
		if a := s.v.get("additionalProperties"); a != nil && len(out) == before {
			out = append(out, c.known[a])
		}
		told[s] = len(out) > before
	}
	for _, s := range leaves {
		if u := s.v.get("unevaluatedProperties"); u != nil {
			below := c.below(s)
			if !slices.ContainsFunc(leaves, func(o *schema) bool { return told[o] && below[o] }) {
				out = append(out, c.known[u])
			}
		}
	}
	return out
}

// valid evaluates v against s: for enum and const, where the values can simply be tried.
func (c *compiler) valid(s *schema, v *value, depth int) bool {
	if s.v.kind == kindBool {
		return s.v.bool
	}
	c.m.step(2)
	if c.steps++; depth > maxNesting || c.steps > 200_000 {
		panic(s.cannot("", "it refers to itself without end, or is too large"))
	}
	get := s.v.get
	is := func(o *schema) bool { return c.valid(o, v, depth+1) }
	are := func(o *value) bool { return is(c.known[o]) }
	fails := func(o *schema) bool { return !is(o) }
	same := c.same(s) // whatever else s asks for: a reference that leads nowhere is an error
	if t := get("type"); t != nil {
		kinds := typeKinds(s, t)
		whole := v.kind == kindNumber && kinds&kindInteger != 0 && v.whole()
		if kinds&v.kind == 0 && !whole {
			return false
		}
	}
	if e := s.enum(); e != nil && !e.has(v) {
		return false
	}
	if x := get("const"); x != nil && x.same() != v.same() {
		return false
	}
	if slices.ContainsFunc(same, fails) || slices.ContainsFunc(c.dependent(s), fails) {
		return false
	}
	if of := get("anyOf"); of != nil && !slices.ContainsFunc(of.items, are) {
		return false
	}
	if of := get("oneOf"); of != nil {
		n := 0
		for _, o := range of.items {
			if are(o) {
				n++
			}
		}
		if n != 1 {
			return false
		}
	}
	if not := get("not"); not != nil && are(not) {
		return false
	}
	if cond := get("if"); cond != nil {
		branch := get("else")
		if are(cond) {
			branch = get("then")
		}
		if branch != nil && !are(branch) {
			return false
		}
	}
	cannot := func(keyword string) {
		if get(keyword) != nil {
			panic(s.cannot(keyword, "is not supported"))
		}
	}
	cannot("$dynamicRef")
	within := func(n int, least, most string) bool {
		lo, hi := limits([]*schema{s}, least, most)
		return n >= lo && (hi < 0 || n <= hi)
	}
	switch v.kind {
	case kindString:
		return within(utf8.RuneCountInString(v.text), "minLength", "maxLength") &&
			!slices.ContainsFunc(c.languages(s), func(l language) bool { return !l.d.match(v.text) })
	case kindNumber:
		return s.fits(v)
	case kindArray:
		if !within(len(v.items), "minItems", "maxItems") || s.unique() && len(v.distinct()) < len(v.items) {
			return false
		}
		cannot("unevaluatedItems")
		for i, item := range v.items {
			set, _ := c.children([]*schema{s}, i)
			if slices.ContainsFunc(set, func(o *schema) bool { return !c.valid(o, item, depth+1) }) {
				return false
			}
		}
		of := get("contains")
		if of == nil {
			return true
		}
		n := 0
		for _, item := range v.items {
			if c.valid(c.known[of], item, depth+1) {
				n++
			}
		}
		return n >= count(s, "minContains", 1) && n <= count(s, "maxContains", n)
	case kindObject:
		if !within(len(v.items), "minProperties", "maxProperties") ||
			slices.ContainsFunc(s.required(), func(name string) bool { return v.get(name) == nil }) {
			return false
		}
		cannot("unevaluatedProperties")
		names := get("propertyNames")
		for i, name := range v.keys {
			if slices.ContainsFunc(c.property([]*schema{s}, name), func(o *schema) bool { return !c.valid(o, v.items[i], depth+1) }) ||
				names != nil && !c.valid(c.known[names], textOf(name), depth+1) {
				return false
			}
		}
	}
	return true
}

// fits says whether a number has the size and step that s asks for.
func (s *schema) fits(v *value) bool {
	for _, b := range bounds {
		if bound := s.bound(b.keyword); bound != nil && !b.fits(s.number(b.keyword, v).Cmp(bound)) {
			return false
		}
	}
	step := s.bound("multipleOf")
	return step == nil || step.Sign() > 0 && new(big.Rat).Quo(s.number("multipleOf", v), step).IsInt()
}

// unique says whether s asks for items that all differ.
func (s *schema) unique() bool {
	u := s.v.get("uniqueItems")
	return u != nil && u.kind == kindBool && u.bool
}
