package grammar

import (
	"slices"
)

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
				return nil, s.cannot("patternProperties", "more than 4 patterns")
			}
		}
		if p := s.v.get("propertyNames"); p != nil {
			d, err := c.nameLanguage(s, c.known[p])
			if err == nil && d != nil {
				limited = true
				if names, err = names.and(d); err != nil {
					err = s.tooLarge("propertyNames")
				}
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
	shut := closed(leaves) && o.lo <= len(o.members)
	for subset := range 1 << len(patterns) {
		if subset == 0 && shut {
			continue // no name but those that are listed
		}
		r := region{set: c.valueSet(leaves, "", false,
			func(_ *schema, source string) bool { return subset>>slices.Index(sources, source)&1 == 1 })}
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
					return nil, asker(leaves, "patternProperties").tooLarge("patternProperties")
				}
			}
			if r.names.empty() {
				continue
			}
			if states += len(r.names.accept); states > maxCount {
				return nil, asker(leaves, "patternProperties").tooLarge("patternProperties")
			}
		}
		o.regions = append(o.regions, r)
	}
	return o, nil
}

// closed says whether the objects have the listed properties only, though nothing forbids others.
func closed(leaves []*schema) bool {
	lists := false
	for _, s := range leaves {
		if s.doc.open || !s.aside && (s.v.get("additionalProperties") != nil || s.v.get("unevaluatedProperties") != nil) {
			return false
		}
		lists = lists || s.owner == nil && !s.aside && (s.v.get("properties") != nil || s.v.get("patternProperties") != nil)
	}
	return lists
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
					return nil, s.tooLarge("propertyNames")
				}
			}
		}
		if out == nil {
			out = d
		} else if out, err = out.not().and(d.not()); err != nil { // a or b = not (not a and not b)
			return nil, s.tooLarge("propertyNames")
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
	// Any optional property may come behind any other: the states hold the square of their number.
	if optional := len(o.members) - must; optional*optional/2 > maxSets/2 {
		return asker(leaves, "properties").tooLarge("properties")
	}
	// Two additional properties may have the same name and be one property after all, so they count
	// only where one is enough.
	if o.lo > max(must, 1) && len(o.regions) > 0 {
		return o.least.cannot("minProperties", "cannot be honoured with additional properties: their names may repeat")
	}
	// How many properties there are matters up to top; count 0 is also what tells whether a comma
	// is due.
	top := 1
	if o.lo > must || o.hi >= 0 {
		top = max(top, o.lo, o.hi)
		if o.hi < 0 || o.hi > len(o.members) && len(o.regions) == 0 {
			top = max(1, o.lo)
		}
	}
	if top > maxCount || top*(len(o.members)+1) > 5*maxCount {
		return asker(leaves, "maxProperties").tooLarge("maxProperties")
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
		if c.full(n) {
			return asker(leaves, "properties").tooLarge("properties")
		}
		to := fresh()
		// The name and value are written once for each count, or once for all where the count is
		// only about the comma.
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
