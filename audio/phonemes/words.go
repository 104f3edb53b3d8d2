package phonemes

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A token is a word or a sign of punctuation.
type token struct {
	text  string
	punct bool
	spell bool // the letters are read one by one, whatever the word is
}

// Words is text as it is read: numbers, dates, money and the like as words, between plain
// punctuation. Names of letters are left to a [Lexicon]: USB stays as it is.
func Words(text string, accent Accent) string {
	var b strings.Builder
	for s := range sentences(text) {
		for _, t := range accent.tokens(s) {
			opens := strings.HasSuffix(b.String()[max(0, b.Len()-3):], "“") || strings.HasSuffix(b.String()[max(0, b.Len()-1):], "(")
			if b.Len() > 0 && !opens && (!t.punct || strings.Contains("—(“", t.text)) {
				b.WriteByte(' ')
			}
			if t.spell {
				t.text = strings.Join(strings.Split(t.text, ""), " ")
			}
			b.WriteString(t.text)
		}
	}
	return b.String()
}

const (
	longestSentence = 1000 // bytes; a longer one is cut between words
	longestField    = 200  // bytes between spaces; longer ones are cut
)

// sentences cuts text where sentences end, without looking further than it must.
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := sentenceEnd(text)
			if s := strings.TrimSpace(text[:n]); s != "" && !yield(strings.ToValidUTF8(s, "")) {
				return
			}
			text = text[n:]
		}
	}
}

func sentenceEnd(text string) int {
	space, ends := 0, false
	word := 0
	for i, c := range text {
		switch {
		case i >= longestSentence:
			if space > 0 {
				return space
			}
			return i
		case c == '\n' || unicode.IsSpace(c) && ends && !abbreviated(text[word:i], text[i:]):
			return i + utf8.RuneLen(c)
		case unicode.IsSpace(c):
			space, ends, word = i, false, i+utf8.RuneLen(c)
		case strings.ContainsRune(".!?…", c):
			ends = true
		case !strings.ContainsRune(`"'”’)]`, c):
			ends = false
		}
	}
	return len(text)
}

// abbreviated reports whether the period at the end of word belongs to an abbreviation, so that the
// sentence goes on.
func abbreviated(word, rest string) bool {
	core, ok := strings.CutSuffix(strings.ToLower(strings.TrimLeft(word, `"'“‘([`)), ".")
	if !ok || len(rest) > 100 && strings.TrimSpace(rest[:100]) == "" {
		return false
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest[:min(len(rest), 100)], " \t"))
	_, known := abbreviations[core]
	_, number := beforeDigits[core]
	switch {
	case core == "etc" || core == "a.m" || core == "p.m" || core == "inc" || core == "jr" || core == "ltd":
		return unicode.IsLower(next)
	case known || number && unicode.IsDigit(next):
		return true
	case utf8.RuneCountInString(core) == 1 && core != "i":
		return unicode.IsLetter(rune(core[0])) // an initial
	}
	return strings.Contains(core, ".") && !unicode.IsUpper(next)
}

// plainer makes one sign of those that mean the same.
var plainer = strings.NewReplacer("’", "'", "‘", "'", "`", "'", "„", "“", "«", "“", "»", "”",
	"½", " 1/2", "¼", " 1/4", "¾", " 3/4", "²", "2",
	"³", "3",
	"−", "-", "‐", "-", "‑", "-", "–", "–", "--", "—", "...", "…", "™", "", "®", "", "©", "", "º", "°", "℃", "°C", "℉", "°F", "⁄", "/",
	"[", "(", "]", ")", "{", "(", "}", ")")

type field struct{ lead, core, trail string }

// A reader turns the fields of one sentence into tokens.
type reader struct {
	Accent
	fields []field
	out    []token
	lower  bool // the sentence is not all in capitals
}

func (a Accent) tokens(sentence string) []token {
	r := reader{Accent: a}
	text := plainer.Replace(sentence)
	ascii := true
	for i := range len(text) {
		ascii = ascii && text[i] < utf8.RuneSelf
	}
	if !ascii {
		text = strings.Map(func(c rune) rune {
			if c == '…' || c == '°' || c == '™' {
				return c
			}
			return foldable(c)
		}, text)
		text = unaccented(text)
	}
	r.lower = strings.IndexFunc(text, unicode.IsLower) >= 0
	for _, w := range strings.Fields(text) {
		for len(w) > longestField {
			n := longestField
			for !utf8.RuneStart(w[n]) {
				n--
			}
			r.split(w[:n])
			w = w[n:]
		}
		r.split(w)
	}
	for i := 0; i < len(r.fields); {
		i += r.field(i)
	}
	return r.out
}

// foldable drops what nobody reads: emoji, marks of format, other scripts.
func foldable(c rune) rune {
	switch {
	case c < 0x370, unicode.Is(unicode.Latin, c), c >= 0x2010 && c <= 0x203A, c == 'μ':
		return c
	case unicode.IsSpace(c):
		return ' '
	}
	if _, ok := signs[c]; ok || c == '₹' {
		return c
	}
	return ' '
}

func unaccented(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Mn, c) {
			return -1
		}
		if to, ok := map[rune]rune{'ø': 'o', 'Ø': 'O', 'ł': 'l', 'Ł': 'L', 'đ': 'd', 'ı': 'i'}[c]; ok {
			return to
		}
		return c
	}, strings.NewReplacer("ß", "ss", "æ", "ae", "Æ", "Ae", "œ", "oe", "Œ", "Oe").Replace(norm.NFD.String(text)))
}

const (
	openers = "\"“'(<"
	closers = "\"”'),.;:!?…—>"
)

func (r *reader) split(w string) {
	// A dash between words stands by itself; one between digits is a range.
	if i := strings.IndexAny(w, "—–…"); i >= 0 {
		c, n := utf8.DecodeRuneInString(w[i:])
		before, after := w[:i], w[i+n:]
		digits := c == '–' && before != "" && after != "" && isDigit(before[len(before)-1]) && isDigit(after[0])
		switch {
		case digits && !strings.ContainsAny(after, "—–…"):
			w = before + "-" + after
		case c == '…' && strings.Trim(after, closers) == "" && before != "": // the end of a word
		default:
			if before != "" {
				r.split(before)
			}
			if c == '–' {
				c = '—'
			}
			r.fields = append(r.fields, field{trail: string(c)})
			if after != "" {
				r.split(after)
			}
			return
		}
	}
	if w == "-" || w == "*" || w == "|" {
		if w == "-" {
			w = "—"
		}
		r.fields = append(r.fields, field{trail: w})
		return
	}
	core := strings.TrimLeft(w, openers)
	lead := w[:len(w)-len(core)]
	if strings.HasSuffix(lead, "'") && len(core) > 1 && (isDigit(core[0]) || clipped[strings.ToLower(strings.TrimRight(core, closers))]) {
		core, lead = "'"+core, lead[:len(lead)-1]
	}
	if core == "" && w == "<" {
		core, lead = w, ""
	}
	trimmed := strings.TrimRight(core, closers)
	if strings.HasSuffix(core, ">") && trimmed == "" {
		trimmed = core
	}
	r.fields = append(r.fields, field{lead, trimmed, core[len(trimmed):]})
}

var clipped = set("tis twas em cause til")

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// say adds words.
func (r *reader) say(words string) {
	for _, w := range strings.Fields(words) {
		if p, ok := strings.CutSuffix(w, ","); ok {
			if p != "" {
				r.out = append(r.out, token{text: p})
			}
			r.out = append(r.out, token{text: ",", punct: true})
			continue
		}
		r.out = append(r.out, token{text: w})
	}
}

func (r *reader) spell(letters string) {
	r.out = append(r.out, token{text: strings.ToUpper(letters), spell: true})
}

// marks adds punctuation.
func (r *reader) marks(s string, open bool) {
	for _, c := range s {
		switch c {
		case '"':
			if c = '”'; open {
				c = '“'
			}
		case '\'', '<', '>', '*', '|':
			continue
		}
		n := len(r.out)
		if n > 0 && r.out[n-1].punct && r.out[n-1].text == string(c) {
			continue // !!! sounds as !
		}
		r.out = append(r.out, token{text: string(c), punct: true})
	}
}

// core is the core of field i, if there is one and nothing but a space is before it.
func (r *reader) core(i int) string {
	if i < 0 || i >= len(r.fields) {
		return ""
	}
	return r.fields[i].core
}

// next is the core after field i, if no punctuation is between them.
func (r *reader) next(i int) string {
	if i+1 >= len(r.fields) || r.fields[i].trail != "" || r.fields[i+1].lead != "" {
		return ""
	}
	return r.fields[i+1].core
}

// field reads field i, and returns how many it took.
func (r *reader) field(i int) int {
	f := r.fields[i]
	r.marks(f.lead, true)
	took := 1
	if f.core != "" {
		took = r.read(i)
	}
	last := r.fields[i+took-1]
	trail := last.trail
	if rest, ok := strings.CutPrefix(trail, "."); ok && (rest != "" || i+took < len(r.fields)) && r.periodBelongs(i+took-1) {
		trail = rest
	}
	r.marks(trail, false)
	return took
}

// periodBelongs: the period after field i is a part of it.
func (r *reader) periodBelongs(i int) bool {
	core := strings.ToLower(r.fields[i].core)
	_, known := abbreviations[core]
	_, number := beforeDigits[core]
	return known || number || len(core) == 1 || strings.Contains(core, ".")
}

func (r *reader) read(i int) int {
	for _, kind := range []func(int) int{r.address, r.dated, r.money, r.number, r.abbreviation, r.numeral} {
		if n := kind(i); n > 0 {
			return n
		}
	}
	r.plain(r.fields[i].core)
	return 1
}

// plain reads a word, which may hold signs and digits.
func (r *reader) plain(core string) {
	if core == "and/or" {
		r.say("and or")
		return
	}
	if rest, ok := strings.CutPrefix(core, "#"); ok && rest != "" {
		r.say("hashtag")
		core = rest
	}
	if spelt[core] && r.lower {
		r.spell(core)
		return
	}
	start := 0
	flush := func(end int) {
		if w := core[start:end]; w != "" && isDigit(w[0]) {
			r.say(r.spoken(w))
		} else {
			r.say(strings.Trim(w, "-"))
		}
		start = end
	}
	for j, c := range core {
		kind := unicode.IsLetter(c) || c == '\'' || c == '-'
		if kind || c >= '0' && c <= '9' {
			if j > start && kind == isDigit(core[j-1]) {
				flush(j)
			}
			continue
		}
		flush(j)
		start = j + utf8.RuneLen(c)
		if c == '/' {
			r.say("slash")
		} else if word, ok := signs[c]; ok {
			r.say(word)
		}
	}
	flush(len(core))
}
