package grammar

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
)

// alternative adds to n the texts of a, from its start to its end.
func (c *compiler) alternative(n *nfa, a alternative) {
	if a.finite {
		for _, v := range a.values {
			n.eps(c.literal(n, 0, v), n.end)
			if c.full(n) {
				panic(tooLarge(a.leaves, "enum"))
			}
		}
		return
	}
	if a.kinds&kindNull != 0 {
		n.eps(n.text(0, "null"), n.end)
	}
	for _, b := range booleans(a) {
		n.eps(n.text(0, strconv.FormatBool(b)), n.end)
	}
	if a.kinds&kindString != 0 {
		c.stringAlt(n, a.leaves)
	}
	if a.kinds&(kindNumber|kindInteger) != 0 {
		c.numberAlt(n, a.leaves, a.kinds)
	}
	if a.kinds&kindArray != 0 {
		c.arrayAlt(n, a.leaves)
	}
	if a.kinds&kindObject != 0 {
		c.objectAlt(n, a.leaves)
	}
}

// maxCount is how far items and properties are counted: each one takes states.
const maxCount = 4000

// count reads a keyword that is a number of things; def where it is absent.
func count(s *schema, keyword string, def int) int {
	v := s.v.get(keyword)
	if v == nil {
		return def
	}
	r := v.rat()
	if v.kind != kindNumber || r == nil || !r.IsInt() || r.Sign() < 0 {
		panic(s.err(keyword, "must be a non-negative integer"))
	}
	if !r.Num().IsInt64() || r.Num().Int64() > 1<<30 {
		return 1 << 30 // more than any text can hold
	}
	return int(r.Num().Int64())
}

// limits is the narrowest of all leaves' bounds; max < 0: none.
func limits(leaves []*schema, least, most string) (lo, hi int) {
	hi = -1
	for _, s := range leaves {
		lo = max(lo, count(s, least, 0))
		if b := count(s, most, -1); b >= 0 && (hi < 0 || b < hi) {
			hi = b
		}
	}
	return lo, hi
}

// compilePattern is pattern, remembered.
func (c *compiler) compilePattern(s *schema, keyword, source string) *runes {
	d := c.regex[source]
	if d == nil {
		var err error
		if d, err = pattern(c.m, source); err != nil {
			panic(s.cannot(keyword, "%q: %v", source, err))
		}
		c.regex[source] = d
	}
	return d
}

// format is the language of a format; nil where it has none.
func (s *schema) format(name string) *runes {
	d, ok := stringFormat(name)
	if !ok && s.doc.strict {
		panic(s.err("format", "%q is not a format this can honour", name))
	}
	return d
}

// language is what a keyword of a schema allows strings to be.
type language struct {
	s       *schema
	keyword string
	d       *runes
}

// languages are those of s.
func (c *compiler) languages(s *schema) (out []language) {
	for _, keyword := range []string{"pattern", "format"} {
		v := s.v.get(keyword)
		if v == nil {
			continue
		}
		if v.kind != kindString {
			panic(s.err(keyword, "must be a string"))
		}
		if keyword == "pattern" {
			out = append(out, language{s, keyword, c.compilePattern(s, keyword, v.text)})
		} else if d := s.format(v.text); d != nil {
			out = append(out, language{s, keyword, d})
		}
	}
	return out
}

// both is the language of the texts in both; a nil d has all.
func (l language) both(d *runes) *runes {
	if d == nil {
		return l.d
	}
	d, err := d.and(l.d)
	if err != nil {
		panic(l.s.tooLarge(l.keyword))
	}
	return d
}

// strings are the languages that the leaves ask strings to be in; with none there are bounds on
// length alone.
func (c *compiler) strings(leaves []*schema) (all []language, lo, hi int) {
	lo, hi = limits(leaves, "minLength", "maxLength")
	for _, s := range leaves {
		for _, l := range c.languages(s) {
			if !slices.ContainsFunc(all, func(o language) bool { return o.d == l.d }) {
				all = append(all, l)
			}
		}
	}
	// What is ruled out.
	var words []string
	for _, v := range excluded(leaves, kindString) {
		words = append(words, v.text)
	}
	if len(words) > 0 {
		all = append(all, language{asker(leaves, "not"), "not", oneOf(words).not()})
	}
	for _, s := range leaves {
		if n := s.plainNot(); n != nil && n.get("pattern") != nil {
			all = append(all, language{s, "not", c.compilePattern(s, "not", n.get("pattern").text).not()})
		}
	}
	if len(all) > 0 && (lo > 0 || hi >= 0) {
		all = append(all, language{asker(leaves, "maxLength"), "maxLength", lengths(leaves, lo, hi)})
	}
	return all, lo, hi
}

// text is the language of the strings that the leaves allow; nil stands for bounds on length alone.
func (c *compiler) text(leaves []*schema) (d *runes, lo, hi int) {
	all, lo, hi := c.strings(leaves)
	for _, l := range all {
		d = l.both(d)
	}
	return d, lo, hi
}

func (c *compiler) stringAlt(n *nfa, leaves []*schema) {
	if all, _, _ := c.strings(leaves); len(all) == 1 && all[0].keyword == "format" {
		n.call(0, formats[all[0].s.v.get("format").text].frame(), n.end) // which all grammars share
		return
	}
	switch d, lo, hi := c.text(leaves); {
	case d != nil:
		n.eps(c.quoted(n, 0, d), n.end)
	case lo == 0 && hi < 0:
		n.call(0, c.b.str, n.end)
	case hi < 0 || lo <= hi:
		n.call(0, c.counted(lo, hi), n.end)
	}
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

func (c *compiler) numberAlt(n *nfa, leaves []*schema, kinds kind) {
	switch d := numbers(c.m, leaves, kinds, false); {
	case d != nil:
		n.eps(c.embed(n, 0, d, writeUTF8), n.end)
	case kinds&kindNumber == 0:
		n.call(0, c.b.integer, n.end)
	default:
		n.call(0, c.b.number, n.end)
	}
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
