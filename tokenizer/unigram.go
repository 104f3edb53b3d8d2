package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// unigram picks the segmentation of a word with the highest sum of scores.
type unigram struct {
	v        *vocab
	scores   []float64 // by id
	trie     trie
	unk      int32
	unkScore float64
	fallback *[256]int32 // ids of <0xXX>, if all are there
	usable   func(int32) bool
}

// node is the best way to reach a place in the word.
type node struct {
	score float64
	from  int32 // -1: not reached
	id    int32
}

// unknownPenalty is what an unknown character costs beyond the worst token.
const unknownPenalty = 10

func newUnigram(v *vocab, scores []float64, unk int32, usable func(int32) bool, fallback *[256]int32) *unigram {
	scores = append(scores, make([]float64, v.size()-len(scores))...) // added tokens have none
	m := &unigram{v: v, scores: scores, unk: unk, fallback: fallback, usable: usable}
	var keys []trieKey
	least := 0.0
	for id := range int32(v.size()) {
		t := v.bytes(id)
		if len(t) == 0 {
			continue
		}
		least = min(least, scores[id])
		if usable(id) || id == unk {
			keys = append(keys, trieKey{string(t), id})
		}
	}
	m.trie.build(keys)
	m.unkScore = least - unknownPenalty
	return m
}

func (m *unigram) encode(dst []int32, word string, sc *scratch) []int32 {
	if cap(sc.nodes) < len(word)+1 {
		sc.nodes = make([]node, len(word)+1+len(word)/4)
	}
	best := sc.nodes[:len(word)+1]
	for i := range best {
		best[i] = node{from: -1}
	}
	reach := func(end int, score float64, from int, id int32) {
		if n := &best[end]; n.from < 0 || score > n.score {
			*n = node{score, int32(from), id}
		}
	}
	for i := 0; i < len(word); {
		n := charLen(word, i)
		here, single := best[i].score, false
		at := int32(0)
		for j := i; j < len(word); j++ {
			if at = m.trie.step(at, word[j]); at == 0 {
				break
			}
			if id := m.trie.nodes[at].num; id >= 0 {
				reach(j+1, here+m.scores[id], i, id)
				single = single || j+1-i == n
			}
		}
		if !single {
			reach(i+n, here+m.unkScore, i, m.unk)
		}
		i += n
	}
	from := len(dst)
	for end := len(word); end > 0; {
		n := best[end]
		start := int(n.from)
		if n.id == m.unk {
			// Neighbouring unknown characters are one.
			for start > 0 && best[start].id == m.unk {
				start = int(best[start].from)
			}
			dst = m.unknown(dst, word[start:end])
		} else {
			dst = append(dst, n.id)
		}
		end = start
	}
	slices.Reverse(dst[from:])
	return dst
}

// unknown appends, last id first, what stands for text that no token covers.
func (m *unigram) unknown(dst []int32, text string) []int32 {
	if id := m.v.find(text); id >= 0 && m.usable(id) {
		return append(dst, id)
	}
	if m.fallback != nil {
		for i := len(text) - 1; i >= 0; i-- {
			dst = append(dst, m.fallback[text[i]])
		}
		return dst
	}
	if m.unk < 0 {
		return dst
	}
	return append(dst, m.unk)
}

// wordPiece takes the longest token that fits, again and again.
type wordPiece struct {
	v      *vocab
	usable func(int32) bool
	prefix string // of tokens that continue a word
	unk    int32
	most   int // characters of a word; a longer one is unknown
}

func (m *wordPiece) encode(dst []int32, word string, sc *scratch) []int32 {
	from := len(dst)
	if utf8.RuneCountInString(word) > m.most {
		return m.unknown(dst)
	}
	for i := 0; i < len(word); {
		id, end := int32(-1), len(word)
		for ; end > i; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			t := word[i:end]
			if i > 0 {
				sc.buf = append(append(sc.buf[:0], m.prefix...), t...)
				id = m.v.findBytes(sc.buf)
			} else {
				id = m.v.find(t)
			}
			if id >= 0 && m.usable(id) {
				break
			}
			id = -1
		}
		if id < 0 {
			return m.unknown(dst[:from])
		}
		dst = append(dst, id)
		i = end
	}
	return dst
}

func (m *wordPiece) unknown(dst []int32) []int32 {
	if m.unk < 0 {
		return dst
	}
	return append(dst, m.unk)
}

// fallbackIDs returns the ids of <0x00> to <0xFF> if all are in the vocabulary.
func fallbackIDs(v *vocab) *[256]int32 {
	var ids [256]int32
	for i := range ids {
		if ids[i] = v.findBytes(byteName(byte(i))); ids[i] < 0 {
			return nil
		}
	}
	return &ids
}

// byteName is the token that stands for a byte.
func byteName(b byte) []byte { return fmt.Appendf(nil, "<0x%02X>", b) }

// byteToken reads a token of the form <0xXX>.
func byteToken(t []byte) (byte, bool) {
	if len(t) != 6 || t[0] != '<' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(t[3:5]), 16, 8)
	return byte(n), err == nil && bytes.Equal(t, byteName(byte(n)))
}
