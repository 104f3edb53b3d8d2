package tokenizer

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// step is one stage of pre-tokenization. It cuts s into pieces and hands each to the next stage by
// t.words(…, at+1). start is true where s begins at the very start of the text.
type step interface {
	apply(t *Tokenizer, at int, dst []int32, s string, start bool, sc *scratch) []int32
}

// span is a stretch of text that a pattern matched, or one between two matches.
type span struct {
	start, end int32 // there are as many spans as characters
	match      bool
}

// matcher finds a pattern's matches and what lies between them. Together the spans are the whole
// text, in order.
type matcher interface {
	each(s string, m *room, f func(span))
}

// behavior says what becomes of the matches of a Split.
type behavior int

const (
	isolated behavior = iota
	removed
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
	"Contiguous": contiguous,
}

// splitStep cuts at the matches of a pattern.
type splitStep struct {
	m      matcher
	b      behavior
	invert bool
}

func (p splitStep) apply(t *Tokenizer, at int, dst []int32, s string, start bool, sc *scratch) []int32 {
	if p.b == isolated || p.b == removed { // the usual cases, without a list of spans
		p.m.each(s, &sc.room, func(x span) {
			if x.start < x.end && (p.b == isolated || x.match == p.invert) {
				dst = t.words(dst, s[x.start:x.end], at+1, start && x.start == 0, sc)
			}
		})
		return dst
	}
	var all []span
	p.m.each(s, &sc.room, func(x span) { all = append(all, x) })
	for _, x := range mergeSpans(all, p.b, p.invert) {
		if x.start < x.end && !x.match {
			dst = t.words(dst, s[x.start:x.end], at+1, start && x.start == 0, sc)
		}
	}
	return dst
}

// mergeSpans applies a behavior in place. What is left with match set is to be removed.
func mergeSpans(in []span, b behavior, invert bool) []span {
	if invert {
		for i := range in {
			in[i].match = !in[i].match
		}
	}
	if b == removed {
		return in
	}
	if b == mergedWithNext {
		// A match joins what follows it, so walk from the end.
		prev, w := false, len(in)
		for i := len(in) - 1; i >= 0; i-- {
			x := in[i]
			if x.match && !prev && w < len(in) {
				in[w].start = x.start
			} else {
				w--
				in[w] = span{x.start, x.end, false}
			}
			prev = x.match
		}
		return in[w:]
	}
	out, prev := in[:0], false
	for _, x := range in {
		join := b == contiguous && x.match == prev || b == mergedWithPrevious && x.match && !prev
		prev = x.match
		if join && len(out) > 0 {
			out[len(out)-1].end = x.end
		} else {
			out = append(out, span{x.start, x.end, false})
		}
	}
	return out
}

func charLen(s string, i int) int {
	if s[i] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}

// scanMatcher makes a matcher of a scanner.
type scanMatcher struct{ sc scanner }

func (x scanMatcher) each(s string, m *room, f func(span)) {
	gap := 0
	for i := 0; i < len(s); {
		e := x.sc.next(s, i)
		if e < 0 {
			i += charLen(s, i)
			continue
		}
		if gap < i {
			f(span{int32(gap), int32(i), false})
		}
		f(span{int32(i), int32(e), true})
		i, gap = e, e
	}
	if gap < len(s) {
		f(span{int32(gap), int32(len(s)), false})
	}
}

// literal matches one string.
type literal struct{ s string }

func (m literal) next(s string, i int) int {
	if strings.HasPrefix(s[i:], m.s) {
		return i + len(m.s)
	}
	return -1
}

// bytePrefix is ByteLevel's add_prefix_space. The byte alphabet itself needs no step: ids stand for
// raw bytes here.
type bytePrefix struct{}

func (bytePrefix) apply(t *Tokenizer, at int, dst []int32, s string, start bool, sc *scratch) []int32 {
	if s != "" && s[0] != ' ' {
		sc.room.take(len(s) + 1)
		sc.room.kept++
		s = " " + s
	}
	return t.words(dst, s, at+1, start, sc)
}

// metaspace makes spaces visible and, unless told otherwise, puts one in front.
type metaspace struct {
	mark  string
	first string // when to put one in front: never, first (at the start of the text) or always
	split bool
}

func (p metaspace) apply(t *Tokenizer, at int, dst []int32, s string, start bool, sc *scratch) []int32 {
	n := replaced(s, " ", p.mark, strings.Count(s, " "))
	sc.room.take(n)
	n += len(p.mark)
	sc.room.take(n)
	sc.room.kept += max(n-len(s), 0)
	s = strings.ReplaceAll(s, " ", p.mark)
	if (p.first == "always" || p.first == "first" && start) && !strings.HasPrefix(s, p.mark) {
		s = p.mark + s
	}
	if !p.split {
		return t.words(dst, s, at+1, start, sc)
	}
	return splitStep{scanMatcher{literal{p.mark}}, mergedWithNext, false}.apply(t, at, dst, s, start, sc)
}

// parsePreTokenizer reads tokenizer.json's "pre_tokenizer". byteLevel says that words are to be
// read in the byte alphabet.
func parsePreTokenizer(raw json.RawMessage, depth int) (steps []step, byteLevel bool, err error) {
	if isNull(raw) {
		return nil, false, nil
	}
	if depth > 8 {
		return nil, false, badf("pre-tokenizers are nested more than 8 deep")
	}
	var c struct {
		Type           string
		Pretokenizers  []json.RawMessage
		Pattern        pattern
		Behavior       string
		Invert         bool
		AddPrefixSpace *bool `json:"add_prefix_space"`
		UseRegex       *bool `json:"use_regex"`
		Replacement    string
		PrependScheme  string `json:"prepend_scheme"`
		Split          *bool
		Individual     bool `json:"individual_digits"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, false, badf("pre-tokenizer: %v", err)
	}
	on := func(b *bool) bool { return b == nil || *b }
	cls := classes()
	split := func(sc scanner, b behavior) splitStep { return splitStep{scanMatcher{sc}, b, false} }
	is := func(f func(r rune, c uint8) bool) scanner { return atMost{cls, f, 1} }
	switch c.Type {
	case "Sequence":
		for _, r := range c.Pretokenizers {
			s, b, err := parsePreTokenizer(r, depth+1)
			if err != nil {
				return nil, false, err
			}
			if byteLevel && (len(s) > 0 || b) {
				return nil, false, unsupportedf("a pre-tokenizer after ByteLevel")
			}
			if steps, byteLevel = append(steps, s...), byteLevel || b; len(steps) > maxChain {
				return nil, false, badf("more than %d pre-tokenizers", maxChain)
			}
		}
		return steps, byteLevel, nil
	case "Split":
		b, ok := behaviors[c.Behavior]
		if !ok {
			return nil, false, unsupportedf("pre-tokenizer Split with behavior %q", c.Behavior)
		}
		m, err := c.Pattern.compile()
		if err != nil {
			return nil, false, err
		}
		return []step{splitStep{m, b, c.Invert}}, false, nil
	case "ByteLevel":
		if on(c.AddPrefixSpace) {
			steps = append(steps, bytePrefix{})
		}
		if on(c.UseRegex) {
			steps = append(steps, split(gpt2{cls}, isolated))
		}
		return steps, true, nil
	case "Metaspace":
		p, err := parseMetaspace(c.Replacement, c.PrependScheme, on(c.Split), on(c.AddPrefixSpace))
		return []step{p}, false, err
	case "Digits":
		b := contiguous
		if c.Individual {
			b = isolated
		}
		return []step{split(is(func(_ rune, c uint8) bool { return c&classNumber != 0 }), b)}, false, nil
	case "WhitespaceSplit":
		return []step{split(is(func(_ rune, c uint8) bool { return c&classSpace != 0 }), removed)}, false, nil
	case "BertPreTokenizer":
		return []step{
			split(is(func(_ rune, c uint8) bool { return c&classSpace != 0 }), removed),
			split(is(func(r rune, _ uint8) bool { return isPunct(r) }), isolated),
		}, false, nil
	}
	return nil, false, unsupportedf("pre-tokenizer %q", c.Type)
}

func parseMetaspace(mark, scheme string, split, prefix bool) (metaspace, error) {
	if scheme == "" {
		scheme = map[bool]string{true: "always", false: "never"}[prefix]
	}
	p := metaspace{cmp.Or(mark, spaceMark), scheme, split}
	if !slices.Contains([]string{"never", "first", "always"}, scheme) {
		return p, unsupportedf("pre-tokenizer Metaspace with prepend_scheme %q", scheme)
	}
	return p, nil
}

func isPunct(r rune) bool {
	return r < 128 && (r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~') || r >= 128 &&
		unicode.Is(unicode.P, r)
}
