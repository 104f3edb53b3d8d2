package grammar

import (
	"math/big"
	"slices"
	"unicode/utf8"
)

// exclusive refuses a oneOf unless no value can satisfy two of its branches: then it is an anyOf.
func (c *compiler) exclusive(s *schema, branches []*value) error {
	if len(branches) > 64 {
		return s.cannot("oneOf", "more than 64 branches")
	}
	for i, a := range branches {
		for j := range i {
			ok, err := c.disjoint([]*schema{c.known[branches[j]]}, []*schema{c.known[a]}, 0)
			if err != nil {
				return err
			}
			if !ok {
				return s.cannot("oneOf", "branches %d and %d are not seen to exclude each other; use anyOf, or a property with a "+
					"different const in each", j, i)
			}
		}
	}
	return nil
}

// disjoint reports whether it can show that no value satisfies both sets.
func (c *compiler) disjoint(a, b []*schema, depth int) (bool, error) {
	if depth > 8 {
		return false, nil
	}
	c.m.step(2)
	if c.steps++; c.steps > 200_000 {
		return false, todoLarge(a, b, "oneOf")
	}
	x, err := c.alternatives(a)
	if err != nil {
		return false, err
	}
	y, err := c.alternatives(b)
	if err != nil {
		return false, err
	}
	for _, p := range x {
		for _, q := range y {
			if ok, err := c.apart(p, q, depth); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (c *compiler) apart(a, b alternative, depth int) (bool, error) {
	if b.finite {
		a, b = b, a
	}
	if a.finite {
		for _, v := range a.values {
			in := true
			for _, s := range b.leaves {
				ok, err := c.valid(s, v, 0)
				if err != nil {
					return false, err
				}
				in = in && ok
			}
			if in {
				return false, nil
			}
		}
		return true, nil
	}
	both := a.kinds & b.kinds
	if both&(kindNull|kindBool) != 0 {
		return false, nil
	}
	if both&kindString != 0 {
		if ok, err := c.stringsApart(a.leaves, b.leaves); !ok || err != nil {
			return false, err
		}
	}
	if both&(kindNumber|kindInteger) != 0 {
		x, err := numbers(c.m, a.leaves, a.kinds, true)
		if err != nil {
			return false, err
		}
		y, err := numbers(c.m, b.leaves, b.kinds, true)
		if err != nil {
			return false, err
		}
		if d, err := x.and(y); err != nil || !d.empty() {
			return false, nil
		}
	}
	if both&kindArray != 0 {
		if ok, err := c.arraysApart(a.leaves, b.leaves, depth); !ok || err != nil {
			return false, err
		}
	}
	if both&kindObject != 0 {
		if ok, err := c.objectsApart(a.leaves, b.leaves, depth); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (c *compiler) stringsApart(a, b []*schema) (bool, error) {
	x, lo1, hi1, err := c.text(a)
	if err != nil {
		return false, err
	}
	y, lo2, hi2, err := c.text(b)
	if err != nil {
		return false, err
	}
	if hi1 >= 0 && hi1 < lo2 || hi2 >= 0 && hi2 < lo1 {
		return true, nil
	}
	if x == nil || y == nil {
		if x, y = cmpOr(x, y), nil; x == nil {
			return false, nil
		}
		// One has a language, the other only a length.
		if y, err = textLength(max(lo1, lo2), -1); err != nil {
			return false, nil
		}
	}
	d, err := x.and(y)
	return err == nil && d.empty(), nil
}

func cmpOr(a, b *runes) *runes {
	if a != nil {
		return a
	}
	return b
}

func (c *compiler) arraysApart(a, b []*schema, depth int) (bool, error) {
	lo1, hi1, err := limits(a, "minItems", "maxItems")
	if err != nil {
		return false, err
	}
	lo2, hi2, err := limits(b, "minItems", "maxItems")
	if err != nil {
		return false, err
	}
	if hi1 >= 0 && hi1 < lo2 || hi2 >= 0 && hi2 < lo1 {
		return true, nil
	}
	for i := range min(max(lo1, lo2), 16) { // both must have item i
		x, _, err := c.children(a, i)
		if err != nil {
			return false, err
		}
		y, _, err := c.children(b, i)
		if err != nil {
			return false, err
		}
		if ok, err := c.disjoint(x, y, depth+1); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (c *compiler) objectsApart(a, b []*schema, depth int) (bool, error) {
	for _, s := range slices.Concat(a, b) {
		r := s.v.get("required")
		if r == nil {
			continue
		}
		for _, name := range r.items { // an object in both must have it
			x, err := c.property(a, name.text)
			if err != nil {
				return false, err
			}
			y, err := c.property(b, name.text)
			if err != nil {
				return false, err
			}
			if ok, err := c.disjoint(x, y, depth+1); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}

// property is what the leaves ask of the value of a property.
func (c *compiler) property(leaves []*schema, name string) ([]*schema, error) {
	var failed error
	set := c.valueSet(leaves, name, true, func(s *schema, source string) bool {
		d, err := c.compilePattern(s, "patternProperties", source)
		if err != nil {
			failed = err
			return false
		}
		return d.match(name)
	})
	return set, failed
}

// valueSet is what the leaves ask of the value of a property that properties may name if declared
// is set, and whose name the patterns match that matches says.
func (c *compiler) valueSet(leaves []*schema, name string, declared bool, matches func(s *schema, source string) bool) (out []*schema) {
	var told []bool // which leaves evaluate it
	for _, s := range leaves {
		c.m.step(2)
		found := false
		if p := s.v.get("properties"); p != nil && declared {
			if v := p.get(name); v != nil {
				out, found = append(out, c.known[v]), true
			}
		}
		if p := s.v.get("patternProperties"); p != nil {
			for i, source := range p.keys {
				if matches(s, source) {
					out, found = append(out, c.known[p.items[i]]), true
				}
			}
		}
		if a := s.v.get("additionalProperties"); a != nil && !found {
			out, found = append(out, c.known[a]), true
		}
		told = append(told, found)
	}
	for _, s := range leaves {
		u := s.v.get("unevaluatedProperties")
		if u == nil {
			continue
		}
		below, found := c.below(s), false
		for i, o := range leaves {
			found = found || told[i] && below[o]
		}
		if !found {
			out = append(out, c.known[u])
		}
	}
	return out
}

// dependent writes dependentRequired and dependentSchemas as unions: the property is absent, or it
// is there and the rest holds.
func (c *compiler) dependent(s *schema) ([]*schema, error) {
	var out []*schema
	for _, keyword := range []string{"dependentRequired", "dependentSchemas"} {
		d := s.v.get(keyword)
		if d == nil {
			continue
		}
		if d.kind != kindObject {
			return nil, s.err(keyword, "must be an object")
		}
		for i, name := range d.keys {
			if have := c.unions[d.items[i]]; have != nil {
				out = append(out, have)
				continue
			}
			names := &value{kind: kindArray, items: []*value{{kind: kindString, text: name}}}
			there := objectOf("required", names)
			if keyword == "dependentSchemas" {
				there = objectOf("required", names, "allOf", &value{kind: kindArray, items: []*value{d.items[i]}})
			} else {
				names.items = append(names.items, d.items[i].items...)
			}
			absent := objectOf("properties", objectOf(name, &value{kind: kindBool}))
			union, err := c.made(s, keyword, objectOf("anyOf", listOf(absent, there)))
			if err != nil {
				return nil, err
			}
			c.unions[d.items[i]] = union
			out = append(out, union)
		}
	}
	return out, nil
}

// equal is JSON Schema's equality.
func equal(a, b *value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case kindBool:
		return a.bool == b.bool
	case kindString:
		return a.text == b.text
	case kindNumber:
		x, y := a.rat(), b.rat()
		return a.text == b.text || x != nil && y != nil && x.Cmp(y) == 0
	case kindArray:
		return slices.EqualFunc(a.items, b.items, equal)
	case kindObject:
		if len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if o := b.get(k); o == nil || !equal(a.items[i], o) {
				return false
			}
		}
	}
	return true
}

// valid evaluates v against s: for enum and const, where the values can simply be tried.
func (c *compiler) valid(s *schema, v *value, depth int) (bool, error) {
	return c.validBut(s, v, "", depth)
}

// validBut is valid without one of s's keywords.
func (c *compiler) validBut(s *schema, v *value, skip string, depth int) (bool, error) {
	if s.v.kind == kindBool {
		return s.v.bool, nil
	}
	c.m.step(2)
	if c.steps++; depth > maxNesting || c.steps > 200_000 {
		return false, s.cannot("", "it refers to itself without end, or is too large")
	}
	var failed error
	is := func(s *schema, v *value) bool {
		if failed != nil {
			return false
		}
		ok, err := c.valid(s, v, depth+1)
		if err != nil {
			failed = err
		}
		return ok
	}
	for i, key := range s.v.keys {
		if key == skip {
			continue
		}
		ok := c.keyword(s, key, s.v.items[i], v, is, &failed)
		if failed != nil {
			return false, failed
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// keyword evaluates one keyword k of s, with the value a, for v.
func (c *compiler) keyword(s *schema, k string, a, v *value, is func(*schema, *value) bool, failed *error) bool {
	fail := func(err error) bool {
		if *failed == nil {
			*failed = err
		}
		return false
	}
	number := func(test func(x, bound *big.Rat) bool) bool {
		if v.kind != kindNumber {
			return true
		}
		x, bound := v.rat(), a.rat()
		if a.kind != kindNumber || x == nil || bound == nil {
			return fail(s.err(k, "must be a number of sensible size"))
		}
		return test(x, bound)
	}
	size := func(kind kind, have int, atLeast bool) bool {
		if v.kind != kind {
			return true
		}
		n, err := count(s, k, 0)
		if err != nil {
			return fail(err)
		}
		return atLeast && have >= n || !atLeast && have <= n
	}
	switch k {
	case "type":
		kinds, err := typeKinds(s, a)
		if err != nil {
			return fail(err)
		}
		if v.kind == kindNumber && kinds&kindNumber == 0 && kinds&kindInteger != 0 {
			x := v.rat()
			return x != nil && x.IsInt()
		}
		return kinds&v.kind != 0
	case "enum":
		if a.kind != kindArray {
			return fail(s.err("enum", "must be a list"))
		}
		return a.has(v)
	case "const":
		return equal(a, v)
	case "$ref":
		to, err := c.refer(s)
		if err != nil {
			return fail(err)
		}
		return is(to, v)
	case "allOf":
		return !slices.ContainsFunc(a.items, func(o *value) bool { return !is(c.known[o], v) })
	case "anyOf":
		return slices.ContainsFunc(a.items, func(o *value) bool { return is(c.known[o], v) })
	case "oneOf":
		n := 0
		for _, o := range a.items {
			if is(c.known[o], v) {
				n++
			}
		}
		return n == 1
	case "not":
		return !is(c.known[a], v)
	case "if":
		branch := "else"
		if is(c.known[a], v) {
			branch = "then"
		}
		b := s.v.get(branch)
		return b == nil || is(c.known[b], v)
	case "minimum":
		return number(func(x, b *big.Rat) bool { return x.Cmp(b) >= 0 })
	case "maximum":
		return number(func(x, b *big.Rat) bool { return x.Cmp(b) <= 0 })
	case "exclusiveMinimum":
		return number(func(x, b *big.Rat) bool { return x.Cmp(b) > 0 })
	case "exclusiveMaximum":
		return number(func(x, b *big.Rat) bool { return x.Cmp(b) < 0 })
	case "multipleOf":
		return number(func(x, b *big.Rat) bool { return b.Sign() > 0 && new(big.Rat).Quo(x, b).IsInt() })
	case "minLength", "maxLength":
		return size(kindString, utf8.RuneCountInString(v.text), k == "minLength")
	case "minItems", "maxItems":
		return size(kindArray, len(v.items), k == "minItems")
	case "minProperties", "maxProperties":
		return size(kindObject, len(v.items), k == "minProperties")
	case "pattern":
		if v.kind != kindString {
			return true
		}
		d, err := c.compilePattern(s, k, a.text)
		if err != nil {
			return fail(err)
		}
		return d.match(v.text)
	case "format":
		d, ok := stringFormat(a.text)
		if _, number := numberFormats[a.text]; !ok && !number && s.doc.strict {
			return fail(s.err(k, "%q is not a format this can honour", a.text))
		}
		return v.kind != kindString || d == nil || d.match(v.text)
	case "prefixItems":
		for i, item := range a.items {
			if v.kind == kindArray && i < len(v.items) && !is(c.known[item], v.items[i]) {
				return false
			}
		}
	case "items":
		if v.kind != kindArray {
			return true
		}
		from := 0
		if p := s.v.get("prefixItems"); p != nil {
			from = len(p.items)
		}
		for i := from; i < len(v.items); i++ {
			if !is(c.known[a], v.items[i]) {
				return false
			}
		}
	case "contains":
		if v.kind != kindArray {
			return true
		}
		n := 0
		for _, item := range v.items {
			if is(c.known[a], item) {
				n++
			}
		}
		least, err := count(s, "minContains", 1)
		if err != nil {
			return fail(err)
		}
		most, err := count(s, "maxContains", len(v.items))
		if err != nil {
			return fail(err)
		}
		return n >= least && n <= most
	case "uniqueItems":
		if v.kind != kindArray || !a.bool {
			return true
		}
		seen := map[string]bool{}
		for _, x := range v.items {
			key := x.same()
			if seen[key] {
				return false
			}
			seen[key] = true
		}
	case "required":
		if v.kind == kindObject {
			return !slices.ContainsFunc(a.items, func(name *value) bool { return v.get(name.text) == nil })
		}
	case "properties", "patternProperties", "additionalProperties":
		if v.kind != kindObject || k != "properties" && s.v.get("properties") != nil || k == "additionalProperties" &&
			s.v.get("patternProperties") != nil {
			return true // all three are looked at with the first of them
		}
		for i, name := range v.keys {
			set, err := c.property([]*schema{s}, name)
			if err != nil {
				return fail(err)
			}
			for _, sub := range set {
				if !is(sub, v.items[i]) {
					return false
				}
			}
		}
	case "propertyNames":
		for _, name := range v.keys {
			if !is(c.known[a], &value{kind: kindString, text: name}) {
				return false
			}
		}
	case "dependentRequired", "dependentSchemas":
		if v.kind != kindObject {
			return true
		}
		for i, name := range a.keys {
			if v.get(name) == nil {
				continue
			}
			if k == "dependentSchemas" && !is(c.known[a.items[i]], v) {
				return false
			}
			if k == "dependentRequired" && slices.ContainsFunc(a.items[i].items, func(n *value) bool { return v.get(n.text) == nil }) {
				return false
			}
		}
	case "$dynamicRef", "unevaluatedItems", "unevaluatedProperties":
		return fail(s.cannot(k, "is not supported"))
	}
	return true
}
