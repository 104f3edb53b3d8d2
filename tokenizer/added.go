package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// added is a token that is looked for in the text before anything else happens to it.
type added struct {
	id         int32
	content    string
	special    bool // a control token: found only where control tokens are allowed
	singleWord bool
	lstrip     bool
	rstrip     bool
	normalized bool // looked for after normalization, not before
}

// addedSet finds added tokens, the leftmost first and of those that begin at one place the longest.
type addedSet struct {
	tokens []added
	root   [256]int32 // node after the first byte, or 0
	nodes  []trieNode // nodes[0] is unused
	edges  []trieEdge
}

type trieNode struct {
	first, n int32 // its edges, sorted by byte
	token    int32 // index into tokens, or -1
}

type trieEdge struct {
	b  byte
	to int32
}

// newAddedSet builds the trie; text is the content to look for, which normalization may have changed. It returns nil for no tokens.
func newAddedSet(tokens []added, text func(added) string) *addedSet {
	type key struct {
		s string
		i int32
	}
	s := &addedSet{nodes: make([]trieNode, 1)}
	var keys []key
	for _, a := range tokens {
		if t := text(a); t != "" {
			keys = append(keys, key{t, int32(len(s.tokens))})
			s.tokens = append(s.tokens, a)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.SortStableFunc(keys, func(a, b key) int { return cmp.Compare(a.s, b.s) })
	// Sorted keys that share depth bytes are one node; children come next to each other. The stack grows with a token's length,
	// so it is kept here and not in recursion.
	type job struct {
		lo, hi, depth int
		node          int32
	}
	var jobs []job
	for lo := 0; lo < len(keys); {
		hi, b := lo, keys[lo].s[0]
		for hi < len(keys) && keys[hi].s[0] == b {
			hi++
		}
		s.nodes = append(s.nodes, trieNode{token: -1})
		s.root[b] = int32(len(s.nodes) - 1)
		jobs = append(jobs, job{lo, hi, 1, s.root[b]})
		lo = hi
	}
	for len(jobs) > 0 {
		j := jobs[len(jobs)-1]
		jobs = jobs[:len(jobs)-1]
		lo := j.lo
		for lo < j.hi && len(keys[lo].s) == j.depth {
			if s.nodes[j.node].token < 0 {
				s.nodes[j.node].token = keys[lo].i
			}
			lo++
		}
		s.nodes[j.node].first = int32(len(s.edges))
		for lo < j.hi {
			hi, b := lo, keys[lo].s[j.depth]
			for hi < j.hi && keys[hi].s[j.depth] == b {
				hi++
			}
			s.nodes = append(s.nodes, trieNode{token: -1})
			to := int32(len(s.nodes) - 1)
			s.edges = append(s.edges, trieEdge{b, to})
			jobs = append(jobs, job{lo, hi, j.depth + 1, to})
			lo = hi
		}
		s.nodes[j.node].n = int32(len(s.edges)) - s.nodes[j.node].first
	}
	return s
}

// next returns the first match at or after from.
func (s *addedSet) next(text string, from int) (a *added, start, end int) {
	for i := from; i < len(text); i++ {
		at := s.root[text[i]]
		if at == 0 {
			continue
		}
		best := int32(-1)
		for j := i + 1; ; j++ {
			nd := &s.nodes[at]
			if nd.token >= 0 {
				best, end = nd.token, j
			}
			if j >= len(text) {
				break
			}
			at = 0
			for _, e := range s.edges[nd.first : nd.first+nd.n] {
				if e.b == text[j] {
					at = e.to
					break
				}
			}
			if at == 0 {
				break
			}
		}
		if best >= 0 {
			return &s.tokens[best], i, end
		}
	}
	return nil, len(text), len(text)
}

// split cuts text at the added tokens it holds. allowed says whether a control token may be recognized at text[start:end].
// plain gets the stretches between, token the ids, in order.
func (s *addedSet) split(text string, allowed func(start, end int) bool, plain func(start, end int), token func(a *added)) {
	done := 0
	for at := 0; at < len(text); {
		a, start, end := s.next(text, at)
		if a == nil {
			break
		}
		at = end
		if a.special && !allowed(start, end) {
			continue
		}
		if a.singleWord && (wordBefore(text[:start]) || wordAfter(text[end:])) {
			continue
		}
		if a.lstrip {
			start = max(len(strings.TrimRightFunc(text[:start], isSpace)), done)
		}
		if a.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
		}
		if done < start {
			plain(done, start)
		}
		token(a)
		done = end
	}
	if done < len(text) {
		plain(done, len(text))
	}
}

func wordBefore(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && classOf(r)&classWord != 0
}

func wordAfter(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && classOf(r)&classWord != 0
}
