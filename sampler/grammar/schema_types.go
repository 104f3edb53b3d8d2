package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// alternative adds to n the texts of a, from its start to its end.
func (c *compiler) alternative(n *nfa, a alternative) error {
	if a.finite {
		for _, v := range a.values {
			n.eps(c.literal(n, 0, v), n.end)
		}
		return nil
	}
	if a.kinds&kindNull != 0 {
		n.eps(n.text(0, "null"), n.end)
	}
	if a.kinds&kindBool != 0 {
		n.eps(n.text(0, "true"), n.end)
		n.eps(n.text(0, "false"), n.end)
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
	d, err := pattern(source)
	if err != nil {
		return nil, s.err(keyword, "%q: %v", source, err)
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
			return s.err(keyword, "%v", err)
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
			if !ok {
				return nil, 0, 0, s.err("format", "%q is not a format this can honour", f.text)
			}
			if e != nil {
				if err := and(s, "format", e); err != nil {
					return nil, 0, 0, err
				}
			}
		}
	}
	if d != nil && (lo > 0 || hi >= 0) {
		e, err := textLength(lo, hi)
		if err == nil {
			err = and(last, "maxLength", e)
		}
		if err != nil {
			return nil, 0, 0, last.err("maxLength", "%v", errTooLarge)
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

// formatAlone is the frame that all grammars share for a format, where it is all that is asked of the string.
func (c *compiler) formatAlone(leaves []*schema) *frame {
	name := ""
	for _, s := range leaves {
		for _, keyword := range []string{"pattern", "minLength", "maxLength"} {
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
	d, err := numbers(leaves, kinds, false)
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

// children returns the schemas that item i of an array must satisfy, and the length of the longest prefixItems.
func (c *compiler) children(leaves []*schema, i int) (set []*schema, prefix int) {
	for _, s := range leaves {
		items, n := s.v.get("items"), 0
		if p := s.v.get("prefixItems"); p != nil {
			n = len(p.items)
			if i < n {
				items = p.items[i]
			}
		}
		prefix = max(prefix, n)
		if items != nil {
			set = append(set, c.known[items])
		}
	}
	return set, prefix
}

func impossible(set []*schema) bool {
	return slices.ContainsFunc(set, func(s *schema) bool { return s.v.kind == kindBool && !s.v.bool })
}

func (c *compiler) arrayAlt(n *nfa, leaves []*schema, _ kind) error {
	lo, hi, err := limits(leaves, "minItems", "maxItems")
	if err != nil {
		return err
	}
	_, prefix := c.children(leaves, 0)
	if lo > maxCount {
		return leaves[0].err("minItems", "%v", errTooLarge)
	}
	if hi > maxCount {
		return leaves[0].err("maxItems", "%v", errTooLarge)
	}
	// One place for each item that is special or counted, then, without a maximum, one for all others.
	special := max(lo, prefix)
	if hi >= 0 {
		special = hi
	}
	at := n.then(n.text(0, "["), c.b.space)
	closing := n.state()
	n.edge(closing, ']', ']', n.end)
	if lo == 0 {
		n.eps(at, closing)
	}
	for i := 0; i <= special; i++ {
		set, _ := c.children(leaves, i)
		if impossible(set) || i == hi {
			return nil
		}
		f, err := c.frame(set)
		if err != nil {
			return err
		}
		if i > 0 {
			at = n.then(n.text(at, ","), c.b.space)
		}
		after := n.then(n.then(at, f), c.b.space)
		if i+1 >= lo {
			n.eps(after, closing)
		}
		if i == special { // the rest
			n.call(n.text(after, ","), c.b.space, at)
		}
		at = after
	}
	return nil
}

// member is a property with a name of its own.
type member struct {
	name     string
	set      []*schema
	required bool
	never    bool
}

// region is a set of names that are all treated alike.
type region struct {
	names *runes // nil: any
	set   []*schema
}

// object describes what the leaves say about an object's properties.
type object struct {
	members []member
	regions []region
	lo, hi  int
	least   *schema // who asks for lo
	none    bool    // no object will do
}

func (c *compiler) object(leaves []*schema) (*object, error) {
	o := &object{}
	var err error
	if o.lo, o.hi, err = limits(leaves, "minProperties", "maxProperties"); err != nil {
		return nil, err
	}
	var sources []string // of patternProperties
	var patterns []*runes
	names := anyText()
	limited := false
	for _, s := range leaves {
		if lo, _ := count(s, "minProperties", 0); lo == o.lo {
			o.least = s
		}
		if p := s.v.get("properties"); p != nil {
			for _, name := range p.keys {
				if !slices.ContainsFunc(o.members, func(m member) bool { return m.name == name }) {
					o.members = append(o.members, member{name: name})
				}
			}
		}
		if p := s.v.get("patternProperties"); p != nil {
			for _, source := range p.keys {
				if !slices.Contains(sources, source) {
					d, err := c.compilePattern(s, "patternProperties", source)
					if err != nil {
						return nil, err
					}
					sources, patterns = append(sources, source), append(patterns, d)
				}
			}
			if len(sources) > 4 {
				return nil, s.err("patternProperties", "more than 4 patterns")
			}
		}
		if p := s.v.get("propertyNames"); p != nil {
			d, err := c.nameLanguage(s, c.known[p])
			if err == nil && d != nil {
				limited = true
				names, err = names.and(d)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for _, s := range leaves {
		r := s.v.get("required")
		if r == nil {
			continue
		}
		if r.kind != kindArray {
			return nil, s.err("required", "must be a list of names")
		}
		for _, v := range r.items {
			if v.kind != kindString {
				return nil, s.err("required", "must be a list of names")
			}
			i := slices.IndexFunc(o.members, func(m member) bool { return m.name == v.text })
			if i < 0 {
				i = len(o.members)
				o.members = append(o.members, member{name: v.text})
			}
			o.members[i].required = true
		}
	}
	own := make([]string, len(o.members))
	for i := range o.members {
		m := &o.members[i]
		own[i] = m.name
		if m.set, err = c.property(leaves, m.name); err != nil {
			return nil, err
		}
		m.never = impossible(m.set) || !names.match(m.name)
		if m.never && m.required {
			o.none = true
		}
	}
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.never })
	states := 0
	for subset := range 1 << len(patterns) {
		r := region{set: c.valueSet(leaves, "", false, func(_ *schema, source string) bool { return subset>>slices.Index(sources, source)&1 == 1 })}
		if impossible(r.set) {
			continue
		}
		if len(own) > 0 || len(patterns) > 0 || limited {
			r.names = names
			parts := []*runes{oneOf(own).not()}
			for i, p := range patterns {
				if subset>>i&1 == 0 {
					p = p.not()
				}
				parts = append(parts, p)
			}
			for _, p := range parts {
				if r.names, err = r.names.and(p); err != nil {
					return nil, leaves[0].err("patternProperties", "%v", err)
				}
			}
			if r.names.empty() {
				continue
			}
			if states += len(r.names.accept); states > maxCount {
				return nil, leaves[0].err("patternProperties", "%v", errTooLarge)
			}
		}
		o.regions = append(o.regions, r)
	}
	return o, nil
}

// nameLanguage is the language a propertyNames allows; nil: any name.
func (c *compiler) nameLanguage(s, p *schema) (*runes, error) {
	alts, err := c.alternatives([]*schema{p})
	if err != nil {
		return nil, err
	}
	var out *runes
	for _, a := range alts {
		var d *runes
		switch {
		case a.finite:
			var words []string
			for _, v := range a.values {
				if v.kind == kindString {
					words = append(words, v.text)
				}
			}
			d = oneOf(words)
		case a.kinds&kindString == 0:
			continue
		default:
			var lo, hi int
			if d, lo, hi, err = c.text(a.leaves); err != nil {
				return nil, err
			}
			if d == nil {
				if lo == 0 && hi < 0 {
					return nil, nil
				}
				if d, err = textLength(lo, hi); err != nil {
					return nil, s.err("propertyNames", "%v", err)
				}
			}
		}
		if out == nil {
			out = d
		} else if out, err = out.not().and(d.not()); err != nil { // a or b = not (not a and not b)
			return nil, s.err("propertyNames", "%v", err)
		} else {
			out = out.not()
		}
	}
	if out == nil {
		return oneOf(nil), nil
	}
	return out, nil
}

func (c *compiler) objectAlt(n *nfa, leaves []*schema, _ kind) error {
	o, err := c.object(leaves)
	if err != nil || o.none {
		return err
	}
	must := 0
	for _, m := range o.members {
		if m.required {
			must++
		}
	}
	// Two additional properties may have the same name and be one property after all, so they count only where one is
	// enough.
	if o.lo > max(must, 1) && len(o.regions) > 0 {
		return o.least.err("minProperties", "cannot be honoured with additional properties: their names may repeat")
	}
	// How many properties there are matters up to top; count 0 is also what tells whether a comma is due.
	top := 1
	if o.lo > must || o.hi >= 0 {
		top = max(top, o.lo, o.hi)
		if o.hi < 0 || o.hi > len(o.members) && len(o.regions) == 0 {
			top = max(1, o.lo)
		}
	}
	if top > maxCount || top*(len(o.members)+1) > 5*maxCount {
		return leaves[0].err("maxProperties", "%v", errTooLarge)
	}
	counted := top > 1 || o.hi >= 0 && o.hi <= top
	at := make([]int32, top+1)
	fresh := func() []int32 {
		out := make([]int32, top+1)
		for i := range out {
			out[i] = n.state()
		}
		return out
	}
	at[0] = n.then(n.text(0, "{"), c.b.space)
	for i := 1; i <= top; i++ {
		at[i] = n.state()
	}
	next := func(i int) int { // the count after one more; −1: too many
		if counted && o.hi >= 0 && i >= o.hi {
			return -1
		}
		return min(i+1, top)
	}
	comma := func(i int) int32 { // behind the comma, if there must be one
		if i == 0 {
			return at[0]
		}
		return n.then(n.text(at[i], ","), c.b.space)
	}
	for _, m := range o.members {
		f, err := c.frame(m.set)
		if err != nil {
			return err
		}
		to := fresh()
		// The name and value are written once for each count, or once for all where the count is only about the comma.
		body := func(in int32, out int32) {
			colon := n.then(n.text(in, `"`+canonical(m.name)+`"`), c.b.space)
			v := n.then(n.then(n.text(colon, ":"), c.b.space), f)
			n.call(v, c.b.space, out)
		}
		if !counted {
			in := n.state()
			n.eps(comma(0), in)
			n.eps(comma(1), in)
			body(in, to[1])
		} else {
			for i := range top + 1 {
				if j := next(i); j >= 0 {
					body(comma(i), to[j])
				}
			}
		}
		if !m.required {
			for i := range to {
				n.eps(at[i], to[i])
			}
		}
		at = to
	}
	for _, r := range o.regions {
		f, err := c.frame(r.set)
		if err != nil {
			return err
		}
		key := func(in int32) int32 {
			if r.names == nil {
				return n.then(in, c.b.str)
			}
			return n.text(c.embed(n, n.text(in, `"`), r.names, writeString), `"`)
		}
		if counted && r.names != nil {
			key = func(in int32) int32 { return n.then(in, c.nameFrame(r.names)) }
		}
		for i := range top + 1 {
			if j := next(i); j >= 0 {
				colon := n.then(n.text(n.then(key(comma(i)), c.b.space), ":"), c.b.space)
				n.call(n.then(colon, f), c.b.space, at[j])
			}
		}
	}
	for i := range at {
		if i >= min(o.lo, top) && (o.hi < 0 || !counted || i <= o.hi) {
			n.edge(at[i], '}', '}', n.end)
		}
	}
	return nil
}

// nameFrame is a frame of its own for a property name that is needed in many places.
func (c *compiler) nameFrame(names *runes) *frame {
	f := c.program.add("name")
	n := f.nfa
	n.eps(n.text(c.embed(n, n.text(0, `"`), names, writeString), `"`), n.end)
	return f
}

// numbers is the language of the numbers that the leaves allow; nil stands for a plain integer or number. wide makes it all
// of them, of any length, for asking whether two languages share a value.
func numbers(leaves []*schema, kinds kind, wide bool) (*runes, error) {
	integer := kinds&kindNumber == 0
	digits := 18
	if wide {
		digits = 400
	}
	type bound struct {
		s       *schema
		keyword string
		v       *big.Rat
		lower   bool
		strict  bool
	}
	var bounds []bound
	var steps []bound
	for _, s := range leaves {
		for _, b := range []bound{
			{keyword: "minimum", lower: true}, {keyword: "maximum"},
			{keyword: "exclusiveMinimum", lower: true, strict: true}, {keyword: "exclusiveMaximum", strict: true}, {keyword: "multipleOf"},
		} {
			v := s.v.get(b.keyword)
			if v == nil {
				continue
			}
			b.s, b.v = s, v.rat()
			if v.kind != kindNumber || b.v == nil {
				return nil, s.err(b.keyword, "must be a number of sensible size")
			}
			if b.keyword == "multipleOf" {
				if b.v.Sign() <= 0 {
					return nil, s.err(b.keyword, "must be greater than 0")
				}
				steps = append(steps, b)
			} else {
				bounds = append(bounds, b)
				digits = max(digits, len(new(big.Int).Quo(b.v.Num(), b.v.Denom()).String()))
			}
		}
		if f := s.v.get("format"); f != nil && f.kind == kindString {
			r, ok := numberFormats[f.text]
			if ok && r != [2]string{} {
				for i, text := range r {
					v, _ := new(big.Rat).SetString(text)
					bounds = append(bounds, bound{s: s, keyword: "format", v: v, lower: i == 0})
					digits = max(digits, len(text))
				}
				integer = true
			} else if _, known := stringFormat(f.text); !ok && !known {
				return nil, s.err("format", "%q is not a format this can honour", f.text)
			}
		}
	}
	if len(bounds)+len(steps) == 0 && !wide {
		return nil, nil
	}
	if !integer {
		digits = max(digits, 32)
	}
	form := fmt.Sprintf(`-?(?:0|[1-9][0-9]{0,%d})(?:\.[0-9]{1,32})?`, digits-1)
	if integer {
		form = fmt.Sprintf(`0|-?[1-9][0-9]{0,%d}`, digits-1)
	}
	d, err := compileRegex("^(?:"+form+")$", false)
	if err != nil {
		return nil, leaves[0].err("minimum", "%v", err)
	}
	for _, b := range slices.Concat(bounds, steps) {
		var e *runes
		switch {
		case b.keyword == "multipleOf":
			e, err = multiples(b.v)
		case b.lower:
			e, err = compileRegex("^(?:"+atLeast(b.v, b.strict)+")$", false)
		default:
			e, err = compileRegex("^(?:"+atMost(b.v, b.strict)+")$", false)
		}
		if err == nil {
			d, err = d.and(e)
		}
		if err != nil {
			return nil, b.s.err(b.keyword, "%v", err)
		}
	}
	return d, nil
}

// decimal splits a bound into digits before and behind the point; bounds in JSON are decimals.
func decimal(v *big.Rat) (whole, fraction string) {
	places, pow, ten := 0, big.NewInt(1), big.NewInt(10)
	for new(big.Int).Mod(pow, v.Denom()).Sign() != 0 {
		pow.Mul(pow, ten)
		places++
	}
	text := new(big.Rat).Abs(v).FloatString(places)
	whole, fraction, _ = strings.Cut(text, ".")
	return whole, strings.TrimRight(fraction, "0")
}

const anyInt, anyFraction = `(?:0|[1-9][0-9]*)`, `(?:\.[0-9]+)?`

// atLeast is an expression for the plain decimals ≥ v, or > v.
func atLeast(v *big.Rat, strict bool) string {
	w, f := decimal(v)
	if v.Sign() < 0 {
		return anyInt + anyFraction + "|-(?:" + magnitudeAtMost(w, f, strict) + ")"
	}
	return magnitudeAtLeast(w, f, strict)
}

// atMost is an expression for the plain decimals ≤ v, or < v.
func atMost(v *big.Rat, strict bool) string {
	w, f := decimal(v)
	switch {
	case v.Sign() < 0, v.Sign() == 0 && strict:
		return "-(?:" + magnitudeAtLeast(w, f, strict) + ")"
	}
	return "-" + anyInt + anyFraction + "|" + magnitudeAtMost(w, f, strict)
}

// magnitudeAtLeast is an expression for the unsigned decimals ≥ (>) whole.fraction.
func magnitudeAtLeast(whole, fraction string, strict bool) string {
	out := intAbove(whole) + anyFraction + "|" + whole
	if fraction == "" {
		if strict {
			return out + `\.[0-9]*[1-9][0-9]*`
		}
		return out + anyFraction
	}
	tail := `[0-9]*`
	if strict {
		tail = `[0-9]*[1-9][0-9]*`
	}
	for i := len(fraction) - 1; i >= 0; i-- {
		same := string(fraction[i]) + "(?:" + tail + ")"
		if fraction[i] < '9' {
			same += "|[" + string(fraction[i]+1) + "-9][0-9]*"
		}
		tail = same
	}
	return out + `\.(?:` + tail + ")"
}

// magnitudeAtMost is an expression for the unsigned decimals ≤ (<) whole.fraction.
func magnitudeAtMost(whole, fraction string, strict bool) string {
	out := ""
	if below := intBelow(whole); below != "" {
		out = below + anyFraction + "|"
	}
	if fraction == "" {
		if strict {
			return out + `[^\x{0}-\x{10ffff}]`
		}
		return out + whole + `(?:\.0+)?`
	}
	tail := "0*"
	if strict {
		tail = `[^\x{0}-\x{10ffff}]`
	}
	for i := len(fraction) - 1; i >= 0; i-- {
		same := string(fraction[i]) + "(?:" + tail + ")"
		if i < len(fraction)-1 {
			same = string(fraction[i]) + "(?:" + tail + ")?" // stopping short is less: more digits follow in the bound
		} else if strict {
			same = `[^\x{0}-\x{10ffff}]`
		}
		if fraction[i] > '0' {
			same += "|[0-" + string(fraction[i]-1) + "][0-9]*"
		}
		tail = same
	}
	return out + whole + `(?:\.(?:` + tail + "))?"
}

// intAbove is an expression for the integers > n ≥ 0 without leading zeros.
func intAbove(n string) string {
	out := fmt.Sprintf("[1-9][0-9]{%d}[0-9]*", len(n))
	if n == "0" {
		return "(?:[1-9][0-9]*)"
	}
	for i := range n {
		if n[i] < '9' {
			out += "|" + n[:i] + "[" + string(n[i]+1) + "-9][0-9]{" + strconv.Itoa(len(n)-1-i) + "}"
		}
	}
	return "(?:" + out + ")"
}

// intBelow is an expression for the integers < n, "" when there is none.
func intBelow(n string) string {
	if n == "0" {
		return ""
	}
	out := "0"
	if len(n) > 1 {
		out += fmt.Sprintf("|[1-9][0-9]{0,%d}", len(n)-2)
	}
	for i := range n {
		low := byte('0')
		if i == 0 {
			low = '1'
		}
		if n[i] > low {
			out += "|" + n[:i] + "[" + string(low) + "-" + string(n[i]-1) + "][0-9]{" + strconv.Itoa(len(n)-1-i) + "}"
		}
	}
	return "(?:" + out + ")"
}

// multiples is the language of the plain decimals that are multiples of m. With m = c/10^k it reads digits modulo c.
func multiples(m *big.Rat) (*runes, error) {
	k := 0
	scaled := new(big.Rat).Set(m)
	for ; !scaled.IsInt(); k++ {
		if k > 20 {
			return nil, errTooLarge
		}
		scaled.Mul(scaled, big.NewRat(10, 1))
	}
	if !scaled.Num().IsInt64() || scaled.Num().Int64()*int64(k+2) > maxRunes {
		return nil, errTooLarge
	}
	c := scaled.Num().Int64()
	d := &runes{}
	// State 0 is the start, 1 behind the sign, then by how much of the fraction was read, −1 being none of it, the remainders.
	zero := func(places int) int32 { return 2 + int32(int64(places+1)*c) }
	for range int64(k+2)*c + 2 {
		d.add(false)
	}
	scale := func(r int64, places int) int64 {
		for ; places < k; places++ {
			r = r * 10 % c
		}
		return r
	}
	spans := func(r int64, places int) []span {
		var out []span
		for digit := range int64(10) {
			if places > k && digit > 0 {
				break
			}
			to := r
			if places <= k {
				to = (r*10 + digit) % c
			}
			out = append(out, span{'0' + rune(digit), '0' + rune(digit), zero(min(places, k)) + int32(to)})
		}
		return out
	}
	d.trans[0] = append([]span{{'-', '-', 1}}, spans(0, -1)...)
	d.trans[1] = spans(0, -1)
	for r := range c {
		s := zero(-1) + int32(r)
		d.accept[s] = scale(r, 0) == 0
		point := zero(0) + int32(r)
		d.trans[s] = append([]span{{'.', '.', point}}, spans(r, -1)...)
		for places := 0; places <= k; places++ {
			s := zero(places) + int32(r)
			d.accept[s] = scale(r, places) == 0
			d.trans[s] = spans(r, places+1)
		}
	}
	return d.trim(), nil
}
