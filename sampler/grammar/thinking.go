package grammar

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Thought is a way to think before an answer.
type Thought struct {
	Open string   // the tag that begins it ("<think>"); empty where the prompt has begun it, and the text starts within
	End  string   // the tag that ends it ("</think>")
	Not  []string // what it may not hold: tags that would make it something else to who reads the text
}

// maxTag is the longest tag that thinking may begin or end with.
const maxTag = 1000

// Thinking is the grammar of a text that may think before it is one of g. Where one of the ways is
// begun by the prompt the text starts with thinking, else its first token decides: a way's opening
// tag, or g at once. Thinking is anything up to the end tag, then blank lines. Tags may be control
// tokens or plain text. How long a text may think is the [Matcher]'s: see [Matcher.LimitThinking].
func Thinking(g *Grammar, ways ...Thought) (*Grammar, error) {
	if g == nil {
		return nil, &Error{Msg: "there is no grammar for what comes after thinking"}
	}
	if len(ways) == 0 {
		return nil, &Error{Msg: "there is no way to think"}
	}
	for _, w := range ways {
		if w.End == "" || len(w.End) > maxTag || len(w.Open) > maxTag {
			return nil, &Error{Msg: "the tag that begins or ends thinking is empty, or too long"}
		}
	}
	return g.derive(derived{fmt.Sprintf("think %q", ways), nil}, func() (*Grammar, error) {
		p := &program{}
		root := p.add("root")
		n := root.nfa
		ends := map[*frame]*ending{}
		answer, begun := n.state(), false
		for _, w := range ways {
			from := int32(0)
			if w.Open == "" {
				begun = true
			} else {
				from = n.opening(n.then(0, builtins().space), w.Open)
			}
			e := untilFrame(w.End, w.Not, true)
			ends[e.free] = e
			gap := n.then(from, e.free)
			for range 2 {
				next := n.state()
				n.edge(gap, '\n', '\n', next)
				n.eps(gap, next)
				gap = next
			}
			n.eps(gap, answer)
		}
		if !begun {
			//rule:T16 ./engine TestFormatHolds drop
			n.eps(0, answer)
		}
		n.call(answer, g.root, n.end)
		if err := p.finish(); err != nil {
			return nil, &Error{Msg: err.Error()}
		}
		return &Grammar{root: root, depth: g.depth + 1, ends: ends, notes: g.notes, of: []*Grammar{g}}, nil
	})
}

// opening adds a tag whose part in angles may be a control token: Gemma's is one with a word behind
// it.
func (n *nfa) opening(from int32, tag string) int32 {
	i := strings.LastIndexByte(tag, '>') + 1
	if i > 0 {
		from = n.tag(from, tag[:i])
	}
	return n.text(from, tag[i:])
}

// Or is the grammar of the texts of either. Neither may think: a grammar thinks as a whole.
func Or(g, o *Grammar) (*Grammar, error) {
	return g.derive(derived{"or", o}, func() (*Grammar, error) {
		p := &program{}
		root := p.add("root")
		n := root.nfa
		n.call(0, g.root, n.end)
		n.call(0, o.root, n.end)
		if err := p.finish(); err != nil {
			return nil, &Error{Msg: err.Error()}
		}
		return &Grammar{root: root, depth: max(g.depth, o.depth) + 1, notes: slices.Concat(g.notes, o.notes), of: []*Grammar{g, o}}, nil
	})
}

// derived names what was made of a grammar, with another one or alone.
type derived struct {
	how  string
	with *Grammar
}

// maxMade is how many grammars made of one are kept with it.
const maxMade = 8

// derive returns the grammar that was made of g under key, or makes it.
func (g *Grammar) derive(key derived, make func() (*Grammar, error)) (*Grammar, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if have := g.made[key]; have != nil {
		return have, nil
	}
	out, err := make() // a few states: the grammar itself is called, not copied
	if err != nil {
		return nil, err
	}
	if g.made == nil || len(g.made) >= maxMade {
		g.made = map[derived]*Grammar{}
	}
	g.made[key] = out
	return out, nil
}

// ending is free text up to a tag: the frame of any such text, and the one that writes the tag and
// nothing else.
type ending struct {
	free   *frame
	forced *frame
	at     []int32 // where forced goes on from a state of free: behind what that has of the tag already
}

// endings are the ones in use, which all grammars share. There are a few a family.
var endings struct {
	sync.Mutex
	m map[string]*ending
}

const maxEndings = 64

// untilFrame is any text up to and with the first end, with none of not in it. With token set, a
// control token that is written like end ends it too.
func untilFrame(end string, not []string, token bool) *ending {
	key := fmt.Sprintf("%q %q %v", end, not, token)
	endings.Lock()
	defer endings.Unlock()
	if e := endings.m[key]; e != nil {
		return e
	}
	p := &program{}
	free, forced := p.add("text"), p.add("end of text")
	words := free.nfa.until(end, not)
	last := len(end) - 1
	forced.nfa.edge(forced.nfa.text(0, end[:last]), end[last], end[last], forced.nfa.end)
	if token {
		for _, n := range []*nfa{free.nfa, forced.nfa} {
			for i := range n.states {
				if int32(i) != n.end { // wherever the text stands
					n.eps(n.text(int32(i), string([]byte{control})+end), n.end)
				}
			}
		}
	}
	if err := p.finish(); err != nil {
		panic("grammar: " + err.Error()) // an automaton of as many states as the tags have bytes
	}
	e := &ending{free: free, forced: forced, at: make([]int32, len(free.accept))}
	run := func(f *frame, text string) (s int32) {
		for i := 0; i < len(text) && s != dead; i++ {
			s = f.step(s, text[i])
		}
		return s
	}
	for _, w := range words {
		for k := min(len(w), len(end)-1); k > 0; k-- {
			if strings.HasSuffix(w, end[:k]) {
				if s := run(free, w); s != dead {
					e.at[s] = run(forced, end[:k])
				}
				break
			}
		}
	}
	free.shared, forced.shared = true, true
	if len(endings.m) >= maxEndings || endings.m == nil {
		endings.m = map[string]*ending{}
	}
	endings.m[key] = e
	return e
}

// until fills n with the automaton of Aho and Corasick: any bytes of text up to the first end, and
// no way on where one of not would be complete. It returns what has been read last in the states it
// has made. The words are tags: few, and short.
func (n *nfa) until(end string, not []string) (live []string) {
	states := map[string]int32{} // by what has been read last that begins a word
	var reach func(read string) int32
	reach = func(read string) int32 {
		begins := func(word string) bool { return strings.HasPrefix(word, read) }
		for !begins(end) && !slices.ContainsFunc(not, begins) {
			read = read[1:]
		}
		s, known := states[read]
		switch {
		case known:
			return s
		case strings.HasSuffix(read, end):
			s = n.end
		case slices.ContainsFunc(not, func(w string) bool { return w != "" && !strings.Contains(end, w) && strings.HasSuffix(read, w) }):
			s = dead
		case read != "":
			s = n.state()
		}
		states[read] = s
		if s == n.end || s == dead {
			return s
		}
		live = append(live, read)
		for b := range control {
			if to := reach(read + string([]byte{byte(b)})); to != dead {
				n.edge(s, byte(b), byte(b), to)
			}
		}
		return s
	}
	reach("")
	return live
}

// LimitThinking ends thinking after n tokens of it (at least one): from then on only the tag that
// ends it is allowed, from the next whole character on. Without this a text may think without end.
// It has no effect on a grammar that does not think.
func (m *Matcher) LimitThinking(n int) {
	m.think = int32(min(max(n, 1), 1<<30))
	m.left = m.think
}

// late is how many tokens a character that thinking was cut in may take to become whole.
const late = 4

// thought counts the token b where it was one of thinking, and ends that where none is left.
func (m *Matcher) thought(b []byte) {
	inside := func(k kernel) bool { return m.g.ends[k.f] != nil && !k.f.accepts(k.s) }
	if m.think == 0 || !slices.ContainsFunc(m.cur, inside) {
		return
	}
	for _, c := range b {
		switch length := bits.LeadingZeros8(^c); length { // of a character, by its first byte
		case 0:
			m.due = 0
		case 1: // which is not c
			m.due = max(m.due-1, 0)
		default:
			m.due = int8(min(length, utf8.UTFMax) - 1)
		}
	}
	if m.left--; m.left > 0 || m.due > 0 && m.left > -late {
		return
	}
	if slices.ContainsFunc(m.cur, func(k kernel) bool { return !inside(k) }) {
		m.cur = slices.DeleteFunc(m.cur, inside) // it may have been the answer all along
		return
	}
	for i, k := range m.cur {
		e := m.g.ends[k.f]
		m.cur[i] = kernel{e.forced, e.at[k.s], k.up}
	}
}
