package grammar

import "slices"

// enum is the list of values that s has; nil where it has none.
func (s *schema) enum() *value {
	e := s.v.get("enum")
	if e != nil && e.kind != kindArray {
		panic(s.err("enum", "must be a list"))
	}
	return e
}

// finite returns the values that satisfy the leaves, if an enum or const among them leaves only
// finitely many.
func (c *compiler) finite(leaves []*schema) (out []*value, found bool) {
	var candidates *value
	for _, s := range leaves {
		if v := s.v.get("const"); v != nil {
			candidates = listOf(v)
		} else if e := s.enum(); e != nil && candidates == nil {
			candidates = e
		}
	}
	if candidates == nil {
		return nil, false
	}
	for _, v := range candidates.distinct() {
		if !slices.ContainsFunc(leaves, func(s *schema) bool { return !c.valid(s, v, 0) }) {
			out = append(out, v)
		}
	}
	return out, true
}

var kindNames = map[string]kind{
	"null": kindNull, "boolean": kindBool, "integer": kindInteger, "number": kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// typeNames are the names in a type keyword's value.
func typeNames(t *value) []*value {
	if t.kind == kindArray {
		return t.items
	}
	return []*value{t}
}

// typeKinds is what a type keyword allows; number includes integer.
func typeKinds(s *schema, t *value) (out kind) {
	for _, n := range typeNames(t) {
		k := kindNames[n.text]
		if n.kind != kindString || k == 0 {
			panic(s.err("type", "%q is not a type", n.text))
		}
		if k == kindNumber {
			k |= kindInteger
		}
		out |= k
	}
	if out == 0 {
		panic(s.err("type", "is empty"))
	}
	return out
}

// kinds is the types that the leaves allow.
func (c *compiler) kinds(leaves []*schema) kind {
	kinds := kindAll | kindInteger
	for _, s := range leaves {
		if t := s.v.get("type"); t != nil {
			kinds &= typeKinds(s, t)
		}
		if n := s.plainNot(); n != nil {
			kinds &^= negated(c.known[n])
		}
	}
	return kinds
}

// negated is the types that a plain not rules out.
func negated(n *schema) kind {
	if n.v.kind == kindBool && !n.v.bool {
		return 0
	}
	keys := says(n.v)
	if len(keys) == 0 {
		return kindAll | kindInteger
	}
	v := n.v.get(keys[0])
	switch keys[0] {
	case "type":
		return typeKinds(n, v)
	case "const":
		return v.kind & kindNull
	case "enum":
		if slices.ContainsFunc(v.items, func(x *value) bool { return x.kind == kindNull }) {
			return kindNull
		}
	}
	return 0
}
