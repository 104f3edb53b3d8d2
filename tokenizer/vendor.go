package tokenizer

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"
)

// vendorMagic begins the vendor's *_tokenizer.txt.
const vendorMagic = "430"

// The kinds of vocabulary a vendor file can hold.
const (
	vendorSentencePiece = iota
	vendorTiktoken
	vendorBERT
	vendorHuggingFace
)

// lineReader walks over lines; a carriage return before the newline is not part of one.
type lineReader struct {
	rest []byte
	n    int
}

func (r *lineReader) next() ([]byte, bool) {
	if len(r.rest) == 0 {
		return nil, false
	}
	r.n++
	line, rest, _ := bytes.Cut(r.rest, []byte("\n"))
	r.rest = rest
	return bytes.TrimSuffix(line, []byte("\r")), true
}

// ints reads a line of numbers, at most most of them.
func (r *lineReader) ints(most int) ([]int, error) {
	line, ok := r.next()
	if !ok {
		return nil, badf("the file ends after line %d", r.n)
	}
	var out []int
	for _, f := range bytes.Fields(line) {
		n, err := strconv.Atoi(string(f))
		if err != nil || n < 0 || len(out) >= most {
			return nil, badf("line %d: %q is not what belongs there", r.n, truncate(line))
		}
		out = append(out, n)
	}
	return out, nil
}

func truncate(b []byte) []byte { return b[:min(len(b), 48)] }

// counts reads a line of want numbers. Each says how many lines follow, and may not say more than
// the file can hold.
func (r *lineReader) counts(want int) ([]int, error) {
	c, err := r.ints(want)
	if err != nil {
		return nil, err
	}
	if len(c) != want {
		return nil, badf("line %d has %d numbers, not %d", r.n, len(c), want)
	}
	for _, n := range c {
		if n > maxMerges || n > len(r.rest)+1 {
			return nil, badf("line %d says %d entries follow, but only %d bytes do", r.n, n, len(r.rest))
		}
	}
	return c, nil
}

// parseVendor reads the vendor's text form. It says neither how text is cut into words nor which of
// its special ids are control tokens: the package's tokenizer_type or the vocabulary itself tells
// the first, the tokens' names the second.
func parseVendor(b []byte, c Config) (*Tokenizer, error) {
	r := &lineReader{rest: b}
	head, err := r.ints(2)
	if err != nil {
		return nil, err
	}
	if len(head) != 2 || head[1] > vendorHuggingFace {
		return nil, unsupportedf("line 1 is not \"%s\" and a type from 0 to 3", vendorMagic)
	}
	counts, err := r.counts(3)
	if err != nil {
		return nil, err
	}
	total := counts[0] + counts[1] + counts[2]
	ids, err := r.ints(total)
	if err != nil {
		return nil, err
	}
	if len(ids) != total {
		return nil, badf("line 3 has %d ids, not the %d that line 2 says", len(ids), total)
	}
	v := &vendorFile{kind: head[1], listed: make(map[int]bool), b: &vocabBuilder{}}
	for _, id := range ids[:counts[0]] {
		v.listed[id] = true
	}
	if err := v.read(r); err != nil {
		return nil, err
	}
	size := int(v.b.top)
	for _, id := range ids {
		if id >= size {
			return nil, badf("line 3: id %d is outside the vocabulary of %d", id, size)
		}
	}
	t, err := v.build(c)
	if err != nil {
		return nil, err
	}
	for _, id := range ids[counts[0] : counts[0]+counts[1]] {
		t.eos = append(t.eos, int32(id))
	}
	for _, id := range ids[counts[0]+counts[1]:] {
		t.prefix = append(t.prefix, int32(id))
	}
	t.noSuffix = true
	return t, nil
}

type vendorFile struct {
	kind   int
	listed map[int]bool
	b      *vocabBuilder
	pieces pieceInfo   // kind 0
	merges [][2][]byte // kind 3
}

func (v *vendorFile) read(r *lineReader) error {
	want := 1
	if v.kind == vendorHuggingFace {
		want = 2
	}
	counts, err := r.counts(want)
	if err != nil {
		return err
	}
	var buf []byte
	for id := range counts[0] {
		line, ok := r.next()
		if !ok {
			return badf("the file ends after %d of %d tokens", id, counts[0])
		}
		text := line
		switch v.kind {
		case vendorHuggingFace:
			if raw, ok := fromAlphabet(buf[:0], line); ok {
				buf, text = raw, raw
			}
			if err := v.b.add(text, int64(id), false); err != nil {
				return err
			}
			continue
		case vendorSentencePiece:
			f := bytes.Fields(line)
			if len(f) == 2 { // an empty piece
				f = [][]byte{nil, f[0], f[1]}
			}
			if len(f) != 3 {
				return badf("line %d: %q is not a piece, a score and a kind", r.n, truncate(line))
			}
			score, err1 := strconv.ParseFloat(string(f[1]), 32)
			kind, err2 := strconv.Atoi(string(f[2]))
			if err1 != nil || math.IsNaN(score) || err2 != nil || kind < pieceNormal || kind > pieceByte {
				return badf("line %d: %q is not a piece, a score and a kind", r.n, truncate(line))
			}
			v.pieces.scores = append(v.pieces.scores, score)
			v.pieces.kinds = append(v.pieces.kinds, uint8(kind))
			text = f[0]
		}
		if buf, err = base64.StdEncoding.AppendDecode(buf[:0], bytes.TrimSpace(text)); err != nil {
			return badf("line %d: %q is not base64", r.n, truncate(line))
		}
		text = buf
		if v.kind == vendorSentencePiece {
			text = bytes.ReplaceAll(buf, []byte(" "), []byte(spaceMark))
		}
		if err := v.b.add(text, int64(id), false); err != nil {
			return err
		}
	}
	if v.kind != vendorHuggingFace {
		return nil
	}
	for i := range counts[1] {
		line, ok := r.next()
		if !ok {
			return badf("the file ends after %d of %d merges", i, counts[1])
		}
		if i == 0 && bytes.HasPrefix(line, []byte("#version")) {
			continue
		}
		if len(line) == 0 {
			continue
		}
		x, y, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			return badf("line %d: %q is not a merge of two tokens", r.n, truncate(line))
		}
		v.merges = append(v.merges, [2][]byte{x, y})
	}
	return nil
}

func (v *vendorFile) build(c Config) (*Tokenizer, error) {
	switch v.kind {
	case vendorSentencePiece:
		return buildPieces(v.b, &v.pieces, v.listed, c)
	case vendorBERT:
		return nil, unsupportedf("a vocabulary of BERT's in the vendor's text form")
	}
	t := newTokenizer()
	plain, err := v.b.build()
	if err != nil {
		return nil, err
	}
	style := styleOf(plain, c, v.listed)
	style.apply(t)
	if v.kind == vendorTiktoken {
		return t, t.setRanked(v.b, v.addedTokens(plain, nil))
	}
	// A token that no merge makes can only have been added.
	made := make([]bool, plain.size())
	var x, y, xy []byte
	p := newPairs(len(v.merges))
	for rank, m := range v.merges {
		var ok1, ok2 bool
		x, ok1 = fromAlphabet(x[:0], m[0])
		y, ok2 = fromAlphabet(y[:0], m[1])
		if !ok1 || !ok2 {
			return nil, badf("merge %d of %q and %q is not in the byte alphabet", rank, m[0], m[1])
		}
		xy = append(append(xy[:0], x...), y...)
		a, b, z := plain.findBytes(x), plain.findBytes(y), plain.findBytes(xy)
		if a < 0 || b < 0 || z < 0 {
			return nil, badf("merge %d of %q and %q needs a token that is not in the vocabulary", rank, m[0], m[1])
		}
		made[z] = true
		if !v.listed[int(z)] {
			p.put(a, b, int32(rank), z)
		}
	}
	if err := t.setAdded(v.b, v.addedTokens(plain, made), false); err != nil {
		return nil, err
	}
	m := &bpe{v: t.vocab, merges: p, raw: true, unk: -1, whole: style.whole, special: t.kept}
	m.symbolTables()
	t.model = m
	t.dec.byteLevel = true
	return t, nil
}

// addedTokens lists what is to be looked for in the text: the ids the file names, and those that
// made shows to be beyond the merges.
func (v *vendorFile) addedTokens(plain *vocab, made []bool) []added {
	var out []added
	for id := range int32(plain.size()) {
		s := plain.bytes(id)
		if len(s) == 0 || plain.findBytes(s) != id {
			continue // a gap, filled with a copy of another token
		}
		switch {
		case v.listed[int(id)]:
			out = append(out, added{id: id, content: string(s), special: controlName(string(s))})
		case made != nil && !made[id] && len(s) > 1 && utf8.Valid(s), plainTags[string(s)]:
			out = append(out, added{id: id, content: string(s)})
		}
	}
	return out
}
