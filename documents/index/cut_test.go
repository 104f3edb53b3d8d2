package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/axle-llm/axle/documents/index"
)

func TestCut(t *testing.T) {
	para := strings.Repeat("The card holds the rows of a text. ", 20)
	for _, c := range []struct {
		name string
		kind string
		text string
		cut  index.Cutting
		want []string // how passages begin
		head []string
	}{
		{name: "one paragraph", text: "A short text.\n", want: []string{"A short"}, head: []string{""}},
		{name: "empty", text: " \n\n", want: nil},
		{name: "headings", text: "# One\n\nfirst\n\n## Two\n\nsecond\n\n# Three\n\nthird\n", want: []string{"# One", "## Two", "# Three"},
			head: []string{"One", "One › Two", "Three"}},
		{name: "headings without text go on", text: "# One\n\n## Two\n\ntext\n", want: []string{"# One\n\n## Two"}, head: []string{
			"One › Two"}},
		{name: "a comment in code is no heading", text: "# One\n\n```\n# two\n```\n", want: []string{"# One"}, head: []string{"One"}},
		{name: "numbered in plain text", kind: "text", text: "1 First\n\ntext\n\n1.1 Second part\n\nmore\n", want: []string{"1 First",
			"1.1 Second"},
			head: []string{"1 First", "1 First › 1.1 Second part"}},
		{name: "paragraphs are kept", text: para + "\n\n" + para + "\n\nLast.", cut: index.Cutting{Tokens: 250},
			want: []string{"The card", "The card"}, head: []string{"", ""}},
		{name: "sentences, with overlap", text: para + para, cut: index.Cutting{Tokens: 100, Overlap: 20}, want: []string{"The card",
			"The card", "The card", "The card", "The card"}},
		{name: "no spaces at all", text: strings.Repeat("卡里有行。", 100), cut: index.Cutting{Tokens: 100}, want: []string{"卡里", "卡里", "卡里",
			"卡里", "卡里"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &index.Document{Kind: c.kind, Pages: []index.Page{{Text: c.text}}}
			var heads []string
			got := index.Cut(d, c.cut)
			for i, p := range got {
				heads = append(heads, p.Heading)
				if i < len(c.want) && !strings.HasPrefix(c.text[p.Start:p.End], c.want[i]) {
					t.Errorf("passage %d is %q, want it to begin with %q", i, c.text[p.Start:p.End], c.want[i])
				}
			}
			if len(got) != len(c.want) || c.head != nil && !slices.Equal(heads, c.head) {
				t.Errorf("%d passages under %q, want %d under %q", len(got), heads, len(c.want), c.head)
			}
		})
	}
}

// Whatever the text is, passages lie in it, in order, at characters' bounds, no longer than they
// may be, and all of its words are in one.
func TestCutCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab. \n#-|`1卡。한ß\t!'_ "))).Draw(t, "text")
		c := index.Cutting{Tokens: rapid.IntRange(5, 40).Draw(t, "tokens")}
		c.Overlap = rapid.IntRange(0, c.Tokens/2).Draw(t, "overlap")
		d := &index.Document{Kind: rapid.SampledFrom([]string{"markdown", "text"}).Draw(t, "kind"), Pages: []index.Page{{Text: text}, {
			Text: text}}}
		covered := [2][]bool{make([]bool, len(text)), make([]bool, len(text))}
		last := index.Passage{}
		for _, p := range index.Cut(d, c) {
			if p.Start < 0 || p.End > len(text) || p.Start >= p.End || p.Page < last.Page || p.Page == last.Page &&
				p.End <= last.End && last.End > 0 {
				t.Fatalf("%+v after %+v in %d bytes", p, last, len(text))
			}
			if s := text[p.Start:p.End]; strings.ToValidUTF8(s, "?") != s {
				t.Fatalf("%+v cuts a character", p)
			}
			for i := p.Start; i < p.End; i++ {
				covered[p.Page][i] = true
			}
			last = p
		}
		for page := range covered {
			for i := range text {
				if !covered[page][i] && !strings.ContainsRune(" \n\t", rune(text[i])) {
					t.Fatalf("byte %d of page %d, %q, is in no passage", i, page, text[i:])
				}
			}
		}
	})
}

// TestCutLong: a page of two million characters without an end of a sentence, as a PDF may have
// it, is cut in one pass. With a pass for each passage it would take most of an hour.
func TestCutLong(t *testing.T) {
	text := strings.Repeat("卡", 2<<20)
	list := index.Cut(&index.Document{Pages: []index.Page{{Text: text}}}, index.Cutting{Tokens: index.LeastTokens})
	if n := (len(text)/3 + index.LeastTokens - 1) / index.LeastTokens; len(list) != n || list[n-1].End != len(text) {
		t.Errorf("%d passages, want %d", len(list), n)
	}
}

func TestTerms(t *testing.T) {
	for _, c := range []struct {
		text string
		lang index.Language
		want string
	}{
		{"The cards, their caches and running models", index.English, "the card their cach and run model"},
		{"generates generated generation", index.English, "gener gener gener"},
		{"policies policy", index.English, "polici polici"},
		{"num_ctx keep-alive 0.6b", index.English, "num ctx numctx keep aliv keepaliv 0 6b 06b"},
		{"don't l’heure été", index.English, "dont lheur ete"},
		{"Die Größe der Speicherkarten", index.German, "die gross der speicherkart"},
		{"Häuser Haus Häusern", index.German, "haus haus haus"},
		{"显卡内存 GPU", index.English, "显卡 卡内 内存 gpu"},
		{"カードのメモリー", index.English, "カー ード ドの のメ メモ モリ リー"},
		{"ﾒﾓﾘ", index.English, "メモ モリ"},
		{"메모리 카드", index.English, "메모 모리 카드"},
		{"猫 x", index.English, "猫 x"},
		{"", index.English, ""},
		{strings.Repeat("a", 65) + " b", index.English, "b"},
	} {
		var got []string
		index.Terms(c.text, c.lang, func(term string, _ int) { got = append(got, term) })
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q: %q, want %q", c.text, s, c.want)
		}
	}
}

func TestGuess(t *testing.T) {
	for text, want := range map[string]index.Language{
		"Wie viel Speicher hat die Karte?": index.German, "How much memory does the card have?": index.English, "显卡": index.English,
		"": index.English,
	} {
		if got := index.Guess(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func ExampleCut() {
	d := &index.Document{Kind: "markdown", Pages: []index.Page{{Text: "# Cards\n\nA card has memory.\n\n## Heat\n\nA hot card is slow.\n"}}}
	for _, p := range index.Cut(d, index.Cutting{}) {
		fmt.Printf("%s: %d to %d\n", p.Heading, p.Start, p.End)
	}
	// Output:
	// Cards: 0 to 27
	// Cards › Heat: 29 to 57
}
