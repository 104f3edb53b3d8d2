package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// decoder says how token texts are joined.
type decoder struct {
	byteLevel bool // tokens are raw bytes
	fallback  bool // <0xXX> tokens are bytes
	plain     bool // tokens are joined with spaces (no decoder in the file)
	steps     []decodeStep
	stripHead int // spaces removed at the very start
}

// decodeStep is one of tokenizer.json's decoders, over the list of token texts. What it makes it
// takes from the room first.
type decodeStep func(tokens []string, m *room) []string

// Decode returns the text of ids. Control tokens are left out unless specials is set; ids there are
// not are ignored. Bytes that are not UTF-8 come out as U+FFFD. Where the file's decoders would
// make many times more of it than the tokens are, or take very long, they are left out.
func (t *Tokenizer) Decode(ids []int32, specials bool) string {
	if t.dec.byteLevel {
		var b []byte
		for _, id := range ids {
			if specials || !t.special(id) {
				b = append(b, t.Bytes(id)...)
			}
		}
		return lossy(b)
	}
	texts := func() (tokens []string, n int) {
		tokens = make([]string, 0, len(ids))
		for _, id := range ids {
			if b := t.vocab.bytes(id); len(b) > 0 && (specials || !t.special(id)) {
				tokens, n = append(tokens, string(b)), n+len(b)
			}
		}
		return tokens, n
	}
	tokens, n := texts()
	if t.dec.plain {
		return strings.Join(tokens, " ")
	}
	tokens, err := t.dec.run(tokens, n)
	if err != nil {
		tokens, _ = texts()
	}
	return strings.Join(tokens, "")
}

// run joins tokens of n bytes by the file's steps.
func (d *decoder) run(tokens []string, n int) (out []string, err error) {
	defer catchHalt(&err)
	m := roomFor(n, nil)
	for _, f := range d.steps {
		m.take(size(tokens)) // and it is no more than that, or the step has asked
		tokens = f(tokens, &m)
	}
	return tokens, nil
}

// size is how many bytes tokens have.
func size(tokens []string) (n int) {
	for _, s := range tokens {
		n += len(s)
	}
	return n
}

// lossy makes valid UTF-8 of b: each longest prefix of a character that is not one becomes U+FFFD.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = max(partial(b), 1)
			s.WriteRune(utf8.RuneError)
		} else {
			s.Write(b[:n])
		}
		b = b[n:]
	}
	return s.String()
}

// partial returns how many bytes at the start of b are the beginning of a character that b does not
// finish, 0 if none are.
func partial(b []byte) int {
	for n := min(len(b), utf8.UTFMax-1); n > 0; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 0
}

// Stream turns ids into text one at a time. It gives out whole characters only and never holds back
// more than three bytes.
type Stream struct {
	t        *Tokenizer
	specials bool
	held     [utf8.UTFMax]byte
	n        int
	strip    int // spaces still to be removed at the start
	begun    bool
}

// Stream begins a stream. Control tokens are left out of it unless specials is set.
func (t *Tokenizer) Stream(specials bool) *Stream {
	return &Stream{t: t, specials: specials, strip: t.dec.stripHead}
}

// Next returns the text that id completes, which may be empty.
func (s *Stream) Next(id int32) string {
	t := s.t
	if !s.specials && t.special(id) {
		return ""
	}
	b := t.Bytes(id)
	if len(b) == 0 {
		return ""
	}
	if t.dec.plain && s.begun {
		b = append([]byte{' '}, b...)
	}
	s.begun = true
	for s.strip > 0 && len(b) > 0 {
		if b[0] != ' ' {
			s.strip = 0
			break
		}
		b = b[1:]
		s.strip--
	}
	if s.n > 0 {
		b = append(append(make([]byte, 0, s.n+len(b)), s.held[:s.n]...), b...)
		s.n = 0
	}
	// Only the last bytes can be an unfinished character.
	keep := 0
	for k := 1; k <= 3 && k <= len(b); k++ {
		if tail := b[len(b)-k:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				keep = k
			}
			break
		}
	}
	s.n = copy(s.held[:], b[len(b)-keep:])
	return lossy(b[:len(b)-keep])
}

// Flush ends the stream: what was held back can no longer become a character.
func (s *Stream) Flush() string {
	out := lossy(s.held[:s.n])
	s.n = 0
	return out
}

// parseDecoder reads tokenizer.json's "decoder".
func parseDecoder(raw json.RawMessage, d *decoder, depth int) error {
	if depth > 8 {
		return badf("decoders are nested more than 8 deep")
	}
	var c struct {
		Type           string
		Decoders       []json.RawMessage
		Pattern        pattern
		Content        string
		Start, Stop    int
		Replacement    string
		PrependScheme  string `json:"prepend_scheme"`
		AddPrefixSpace *bool  `json:"add_prefix_space"`
		Prefix         string
		Cleanup        *bool
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return badf("decoder: %v", err)
	}
	add := func(f decodeStep) { d.steps = append(d.steps, f) }
	each := func(f func(i int, s string) string) {
		add(func(tokens []string, _ *room) []string {
			for i, s := range tokens {
				tokens[i] = f(i, s)
			}
			return tokens
		})
	}
	// replace is each for what may make more of a token than it is.
	replace := func(f normalizer) {
		add(func(tokens []string, m *room) []string {
			kept := m.kept
			rest := size(tokens)
			for i, s := range tokens {
				rest -= len(s)
				m.kept += rest // beside this one
				tokens[i] = f.apply(s, m)
				m.kept += len(tokens[i]) - rest
			}
			m.kept = kept
			return tokens
		})
	}
	switch c.Type {
	case "Sequence":
		for _, r := range c.Decoders {
			if err := parseDecoder(r, d, depth+1); err != nil {
				return err
			}
			if len(d.steps) > maxChain {
				return badf("more than %d decoders", maxChain)
			}
		}
	case "ByteLevel":
		d.byteLevel = true
	case "ByteFallback":
		d.fallback = true
		add(func(tokens []string, _ *room) []string { return joinBytes(tokens) })
	case "Fuse":
		add(func(tokens []string, _ *room) []string { return []string{strings.Join(tokens, "")} })
	case "Replace":
		if c.Pattern.String != nil && *c.Pattern.String != "" {
			replace(replaceAll{*c.Pattern.String, c.Content})
			return nil
		}
		m, err := c.Pattern.compile()
		if err != nil {
			return err
		}
		replace(replacePattern{m, c.Content})
	case "Strip":
		if c.Start < 0 || c.Stop < 0 || c.Start > 1<<16 || c.Stop > 1<<16 {
			return badf("decoder Strip removes %d and %d characters", c.Start, c.Stop)
		}
		if c.Content == " " {
			d.stripHead = c.Start
		}
		each(func(_ int, s string) string {
			for i := 0; i < c.Start && c.Content != "" && strings.HasPrefix(s, c.Content); i++ {
				s = s[len(c.Content):]
			}
			for i := 0; i < c.Stop && c.Content != "" && strings.HasSuffix(s, c.Content); i++ {
				s = s[:len(s)-len(c.Content)]
			}
			return s
		})
	case "Metaspace":
		mark := cmp.Or(c.Replacement, spaceMark)
		head := c.PrependScheme != "never" && (c.PrependScheme != "" || c.AddPrefixSpace == nil || *c.AddPrefixSpace)
		if head {
			d.stripHead = 1
		}
		each(func(i int, s string) string {
			if i == 0 && head {
				s = strings.TrimPrefix(s, mark)
			}
			return strings.ReplaceAll(s, mark, " ")
		})
	case "WordPiece":
		prefix := cmp.Or(c.Prefix, "##")
		each(func(i int, s string) string {
			if i > 0 {
				if t, ok := strings.CutPrefix(s, prefix); ok {
					s = t
				} else {
					s = " " + s
				}
			}
			if c.Cleanup == nil || *c.Cleanup {
				s = cleanup.Replace(s)
			}
			return s
		})
	default:
		return unsupportedf("decoder %q", c.Type)
	}
	return nil
}

var cleanup = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m",
	" do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")

// joinBytes makes characters of runs of <0xXX>. A run that is not UTF-8 becomes as many U+FFFD as
// it has bytes.
func joinBytes(tokens []string) []string {
	out := tokens[:0]
	var run []byte
	flush := func() {
		if len(run) == 0 {
			return
		}
		if utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			out = append(out, strings.Repeat("\uFFFD", len(run)))
		}
		run = run[:0]
	}
	for _, s := range tokens {
		if b, ok := byteToken([]byte(s)); ok {
			run = append(run, b)
			continue
		}
		flush()
		out = append(out, s)
	}
	flush()
	return out
}

// setRaw fills Bytes for vocabularies whose entries are not raw bytes: ▁ is a space, <0xXX> a
// byte, and ## is nothing. Control tokens are names and keep theirs; added tokens that are none
// are text (Gemma has runs of spaces among them).
func (t *Tokenizer) setRaw(mark, continuing string) {
	raw := &vocab{off: make([]uint32, 0, len(t.vocab.off))}
	for id := range int32(t.vocab.size()) {
		raw.off = append(raw.off, uint32(len(raw.text)))
		b := t.vocab.bytes(id)
		x, isByte := byteToken(b)
		switch {
		case t.dec.fallback && isByte:
			b = []byte{x}
		case t.flags[id]&flagSpecial != 0:
		case mark != "":
			b = bytes.ReplaceAll(b, []byte(mark), []byte(" "))
		case t.flags[id]&flagAdded != 0 || continuing == "" || len(b) == 0:
		case bytes.HasPrefix(b, []byte(continuing)):
			b = b[len(continuing):]
		default:
			raw.text = append(raw.text, ' ')
		}
		raw.text = append(raw.text, b...)
	}
	raw.off = append(raw.off, uint32(len(raw.text)))
	t.raw = raw
}
