// Package tokenizer turns text into token ids and ids back into text, exactly as Hugging Face's
// Rust library does, from the files models come with: tokenizer.json, the vendor's *_tokenizer.txt,
// SentencePiece's tokenizer.model and tiktoken files. Of tokenizer.json it reads what the supported
// families of models use; a file that asks for more gives [ErrUnsupported].
//
// A [Tokenizer] is immutable once opened: any goroutine may use it at any time, and nothing needs
// closing. A [Stream] belongs to one goroutine. Their zero values are not usable. Files are
// untrusted: every count and size is checked against the file before memory is taken for it, and a
// bad one gives an [*Error].
//
// What a user writes can never become a control token. [Tokenizer.Encode] recognizes control tokens
// only when told to, and [Tokenizer.EncodeParts] only inside the parts that are marked as control.
// Control tokens are those that the file marks special, as it does with all that begin and end
// turns. Text does not become an added token written <|…|> or <｜…｜> either, except those of
// fill-in-the-middle. Other added tokens (Qwen's <think> and <tool_call>) are words like any other
// to Encode, as they are to Hugging Face's library: text that spells one becomes it. EncodeParts
// recognizes such a tag only in control parts, and elsewhere it is plain text.
package tokenizer

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Tokenizer maps text to token ids and back.
type Tokenizer struct {
	vocab *vocab
	model model
	norm  normalizers
	steps []step

	before *addedSet // added tokens looked for in the text as it is
	after  *addedSet // added tokens looked for in normalized text
	added  map[string]int32
	flags  []uint8 // by id

	prefix, suffix []int32
	noSuffix       bool // the file's form has no place for one
	eos            []int32

	raw     *vocab // what each token stands for, where that is not its text; nil where it is
	dec     decoder
	scratch sync.Pool
}

const (
	flagAdded   = 1 << iota // found in the text before anything else
	flagSpecial             // a control token
	flagUnknown             // what unknown text becomes: special in some files, yet made from text
	flagMarker              // no control token, but written like one or like a tag: text does not become it by itself
)

// Part is a stretch of a prompt. Control tokens are recognized in Control parts only.
type Part struct {
	Text    string
	Control bool
}

// Vocab returns the largest id + 1.
func (t *Tokenizer) Vocab() int { return t.vocab.size() }

// Encode appends the ids of text to dst. With specials, control tokens in the text are recognized;
// without, nothing in the text becomes one. It adds no BOS: see Prefix. Where
// [Tokenizer.EncodeContext] would fail nothing is appended.
func (t *Tokenizer) Encode(dst []int32, text string, specials bool) []int32 {
	//rule:T2 TestNoControl specials => true
	dst, _ = t.encode(dst, text, nil, func(int, int) bool { return specials }, false)
	return dst
}

// EncodeParts appends the ids of the parts' joined text to dst: words and normalization go across
// the borders, control tokens do not: one is recognized only if all of it stands in control parts
// that follow each other, and so is a tag such as <think>. Where [Tokenizer.EncodeContext] would
// fail nothing is appended.
func (t *Tokenizer) EncodeParts(dst []int32, parts []Part) []int32 {
	dst, _ = t.EncodeContext(context.Background(), dst, parts)
	return dst
}

// EncodeContext is EncodeParts for servers. A file may bring a split pattern that some texts make
// very slow, or normalizers that make a thousand texts of one, and a request may hold such a text.
// Then it returns dst as it was, and [ErrSlow], [ErrGrows] or ctx's error, the only ones there are.
func (t *Tokenizer) EncodeContext(ctx context.Context, dst []int32, parts []Part) ([]int32, error) {
	var text strings.Builder
	type zone struct{ start, end int }
	var zones []zone
	for _, p := range parts {
		start := text.Len()
		text.WriteString(p.Text)
		if !p.Control || p.Text == "" {
			continue
		}
		if n := len(zones); n > 0 && zones[n-1].end == start {
			zones[n-1].end = text.Len()
		} else {
			zones = append(zones, zone{start, text.Len()})
		}
	}
	//rule:T7 TestEncodeEnds ctx.Err => nil
	return t.encode(dst, text.String(), ctx.Err, func(start, end int) bool {
		i, ok := slices.BinarySearchFunc(zones, start, func(z zone, at int) int { return z.start - at })
		if !ok {
			i--
		}
		return i >= 0 && end <= zones[i].end
	}, true)
}

func (t *Tokenizer) encode(dst []int32, text string, stop func() error, allowed func(start, end int) bool,
	tags bool) (out []int32, err error) {
	out = dst // what is left where it is halted
	defer catchHalt(&err)
	sc, _ := t.scratch.Get().(*scratch)
	if sc == nil {
		sc = &scratch{}
	}
	sc.room = roomFor(len(text), stop)
	sc.room.wanted()
	if t.before == nil {
		dst = t.plain(dst, text, 0, sc)
	} else {
		t.before.split(text, allowed, tags,
			func(start, end int) { dst = t.plain(dst, text[start:end], start, sc) },
			func(a *added) { dst = append(dst, a.id) })
	}
	if cap(sc.syms) > 1<<16 {
		*sc = scratch{cache: sc.cache} // do not hold a long prompt's memory
	}
	sc.room.stop = nil
	t.scratch.Put(sc)
	return dst, nil
}

// plain encodes text between added tokens; it began at the given place.
func (t *Tokenizer) plain(dst []int32, text string, at int, sc *scratch) []int32 {
	s := t.norm.apply(text, &sc.room)
	sc.room.kept += max(len(s), len(text))
	if t.after == nil {
		return t.words(dst, s, 0, at == 0, sc)
	}
	t.after.split(s, func(int, int) bool { return false }, false, // there is no control token among these
		func(start, end int) { dst = t.words(dst, s[start:end], 0, at == 0 && start == 0, sc) },
		func(a *added) { dst = append(dst, a.id) })
	return dst
}

// words runs the pre-tokenization stages from at on, then the model.
func (t *Tokenizer) words(dst []int32, s string, at int, start bool, sc *scratch) []int32 {
	if s == "" {
		return dst
	}
	if at == len(t.steps) {
		return t.model.encode(dst, s, sc)
	}
	return t.steps[at].apply(t, at, dst, s, start, sc)
}

// Prefix returns what goes before a single text (BOS for many models). The caller must not modify
// it.
func (t *Tokenizer) Prefix() []int32 { return t.prefix }

// Suffix returns what goes after a single text. The caller must not modify it.
func (t *Tokenizer) Suffix() []int32 { return t.suffix }

// SaysSuffix reports whether the files could say what goes after a text: the vendor's
// *_tokenizer.txt cannot, whatever the model wants.
func (t *Tokenizer) SaysSuffix() bool { return !t.noSuffix }

// Bytes returns the bytes a token stands for, a control token's literal text, or nil for an id
// there is not. The caller must not modify it.
func (t *Tokenizer) Bytes(id int32) []byte {
	v := t.vocab
	if t.raw != nil {
		v = t.raw
	}
	b := v.bytes(id)
	if len(b) == 0 {
		return nil
	}
	return b
}

// ID returns the id of an added or control token by its text, or of a vocabulary entry as the file
// writes it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.added[token]; ok {
		return id, true
	}
	if t.dec.byteLevel {
		if b, ok := fromAlphabet(nil, []byte(token)); ok {
			if id := t.vocab.findBytes(b); id >= 0 {
				return id, true
			}
		}
		return 0, false
	}
	id := t.vocab.find(token)
	return max(id, 0), id >= 0
}

// Control reports whether id is a control token: one that text never becomes.
func (t *Tokenizer) Control(id int32) bool {
	return id >= 0 && int(id) < len(t.flags) && t.flags[id]&(flagSpecial|flagUnknown) == flagSpecial
}

// kept reports whether text never becomes id, by its merges or in any other way.
func (t *Tokenizer) kept(id int32) bool {
	return t.Control(id) || id >= 0 && int(id) < len(t.flags) && t.flags[id]&flagMarker != 0
}

// EOS returns the ids that end an answer, where the files name them. The caller must not modify it.
func (t *Tokenizer) EOS() []int32 { return t.eos }

func (t *Tokenizer) special(id int32) bool {
	return id >= 0 && int(id) < len(t.flags) && t.flags[id]&flagSpecial != 0
}
