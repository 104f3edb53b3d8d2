package grammar

import "slices"

// finite returns the values that satisfy the leaves, if an enum or const among them leaves only
// finitely many.
func (c *compiler) finite(leaves []*schema) ([]*value, bool, error) {
	var candidates []*value
	var source *schema // whose enum the candidates are
	found := false
	for _, s := range leaves {
		if v := s.v.get("const"); v != nil {
			candidates, source, found = []*value{v}, nil, true
		} else if e := s.v.get("enum"); e != nil && !found {
			if e.kind != kindArray {
				return nil, false, s.err("enum", "must be a list")
			}
			candidates, source, found = e.items, s, true
		}
	}
	if !found {
		return nil, false, nil
	}
	var out []*value
	seen := map[string]bool{} // enums may be long: no pair by pair
	for _, v := range candidates {
		ok := true
		for _, s := range leaves {
			skip := ""
			if s == source {
				skip = "enum"
			}
			good, err := c.validBut(s, v, skip, 0)
			if err != nil {
				return nil, false, err
			}
			ok = ok && good
		}
		if !ok {
			continue
		}
		if key := v.same(); !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	return out, true, nil
}

var kindNames = map[string]kind{
	"null": kindNull, "boolean": kindBool, "integer": kindInteger, "number": kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// typeKinds is what a type keyword allows; number includes integer.
func typeKinds(s *schema, t *value) (kind, error) {
	names := t.items
	if t.kind != kindArray {
		names = []*value{t}
	}
	var out kind
	for _, n := range names {
		k := kindNames[n.text]
		if n.kind != kindString || k == 0 {
			return 0, s.err("type", "%q is not a type", n.text)
		}
		if k == kindNumber {
			k |= kindInteger
		}
		out |= k
	}
	if len(names) == 0 {
		return 0, s.err("type", "is empty")
	}
	return out, nil
}

// kinds is the types that the leaves allow.
func (c *compiler) kinds(leaves []*schema) (kind, error) {
	kinds := kindAll | kindInteger
	for _, s := range leaves {
		if t := s.v.get("type"); t != nil {
			k, err := typeKinds(s, t)
			if err != nil {
				return 0, err
			}
			kinds &= k
		}
		if n := s.v.get("not"); n != nil && plainNot(n) {
			k, err := c.negated(c.known[n])
			if err != nil {
				return 0, err
			}
			kinds &^= k
		}
	}
	return kinds, nil
}

// negated is the types that a plain not rules out.
func (c *compiler) negated(n *schema) (kind, error) {
	if n.v.kind == kindBool && !n.v.bool {
		return 0, nil
	}
	keys := says(n.v)
	if len(keys) == 0 {
		return kindAll | kindInteger, nil
	}
	v := n.v.get(keys[0])
	switch keys[0] {
	case "type":
		return typeKinds(n, v)
	case "const":
		return v.kind & kindNull, nil
	case "enum":
		if slices.ContainsFunc(v.items, func(x *value) bool { return x.kind == kindNull }) {
			return kindNull, nil
		}
	}
	return 0, nil
}
