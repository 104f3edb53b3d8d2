package grammar

import (
	"math/big"
	"slices"
	"strings"
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
func boolOf(b bool) *value            { return &value{kind: kindBool, bool: b} }
func typed(n string, p ...any) *value { return objectOf(append([]any{"type", textOf(n)}, p...)...) }

// conditional writes not and if as choices: one of the ways to fail what is negated; the condition
// and then, or one of the ways to fail it and else.
func (c *compiler) conditional(s *schema) (out []*schema) {
	if n := s.v.get("not"); n != nil && s.plainNot() == nil {
		out = append(out, c.instead(s, "not", n, func() []*value { return c.negation(s, "not", c.known[n], 0) }))
	}
	cond, then, other := s.v.get("if"), s.v.get("then"), s.v.get("else")
	if cond == nil || then == nil && other == nil {
		return out
	}
	return append(out, c.instead(s, "if", cond, func() []*value {
		fails := c.negation(s, "if", c.known[cond], 0)
		both := func(a, b *value) *value {
			if b == nil {
				return objectOf("allOf", listOf(a))
			}
			return objectOf("allOf", listOf(a, b))
		}
		out := []*value{both(cond, then)}
		for _, f := range fails {
			if other != nil {
				f = both(f, other)
			}
			out = append(out, f)
		}
		return out
	}))
}

// dependent writes dependentRequired and dependentSchemas as choices: the property is absent, or it
// is there and the rest holds.
func (c *compiler) dependent(s *schema) (out []*schema) {
	for _, keyword := range []string{"dependentRequired", "dependentSchemas"} {
		d := s.v.get(keyword)
		if d == nil {
			continue
		}
		if d.kind != kindObject {
			panic(s.err(keyword, "must be an object"))
		}
		for i, name := range d.keys {
			of := d.items[i]
			out = append(out, c.instead(s, keyword, of, func() []*value {
				names := listOf(textOf(name))
				there := objectOf("required", names)
				if keyword == "dependentSchemas" {
					there.put("allOf", listOf(of))
				} else {
					names.items = append(names.items, of.items...)
				}
				return []*value{objectOf("properties", objectOf(name, boolOf(false))), there}
			}))
		}
	}
	return out
}

// instead is the schema that stands for one of the values of a keyword of s: a choice of branches.
func (c *compiler) instead(s *schema, keyword string, of *value, branches func() []*value) *schema {
	u := c.unions[of]
	if u == nil {
		v := boolOf(false)
		if list := branches(); len(list) > 0 {
			v = objectOf("anyOf", listOf(list...))
		}
		u = c.made(s, keyword, v)
		c.unions[of] = u
	}
	return u
}

// made is a schema that stands for a keyword of s.
func (c *compiler) made(s *schema, keyword string, v *value) *schema {
	u := c.sub(s, "/"+keyword, v)
	u.owner, u.made = s, keyword
	c.index(u)
	return u
}

// says are the keywords that say something about values. Unknown ones do not.
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
	for k := range strings.FieldsSeq(`type enum const $ref $dynamicRef allOf anyOf oneOf not if properties required additionalProperties
		patternProperties propertyNames minProperties maxProperties items prefixItems minItems maxItems contains minContains maxContains
		uniqueItems minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf dependentRequired
		dependentSchemas unevaluatedItems unevaluatedProperties`) {
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
		has := func(name string) bool {
			return slices.ContainsFunc(typeNames(v), func(n *value) bool { return n.text == name })
		}
		return !has("integer") || has("number")
	case "pattern":
		return v.kind == kindString
	case "const":
		return v.kind&(kindArray|kindObject) == 0
	case "enum":
		return v.kind == kindArray && !slices.ContainsFunc(v.items, func(x *value) bool { return x.kind&(kindArray|kindObject) != 0 })
	}
	return false
}

// plainNot is the schema that a plain not of s negates; nil: it has none.
func (s *schema) plainNot() *value {
	if n := s.v.get("not"); n != nil && plainNot(n) {
		return n
	}
	return nil
}

// excluded are the values that plain nots of the leaves rule out, of the kinds asked for.
func excluded(leaves []*schema, kinds kind) (out []*value) {
	for _, s := range leaves {
		n := s.plainNot()
		if n == nil {
			continue
		}
		values := listOf()
		if v := n.get("const"); v != nil {
			values = listOf(v)
		} else if v := n.get("enum"); v != nil {
			values = v
		}
		for _, v := range values.items {
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

// negation is the ways to fail n: a value satisfies one of them just when it does not satisfy n.
// Errors name the keyword of s that it is for.
func (c *compiler) negation(s *schema, keyword string, n *schema, depth int) (out []*value) {
	c.m.step(2 + len(n.v.keys))
	if c.steps++; depth > maxNegation || c.steps > 200_000 {
		panic(s.cannot(keyword, "it refers to itself without end, or is too large"))
	}
	if n.v.kind == kindBool {
		if n.v.bool {
			return nil
		}
		return []*value{boolOf(true)}
	}
	not := func(v *value) *value { return objectOf("not", v) }
	for _, k := range says(n.v) {
		v := n.v.get(k)
		fails, can := []*value(nil), true // the ways to fail this keyword
		switch k {
		case "type", "const", "enum":
			fails, can = []*value{not(objectOf(k, v))}, plainNot(objectOf(k, v))
		case "pattern":
			fails = []*value{typed("string", "not", objectOf(k, v))}
		case "required":
			for _, name := range v.items {
				fails = append(fails, typed("object", "properties", objectOf(name.text, boolOf(false))))
			}
		case "properties":
			for i, name := range v.keys {
				fails = append(fails, typed("object", "required", listOf(textOf(name)), "properties", objectOf(name, not(v.items[i]))))
			}
		case "items":
			fails, can = []*value{typed("array", "contains", not(v))}, n.v.get("prefixItems") == nil
		case "contains":
			fails, can = []*value{typed("array", "items", not(v))}, n.v.get("minContains") == nil && n.v.get("maxContains") == nil
		case "allOf", "anyOf":
			for _, o := range v.items {
				fails = append(fails, not(o))
			}
			if k == "anyOf" {
				fails = []*value{objectOf("allOf", listOf(fails...))}
			}
		case "not":
			fails = []*value{v}
		case "$ref":
			fails = c.negation(s, keyword, c.refer(n), depth+1)
		default:
			z := opposites[k]
			if can = z.kind != ""; can && z.by == 0 {
				fails = []*value{typed(z.kind, z.other, v)}
			} else if r := v.rat(); can && v.kind == kindNumber && r != nil && r.IsInt() {
				if x := new(big.Int).Add(r.Num(), big.NewInt(z.by)); x.Sign() >= 0 { // else it cannot be failed
					fails = []*value{typed(z.kind, z.other, &value{kind: kindNumber, text: x.String()})}
				}
			}
		}
		if !can {
			panic(s.cannot(keyword, "cannot be enforced over %s", k))
		}
		out = append(out, fails...)
	}
	return out
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
		for _, o := range c.same(s) {
			visit(o)
		}
		for _, k := range []string{"anyOf", "oneOf", "dependentSchemas"} {
			if v := s.v.get(k); v != nil {
				for _, item := range v.items {
					visit(c.known[item])
				}
			}
		}
		for _, k := range []string{"if", "then", "else"} {
			visit(c.known[s.v.get(k)])
		}
	}
	visit(s)
	c.reach[s] = out
	return out
}
