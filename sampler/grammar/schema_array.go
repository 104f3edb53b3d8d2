package grammar

import (
	"slices"
)

// children returns the schemas that item i of an array must satisfy, and the length of the longest
// prefixItems.
func (c *compiler) children(leaves []*schema, i int) (set []*schema, prefix int, err error) {
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
		if u := s.v.get("unevaluatedItems"); u != nil {
			below, first := c.below(s), 0
			for _, o := range leaves {
				switch {
				case !below[o]:
				case o.v.get("contains") != nil:
					return nil, 0, s.cannot("unevaluatedItems", "cannot be enforced beside contains")
				case o.v.get("items") != nil:
					first = -1
				case o.v.get("prefixItems") != nil && first >= 0:
					first = max(first, len(o.v.get("prefixItems").items))
				}
			}
			if first >= 0 && i >= first {
				set = append(set, c.known[u])
			}
			prefix = max(prefix, first)
		}
	}
	return set, prefix, nil
}

func impossible(set []*schema) bool {
	return slices.ContainsFunc(set, func(s *schema) bool { return s.v.kind == kindBool && !s.v.bool })
}

// holding is a contains: how many items must satisfy a schema, at least and at most (−1: any
// number).
type holding struct {
	s     *schema // whose keyword it is
	set   *schema
	least int
	most  int
	fails *schema // what the others satisfy, where there is a most
}

const (
	maxHolding = 64   // counts of items that satisfy contains, all together
	maxUnique  = 2000 // steps between sets of items that have come
)

// holdings are the leaves' contains that ask for something.
func (c *compiler) holdings(leaves []*schema) ([]holding, error) {
	var out []holding
	counts := 1
	for _, s := range leaves {
		v := s.v.get("contains")
		if v == nil {
			continue
		}
		least, err := count(s, "minContains", 1)
		if err != nil {
			return nil, err
		}
		most, err := count(s, "maxContains", -1)
		if err != nil {
			return nil, err
		}
		h := holding{s: s, set: c.known[v], least: least, most: most}
		if least == 0 && most < 0 {
			continue
		}
		if most >= 0 {
			if h.fails, err = c.made(s, "maxContains", objectOf("not", v)); err != nil {
				return nil, err
			}
		}
		if counts *= max(least, most) + 1; counts > maxHolding || max(least, most) > maxHolding {
			if most > least {
				return nil, s.tooLarge("maxContains")
			}
			return nil, s.tooLarge("contains")
		}
		out = append(out, h)
	}
	return out, nil
}

func (c *compiler) arrayAlt(n *nfa, leaves []*schema, _ kind) error {
	lo, hi, err := limits(leaves, "minItems", "maxItems")
	if err != nil {
		return err
	}
	_, prefix, err := c.children(leaves, 0)
	if err != nil {
		return err
	}
	if lo > maxCount {
		return asker(leaves, "minItems").tooLarge("minItems")
	}
	if hi > maxCount {
		return asker(leaves, "maxItems").tooLarge("maxItems")
	}
	hold, err := c.holdings(leaves)
	if err != nil {
		return err
	}
	// One place for each item that is special or counted, then, without a maximum, one for all
	// others.
	special := max(lo, prefix)
	if hi >= 0 {
		special = hi
	}
	for _, s := range leaves {
		if u := s.v.get("uniqueItems"); u != nil && u.kind == kindBool && u.bool && (hi < 0 || hi > 1) {
			return c.uniqueArray(n, s, leaves, hold, lo, hi)
		}
	}
	// The places before an item, by how many items of each contains there have been.
	counts := 1
	for _, h := range hold {
		counts *= max(h.least, h.most) + 1
	}
	if counts > 1 && (special+1)*counts<<len(hold) > maxCount {
		return hold[0].s.tooLarge("contains")
	}
	enough := func(v int) bool {
		for _, h := range hold {
			size := max(h.least, h.most) + 1
			if v%size < h.least {
				return false
			}
			v /= size
		}
		return true
	}
	fresh := func() []int32 {
		out := make([]int32, counts)
		for i := range out {
			out[i] = n.state()
		}
		return out
	}
	at := fresh()
	n.call(n.text(0, "["), c.b.space, at[0])
	closing := n.state()
	n.edge(closing, ']', ']', n.end)
	if lo == 0 && enough(0) {
		n.eps(at[0], closing)
	}
	for i := 0; i <= special; i++ {
		set, _, err := c.children(leaves, i)
		if err != nil {
			return err
		}
		if impossible(set) || i == hi {
			return nil
		}
		after := fresh()
		if err := c.item(n, set, hold, at, after); err != nil {
			return err
		}
		next := at // the rest
		if i < special {
			next = fresh()
		}
		for v := range counts {
			if i+1 >= lo && enough(v) {
				n.eps(after[v], closing)
			}
			n.call(n.text(after[v], ","), c.b.space, next[v])
		}
		at = next
	}
	return nil
}

// item leads from the places before an item of an array, one for each count, to those after it.
func (c *compiler) item(n *nfa, item []*schema, hold []holding, at, after []int32) error {
	for which := range 1 << len(hold) { // the ones that the item satisfies
		set := slices.Clone(item)
		for j, h := range hold {
			if which>>j&1 == 1 {
				set = append(set, h.set)
			} else if h.fails != nil {
				set = append(set, h.fails)
			}
		}
		if impossible(set) {
			continue
		}
		f, err := c.frame(set)
		if err != nil {
			return err
		}
		for v := range at {
			if to := counted(hold, v, which); to >= 0 {
				n.call(n.then(at[v], f), c.b.space, after[to])
			}
		}
	}
	return nil
}

// counted is the counts v after an item that satisfies which; −1: one too many.
func counted(hold []holding, v, which int) int {
	out, unit := 0, 1
	for j, h := range hold {
		size := max(h.least, h.most) + 1
		have := v % size
		if which>>j&1 == 1 {
			if have++; h.most >= 0 && have > h.most {
				return -1
			}
			have = min(have, size-1)
		}
		out += have * unit
		unit *= size
		v /= size
	}
	return out
}

// asker is the leaf that has the keyword, or the first.
func asker(leaves []*schema, keyword string) *schema {
	for _, s := range leaves {
		if s.v.get(keyword) != nil {
			return s
		}
	}
	return leaves[0]
}

// uniqueArray is an array no item of which comes twice: that is bounded where the items are of a
// few values. Its states are the sets of those that have come.
func (c *compiler) uniqueArray(n *nfa, owner *schema, leaves []*schema, hold []holding, lo, hi int) error {
	cannot := owner.cannot("uniqueItems", "cannot be enforced while a text is being generated, but over a few values in an enum")
	all, allowed, ok, err := c.itemValues(leaves)
	if err != nil {
		return err
	}
	if !ok {
		return cannot
	}
	frames := make([]*frame, len(all))
	fits := make([]int, len(all)) // which contains each satisfies
	for j, v := range all {
		for k, h := range hold {
			ok, err := c.valid(h.set, v, 0)
			if err != nil {
				return err
			}
			if ok {
				fits[j] |= 1 << k
			}
		}
		frames[j] = c.program.add(owner.ptr)
		frames[j].nfa.eps(c.literal(frames[j].nfa, 0, v), frames[j].nfa.end)
	}
	type place struct{ before, after int32 }
	places := map[uint32]*place{}
	closing := n.state()
	n.edge(closing, ']', ']', n.end)
	start := n.then(n.text(0, "["), c.b.space)
	steps := 0
	var visit func(have uint32, size int) (*place, error)
	visit = func(have uint32, size int) (*place, error) {
		if p := places[have]; p != nil {
			return p, nil
		}
		p := &place{n.state(), n.state()}
		places[have] = p
		done := size >= lo
		for k, h := range hold {
			m := 0
			for j := range all {
				if have>>j&1 == 1 && fits[j]>>k&1 == 1 {
					m++
				}
			}
			done = done && m >= h.least && (h.most < 0 || m <= h.most)
		}
		if done {
			n.eps(p.after, closing)
		}
		if size == hi || size >= len(allowed) {
			return p, nil
		}
		if size > 0 {
			n.call(n.text(p.after, ","), c.b.space, p.before)
		}
		for _, j := range allowed[size] {
			if have>>j&1 == 1 {
				continue
			}
			if steps++; steps > maxUnique {
				return nil, cannot
			}
			to, err := visit(have|1<<j, size+1)
			if err != nil {
				return nil, err
			}
			n.call(n.then(p.before, frames[j]), c.b.space, to.after)
		}
		return p, nil
	}
	p, err := visit(0, 0)
	if err != nil {
		return err
	}
	n.eps(start, p.before)
	n.eps(start, p.after) // which leads on only if the array may be empty
	return nil
}

// itemValues are the values that items may have, few of them, and which of them each item may. It
// is not ok where there are more.
func (c *compiler) itemValues(leaves []*schema) (all []*value, allowed [][]int, ok bool, err error) {
	number := map[string]int{}
	for i := 0; i <= len(all); i++ {
		set, prefix, err := c.children(leaves, i)
		if err != nil {
			return nil, nil, false, err
		}
		values, ok, err := c.fewValues(set)
		if err != nil {
			return nil, nil, false, err
		}
		if !ok {
			return nil, nil, false, nil
		}
		var these []int
		for _, v := range values {
			key := v.same()
			j, known := number[key]
			if !known {
				j = len(all)
				number[key], all = j, append(all, v)
			}
			these = append(these, j)
		}
		allowed = append(allowed, these)
		if len(all) > 16 {
			return nil, nil, false, nil
		}
		if i >= prefix && len(these) == 0 {
			break
		}
	}
	return all, allowed, true, nil
}

// fewValues are the values that satisfy the set, if they are few.
func (c *compiler) fewValues(set []*schema) ([]*value, bool, error) {
	alts, err := c.alternatives(set)
	if err != nil {
		return nil, false, err
	}
	var out []*value
	for _, a := range alts {
		switch {
		case a.finite:
			out = append(out, a.values...)
		case a.kinds&^(kindNull|kindBool) != 0:
			return nil, false, nil
		default:
			if a.kinds&kindNull != 0 {
				out = append(out, &value{kind: kindNull})
			}
			for _, b := range c.booleans(a) {
				out = append(out, boolOf(b))
			}
		}
		if len(out) > 64 {
			return nil, false, nil
		}
	}
	return out, true, nil
}

// booleans are those that an alternative allows.
func (c *compiler) booleans(a alternative) (out []bool) {
	if a.kinds&kindBool == 0 {
		return nil
	}
	not := excluded(a.leaves, kindBool)
	for _, b := range []bool{true, false} {
		if !slices.ContainsFunc(not, func(v *value) bool { return v.bool == b }) {
			out = append(out, b)
		}
	}
	return out
}
