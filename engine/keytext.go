package engine

import (
	"cmp"
	"slices"
)

// This file keeps the text from which answers are guessed that repeat another conversation: a
// question that is asked again, or a file that another conversation had. It is text of the same
// client key only. It is kept for a few keys, and of each only the last ids.

const (
	keysKept = 8       // keys whose text is kept; that used longest ago is forgotten
	keyIDs   = 1 << 16 // ids of a key; with the table half a MiB, so a model takes 4 MiB at most
	keyGram  = 4       // more text has more strings by chance than a sequence's own, so a longer one counts
)

// keyText is a ring of the last ids that were read and answered under a key.
type keyText struct {
	key   string
	ids   []int32
	n     int      // ids so far: the last is at (n−1) mod len(ids)
	table []uint32 // by hash of a string of keyGram ids: how many ids end with it, modulo 2³²
}

// add appends a text. No string of ids reaches from one text into the next.
func (k *keyText) add(ids []int32) {
	ids = ids[max(0, len(ids)-len(k.ids)+1):]
	for i, id := range ids {
		k.ids[k.n%len(k.ids)] = id
		if k.n++; i+1 >= keyGram {
			k.table[gramHash(ids[i+1-keyGram:i+1], len(k.table))] = uint32(k.n)
		}
	}
	k.ids[k.n%len(k.ids)] = none
	k.n++
}

// has reports whether the ids from place to place are still there.
func (k *keyText) has(from, to int) bool { return from >= max(0, k.n-len(k.ids)) && to <= k.n }

// find returns the place after the last occurrence of the last keyGram ids of a text, or 0.
func (k *keyText) find(text []int32) int {
	if len(text) < keyGram {
		return 0
	}
	tail := text[len(text)-keyGram:]
	at := k.n - int(uint32(k.n)-k.table[gramHash(tail, len(k.table))])
	if !k.has(at-keyGram, at) {
		return 0
	}
	for i, id := range tail {
		if k.ids[(at-keyGram+i)%len(k.ids)] != id {
			return 0
		}
	}
	return at
}

// from appends up to n ids from a place on, as far as they are spelled.
func (k *keyText) from(at, n int, to []int32) []int32 {
	for ; n > 0 && k.has(at, at+1) && k.ids[at%len(k.ids)] >= 0; n-- {
		to = append(to, k.ids[at%len(k.ids)])
		at++
	}
	return to
}

// keyTexts are the texts of the keys that were used last, the last first.
type keyTexts []*keyText

// of returns the text of a key, or nil.
func (ks keyTexts) of(key string) *keyText {
	//rule:T17 TestKeyGuesses$ k.key == key => true
	i := slices.IndexFunc(ks, func(k *keyText) bool { return k.key == key })
	if i < 0 {
		return nil
	}
	k := ks[i]
	copy(ks[1:], ks[:i])
	ks[0] = k
	return k
}

// add adds what a sequence brought: its answer, and what was not cached of its prompt. A sequence
// that takes no guesses gives none.
func (ks *keyTexts) add(s *seq) {
	if s.spec.off || s.embed != nil {
		return
	}
	from := cmp.Or(s.spec.given, s.usage.Cached)
	if from >= len(s.ids) {
		return
	}
	s.spec.given = len(s.ids)
	k := ks.of(s.job.Key)
	switch {
	case k != nil:
	case len(*ks) < keysKept:
		k = &keyText{ids: make([]int32, keyIDs), table: make([]uint32, keyIDs)}
		*ks = slices.Insert(*ks, 0, k)
	default:
		k = (*ks)[keysKept-1]
		clear(k.ids)
		clear(k.table)
		k.n = 0
		copy((*ks)[1:], *ks)
		(*ks)[0] = k
	}
	k.key = s.job.Key
	k.add(s.ids[max(0, from-keyGram):]) // the first new ids are found by what was before them
}
