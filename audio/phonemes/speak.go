package phonemes

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSymbols is how many symbols a piece has at most: Kokoro takes 96, with a zero at each end.
const MaxSymbols = 94

const vowels = "AIOQWYaiuæɐɑɒɔəɛɜɪʊʌᵻ"

// letters are the names of a to z.
var letters = [2][]string{
	strings.Fields("ˈA bˈi sˈi dˈi ˈi ˈɛf ʤˈi ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm ˈɛn ˈO " +
		"pˈi kjˈu ˈɑɹ ˈɛs tˈi jˈu vˈi dˈʌbᵊlju ˈɛks wˈI zˈi"),
	strings.Fields("ˈA bˈiː sˈiː dˈiː ˈiː ˈɛf ʤˈiː ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm ˈɛn ˈQ " +
		"pˈiː kjˈuː ˈɑː ˈɛs tˈiː jˈuː vˈiː dˈʌbᵊljuː ˈɛks wˈI zˈɛd"),
}

// Pieces gives the symbols of a text in pieces of at most [MaxSymbols], which end where a clause
// does if they can, and never within a word. Each sentence begins a piece, and is read when it is
// asked for, so the first comes before the rest is read. With the last piece of a sentence comes
// the sentence as it is in the text, and with others nothing.
func (l *Lexicon) Pieces(text string) iter.Seq2[string, string] {
	return func(yield func(piece, sentence string) bool) {
		for s := range sentences(text) {
			last := ""
			for rest := l.sentence(l.accent.tokens(s)); rest != ""; {
				piece := rest
				if utf8.RuneCountInString(rest) > MaxSymbols {
					piece = rest[:cut(rest, 0, MaxSymbols)]
					if piece == "" { // a long row of punctuation has no spaces
						piece = string([]rune(rest)[:MaxSymbols])
					}
				}
				rest = strings.TrimSpace(rest[len(piece):])
				if piece = strings.TrimSpace(piece); strings.ContainsAny(piece, vowels) {
					if last != "" && !yield(last, "") {
						return
					}
					last = piece
				}
			}
			if last != "" && !yield(last, s) {
				return
			}
		}
	}
}

// Halve makes two pieces of one, near its middle: at a clause's end, or else between words. It
// reports false of a single word.
func Halve(piece string) (first, second string, ok bool) {
	n := utf8.RuneCountInString(piece)
	at := cut(piece, n/4, n-n/4)
	first, second = strings.TrimSpace(piece[:at]), strings.TrimSpace(piece[at:])
	if first == "" || second == "" {
		mid := strings.IndexByte(piece, ' ')
		if mid < 0 {
			return piece, "", false
		}
		first, second = strings.TrimSpace(piece[:mid]), strings.TrimSpace(piece[mid:])
	}
	return first, second, first != "" && second != ""
}

// cut is where to cut before the symbol most: after the last clause that ends past symbol least,
// else at the last space.
func cut(s string, least, most int) int {
	clause, space, n := 0, 0, 0
	last := ' '
	for i, c := range s {
		if n > most {
			break
		}
		if c == ' ' && n >= least {
			space = i
			if strings.ContainsRune(",;:.!?…—)”", last) {
				clause = i
			}
		}
		last = c
		n++
	}
	if clause > 0 {
		return clause
	}
	return space
}

// sentence is the symbols of a sentence. It goes from the end, as the and to sound by what follows.
func (l *Lexicon) sentence(tokens []token) string {
	parts := make([]string, len(tokens))
	next := ' ' // the first sound of the word after, a space if none is
	for i, t := range slices.Backward(tokens) {
		if t.punct {
			parts[i] = t.text
			if !strings.Contains("“”()", t.text) {
				next = ' '
			}
			continue
		}
		if t.spell {
			parts[i] = l.spelled(t.text)
		} else {
			parts[i] = l.word(tokens, i, next)
		}
		for _, c := range parts[i] {
			if c != 'ˈ' && c != 'ˌ' {
				next = c
				break
			}
		}
	}
	var b strings.Builder
	for i, p := range parts {
		if b.Len() > 0 && p != "" && (!tokens[i].punct || strings.Contains("—(“", p)) && !strings.HasSuffix(b.String(), " ") {
			b.WriteByte(' ')
		}
		b.WriteString(p)
	}
	return strings.NewReplacer("ɾ", "T", "ʔ", "t", "( ", "(", "“ ", "“").Replace(b.String())
}

func (l *Lexicon) word(tokens []token, i int, next rune) string {
	w := tokens[i].text
	lower := strings.ToLower(w)
	vowel := strings.ContainsRune(vowels, next)
	switch lower {
	case "the":
		if vowel {
			return "ði"
		}
		return "ðə"
	case "a":
		if w == "a" || i == 0 {
			return "ɐ"
		}
	case "an":
		return "ɐn"
	case "to":
		switch {
		case vowel:
			return "tʊ"
		case next != ' ':
			return "tə"
		}
	case "used":
		if i+1 < len(tokens) && tokens[i+1].text == "to" {
			return l.known(lower, "VBD")
		}
	case "i":
		return "ˌI"
	}
	part := partOf(tokens, i)
	if part == "" && next == ' ' {
		part = "None"
	}
	if s := l.known(w, part); s != "" {
		return s
	}
	var all []string
	for p := range strings.FieldsFuncSeq(w, func(c rune) bool { return c == '-' || c == '\'' && !strings.Contains(w, "'s") }) {
		s := l.known(p, "")
		if s == "" {
			s = l.spelled(p)
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// partOf guesses the part of speech of word i by the words beside it.
func partOf(tokens []token, i int) string {
	beside := func(j int) string {
		if j < 0 || j >= len(tokens) || tokens[j].punct {
			return ""
		}
		return strings.ToLower(tokens[j].text)
	}
	before, after := beside(i-1), beside(i+1)
	switch {
	case perfect[before]:
		return "VBN"
	case verbal[before]:
		return "VERB"
	case nominal[before]:
		return "NOUN"
	case articles[after]:
		return "VERB"
	case strings.EqualFold(tokens[i].text, "live") && places[after]:
		return "VERB"
	}
	return ""
}

var (
	perfect = set("have has had having i've we've they've you've")
	verbal  = set("to will would can could should must may might shall i you we they don't doesn't didn't won't can't " +
		"couldn't let's please")
	articles = set("the a an my your his our their this these those")
	nominal  = set("the a an my your his her its our their of no some any every each another in for with from")
	places   = set("in at on near here there together alone with")
)

// known is a word's sound, by itself or as a stem with an ending; "" if it has none.
func (l *Lexicon) known(w, part string) string {
	lower := strings.ToLower(w)
	title := strings.ToUpper(lower[:min(1, len(lower))]) + lower[min(1, len(lower)):]
	for _, form := range []string{lower, w, title, strings.ToUpper(w)} {
		if s := l.find(form, part); s != "" {
			return s
		}
	}
	if w == strings.ToUpper(w) {
		return ""
	}
	if rest, ok := strings.CutSuffix(lower, "s'"); ok {
		return l.known(rest+"s", part)
	}
	for _, e := range endings {
		stem, ok := strings.CutSuffix(lower, e.end)
		if !ok || len(stem) < 2 {
			continue
		}
		s := l.find(stem+e.add, part)
		if s == "" && e.end != "ies" && e.end != "ied" && len(stem) > 2 && stem[len(stem)-1] == stem[len(stem)-2] && e.kind != 's' {
			s = l.find(stem[:len(stem)-1], part)
		}
		if s == "" {
			s = l.find(strings.ToUpper(stem[:1])+stem[1:]+e.add, part)
		}
		if s != "" {
			return l.ended(s, e.kind)
		}
	}
	if l.others != nil {
		return l.others.find(lower, "")
	}
	return ""
}

// endings are tried in this order; add is what a stem lost before its ending.
var endings = []struct {
	end, add string
	kind     byte
}{{"'s", "", 's'}, {"s", "", 's'}, {"es", "", 's'}, {"ies", "y", 's'}, {"d", "", 'd'}, {"ed", "", 'd'}, {"ied", "y", 'd'}, {"ing", "", 'g'},
	{"ing", "e", 'g'}}

// ended is a stem's sound with the ending -s, -ed or -ing.
func (l *Lexicon) ended(s string, kind byte) string {
	sound := []rune(s)
	last := sound[len(sound)-1]
	short := "ᵻ"
	if l.accent == British {
		short = "ɪ"
	}
	flap := l.accent == American && last == 't' && len(sound) > 1 && strings.ContainsRune("AIOWYiuæɑəɛɪɹʊʌ", sound[len(sound)-2])
	if flap && kind != 's' {
		s = string(sound[:len(sound)-1]) + "ɾ"
	}
	switch {
	case kind == 'g':
		return s + "ɪŋ"
	case kind == 's' && strings.ContainsRune("szʃʒʧʤ", last):
		return s + short + "z"
	case kind == 's' && strings.ContainsRune("ptkfθ", last):
		return s + "s"
	case kind == 's':
		return s + "z"
	case last == 't' || last == 'd':
		return s + short + "d"
	case strings.ContainsRune("pkfθʃsʧ", last):
		return s + "t"
	}
	return s + "d"
}

// spelled is the names of letters, the last with the stress. GPUs has a plural.
func (l *Lexicon) spelled(w string) string {
	stem, many := strings.CutSuffix(strings.TrimSuffix(w, "'s"), "s")
	many = many && len(stem) > 1 && stem == strings.ToUpper(stem) || strings.HasSuffix(w, "'s")
	if !many {
		stem = w
	}
	var names []string
	for _, c := range strings.TrimSuffix(stem, "'s") {
		if c = unicode.ToLower(c); c >= 'a' && c <= 'z' {
			names = append(names, letters[l.accent][c-'a'])
		}
	}
	if len(names) == 0 {
		return ""
	}
	last := len(names) - 1
	for i := range last {
		names[i] = strings.ReplaceAll(names[i], "ˈ", "ˌ")
	}
	if many {
		names[last] = l.ended(names[last], 's')
	}
	if len(names) > 10 { // so that a piece may end within
		return strings.Join(names, " ")
	}
	return strings.Join(names, "")
}
