package index

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Document is a text in pages, as a reader of its format gives it.
type Document struct {
	Title string
	Kind  string
	Pages []Page
}

// Page is a page of a document, or the part of it that is under one heading.
type Page struct {
	Number int    // from 1; 0: the document has no pages
	Line   int    // of the first line of Text in the file, from 1; 0: not known
	Label  string // the headings above it, "Card › Memory"
	Text   string
}

// Passage is a piece of a page.
type Passage struct {
	Page       int // index in Document.Pages
	Start, End int // bytes of Page.Text
	Heading    string
	Tokens     int // about
}

// Cutting is how long passages are, in tokens, and how many of these the next one repeats. They are
// estimates, since each model counts its own.
type Cutting struct {
	Tokens  int // 0: DefaultCutting's
	Overlap int // below half of Tokens
}

// DefaultCutting suits models with a short context: five passages take 1500 tokens of it.
var DefaultCutting = Cutting{Tokens: 300, Overlap: 50}

// The limits of a Cutting, which are those of OpenAI's API.
const (
	LeastTokens = 100
	MostTokens  = 4096
)

// maxHeading is how many bytes of a passage's headings are kept.
const maxHeading = 300

// Cut cuts a document into passages: at headings always, else at the end of a paragraph, or of a
// sentence where a paragraph is too long. No passage goes over the end of a page. The headings that
// a passage stands under go with it, from the first level on.
func Cut(d *Document, c Cutting) (list []Passage) {
	if c.Tokens == 0 {
		c = DefaultCutting
	}
	k := cutter{Cutting: c, title: d.Title, markdown: d.Kind == "" || d.Kind == "markdown" || d.Kind == "html" || d.Kind == "docx"}
	for i := range d.Pages {
		k.page, k.text, k.label = i, d.Pages[i].Text, d.Pages[i].Label
		if k.label != "" {
			clear(k.heads[:])
		}
		k.path()
		k.units(k.add)
		k.end()
	}
	return k.list
}

// unit is what is not cut: a sentence, a line of a list or table, a heading.
type unit struct {
	start, end int
	tokens     int
	level      int  // of a heading; 0: it is none
	ends       bool // a paragraph ends with it
}

type cutter struct {
	Cutting
	markdown bool
	page     int
	text     string
	title    string
	label    string // the page's
	heads    [6]string
	heading  string
	now      []unit // the passage that grows
	again    int    // of these, the ones that the passage before it has too
	size     int
	list     []Passage
}

// add takes the next unit into the passage, or begins the next passage with it.
func (k *cutter) add(u unit) {
	if u.level > 0 {
		if !k.headings() {
			k.end()
		}
		k.under(u)
	}
	for k.size+u.tokens > k.Tokens && len(k.now) > 0 {
		if k.again == len(k.now) { // nothing new is in it
			k.reset(nil)
			break
		}
		k.flush(k.breaks())
	}
	k.now = append(k.now, u)
	k.size += u.tokens
}

// headings reports that the passage has nothing but headings yet.
func (k *cutter) headings() bool {
	for _, u := range k.now {
		if u.level == 0 {
			return false
		}
	}
	return true
}

// end ends the passage with its section or page: the next one repeats nothing.
func (k *cutter) end() {
	if k.again < len(k.now) {
		k.flush(len(k.now))
	}
	k.reset(nil)
}

// reset begins a passage with units.
func (k *cutter) reset(now []unit) {
	k.now, k.size, k.again = now, 0, 0
	for _, u := range now {
		k.size += u.tokens
	}
}

// under notes a heading. The one that the page's label ends with is there already.
func (k *cutter) under(u unit) {
	h := strings.Trim(k.text[u.start:u.end], "# \t\r\n")
	if k.label == h || strings.HasSuffix(k.label, between+h) {
		return
	}
	k.heads[u.level-1] = h
	clear(k.heads[u.level:])
	k.path()
}

const between = " › "

// path makes the headings that passages stand under: the document's title, the page's label, and
// those that were met.
func (k *cutter) path() {
	var path []string
	if k.title != "" && k.label != k.title && !strings.HasPrefix(k.label, k.title+between) {
		path = append(path, k.title)
	}
	if k.label != "" {
		path = append(path, k.label)
	}
	for _, h := range k.heads {
		if h != "" && h != k.title {
			path = append(path, h)
		}
	}
	k.heading = clip(strings.Join(path, between), maxHeading)
}

// breaks is where a passage that is full ends: behind the last paragraph that ends in its second
// half, or at its end.
func (k *cutter) breaks() int {
	size, at := 0, len(k.now)
	for i, u := range k.now {
		if size += u.tokens; u.ends && size > k.size/2 && i >= k.again {
			at = i + 1
		}
	}
	return at
}

// flush makes a passage of the first n units. The next one begins with the last of them that fit
// into the overlap, unless a paragraph ended there, and goes on with the rest.
func (k *cutter) flush(n int) {
	first, last := k.now[0], k.now[n-1]
	tokens := 0
	for _, u := range k.now[:n] {
		tokens += u.tokens
	}
	k.list = append(k.list, Passage{k.page, first.start, last.end, k.heading, tokens})
	from, size := n, 0
	for !last.ends && from > 1 && k.now[from-1].level == 0 && size+k.now[from-1].tokens <= k.Overlap {
		from--
		size += k.now[from].tokens
	}
	k.reset(append([]unit(nil), k.now[from:]...))
	k.again = n - from
}

// units gives what a page consists of, in order.
func (k *cutter) units(yield func(unit)) {
	var block []unit // lines of a paragraph
	fenced := false
	end := func() {
		k.sentences(block, yield)
		block = block[:0]
	}
	at, before := 0, true // whether the line before is empty
	for at < len(k.text) {
		stop := at + strings.IndexByte(k.text[at:], '\n')
		if stop < at {
			stop = len(k.text)
		}
		line := k.text[at:stop]
		bare := strings.TrimSpace(line)
		u := unit{start: at, end: stop}
		switch {
		case strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~"):
			if fenced = !fenced; fenced {
				end()
			}
			block = append(block, u)
			if !fenced {
				end()
			}
		case bare == "":
			if !fenced {
				end()
			}
		case !fenced && k.level(line, before, k.text[min(stop+1, len(k.text)):]) > 0:
			end()
			u.level = k.level(line, before, k.text[min(stop+1, len(k.text)):])
			u.tokens, u.ends = Tokens(line), true
			yield(u)
		case !fenced && itemStart(bare):
			end()
			block = append(block, u)
		default:
			block = append(block, u)
		}
		before = bare == ""
		at = stop + 1
	}
	end()
}

// level is a heading's, or 0. rest is what follows the line.
func (k *cutter) level(line string, alone bool, rest string) int {
	if n := len(line) - len(strings.TrimLeft(line, "#")); n > 0 {
		if n <= 6 && k.markdown && len(line) > n && line[n] == ' ' && strings.TrimSpace(line[n:]) != "" {
			return n
		}
		return 0
	}
	if k.markdown {
		return 0
	}
	// 2.3 Heading, on a line of its own, in a text without marks for headings
	next, _, _ := strings.Cut(rest, "\n")
	line = strings.TrimSpace(line)
	if !alone || strings.TrimSpace(next) != "" || len(line) > 80 || len(line) < 4 || line[0] < '0' || line[0] > '9' {
		return 0
	}
	number, title, ok := strings.Cut(line, " ")
	r, _ := utf8.DecodeRuneInString(strings.TrimSpace(title))
	if !ok || strings.Trim(number, "0123456789.") != "" || !unicode.IsUpper(r) || strings.ContainsAny(line[len(line)-1:], ".,;:") {
		return 0
	}
	return min(1+strings.Count(strings.TrimSuffix(number, "."), "."), 6)
}

// itemStart reports that a line begins an item of a list, or is a row of a table.
func itemStart(s string) bool {
	switch {
	case strings.HasPrefix(s, "- "), strings.HasPrefix(s, "* "), strings.HasPrefix(s, "+ "), strings.HasPrefix(s, "• "), s[0] == '|':
		return true
	}
	n := 0
	for n < len(s) && n < 4 && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n > 0 && n+1 < len(s) && (s[n] == '.' || s[n] == ')') && s[n+1] == ' '
}

// sentences gives a block as sentences. What is longer than a passage is cut between words.
func (k *cutter) sentences(block []unit, yield func(unit)) {
	if len(block) == 0 {
		return
	}
	start := block[0].start
	end := start + len(strings.TrimRight(k.text[start:block[len(block)-1].end], " \t\r\n"))
	give := func(from, to int) {
		for from < to && (k.text[from] == ' ' || k.text[from] == '\n' || k.text[from] == '\r' || k.text[from] == '\t') {
			from++
		}
		for from < to {
			stop := from + fits(k.text[from:to], k.Tokens)
			yield(unit{start: from, end: stop, tokens: Tokens(k.text[from:stop]), ends: stop == to && to == end})
			from = stop
		}
	}
	text, from := k.text[start:end], start
	for i, r := range text {
		at := start + i + utf8.RuneLen(r)
		switch r {
		case '。', '！', '？', '．':
		case '.', '!', '?', ';':
			if at >= end || k.text[at] != ' ' && k.text[at] != '\n' || r == '.' && short(k.text[from:at]) {
				continue
			}
		default:
			continue
		}
		give(from, at)
		from = at
	}
	give(from, end)
}

// short reports that the period at the end of s is an abbreviation's: e.g., z. B., Dr.
func short(s string) bool {
	word := s[strings.LastIndexAny(s[:len(s)-1], " \n(.")+1 : len(s)-1]
	switch strings.ToLower(word) {
	case "e", "g", "i", "z", "b", "d", "h", "dr", "mr", "mrs", "bzw", "ca", "vgl", "nr", "st", "etc", "fig", "abb", "no", "vs":
		return true
	}
	return false
}

// fits is how many bytes of s, which is not empty, have no more tokens than most, cut between words
// where there are any.
func fits(s string, most int) int {
	c := counter{} // it counts no further than it must: what is left of s is as long as a page
	space := 0
	for i, r := range s {
		if c.add(r) > most && i > 0 {
			if space > 0 {
				return space
			}
			return i
		}
		if unicode.IsSpace(r) {
			space = i + utf8.RuneLen(r)
		} else if unspaced(r) {
			space = i + utf8.RuneLen(r)
		}
	}
	return len(s)
}

// Tokens is about how many tokens a model makes of a text.
func Tokens(s string) int {
	c := counter{}
	for _, r := range s {
		c.add(r)
	}
	return c.n
}

// counter counts a token for six letters of a word, for each character of scripts without spaces,
// and for each mark.
type counter struct{ n, word int }

func (c *counter) add(r rune) int {
	switch {
	case unspaced(r):
		c.word = 0
		c.n++
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		if c.word%6 == 0 {
			c.n++
		}
		c.word++
	case unicode.IsSpace(r):
		c.word = 0
	default:
		c.word = 0
		c.n++
	}
	return c.n
}

// clip cuts s to n bytes at most, between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
