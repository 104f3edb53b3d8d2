package grammar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// frame is one automaton of a grammar: a DFA over bytes whose states may also call other frames, as
// a rule refers to other rules. State 0 is the start. A frame is immutable once finish has seen it.
type frame struct {
	class  [256]uint8
	width  int32   // classes
	next   []int32 // state·width + class → state, or dead
	accept []bool
	calls  [][]call
	need   []int32 // stack needed to reach an accepting state; never unless the state is dead
	first  [4]uint64
	null   bool // matches the empty text; callers then skip the call, so the start's accept is not seen through it
	shared bool // belongs to all grammars: masks are cached with the trie
	count  *counter
	num    uint32 // its own, to order frames by
	name   string // for errors
	nfa    *nfa   // until finished
}

// call enters f; afterwards the caller is in state to. tail: the caller has nothing left to do
// there.
type call struct {
	f    *frame
	to   int32
	tail bool
}

const (
	dead  = -1
	never = 1 << 28
)

// Limits on what a grammar may grow to. They bound the time and memory a hostile schema can take.
const (
	maxStates = 40_000  // of one frame
	maxRunes  = 12_000  // of one language of code points
	maxTable  = 4 << 20 // entries of all transition tables together
	maxNodes  = 120_000 // NFA states of all frames together
	maxSets   = 3 << 20 // NFA states in the DFA states of all frames together
)

var errTooLarge = errors.New("too large: the automaton for it would have too many states")

func (f *frame) step(s int32, b byte) int32 {
	if f.count != nil {
		return f.count.step(s, b)
	}
	return f.next[s*f.width+int32(f.class[b])]
}

func (f *frame) accepts(s int32) bool {
	if f.count != nil {
		return s == countDone
	}
	return f.accept[s]
}

func (f *frame) needs(s int32) int32 {
	if f.count != nil {
		return 0
	}
	return f.need[s]
}

func (f *frame) callsAt(s int32) []call {
	if f.count != nil {
		return nil
	}
	return f.calls[s]
}

func (f *frame) starts(b byte) bool { return f.first[b>>6]>>(b&63)&1 == 1 }

// counter is the frame of a JSON string with a bounded number of characters. Its states are
// computed, not stored: countBase + n·width + state of the characters' automaton, with n characters
// read.
type counter struct {
	min, max int32 // max < 0: none
	chars    *frame
}

const (
	countOpen = iota // before the opening quote
	countDone
	countBase
)

func (c *counter) step(s int32, b byte) int32 {
	switch s {
	case countOpen:
		if b == '"' {
			return countBase
		}
		return dead
	case countDone:
		return dead
	}
	width := int32(len(c.chars.accept))
	n, sub := (s-countBase)/width, (s-countBase)%width
	if sub == 0 {
		if b == '"' {
			if n < c.min {
				return dead
			}
			return countDone
		}
		if n == c.max {
			return dead
		}
	}
	sub = c.chars.step(sub, b)
	if sub == dead {
		return dead
	}
	if sub == 0 && (c.max >= 0 || n < c.min) {
		n++
	}
	return countBase + n*width + sub
}

// key maps states that differ only in how many characters are left, and that by more than the
// longest token has, to one.
func (c *counter) key(s, longest int32) maskKey {
	if s < countBase {
		return maskKey{c.chars, -1 - s, min(c.min, longest)<<13 | min(c.max+1, longest)}
	}
	width := int32(len(c.chars.accept))
	n, sub := (s-countBase)/width, (s-countBase)%width
	left := longest // without a maximum it is as if there were more than enough
	if c.max >= 0 {
		left = min(c.max-n, longest)
	}
	return maskKey{c.chars, sub, min(max(c.min-n, 0), longest)<<13 | left}
}

// nfa is a frame under construction.
type nfa struct {
	states []nstate
	end    int32
}

type nstate struct {
	eps   []int32
	edges []nedge
	calls []ncall
}

type nedge struct {
	lo, hi byte
	to     int32
}

type ncall struct {
	f  *frame
	to int32
}

func (n *nfa) state() int32 {
	n.states = append(n.states, nstate{})
	return int32(len(n.states) - 1)
}

func (n *nfa) eps(from, to int32) { n.states[from].eps = append(n.states[from].eps, to) }

func (n *nfa) edge(from int32, lo, hi byte, to int32) {
	n.states[from].edges = append(n.states[from].edges, nedge{lo, hi, to})
}

func (n *nfa) call(from int32, f *frame, to int32) {
	n.states[from].calls = append(n.states[from].calls, ncall{f, to})
}

// text adds the bytes of s behind from and returns the state they lead to.
func (n *nfa) text(from int32, s string) int32 {
	if len(s) > maxNodes { // as many of it as are too many already
		s = s[:maxNodes+1]
	}
	for i := range len(s) {
		if len(n.states) > maxNodes {
			return from
		}
		to := n.state()
		n.edge(from, s[i], s[i], to)
		from = to
	}
	return from
}

// then adds a call behind from and returns the state it leads to.
func (n *nfa) then(from int32, f *frame) int32 {
	to := n.state()
	n.call(from, f, to)
	return to
}

// program is a set of frames that call each other, being compiled.
type program struct {
	frames []*frame
	table  int
	sets   int
	nodes  int
	m      *meter

	classes map[string]*frame // of code points
}

// frames is how many there have been.
var frames atomic.Uint32

// add returns a frame to be filled: state 0 of its nfa is the start.
func (p *program) add(name string) *frame {
	f := &frame{num: frames.Add(1), name: name, nfa: &nfa{}}
	f.nfa.state()
	f.nfa.end = f.nfa.state()
	p.frames = append(p.frames, f)
	return f
}

// full reports whether the frames have too many NFA states. n, if not nil, is being filled: others
// are counted when they are done, so that asking often is cheap.
func (p *program) full(n *nfa) bool {
	if n != nil {
		return p.nodes+len(n.states) > maxNodes
	}
	p.nodes = 0
	for _, f := range p.frames {
		p.nodes += len(f.nfa.states)
	}
	return p.nodes > maxNodes
}

// finish makes the frames ready for use. Errors: errTooLarge, and one for a rule that may call
// itself before it reads a byte.
func (p *program) finish() error {
	if p.full(nil) {
		return errTooLarge
	}
	for changed := true; changed; {
		changed = false
		for _, f := range p.frames {
			if !f.null && f.nfa.nullable(p.m) {
				f.null, changed = true, true
			}
		}
	}
	for _, f := range p.frames {
		if err := p.determinise(f); err != nil {
			return err
		}
	}
	p.prune()
	if err := p.leftRecursion(); err != nil {
		return err
	}
	p.firsts()
	for _, f := range p.frames {
		f.nfa = nil
		for _, calls := range f.calls {
			for i := range calls {
				c := &calls[i]
				c.tail = f.accept[c.to] && len(f.calls[c.to]) == 0 &&
					!slices.ContainsFunc(f.next[c.to*f.width:(c.to+1)*f.width], func(s int32) bool { return s != dead })
			}
		}
	}
	return nil
}

func (n *nfa) nullable(m *meter) bool {
	m.step(1 + len(n.states)/64)
	c := closer{n: n, m: m, mark: make([]int32, len(n.states))}
	return slices.Contains(c.closure([]int32{0}), n.end)
}

// closer finds what is reached without reading a byte: by empty transitions, and by calls of frames
// that may be empty.
type closer struct {
	n     *nfa
	m     *meter
	mark  []int32 // the round a state was last added in
	round int32
}

// closure is the states that are reached so from a set, of those that read, call or end. It takes
// the place of the set.
func (c *closer) closure(set []int32) []int32 {
	c.round++
	work := slices.Clone(set)
	set = set[:0]
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		if c.mark[s] == c.round {
			continue
		}
		c.mark[s] = c.round
		c.m.step(1)
		st := &c.n.states[s]
		if len(st.edges) > 0 || len(st.calls) > 0 || s == c.n.end {
			set = append(set, s)
		}
		work = append(work, st.eps...)
		for _, call := range st.calls {
			if call.f.null {
				work = append(work, call.to)
			}
		}
	}
	slices.Sort(set)
	return set
}

// determinise is the subset construction. Calls are symbols like bytes; calls of frames that may be
// empty are also empty transitions.
func (p *program) determinise(f *frame) error {
	n := f.nfa
	f.classify()
	from := closer{n: n, m: p.m, mark: make([]int32, len(n.states))}
	var found subsets
	intern := func(set []int32) (int32, error) {
		set = from.closure(set)
		id, fresh := found.number(set, 0)
		if !fresh {
			return id, nil
		}
		p.table += int(f.width)
		p.sets += len(set)
		p.m.step(1 + int(f.width)/8 + len(set)/4)
		if id >= maxStates || p.table > maxTable || p.sets > maxSets {
			return 0, errTooLarge
		}
		return id, nil
	}
	if _, err := intern([]int32{0}); err != nil {
		return err
	}
	targets := make([][]int32, f.width)
	for id := 0; id < len(found.sets); id++ {
		var calls []ncall
		for i := range targets {
			targets[i] = targets[i][:0]
		}
		accept := false
		for _, s := range found.sets[id] {
			accept = accept || s == n.end
			p.m.step(len(n.states[s].edges) + len(n.states[s].calls))
			for _, e := range n.states[s].edges {
				for c := f.class[e.lo]; ; c++ {
					targets[c] = append(targets[c], e.to)
					if c == f.class[e.hi] {
						break
					}
				}
			}
			calls = append(calls, n.states[s].calls...)
		}
		f.accept = append(f.accept, accept)
		for _, set := range targets {
			to := int32(dead)
			if len(set) > 0 {
				var err error
				if to, err = intern(slices.Clone(set)); err != nil {
					return err
				}
			}
			f.next = append(f.next, to)
		}
		var out []call
		for i, c := range calls {
			p.m.step(len(calls)/8 + 1)
			if slices.ContainsFunc(calls[:i], func(o ncall) bool { return o.f == c.f }) {
				continue
			}
			var set []int32
			for _, o := range calls[i:] {
				if o.f == c.f {
					set = append(set, o.to)
				}
			}
			to, err := intern(set)
			if err != nil {
				return err
			}
			out = append(out, call{f: c.f, to: to})
		}
		f.calls = append(f.calls, out)
	}
	return nil
}

// subsets numbers sets of states, for the subset construction.
type subsets struct {
	sets  [][]int32
	known map[string]int32
	key   []byte
}

// number is the number of a set, and whether it is a new one. Sets of another sort differ.
func (s *subsets) number(set []int32, sort byte) (id int32, fresh bool) {
	s.key = append(s.key[:0], sort)
	for _, state := range set {
		s.key = binary.LittleEndian.AppendUint32(s.key, uint32(state))
	}
	if id, ok := s.known[string(s.key)]; ok {
		return id, false
	}
	if s.known == nil {
		s.known = map[string]int32{}
	}
	id = int32(len(s.sets))
	s.known[string(s.key)] = id
	s.sets = append(s.sets, set)
	return id, true
}

// classify puts bytes that no edge tells apart into one class.
func (f *frame) classify() {
	var cut [257]bool
	for _, s := range f.nfa.states {
		for _, e := range s.edges {
			cut[e.lo], cut[int(e.hi)+1] = true, true
		}
	}
	class := -1
	for b := range 256 {
		if cut[b] || b == 0 {
			class++
		}
		f.class[b] = uint8(class)
	}
	f.width = int32(class + 1)
}

// prune finds how much stack every state needs to come to an end, and cuts the ways into states
// that cannot.
func (p *program) prune() {
	for _, f := range p.frames {
		f.need = make([]int32, len(f.accept))
		for s := range f.need {
			f.need[s] = never
		}
	}
	for changed := true; changed; {
		changed = false
		for _, f := range p.frames {
			for again := true; again; {
				again = false
				p.m.step(len(f.next)/8 + 1)
				for s := len(f.need) - 1; s >= 0; s-- { // backwards: most edges lead on
					best := f.need[s]
					if f.accept[s] {
						best = 0
					}
					for _, to := range f.next[s*int(f.width) : (s+1)*int(f.width)] {
						if to != dead {
							best = min(best, f.need[to])
						}
					}
					for _, c := range f.calls[s] {
						best = min(best, max(1+c.f.needs(0), f.need[c.to]))
					}
					if best < f.need[s] {
						f.need[s], again, changed = best, true, true
					}
				}
			}
		}
	}
	for _, f := range p.frames {
		for i, to := range f.next {
			if to != dead && f.need[to] >= never {
				f.next[i] = dead
			}
		}
		for s := range f.calls {
			f.calls[s] = slices.DeleteFunc(f.calls[s], func(c call) bool { return c.f.needs(0) >= never || f.need[c.to] >= never })
		}
	}
}

// bytes is about what the finished frames take.
func (p *program) bytes() (n int64) {
	for _, f := range p.frames {
		n += 640 + 4*int64(len(f.next)) + 32*int64(len(f.accept))
	}
	return n
}

func (p *program) leftRecursion() error {
	state := map[*frame]int{} // 1: being visited, 2: done
	var visit func(f *frame) error
	visit = func(f *frame) error {
		if state[f] == 1 {
			return fmt.Errorf("rule %s is left-recursive", f.name)
		}
		if state[f] == 2 || f.count != nil {
			return nil
		}
		state[f] = 1
		for _, c := range f.calls[0] {
			if err := visit(c.f); err != nil {
				return err
			}
		}
		state[f] = 2
		return nil
	}
	for _, f := range p.frames {
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// firsts finds the bytes each frame may begin with. There is no left recursion any more, but frames
// come in any order.
func (p *program) firsts() {
	for changed := true; changed; {
		changed = false
		for _, f := range p.frames {
			old := f.first
			p.m.step(32)
			for b := range 256 {
				if f.next[f.class[b]] != dead {
					f.first[b>>6] |= 1 << (b & 63)
				}
			}
			for _, c := range f.calls[0] {
				for i := range f.first {
					f.first[i] |= c.f.first[i]
				}
			}
			changed = changed || f.first != old
		}
	}
}
