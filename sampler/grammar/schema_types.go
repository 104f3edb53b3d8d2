package grammar

import (
	"encoding/json"
	"math/big"
	"strconv"
)

// alternative adds to n the texts of a, from its start to its end.
func (c *compiler) alternative(n *nfa, a alternative) error {
	if a.finite {
		for _, v := range a.values {
			n.eps(c.literal(n, 0, v), n.end)
			if c.full(n) {
				return asker(a.leaves, "enum").tooLarge("enum")
			}
		}
		return nil
	}
	if a.kinds&kindNull != 0 {
		n.eps(n.text(0, "null"), n.end)
	}
	if a.kinds&kindBool != 0 {
		for _, b := range c.booleans(a) {
			n.eps(n.text(0, strconv.FormatBool(b)), n.end)
		}
	}
	for _, k := range []struct {
		kind kind
		add  func(*nfa, []*schema, kind) error
	}{
		{kindString, c.stringAlt}, {kindNumber | kindInteger, c.numberAlt}, {kindArray, c.arrayAlt}, {kindObject, c.objectAlt},
	} {
		if a.kinds&k.kind != 0 {
			if err := k.add(n, a.leaves, a.kinds); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCount is how far items and properties are counted: each one takes states.
const maxCount = 4000

// count reads a keyword that is a number of things; def where it is absent.
func count(s *schema, keyword string, def int) (int, error) {
	v := s.v.get(keyword)
	if v == nil {
		return def, nil
	}
	r := v.rat()
	if v.kind != kindNumber || r == nil || !r.IsInt() || r.Sign() < 0 {
		return 0, s.err(keyword, "must be a non-negative integer")
	}
	if !r.Num().IsInt64() || r.Num().Int64() > 1<<30 {
		return 1 << 30, nil // more than any text can hold
	}
	return int(r.Num().Int64()), nil
}

// limits is the narrowest of all leaves' bounds; max < 0: none.
func limits(leaves []*schema, least, most string) (lo, hi int, err error) {
	hi = -1
	for _, s := range leaves {
		a, err := count(s, least, 0)
		if err != nil {
			return 0, 0, err
		}
		b, err := count(s, most, -1)
		if err != nil {
			return 0, 0, err
		}
		lo = max(lo, a)
		if b >= 0 && (hi < 0 || b < hi) {
			hi = b
		}
	}
	return lo, hi, nil
}

// compilePattern is pattern, remembered.
func (c *compiler) compilePattern(s *schema, keyword, source string) (*runes, error) {
	if d := c.regex[source]; d != nil {
		return d, nil
	}
	d, err := pattern(c.m, source)
	if err != nil {
		return nil, s.cannot(keyword, "%q: %v", source, err)
	}
	c.regex[source] = d
	return d, nil
}

// text is the language of the strings that the leaves allow; nil stands for bounds on length alone.
func (c *compiler) text(leaves []*schema) (d *runes, lo, hi int, err error) {
	lo, hi, err = limits(leaves, "minLength", "maxLength")
	if err != nil {
		return nil, 0, 0, err
	}
	var last *schema
	and := func(s *schema, keyword string, e *runes) error {
		last = s
		if d == nil {
			d = e
			return nil
		}
		var err error
		if d, err = d.and(e); err != nil {
			return s.tooLarge(keyword)
		}
		return nil
	}
	for _, s := range leaves {
		if p := s.v.get("pattern"); p != nil {
			if p.kind != kindString {
				return nil, 0, 0, s.err("pattern", "must be a string")
			}
			e, err := c.compilePattern(s, "pattern", p.text)
			if err == nil {
				err = and(s, "pattern", e)
			}
			if err != nil {
				return nil, 0, 0, err
			}
		}
		if f := s.v.get("format"); f != nil {
			if f.kind != kindString {
				return nil, 0, 0, s.err("format", "must be a string")
			}
			e, ok := stringFormat(f.text)
			if !ok && s.doc.strict {
				return nil, 0, 0, s.err("format", "%q is not a format this can honour", f.text)
			}
			if e != nil {
				if err := and(s, "format", e); err != nil {
					return nil, 0, 0, err
				}
			}
		}
	}
	// What is ruled out.
	var words []string
	for _, v := range excluded(leaves, kindString) {
		words = append(words, v.text)
	}
	if len(words) > 0 {
		if err := and(asker(leaves, "not"), "not", oneOf(words).not()); err != nil {
			return nil, 0, 0, err
		}
	}
	for _, s := range leaves {
		n := s.v.get("not")
		if n == nil || !plainNot(n) || n.get("pattern") == nil {
			continue
		}
		e, err := c.compilePattern(s, "not", n.get("pattern").text)
		if err == nil {
			err = and(s, "not", e.not())
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	if d != nil && (lo > 0 || hi >= 0) {
		e, err := textLength(lo, hi)
		if err == nil {
			err = and(last, "maxLength", e)
		}
		if err != nil {
			return nil, 0, 0, asker(leaves, "maxLength").tooLarge("maxLength")
		}
	}
	return d, lo, hi, nil
}

func (c *compiler) stringAlt(n *nfa, leaves []*schema, _ kind) error {
	if f := c.formatAlone(leaves); f != nil {
		n.call(0, f, n.end)
		return nil
	}
	d, lo, hi, err := c.text(leaves)
	switch {
	case err != nil:
		return err
	case d != nil:
		n.eps(n.text(c.embed(n, n.text(0, `"`), d, writeString), `"`), n.end)
	case lo == 0 && hi < 0:
		n.call(0, c.b.str, n.end)
	case hi < 0 || lo <= hi:
		n.call(0, c.counted(lo, hi), n.end)
	}
	return nil
}

// formatAlone is the frame that all grammars share for a format, where it is all that is asked of
// the string.
func (c *compiler) formatAlone(leaves []*schema) *frame {
	name := ""
	for _, s := range leaves {
		for _, keyword := range []string{"pattern", "minLength", "maxLength", "not"} {
			if s.v.get(keyword) != nil {
				return nil
			}
		}
		if f := s.v.get("format"); f != nil {
			if name != "" && name != f.text || f.kind != kindString {
				return nil
			}
			name = f.text
		}
	}
	return formatFrame(name)
}

// counted is the frame of strings of lo to hi characters.
func (c *compiler) counted(lo, hi int) *frame {
	key := [2]int32{int32(min(lo, 1<<24)), int32(min(hi, 1<<24))} // the states are numbered: more is out of reach anyway
	if f := c.strs[key]; f != nil {
		return f
	}
	f := &frame{count: &counter{key[0], key[1], c.b.chars}}
	f.first['"'>>6] |= 1 << ('"' & 63)
	c.strs[key] = f
	return f
}

func (c *compiler) numberAlt(n *nfa, leaves []*schema, kinds kind) error {
	d, err := numbers(c.m, leaves, kinds, false)
	switch {
	case err != nil:
		return err
	case d != nil:
		n.eps(c.embed(n, 0, d, writeUTF8), n.end)
	case kinds&kindNumber == 0:
		n.call(0, c.b.integer, n.end)
	default:
		n.call(0, c.b.number, n.end)
	}
	return nil
}

// literal adds the ways to write v.
func (c *compiler) literal(n *nfa, from int32, v *value) int32 {
	switch v.kind {
	case kindNull:
		return n.text(from, "null")
	case kindBool:
		return n.text(from, strconv.FormatBool(v.bool))
	case kindString:
		return n.text(from, `"`+canonical(v.text)+`"`)
	case kindNumber:
		end := n.state()
		forms := []string{v.text}
		if r := v.rat(); r != nil && r.IsInt() {
			forms = append(forms, r.Num().String())
		} else if f, err := strconv.ParseFloat(v.text, 64); err == nil {
			b, _ := json.Marshal(f) // finite: ParseFloat says so
			short, ok := new(big.Rat).SetString(string(b))
			if ok && r != nil && short.Cmp(r) == 0 {
				forms = append(forms, string(b))
			}
		}
		for _, form := range forms {
			n.eps(n.text(from, form), end)
		}
		return end
	}
	open, close := "[", "]"
	if v.kind == kindObject {
		open, close = "{", "}"
	}
	at := n.then(n.text(from, open), c.b.space)
	for i, item := range v.items {
		if i > 0 {
			at = n.then(n.text(at, ","), c.b.space)
		}
		if v.kind == kindObject {
			at = n.then(n.text(at, `"`+canonical(v.keys[i])+`"`), c.b.space)
			at = n.then(n.text(at, ":"), c.b.space)
		}
		at = n.then(c.literal(n, at, item), c.b.space)
	}
	return n.text(at, close)
}
