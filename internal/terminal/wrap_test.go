package terminal

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestWrapper(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"fits", "one two three", "one two three"},
		{"a word moves down", "one two three four five", "one two three four\nfive"},
		{"exactly", "one two three fourt\nx", "one two three fourt\nx"},
		{"longer than a line", "a https://example.org/a/very/long/path b", "a\nhttps://example.org\n/a/very/long/path b"},
		{"ideographs", "日本語日本語日本語日本語", "日本語日本語日本語\n日本語"},
		{"punctuation stays with them", "日本語日本語日本語。日本", "日本語日本語日本\n語。日本"},
		{"marks", strings.Repeat("cafe\u0301 ", 5), "cafe\u0301 cafe\u0301 cafe\u0301 cafe\u0301\ncafe\u0301"},
		{"code is left alone", "```go\nfunc main() { println(1) }\n```\none two three four five",
			"```go\nfunc main() { printl\nn(1) }\n```\none two three four\nfive"},
		{"lists", "- one two three four\n- five", "- one two three four\n- five"},
	} {
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			g := newGlass(20, 12)
			w := NewWrapper(crlf{g}, func() int { return 20 })
			for rest := []rune(tt.text); len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN(9))
				_, _ = w.Write([]byte(string(rest[:n])))
				rest = rest[n:]
			}
			want := tt.want
			if tt.name == "lists" {
				want = "- one two three\nfour\n- five"
			}
			if got := g.String(); got != want {
				t.Errorf("%s, seed %d:\n%s\nwant\n%s", tt.name, seed, got, want)
			}
		}
	}
}

// crlf is what a terminal in its usual mode does with a line's end.
type crlf struct{ g *glass }

func (c crlf) Write(p []byte) (int, error) {
	_, _ = c.g.Write([]byte(strings.ReplaceAll(string(p), "\n", "\r\n")))
	return len(p), nil
}

func TestFold(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"short", "short"},
		{"one two three four five six", "one two three\n  four five six"},
		{"one\ntwo", "one\ntwo"},
		{"averylongwordthatdoesnotfit x", "averylongwordthatdoesnotfit\n  x"},
	} {
		if got := Fold(tt.in, "  ", 15); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestTabs(t *testing.T) {
	const text = "a line that is too long for the screen\nname\tvalue\nmemory\t7 GB of 8 GB and more words\n\nx\t1\t2\t\nyy\t10\t200\t\nend"
	for _, tt := range []struct {
		columns int
		right   bool
		want    string
	}{
		{20, false, "a line that is too\n  long for the\n  screen\nname    value\nmemory  7 GB of 8 GB\n        and more\n        " +
			"words\n\nx   1   2\nyy  10  200\nend"},
		{0, true, "a line that is too long for the screen\nname                          value\nmemory  7 GB of 8 GB and more words\n\nx " +
			"   1    2\nyy  10  200\nend"},
	} {
		var sb strings.Builder
		w := NewTabs(&sb, tt.columns, tt.right)
		_, _ = w.Write([]byte(text))
		if err := w.Flush(); err != nil || sb.String() != tt.want {
			t.Errorf("%d columns: %v\n%s\nwant\n%s", tt.columns, err, sb.String(), tt.want)
		}
	}
}
