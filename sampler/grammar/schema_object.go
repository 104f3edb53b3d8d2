package grammar

import (
	"slices"
)

// member is a property with a name of its own.
type member struct {
	name     string
	set      []*schema
	required bool
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

func (c *compiler) object(leaves []*schema) *object {
	o := &object{}
	o.lo, o.hi = limits(leaves, "minProperties", "maxProperties")
	var sources []string // of patternProperties
	var patterns []*runes
	names := anyText()
	limited := false
	entry := func(name string) *member {
		i := slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
		if i < 0 {
			i = len(o.members)
			o.members = append(o.members, member{name: name})
		}
		return &o.members[i]
	}
	for _, s := range leaves {
		if count(s, "minProperties", 0) == o.lo {
			o.least = s
		}
		if p := s.v.get("properties"); p != nil {
			for _, name := range p.keys {
				entry(name)
			}
		}
		if p := s.v.get("patternProperties"); p != nil {
			for _, source := range p.keys {
				if !slices.Contains(sources, source) {
					sources, patterns = append(sources, source), append(patterns, c.compilePattern(s, "patternProperties", source))
				}
			}
			if len(sources) > 4 {
				panic(s.cannot("patternProperties", "more than 4 patterns"))
			}
		}
		if p := s.v.get("propertyNames"); p != nil {
			if d := c.nameLanguage(s, c.known[p]); d != nil {
				limited = true
				names = language{s, "propertyNames", d}.both(names)
			}
		}
	}
	for _, s := range leaves {
		for _, name := range s.required() {
			entry(name).required = true
		}
	}
	var own []string
	var can []member
	for _, m := range o.members {
		own = append(own, m.name)
		if m.set = c.property(leaves, m.name); !impossible(m.set) && names.match(m.name) {
			can = append(can, m)
		} else if m.required {
			o.none = true
		}
	}
	o.members = can
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
			for i, p := range slices.Concat([]*runes{oneOf(own)}, patterns) {
				if subset<<1>>i&1 == 0 {
					p = p.not()
				}
				r.names = language{asker(leaves, "patternProperties"), "patternProperties", p}.both(r.names)
			}
			if r.names.empty() {
				continue
			}
			if states += len(r.names.accept); states > maxCount {
				panic(tooLarge(leaves, "patternProperties"))
			}
		}
		o.regions = append(o.regions, r)
	}
	return o
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
func (c *compiler) nameLanguage(s, p *schema) *runes {
	others := anyText() // the names that no alternative allows
	for _, a := range c.alternatives([]*schema{p}, maxAlternatives) {
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
			if d, lo, hi = c.text(a.leaves); d == nil && lo == 0 && hi < 0 {
				return nil
			} else if d == nil {
				d = lengths([]*schema{s}, lo, hi)
			}
		}
		others = language{s, "propertyNames", d.not()}.both(others)
	}
	return others.not()
}

func (c *compiler) objectAlt(n *nfa, leaves []*schema) {
	o := c.object(leaves)
	if o.none {
		return
	}
	must := 0
	for _, m := range o.members {
		if m.required {
			must++
		}
	}
	// Any optional property may come behind any other: the states hold the square of their number.
	if optional := len(o.members) - must; optional*optional/2 > maxSets/2 {
		panic(tooLarge(leaves, "properties"))
	}
	// Two additional properties may have the same name and be one property after all, so they count
	// only where one is enough.
	if o.lo > max(must, 1) && len(o.regions) > 0 {
		panic(o.least.cannot("minProperties", "cannot be honoured with additional properties: their names may repeat"))
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
		panic(tooLarge(leaves, "maxProperties"))
	}
	counted := top > 1 || o.hi >= 0 && o.hi <= top
	fresh := func() []int32 {
		out := make([]int32, top+1)
		for i := range out {
			out[i] = n.state()
		}
		return out
	}
	at := fresh()
	n.call(n.text(0, "{"), c.b.space, at[0])
	comma := func(i int) int32 { // behind the comma, if there must be one
		if i == 0 {
			return at[0]
		}
		return n.then(n.text(at[i], ","), c.b.space)
	}
	// property adds one behind any of the places in at, leading to those in to. It is written once
	// for each count, or once for all where the count is only about the comma.
	property := func(name func(from int32) int32, value *frame, to []int32) {
		write := func(from, to int32) {
			colon := n.text(n.then(name(from), c.b.space), ":")
			n.call(n.then(n.then(colon, c.b.space), value), c.b.space, to)
		}
		if !counted {
			in := n.state()
			n.eps(comma(0), in)
			n.eps(comma(1), in)
			write(in, to[1])
			return
		}
		for i := range at {
			if o.hi < 0 || i < o.hi { // else it were one too many
				write(comma(i), to[min(i+1, top)])
			}
		}
	}
	for _, m := range o.members {
		f := c.frame(m.set)
		if c.full(n) {
			panic(tooLarge(leaves, "properties"))
		}
		to := fresh()
		property(func(from int32) int32 { return n.text(from, `"`+canonical(m.name)+`"`) }, f, to)
		if !m.required {
			for i := range to {
				n.eps(at[i], to[i])
			}
		}
		at = to
	}
	for _, r := range o.regions {
		f := c.frame(r.set)
		name := c.b.str
		if r.names != nil && counted { // a frame of its own, as it is needed in many places
			name = c.program.add("name")
			name.nfa.eps(c.quoted(name.nfa, 0, r.names), name.nfa.end)
		}
		property(func(from int32) int32 {
			if r.names != nil && !counted {
				return c.quoted(n, from, r.names)
			}
			return n.then(from, name)
		}, f, at)
	}
	for i := range at {
		if i >= min(o.lo, top) && (o.hi < 0 || !counted || i <= o.hi) {
			n.edge(at[i], '}', '}', n.end)
		}
	}
}
