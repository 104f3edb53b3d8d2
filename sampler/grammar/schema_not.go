package grammar

import (
	"math/big"
	"slices"
)

// This file is what not and if become: choices between schemas that need no negation but the plain
// one.

func objectOf(pairs ...any) *value {
	v := &value{kind: kindObject}
	for j := 0; j < len(pairs); j += 2 {
		v.keys, v.items = append(v.keys, pairs[j].(string)), append(v.items, pairs[j+1].(*value))
	}
	return v
}

func listOf(items ...*value) *value   { return &value{kind: kindArray, items: items} }
func textOf(s string) *value          { return &value{kind: kindString, text: s} }
func numberOf(n *big.Int) *value      { return &value{kind: kindNumber, text: n.String()} }
func boolOf(b bool) *value            { return &value{kind: kindBool, bool: b} }
func ofType(name string) []any        { return []any{"type", textOf(name)} }
func typed(n string, p ...any) *value { return objectOf(append(ofType(n), p...)...) }

// conditional writes not and if as choices: one of the ways to fail what is negated; the condition
// and then, or one of the ways to fail it and else.
func (c *compiler) conditional(s *schema) ([]*schema, error) {
	var out []*schema
	union := func(keyword string, of *value, branches func() ([]*value, error)) error {
		if have := c.unions[of]; have != nil {
			out = append(out, have)
			return nil
		}
		list, err := branches()
		if err != nil {
			return err
		}
		v := boolOf(false)
		if len(list) > 0 {
			v = objectOf("anyOf", &value{kind: kindArray, items: list})
		}
		u, err := c.made(s, keyword, v)
		if err == nil {
			c.unions[of] = u
			out = append(out, u)
		}
		return err
	}
	if n := s.v.get("not"); n != nil && !plainNot(n) {
		if err := union("not", n, func() ([]*value, error) { return c.negation(s, "not", c.known[n], 0) }); err != nil {
			return nil, err
		}
	}
	then, other := s.v.get("then"), s.v.get("else")
	if cond := s.v.get("if"); cond != nil && (then != nil || other != nil) {
		err := union("if", cond, func() ([]*value, error) {
			fails, err := c.negation(s, "if", c.known[cond], 0)
			if err != nil {
				return nil, err
			}
			yes := listOf(cond)
			if then != nil {
				yes.items = append(yes.items, then)
			}
			out := []*value{objectOf("allOf", yes)}
			for _, f := range fails {
				if other != nil {
					f = objectOf("allOf", listOf(f, other))
				}
				out = append(out, f)
			}
			return out, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// made is a schema that stands for a keyword of s.
func (c *compiler) made(s *schema, keyword string, v *value) (*schema, error) {
	u := c.sub(s, "/"+keyword, v)
	u.owner, u.made = s, keyword
	return u, c.index(u)
}

// says are keywords that say nothing about values, with unknown ones.
func says(v *value) (keys []string) {
	for _, k := range v.keys {
		if understood[k] {
			keys = append(keys, k)
		}
	}
	return keys
}

var understood = func() map[string]bool {
	out := map[string]bool{}
	for _, k := range []string{"type", "enum", "const", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "properties",
		"required", "additionalProperties",
		"patternProperties", "propertyNames", "minProperties", "maxProperties", "items", "prefixItems", "minItems", "maxItems", "contains",
		"minContains",
		"maxContains", "uniqueItems", "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum", "multipleOf",
		"dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"} {
		out[k] = true
	}
	return out
}()

// plainNot says whether a not is honoured where it stands: over types, over values that are no
// lists or objects, over a pattern.
func plainNot(n *value) bool {
	if n.kind == kindBool {
		return true
	}
	keys := says(n)
	if len(keys) == 0 {
		return true
	}
	if len(keys) > 1 {
		return false
	}
	v := n.get(keys[0])
	switch keys[0] {
	case "type":
		types := typeNames(v)
		return !slices.Contains(types, "integer") || slices.Contains(types, "number")
	case "pattern":
		return v.kind == kindString
	case "const":
		return v.kind&(kindArray|kindObject) == 0
	case "enum":
		return v.kind == kindArray && !slices.ContainsFunc(v.items, func(x *value) bool { return x.kind&(kindArray|kindObject) != 0 })
	}
	return false
}

func typeNames(t *value) (names []string) {
	if t.kind == kindString {
		return []string{t.text}
	}
	for _, n := range t.items {
		names = append(names, n.text)
	}
	return names
}

// excluded are the values that plain nots of the leaves rule out, of the kinds asked for.
func excluded(leaves []*schema, kinds kind) (out []*value) {
	for _, s := range leaves {
		n := s.v.get("not")
		if n == nil || !plainNot(n) {
			continue
		}
		var values []*value
		if v := n.get("const"); v != nil {
			values = []*value{v}
		} else if v := n.get("enum"); v != nil {
			values = v.items
		}
		for _, v := range values {
			if v.kind&kinds != 0 {
				out = append(out, v)
			}
		}
	}
	return out
}

// maxNegation is how deep a negation may go: refs may lead back.
const maxNegation = 40

// opposites has of a keyword for sizes and limits the kind that it is about, and the keyword and
// the step that say when it fails.
var opposites = map[string]struct {
	kind, other string
	by          int64
}{
	"minLength": {"string", "maxLength", -1}, "maxLength": {"string", "minLength", 1}, "minItems": {"array", "maxItems", -1},
	"maxItems": {"array", "minItems", 1},
	"minimum":  {"number", "exclusiveMaximum", 0}, "maximum": {"number", "exclusiveMinimum", 0},
	"exclusiveMinimum": {"number", "maximum", 0}, "exclusiveMaximum": {"number", "minimum", 0},
	"minProperties": {"object", "maxProperties", -1}, "maxProperties": {"object", "minProperties", 1},
}

// shifted is a count, some more or less.
func shifted(v *value, by int64) (*value, bool) {
	r := v.rat()
	if v.kind != kindNumber || r == nil || !r.IsInt() {
		return nil, false
	}
	x := new(big.Int).Add(r.Num(), big.NewInt(by))
	return numberOf(x), x.Sign() >= 0
}

// negation is the ways to fail n: schemas of which a value satisfies one just when it does not
// satisfy n. Errors name the keyword of s that it is for.
func (c *compiler) negation(s *schema, keyword string, n *schema, depth int) ([]*value, error) {
	c.m.step(2 + len(n.v.keys))
	if c.steps++; depth > maxNegation || c.steps > 200_000 {
		return nil, s.cannot(keyword, "it refers to itself without end, or is too large")
	}
	if n.v.kind == kindBool {
		if n.v.bool {
			return nil, nil
		}
		return []*value{boolOf(true)}, nil
	}
	var out []*value
	cannot := func(k string) error { return s.cannot(keyword, "cannot be enforced over %s", k) }
	for _, k := range says(n.v) {
		v := n.v.get(k)
		switch k {
		case "type", "const", "enum":
			if not := objectOf(k, v); plainNot(not) {
				out = append(out, objectOf("not", not))
				continue
			}
			return nil, cannot(k)
		case "pattern":
			out = append(out, typed("string", "not", objectOf(k, v)))
		case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			z := opposites[k]
			if x, ok := shifted(v, z.by); ok {
				out = append(out, typed(z.kind, z.other, x))
			} // else it cannot be failed
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			out = append(out, typed("number", opposites[k].other, v))
		case "required":
			for _, name := range v.items {
				out = append(out, typed("object", "properties", objectOf(name.text, boolOf(false))))
			}
		case "properties":
			for i, name := range v.keys {
				out = append(out, typed("object", "required", listOf(textOf(name)), "properties",
					objectOf(name, objectOf("not", v.items[i]))))
			}
		case "items":
			if n.v.get("prefixItems") != nil {
				return nil, cannot(k)
			}
			out = append(out, typed("array", "contains", objectOf("not", v)))
		case "contains":
			if n.v.get("minContains") != nil || n.v.get("maxContains") != nil {
				return nil, cannot(k)
			}
			out = append(out, typed("array", "items", objectOf("not", v)))
		case "allOf", "anyOf":
			all := listOf()
			for _, o := range v.items {
				all.items = append(all.items, objectOf("not", o))
			}
			if k == "allOf" {
				out = append(out, all.items...)
			} else {
				out = append(out, objectOf("allOf", all))
			}
		case "not":
			out = append(out, v)
		case "$ref":
			to, err := c.refer(n)
			if err != nil {
				return nil, err
			}
			more, err := c.negation(s, keyword, to, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		default:
			return nil, cannot(k)
		}
	}
	return out, nil
}

// below are the schemas that say something about the same value as s, as far as they follow from
// it: whose properties count as evaluated.
func (c *compiler) below(s *schema) map[*schema]bool {
	if have := c.reach[s]; have != nil {
		return have
	}
	out := map[*schema]bool{}
	var visit func(s *schema)
	visit = func(s *schema) {
		if s == nil || out[s] || s.v.kind != kindObject {
			return
		}
		out[s] = true
		c.m.step(2)
		if s.v.get("$ref") != nil {
			if to, err := c.refer(s); err == nil {
				visit(to)
			}
		}
		for _, k := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas"} {
			if v := s.v.get(k); v != nil {
				for _, item := range v.items {
					visit(c.known[item])
				}
			}
		}
		for _, k := range []string{"if", "then", "else"} {
			if v := s.v.get(k); v != nil {
				visit(c.known[v])
			}
		}
	}
	visit(s)
	c.reach[s] = out
	return out
}
