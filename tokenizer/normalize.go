package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before it is cut into words. What it makes it takes from the room first.
type normalizer interface {
	apply(s string, m *room) string
}

type normalizers []normalizer

func (n normalizers) apply(s string, m *room) string {
	for _, x := range n {
		m.take(len(s))
		s = x.apply(s, m)
	}
	return s
}

// form is a Unicode normalization form.
type form struct {
	f       norm.Form
	compose bool
	compat  bool
}

func (f form) apply(s string, m *room) string {
	if f.f.IsNormalString(s) {
		return s
	}
	if len(s) > (m.limit-m.kept)/mostForm {
		var it norm.Iter // it may not fit: what it becomes is measured
		n := 0
		for it.InitString(f.f, s); !it.Done(); {
			if n += len(it.Next()); n > m.limit-m.kept {
				m.take(n)
			}
		}
		m.take(n)
	}
	if longMarks(s) {
		return f.slow(s)
	}
	return f.f.String(s)
}

// mostForm is how many times longer a form can make a text: U+FDFA is three bytes and becomes 33.
const mostForm = 11

// longMarks reports whether s has more marks in a row than x/text allows. It would put a joiner
// between them, to make text stream-safe, which the Unicode forms themselves do not ask for. Marks
// that decompose count as two, to be on the safe side.
func longMarks(s string) bool {
	run := 0
	for _, r := range s {
		if r < 0x300 || norm.NFD.PropertiesString(string(r)).CCC() == 0 && !unicode.Is(unicode.M, r) {
			run = 0
		} else if run++; run > 14 {
			return true
		}
	}
	return false
}

// slow is the textbook algorithm, for text with absurdly many marks: decompose, sort runs of marks,
// compose.
func (f form) slow(s string) string {
	src := norm.NFD
	if f.compat {
		src = norm.NFKD
	}
	type char struct {
		r   rune
		ccc uint8
	}
	var cs []char
	for _, r := range s {
		t := string(r)
		if d := src.PropertiesString(t).Decomposition(); d != nil {
			t = string(d)
		} else if r >= 0xAC00 && r <= 0xD7A3 {
			t = norm.NFD.String(t)
		}
		for _, d := range t {
			c := char{d, norm.NFD.PropertiesString(string(d)).CCC()}
			at := len(cs)
			if c.ccc != 0 {
				for at > 0 && cs[at-1].ccc > c.ccc {
					at--
				}
			}
			cs = append(cs, char{})
			copy(cs[at+1:], cs[at:])
			cs[at] = c
		}
	}
	if f.compose {
		starter, last := -1, uint8(0) // last: class of the last character kept after the starter
		out := cs[:0]
		for _, c := range cs {
			if starter >= 0 && (last < c.ccc || last == 0 && starter == len(out)-1) {
				t := string(out[starter].r) + string(c.r)
				if k := norm.NFC.String(t); utf8.RuneCountInString(k) == 1 {
					out[starter].r, _ = utf8.DecodeRuneInString(k)
					continue
				}
			}
			if c.ccc == 0 {
				starter = len(out)
			}
			last = c.ccc
			out = append(out, c)
		}
		cs = out
	}
	var b strings.Builder
	for _, c := range cs {
		b.WriteRune(c.r)
	}
	return b.String()
}

type lowercase struct{}

func (lowercase) apply(s string, _ *room) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return unicode.ToLower(r) != r }) {
		return s
	}
	return strings.ToLower(strings.ReplaceAll(s, "İ", "i̇")) // the one letter whose small form is two characters
}

type replaceAll struct{ old, new string }

func (r replaceAll) apply(s string, m *room) string {
	n := strings.Count(s, r.old)
	m.take(replaced(s, r.old, r.new, n))
	return strings.ReplaceAll(s, r.old, r.new)
}

type replacePattern struct {
	m   matcher
	new string
}

func (r replacePattern) apply(s string, m *room) string {
	var b strings.Builder
	r.m.each(s, m, func(x span) {
		part := s[x.start:x.end]
		if x.match {
			part = r.new
		}
		if b.Len()+len(part) > b.Cap() { // before it grows
			m.take(b.Len() + len(part))
		}
		b.WriteString(part)
	})
	m.take(b.Len())
	return b.String()
}

type prepend struct{ s string }

func (p prepend) apply(s string, m *room) string {
	if s == "" {
		return s
	}
	m.take(len(p.s) + len(s))
	return p.s + s
}

type strip struct{ left, right bool }

func (p strip) apply(s string, _ *room) string {
	if p.left {
		s = strings.TrimLeftFunc(s, isSpace)
	}
	if p.right {
		s = strings.TrimRightFunc(s, isSpace)
	}
	return s
}

type bertNormalizer struct{ clean, chinese, accents, lower bool }

func (n bertNormalizer) apply(s string, m *room) string {
	if n.clean {
		s = strings.Map(func(r rune) rune {
			switch {
			case r == 0, r == 0xFFFD, r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
				return -1
			case isSpace(r):
				return ' '
			}
			return r
		}, s)
	}
	if n.chinese {
		var b strings.Builder
		for _, r := range s {
			if isChinese(r) {
				b.WriteByte(' ')
				b.WriteRune(r)
				b.WriteByte(' ')
			} else {
				b.WriteRune(r)
			}
		}
		s = b.String()
		m.take(len(s))
	}
	if n.accents {
		s = form{f: norm.NFD}.apply(s, m)
		s = strings.Map(func(r rune) rune {
			if r >= 0x300 && unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, s)
	}
	if n.lower {
		s = lowercase{}.apply(s, m)
	}
	return s
}

func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// precompiled is SentencePiece's compiled normalization table: a double-array trie from byte
// strings to offsets into a block of replacements that end in a zero byte.
type precompiled struct {
	trie []uint32
	text string // the replacements, each ended by a zero byte
}

func newPrecompiled(b []byte) (normalizer, error) {
	if len(b) == 0 {
		return normalizers(nil), nil
	}
	if len(b) < 4 {
		return nil, badf("the normalization table has %d bytes", len(b))
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n > uint64(len(b)) || n%4 != 0 {
		return nil, badf("the normalization table says its trie has %d bytes, but only %d follow", n, len(b))
	}
	p := &precompiled{trie: make([]uint32, n/4), text: string(b[n:])}
	for i := range p.trie {
		p.trie[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return p, nil
}

// first returns the replacement of the shortest prefix of s in the table, as the Rust library takes
// it.
func (p *precompiled) first(s string) (string, bool) {
	unit := func(i uint32) (uint32, bool) {
		if uint64(i) >= uint64(len(p.trie)) {
			return 0, false
		}
		return p.trie[i], true
	}
	u, ok := unit(0)
	if !ok {
		return "", false
	}
	offset := func(u uint32) uint32 { return (u >> 10) << ((u & (1 << 9)) >> 6) }
	at := offset(u)
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			return "", false
		}
		at ^= uint32(s[i])
		u, ok := unit(at)
		if !ok || u&(1<<31|0xFF) != uint32(s[i]) {
			return "", false
		}
		at ^= offset(u)
		if u>>8&1 == 1 {
			v, ok := unit(at)
			if !ok {
				return "", false
			}
			from := int(v & (1<<31 - 1))
			if from > len(p.text) {
				return "", false
			}
			text, _, _ := strings.Cut(p.text[from:], "\x00")
			return text, true
		}
	}
	return "", false
}

func (p *precompiled) apply(s string, m *room) string {
	var b strings.Builder
	b.Grow(len(s))
	write := func(t string) {
		if b.Len()+len(t) > b.Cap() { // before it grows
			m.take(b.Len() + len(t))
		}
		b.WriteString(t)
	}
	for s != "" {
		// Grapheme by grapheme: short ones may be replaced as a whole, else each of their
		// characters.
		n := graphemeLen(s)
		g := s[:n]
		s = s[n:]
		if len(g) < 6 {
			if r, ok := p.first(g); ok {
				write(r)
				continue
			}
		}
		for i := range g {
			c := g[i : i+charLen(g, i)]
			if t, ok := p.first(c); ok {
				write(t)
			} else {
				write(c)
			}
		}
	}
	return b.String()
}

// graphemeLen is the length of the first grapheme cluster as far as it matters here: a character
// and the marks and joiners after it, or \r\n.
func graphemeLen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == '\r' && len(s) > 1 && s[1] == '\n' {
		return 2
	}
	if r < ' ' {
		return n
	}
	for n < len(s) {
		r, k := utf8.DecodeRuneInString(s[n:])
		if r < 0x300 || !unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) && r != 0x200D && r != 0x200C && !(r >= 0xFF9E && r <= 0xFF9F) &&
			!(r >= 0x1F3FB && r <= 0x1F3FF) {
			break
		}
		n += k
	}
	return n
}

// parseNormalizer reads tokenizer.json's "normalizer".
func parseNormalizer(raw json.RawMessage, depth int) (n normalizers, err error) {
	if isNull(raw) {
		return nil, nil
	}
	if depth > 8 {
		return nil, badf("normalizers are nested more than 8 deep")
	}
	var c struct {
		Type        string
		Normalizers []json.RawMessage
		Pattern     pattern
		Content     string
		Prepend     string
		StripLeft   *bool   `json:"strip_left"`
		StripRight  *bool   `json:"strip_right"`
		CleanText   *bool   `json:"clean_text"`
		Chinese     *bool   `json:"handle_chinese_chars"`
		Accents     *bool   `json:"strip_accents"`
		Lower       *bool   `json:"lowercase"`
		Charsmap    *string `json:"precompiled_charsmap"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, badf("normalizer: %v", err)
	}
	on := func(b *bool) bool { return b == nil || *b }
	one := func(x normalizer) (normalizers, error) { return normalizers{x}, nil }
	switch c.Type {
	case "Sequence":
		for _, r := range c.Normalizers {
			m, err := parseNormalizer(r, depth+1)
			if err != nil {
				return nil, err
			}
			if n = append(n, m...); len(n) > maxChain {
				return nil, badf("more than %d normalizers", maxChain)
			}
		}
		return n, nil
	case "NFC":
		return one(form{norm.NFC, true, false})
	case "NFKC":
		return one(form{norm.NFKC, true, true})
	case "NFD":
		return one(form{norm.NFD, false, false})
	case "NFKD":
		return one(form{norm.NFKD, false, true})
	case "Lowercase":
		return one(lowercase{})
	case "Strip":
		return one(strip{on(c.StripLeft), on(c.StripRight)})
	case "Prepend":
		return one(prepend{c.Prepend})
	case "Replace":
		if c.Pattern.String != nil {
			if *c.Pattern.String == "" {
				return nil, badf("normalizer Replace has an empty pattern")
			}
			return one(replaceAll{*c.Pattern.String, c.Content})
		}
		m, err := c.Pattern.compile()
		if err != nil {
			return nil, err
		}
		return one(replacePattern{m, c.Content})
	case "BertNormalizer":
		lower := on(c.Lower)
		accents := lower
		if c.Accents != nil {
			accents = *c.Accents
		}
		return one(bertNormalizer{on(c.CleanText), on(c.Chinese), accents, lower})
	case "Precompiled":
		if c.Charsmap == nil {
			return nil, nil
		}
		b, err := base64.StdEncoding.DecodeString(*c.Charsmap)
		if err != nil {
			return nil, badf("normalizer Precompiled: %v", err)
		}
		p, err := newPrecompiled(b)
		if err != nil {
			return nil, err
		}
		return one(p)
	}
	return nil, unsupportedf("normalizer %q", c.Type)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
