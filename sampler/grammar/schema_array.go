package grammar

import (
	"math/bits"
	"slices"
)

// children returns the schemas that item i of an array must satisfy, and the length of the longest
// prefixItems.
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
		if u := s.v.get("unevaluatedItems"); u != nil {
			below, first := c.below(s), 0
			for _, o := range leaves {
				switch {
				case !below[o]:
				case o.v.get("contains") != nil:
					panic(s.cannot("unevaluatedItems", "cannot be enforced beside contains"))
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
	return set, prefix
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

// size is how many counts of items are told apart.
func (h holding) size() int { return max(h.least, h.most) + 1 }

const (
	maxContains = 6    // of one array
	maxHolding  = 64   // counts of items that satisfy contains, all together
	maxUnique   = 2000 // steps between sets of items that have come
)

// holdings are the leaves' contains that ask for something, and how many counts of all of them are
// told apart.
func (c *compiler) holdings(leaves []*schema) (out []holding, counts int) {
	counts = 1
	for _, s := range leaves {
		v := s.v.get("contains")
		if v == nil {
			continue
		}
		h := holding{s: s, set: c.known[v], least: count(s, "minContains", 1), most: count(s, "maxContains", -1)}
		if h.least == 0 && h.most < 0 {
			continue
		}
		if h.most >= 0 {
			h.fails = c.made(s, "maxContains", objectOf("not", v))
		}
		if counts *= h.size(); counts > maxHolding || len(out) == maxContains {
			if h.most > h.least {
				panic(s.tooLarge("maxContains"))
			}
			panic(s.tooLarge("contains"))
		}
		out = append(out, h)
	}
	return out, counts
}

// step is an item of an array, and what has come when it has.
type step[S comparable] struct {
	item *frame
	then S
}

// items adds to n an array whose items are the steps from one state to the next, and that may end
// where done says so. There are as many states as next leads to.
func items[S comparable](c *compiler, n *nfa, start S, done func(S) bool, next func(S) []step[S]) {
	type place struct{ before, after int32 } // an item; an item, and before the comma
	places := map[S]place{}
	var work []S
	closing := n.state()
	n.edge(closing, ']', ']', n.end)
	at := func(s S) place {
		p, ok := places[s]
		if !ok {
			p = place{n.state(), n.state()}
			places[s] = p
			work = append(work, s)
			n.call(n.text(p.after, ","), c.b.space, p.before)
			if done(s) {
				n.eps(p.after, closing)
			}
		}
		return p
	}
	open := n.then(n.text(0, "["), c.b.space)
	n.eps(open, at(start).before)
	if done(start) {
		n.eps(open, closing)
	}
	for len(work) > 0 {
		s := work[0]
		work = work[1:]
		for _, to := range next(s) {
			n.call(n.then(places[s].before, to.item), c.b.space, at(to.then).after)
		}
	}
}

func (c *compiler) arrayAlt(n *nfa, leaves []*schema) {
	lo, hi := limits(leaves, "minItems", "maxItems")
	_, prefix := c.children(leaves, 0)
	if lo > maxCount {
		panic(tooLarge(leaves, "minItems"))
	}
	if hi > maxCount {
		panic(tooLarge(leaves, "maxItems"))
	}
	hold, counts := c.holdings(leaves)
	if i := slices.IndexFunc(leaves, (*schema).unique); i >= 0 && (hi < 0 || hi > 1) {
		c.uniqueArray(n, leaves[i], leaves, hold, lo, hi)
		return
	}
	// One state for each item that is special or counted, then, without a maximum, one for all
	// others; each by how many items of each contains there have been.
	special := max(lo, prefix)
	if hi >= 0 {
		special = hi
	}
	if counts > 1 && (special+1)*counts<<len(hold) > maxCount {
		panic(hold[0].s.tooLarge("contains"))
	}
	type state struct {
		items int
		come  [maxContains]int // of those that satisfy each contains
	}
	items(c, n, state{}, func(at state) bool {
		for j, h := range hold {
			if at.come[j] < h.least {
				return false
			}
		}
		return at.items >= lo
	}, func(at state) (out []step[state]) {
		item, _ := c.children(leaves, at.items)
		if at.items == hi {
			return nil
		}
		for which := range 1 << len(hold) { // the contains that the item satisfies
			set, to, fits := slices.Clone(item), state{min(at.items+1, special), at.come}, true
			for j, h := range hold {
				if which>>j&1 == 1 {
					set = append(set, h.set)
					fits = fits && (h.most < 0 || at.come[j] < h.most)
					to.come[j] = min(at.come[j]+1, h.size()-1)
				} else if h.fails != nil {
					set = append(set, h.fails)
				}
			}
			if fits && !impossible(set) {
				out = append(out, step[state]{c.frame(set), to})
			}
		}
		return out
	})
}

// uniqueArray is an array without two equal items: that is bounded where the items are of a few
// values. Its states are the sets of those that have come.
func (c *compiler) uniqueArray(n *nfa, owner *schema, leaves []*schema, hold []holding, lo, hi int) {
	cannot := owner.cannot("uniqueItems", "cannot be enforced while a text is being generated, but over a few values in an enum")
	all, allowed := c.itemValues(leaves)
	if allowed == nil {
		panic(cannot)
	}
	frames := make([]*frame, len(all))
	fits := make([]uint32, len(hold)) // the values that satisfy each contains
	for j, v := range all {
		for k, h := range hold {
			if c.valid(h.set, v, 0) {
				fits[k] |= 1 << j
			}
		}
		frames[j] = c.program.add(owner.ptr)
		frames[j].nfa.eps(c.literal(frames[j].nfa, 0, v), frames[j].nfa.end)
	}
	steps := 0
	items(c, n, uint32(0), func(have uint32) bool {
		for k, h := range hold {
			if m := bits.OnesCount32(have & fits[k]); m < h.least || h.most >= 0 && m > h.most {
				return false
			}
		}
		return bits.OnesCount32(have) >= lo
	}, func(have uint32) (out []step[uint32]) {
		size := bits.OnesCount32(have)
		if size == hi || size >= len(allowed) {
			return nil
		}
		for _, j := range allowed[size] {
			if have>>j&1 == 1 {
				continue
			}
			if steps++; steps > maxUnique {
				panic(cannot)
			}
			out = append(out, step[uint32]{frames[j], have | 1<<j})
		}
		return out
	})
}

// itemValues are the values that items may have, few of them, and which of them each item may. Both
// are nil where there are more.
func (c *compiler) itemValues(leaves []*schema) (all []*value, allowed [][]int) {
	number := map[string]int{}
	for i := 0; i <= len(all); i++ {
		set, prefix := c.children(leaves, i)
		values, ok := c.fewValues(set)
		if !ok {
			return nil, nil
		}
		var these []int
		for _, v := range values {
			j, known := number[v.same()]
			if !known {
				j = len(all)
				number[v.same()], all = j, append(all, v)
			}
			these = append(these, j)
		}
		allowed = append(allowed, these)
		if len(all) > 16 {
			return nil, nil
		}
		if i >= prefix && len(these) == 0 {
			break
		}
	}
	return all, allowed
}

// fewValues are the values that satisfy the set, if they are few.
func (c *compiler) fewValues(set []*schema) (out []*value, ok bool) {
	for _, a := range c.alternatives(set, maxAlternatives) {
		if !a.finite && a.kinds&^(kindNull|kindBool) != 0 {
			return nil, false
		}
		out = append(out, a.values...)
		if a.kinds&kindNull != 0 {
			out = append(out, &value{kind: kindNull})
		}
		for _, b := range booleans(a) {
			out = append(out, boolOf(b))
		}
		if len(out) > 64 {
			return nil, false
		}
	}
	return out, true
}

// booleans are those that an alternative allows.
func booleans(a alternative) (out []bool) {
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
