package tokenizer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseHF reads Hugging Face's tokenizer.json.
func parseHF(b []byte) (*Tokenizer, error) {
	top, err := fields(b)
	if err != nil {
		return nil, err
	}
	if len(top["model"]) == 0 {
		return nil, badf("there is no \"model\" in it, so it is no tokenizer.json")
	}
	t := newTokenizer()
	if t.norm, err = parseNormalizer(top["normalizer"], 0); err != nil {
		return nil, err
	}
	var byteLevel bool
	if t.steps, byteLevel, err = parsePreTokenizer(top["pre_tokenizer"], 0); err != nil {
		return nil, err
	}
	if isNull(top["decoder"]) {
		t.dec.plain = true
	} else if err := parseDecoder(top["decoder"], &t.dec, 0); err != nil {
		return nil, err
	}
	var list []struct {
		ID int64
		addedJSON
	}
	if raw := top["added_tokens"]; !isNull(raw) {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, badf("added_tokens: %v", err)
		}
	}
	tokens := make([]added, 0, len(list))
	for _, a := range list {
		token, err := a.token(a.ID)
		if err != nil {
			return nil, err
		}
		if a.Content != "" {
			tokens = append(tokens, token)
		}
	}
	m, err := fields(top["model"])
	if err != nil {
		return nil, err
	}
	if err := t.parseModel(m, tokens, byteLevel); err != nil {
		return nil, err
	}
	if err := t.parsePost(top["post_processor"], 0); err != nil {
		return nil, err
	}
	return t, nil
}

func newTokenizer() *Tokenizer { return &Tokenizer{added: make(map[string]int32)} }

// modelOptions are the small fields of tokenizer.json's "model".
type modelOptions struct {
	Type         string
	UnkToken     *string  `json:"unk_token"`
	UnkID        *int64   `json:"unk_id"`
	Prefix       *string  `json:"continuing_subword_prefix"`
	Suffix       *string  `json:"end_of_word_suffix"`
	FuseUnk      bool     `json:"fuse_unk"`
	ByteFallback bool     `json:"byte_fallback"`
	IgnoreMerges bool     `json:"ignore_merges"`
	MaxChars     *float64 `json:"max_input_chars_per_word"`
}

func (t *Tokenizer) parseModel(m map[string]json.RawMessage, tokens []added, byteLevel bool) error {
	vocabText, mergesText := m["vocab"], m["merges"]
	delete(m, "vocab")
	delete(m, "merges")
	var o modelOptions
	small, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(small, &o)
	}
	if err != nil {
		return badf("model: %v", err)
	}
	if o.Prefix != nil && len(*o.Prefix) > maxToken {
		return badf("model: the prefix of a continued word is longer than a token may be")
	}
	if o.Type == "" { // files from before types were written
		switch {
		case len(mergesText) > 0:
			o.Type = "BPE"
		case len(vocabText) > 0 && vocabText[0] == '[':
			o.Type = "Unigram"
		case o.Prefix != nil:
			o.Type = "WordPiece"
		}
	}
	if byteLevel && o.Type != "BPE" {
		return unsupportedf("model %q with ByteLevel words", o.Type)
	}
	b := &vocabBuilder{}
	var scores []float64
	if o.Type == "Unigram" {
		scores, err = readPieces(b, vocabText)
	} else {
		err = readVocab(b, vocabText, byteLevel)
	}
	if err != nil {
		return err
	}
	if err := t.setAdded(b, tokens, byteLevel); err != nil {
		return err
	}
	find := func(token *string) (int32, error) {
		if token == nil {
			return -1, nil
		}
		id := t.vocab.find(*token)
		if id < 0 {
			return -1, badf("unk_token %q is not in the vocabulary", *token)
		}
		t.flags[id] |= flagUnknown
		return id, nil
	}
	usable := func(id int32) bool { return !t.kept(id) }
	switch o.Type {
	case "BPE":
		if o.Prefix != nil && *o.Prefix != "" {
			return unsupportedf("BPE with continuing_subword_prefix")
		}
		suffix := ""
		if o.Suffix != nil {
			suffix = *o.Suffix
		}
		if suffix != "" && !byteLevel || len(suffix) > 16 {
			return unsupportedf("BPE with end_of_word_suffix %.16q", suffix)
		}
		p := &bpe{v: t.vocab, raw: byteLevel, fallback: o.ByteFallback, fuseUnk: o.FuseUnk, whole: o.IgnoreMerges, special: t.kept,
			suffix: suffix}
		// With all 256 bytes there to fall back to, nothing is ever unknown, and <unk> stays a
		// control token.
		if p.unk, err = find(o.UnkToken); err != nil {
			return err
		}
		if p.unk >= 0 && o.ByteFallback && fallbackIDs(t.vocab) != nil {
			t.flags[p.unk] &^= flagUnknown
		}
		if p.merges, err = t.readMerges(mergesText, byteLevel); err != nil {
			return err
		}
		p.symbolTables()
		if p.raw && p.unk >= 0 {
			// Many byte-level files name <|endoftext|> as their unk. It never is one where every
			// byte has a token, and where one lacks, the byte is dropped: text must not become a
			// token that ends it.
			if !slices.Contains(p.byteID[:], -1) || !strings.Contains(strings.ToLower(*o.UnkToken), "unk") {
				t.flags[p.unk] &^= flagUnknown
				if t.special(p.unk) {
					p.unk = -1
				}
			}
		}
		t.model = p
	case "Unigram":
		unk := int32(-1)
		if o.UnkID != nil {
			if *o.UnkID < 0 || *o.UnkID >= int64(t.vocab.size()) {
				return badf("unk_id %d is outside the vocabulary of %d", *o.UnkID, t.vocab.size())
			}
			unk = int32(*o.UnkID)
			t.flags[unk] |= flagUnknown
		}
		var fb *[256]int32
		if o.ByteFallback {
			fb = fallbackIDs(t.vocab)
		}
		if fb != nil && unk >= 0 {
			t.flags[unk] &^= flagUnknown
		}
		t.model = newUnigram(t.vocab, scores, unk, usable, fb)
	case "WordPiece":
		unk, err := find(o.UnkToken)
		if err != nil {
			return err
		}
		w := &wordPiece{v: t.vocab, usable: usable, prefix: "##", unk: unk, most: 100}
		if o.Prefix != nil {
			w.prefix = *o.Prefix
		}
		if o.MaxChars != nil {
			w.most = int(min(max(*o.MaxChars, 0), 1<<20))
		}
		t.model = w
	default:
		return unsupportedf("model %q", o.Type)
	}
	switch w, isWordPiece := t.model.(*wordPiece); {
	case byteLevel:
	case isWordPiece && w.prefix != "":
		t.setRaw("", w.prefix)
	case !isWordPiece && !t.dec.byteLevel:
		t.setRaw(spaceMark, "")
	}
	return nil
}

// setAdded puts the added tokens into the vocabulary, builds that and what finds them in text. A
// token the vocabulary already holds keeps the id it has there.
func (t *Tokenizer) setAdded(b *vocabBuilder, tokens []added, byteLevel bool) (err error) {
	// A byte-level vocabulary's tokens are written in the byte alphabet: there, é is the byte E9.
	// What is not in the alphabet is kept as it is.
	type key struct {
		text    string
		literal bool
	}
	keyOf := func(content string) key {
		if byteLevel {
			raw, ok := fromAlphabet(nil, []byte(content))
			if ok {
				content = string(raw)
			}
			return key{content, !ok}
		}
		return key{content, false}
	}
	known, taken := make(map[key]int32), make(map[int32]bool)
	if len(tokens) > 0 {
		want := make(map[key]bool, len(tokens))
		for _, a := range tokens {
			want[keyOf(a.content)] = true
		}
		for _, e := range b.entries {
			taken[e.id] = true
			if k := (key{string(b.arena[e.off : e.off+e.n]), e.hidden}); want[k] {
				known[k] = e.id
			}
		}
	}
	var before, after []added
	for i := range tokens {
		a := &tokens[i]
		if id, ok := known[keyOf(a.content)]; ok {
			a.id = id
		} else if _, twice := t.added[a.content]; !twice && !taken[a.id] {
			_ = b.add([]byte(a.content), int64(a.id), true) // sizes were checked by the caller
		}
		t.added[a.content] = a.id
		// Control tokens are names, looked for in the text as it is: so transformers has it by now,
		// and only there is it known who wrote them.
		if a.normalized && !a.special && !a.marker() && !a.tag() {
			after = append(after, *a)
		} else {
			before = append(before, *a)
		}
	}
	t.before = newAddedSet(before, func(a added) string { return a.content })
	n := 0
	for _, a := range after {
		n += len(a.content)
	}
	m := roomFor(n, nil) // of all of them
	t.after = newAddedSet(after, func(a added) string {
		s := t.norm.apply(a.content, &m)
		m.kept += len(s)
		return s
	})
	if t.vocab, err = b.build(); err != nil {
		return err
	}
	t.flags = make([]uint8, t.vocab.size())
	for _, s := range []*addedSet{t.before, t.after} {
		if s == nil {
			continue
		}
		for _, a := range s.tokens {
			t.flags[a.id] |= flagAdded
			if a.special {
				t.flags[a.id] |= flagSpecial
			}
			if a.marker() || a.tag() {
				t.flags[a.id] |= flagMarker
			}
		}
	}
	return nil
}

// readVocab reads {"token": id, …}.
func readVocab(b *vocabBuilder, text []byte, byteLevel bool) error {
	r := &reader{b: text}
	r.open('{')
	b.arena = make([]byte, 0, len(text)/2)
	var raw []byte
	for first := true; r.more('}', first); first = false {
		k, literal := r.key(), false
		if byteLevel {
			var ok bool
			if raw, ok = fromAlphabet(raw[:0], k); ok {
				k = raw
			}
			literal = !ok
		}
		if err := b.add(k, r.int(), literal); err != nil {
			return err
		}
	}
	return r.err
}

// readPieces reads [["piece", score], …].
func readPieces(b *vocabBuilder, text []byte) (scores []float64, err error) {
	r := &reader{b: text}
	r.open('[')
	for first := true; r.more(']', first); first = false {
		r.open('[')
		if err := b.add(r.str(), int64(len(scores)), false); err != nil {
			return nil, err
		}
		r.open(',')
		f, err := strconv.ParseFloat(string(r.number()), 64)
		if err != nil || f != f {
			r.fail("expected a score")
		}
		scores = append(scores, f)
		r.open(']')
	}
	return scores, r.err
}

// readMerges reads ["a b", …] or [["a", "b"], …]; rank is the place in the list.
func (t *Tokenizer) readMerges(text []byte, byteLevel bool) (*pairs, error) {
	if isNull(text) {
		return newPairs(0), nil
	}
	r := &reader{b: text}
	r.open('[')
	p := newPairs(min(len(text)/16, t.vocab.size()*2))
	var a, b, buf []byte
	for rank, first := 0, true; r.more(']', first); rank, first = rank+1, false {
		ok := true
		if r.skip('[') {
			a = append(a[:0], r.str()...)
			r.open(',')
			b = append(b[:0], r.str()...)
			r.open(']')
		} else {
			var x, y []byte
			x, y, ok = bytes.Cut(r.str(), []byte(" "))
			a, b = append(a[:0], x...), append(b[:0], y...)
		}
		switch {
		case r.err != nil:
			return nil, r.err
		case !ok:
			return nil, badf("merge %d is %q, which is not two tokens", rank, a)
		case rank > maxMerges:
			return nil, badf("there are more than %d merges", maxMerges)
		}
		if byteLevel {
			if buf, ok = fromAlphabet(buf[:0], a); ok {
				a = append(a[:0], buf...)
			}
			if buf, ok = fromAlphabet(buf[:0], b); ok {
				b = append(b[:0], buf...)
			}
		}
		if err := t.putMerge(p, a, b, int32(rank), &buf); err != nil {
			return nil, err
		}
	}
	return p, r.err
}

// putMerge adds the merge of two token texts. A merge that would make a control token is left out:
// text must not become one.
func (t *Tokenizer) putMerge(p *pairs, a, b []byte, rank int32, buf *[]byte) error {
	*buf = append(append((*buf)[:0], a...), b...)
	x, y, z := t.vocab.findBytes(a), t.vocab.findBytes(b), t.vocab.findBytes(*buf)
	if x < 0 || y < 0 || z < 0 {
		return badf("merge %d of %q and %q needs a token that is not in the vocabulary", rank, a, b)
	}
	if !t.kept(z) {
		p.put(x, y, rank, z)
	}
	return nil
}

// parsePost reads what goes before and after a single text.
func (t *Tokenizer) parsePost(raw json.RawMessage, depth int) error {
	if isNull(raw) {
		return nil
	}
	if depth > 8 {
		return badf("post-processors are nested more than 8 deep")
	}
	var c struct {
		Type       string
		Processors []json.RawMessage
		Single     []map[string]struct {
			ID json.RawMessage
		}
		SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
		Sep, Cls      []any
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return badf("post_processor: %v", err)
	}
	switch c.Type {
	case "Sequence":
		for _, r := range c.Processors {
			if err := t.parsePost(r, depth+1); err != nil {
				return err
			}
		}
	case "TemplateProcessing":
		seen := false
		for _, part := range c.Single {
			if _, ok := part["Sequence"]; ok {
				seen = true
				continue
			}
			var name string
			if err := json.Unmarshal(part["SpecialToken"].ID, &name); err != nil {
				return badf("post_processor: %v", err)
			}
			for _, id := range c.SpecialTokens[name].IDs {
				if id < 0 || int(id) >= t.Vocab() {
					return badf("post_processor: %q has id %d, outside the vocabulary of %d", name, id, t.Vocab())
				}
				if seen {
					t.suffix = append(t.suffix, id)
				} else {
					t.prefix = append(t.prefix, id)
				}
			}
		}
	case "BertProcessing", "RobertaProcessing":
		for _, x := range []struct {
			pair []any
			list *[]int32
		}{{c.Cls, &t.prefix}, {c.Sep, &t.suffix}} {
			if len(x.pair) != 2 {
				return badf("post_processor %s lacks its tokens", c.Type)
			}
			f, _ := x.pair[1].(float64)
			if f < 0 || int(f) >= t.Vocab() {
				return badf("post_processor %s has id %v, outside the vocabulary of %d", c.Type, x.pair[1], t.Vocab())
			}
			*x.list = append(*x.list, int32(f))
		}
	case "ByteLevel":
	default:
		return unsupportedf("post_processor %q", c.Type)
	}
	return nil
}

// The byte alphabet of GPT-2: printable bytes stand for themselves, the others for the characters
// from U+0100 on.
var (
	alphabet   [256]rune
	alphaBytes [0x144]int16
)

func init() {
	for i := range alphaBytes {
		alphaBytes[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xA1 || b == 0xAD {
			r, next = next, next+1
		}
		alphabet[b], alphaBytes[r] = r, int16(b)
	}
}

// fromAlphabet appends the raw bytes of a token written in the byte alphabet, and reports whether
// it is.
func fromAlphabet(dst, s []byte) ([]byte, bool) {
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(s[i:])
		}
		if int(r) >= len(alphaBytes) || alphaBytes[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(alphaBytes[r]))
		i += n
	}
	return dst, true
}
