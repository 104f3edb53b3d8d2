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

// addedJSON is an added token as files write it.
type addedJSON struct {
	Content    string
	Special    bool
	SingleWord bool `json:"single_word"`
	LStrip     bool
	RStrip     bool
	Normalized bool
}

func (a addedJSON) token(id int64) (added, error) {
	if id < 0 || id > maxID || len(a.Content) > maxToken {
		return added{}, badf("added token %q has id %d", a.Content[:min(len(a.Content), 64)], id)
	}
	return added{int32(id), a.Content, a.Special, a.SingleWord, a.LStrip, a.RStrip, a.Normalized}, nil
}

// marker reports whether a token is written like a control token and is none, as those that mark
// turns are in some files (DeepSeek's <｜User｜> in its distillates). Where control tokens are not
// allowed it is not found, for with it a user's text could end its own turn.
func (a *added) marker() bool {
	s := a.content
	return !a.special && !plainTags[s] && (len(s) > 4 && strings.HasPrefix(s, "<|") && strings.HasSuffix(s, "|>") ||
		len(s) > 8 && strings.HasPrefix(s, "<｜") && strings.HasSuffix(s, "｜>"))
}

// tag reports whether a token is written like a tag and is neither special nor HTML's, as those are
// that templates mark thinking and tool calls with. Who spells one in a conversation does not say
// it.
func (a *added) tag() bool {
	s := a.content
	if a.special || len(s) < 3 || htmlTag(s) || strings.HasPrefix(s, "<|") {
		return false
	}
	return s[0] == '<' && s[len(s)-1] == '>' && !strings.ContainsAny(s, " \n\t") || plainTags[s]
}

// addedSet finds added tokens, the leftmost first and of those that begin at one place the longest.
type addedSet struct {
	trie
	tokens []added
}

// newAddedSet builds the trie; text is the content to look for, which normalization may have
// changed. It returns nil for no tokens.
func newAddedSet(tokens []added, text func(added) string) *addedSet {
	s := &addedSet{}
	var keys []trieKey
	for _, a := range tokens {
		if t := text(a); t != "" {
			keys = append(keys, trieKey{t, int32(len(s.tokens))})
			s.tokens = append(s.tokens, a)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	s.build(keys)
	return s
}

// trie is a set of byte strings, each with a number.
type trie struct {
	root  [256]int32 // node after the first byte, or 0
	nodes []trieNode // nodes[0] is unused
	edges []trieEdge
}

type trieKey struct {
	text string
	num  int32
}

type trieNode struct {
	first, n int32 // its edges, sorted by byte
	num      int32 // of the string that ends here, or -1
}

type trieEdge struct {
	b  byte
	to int32
}

// build fills the trie; of equal strings the first is kept. Sorted strings that share a prefix are
// one node, and its children come next to each other.
func (s *trie) build(keys []trieKey) {
	slices.SortStableFunc(keys, func(a, b trieKey) int { return cmp.Compare(a.text, b.text) })
	size, prev := 1, ""
	for _, k := range keys { // a node for each byte that the string before does not share
		n := 0
		for n < len(k.text) && n < len(prev) && k.text[n] == prev[n] {
			n++
		}
		size, prev = size+len(k.text)-n, k.text
	}
	s.nodes, s.edges = make([]trieNode, 1, size), make([]trieEdge, 0, size)
	type job struct {
		lo, hi, depth int
		node          int32
	}
	jobs := []job{{hi: len(keys)}} // not recursion: a string may be long
	for len(jobs) > 0 {
		j := jobs[len(jobs)-1]
		jobs = jobs[:len(jobs)-1]
		lo := j.lo
		for lo < j.hi && len(keys[lo].text) == j.depth {
			if s.nodes[j.node].num < 0 {
				s.nodes[j.node].num = keys[lo].num
			}
			lo++
		}
		s.nodes[j.node].first = int32(len(s.edges))
		for lo < j.hi {
			hi, b := lo, keys[lo].text[j.depth]
			for hi < j.hi && keys[hi].text[j.depth] == b {
				hi++
			}
			to := int32(len(s.nodes))
			s.nodes = append(s.nodes, trieNode{num: -1})
			if j.depth == 0 {
				s.root[b] = to
			} else {
				s.edges = append(s.edges, trieEdge{b, to})
			}
			jobs = append(jobs, job{lo, hi, j.depth + 1, to})
			lo = hi
		}
		s.nodes[j.node].n = int32(len(s.edges)) - s.nodes[j.node].first
	}
}

// step goes from a node, 0 being the root, along a byte, to another node or to 0.
func (s *trie) step(at int32, b byte) int32 {
	if at == 0 {
		return s.root[b]
	}
	edges := s.edges[s.nodes[at].first : s.nodes[at].first+s.nodes[at].n]
	for len(edges) > 8 {
		if h := len(edges) / 2; edges[h].b <= b {
			edges = edges[h:]
		} else {
			edges = edges[:h]
		}
	}
	for _, e := range edges {
		if e.b == b {
			return e.to
		}
	}
	return 0
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
			if n := s.nodes[at].num; n >= 0 {
				best, end = n, j
			}
			if j >= len(text) {
				break
			}
			if at = s.step(at, text[j]); at == 0 {
				break
			}
		}
		if best >= 0 {
			return &s.tokens[best], i, end
		}
	}
	return nil, len(text), len(text)
}

// split cuts text at the added tokens it holds. allowed says whether a control token may be
// recognized at text[start:end], and a tag if tags is set. plain gets the stretches between, token
// the ids, in order.
func (s *addedSet) split(text string, allowed func(start, end int) bool, tags bool, plain func(start, end int), token func(a *added)) {
	done := 0
	for at := 0; at < len(text); {
		a, start, end := s.next(text, at)
		if a == nil {
			break
		}
		at = end
		//rule:T2 TestTypedTags || tags && a.tag() =>
		if (a.special || a.marker() || tags && a.tag()) && !allowed(start, end) {
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
