package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

func TestMarkdown(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns int
		in      string
		want    string // ESC[ as ^
	}{
		{"plain", 40, "Just words, 2 * 3 * 4, a_b_c and snake_case.\n\nMore.", "Just words, 2 * 3 * 4, a_b_c and\nsnake_case.\n\nMore."},
		{"emphasis", 40, "**bold** and *it* or _it_, ***both***, ~~no~~.",
			"^1mbold^0m and ^3mit^0m or ^3mit^0m, ^1;3mboth^0m, ^9mno^0m."},
		{"nested", 40, "**a *b* `c`**", "^1ma ^3mb^0;1m ^36mc^0m"},
		{"marks of several lengths", 40, "*a**b* c", "^3ma**b^0m c"},
		{"open", 40, "**a *b\nc**", "**a *b\nc**"},
		{"escaped", 40, `\*a\* \(x\)`, `*a* \(x\)`},
		{"code", 40, "use `a  b` and ``c`d``", "use ^36ma  b^0m and ^36mc`d^0m"},
		{"heading", 40, "# One *two*\ntext\n#hash", "^1mOne ^3mtwo^0m\ntext\n#hash"},
		{"list", 20, "- one two three four five\n  - six\n10. ten\n- [x] done\n* * *\n-5 is a number",
			"• one two three\n  four five\n  • six\n10. ten\n• [x] done\n^90m───────────────────^0m\n-5 is a number"},
		{"quote", 20, "> one two three four five\n> - x", "^90m│ ^0mone two three\n^90m│ ^0mfour five\n^90m│ ^0m• x"},
		{"fence", 20, "```go\nfunc f() { **not bold** }  // a line that is long\n\tx\n``\n```\n**b**",
			"^90m```go^0m\n^36mfunc f() { **not bold** }  // a line that is long^0m\n^36m\tx^0m\n^36m``^0m\n^90m```^0m\n^1mb^0m"},
		{"link", 60, "[axle](http://x/(a)) ![p](q.png) [no] [a][b] <http://z>",
			"^4maxle^0;90m (http://x/(a))^0m ^4mp^0;90m (q.png)^0m [no] [a][b] <http://z>"},
		{"table", 40, "| a | b |\n|---|--:|\n| one | **2** |\n| x\\|y | 10 |\nafter",
			"^1ma^0m     ^1mb^0m\n^90m───^0m  ^90m──^0m\none   ^1m2^0m\nx|y  10\nafter"},
		{"wide table", 24, "|name|text|\n|-|-|\n|ab|a text that is too long|",
			"^1mname^0m  ^1mtext^0m\n^90m────^0m  ^90m─────────────────^0m\n" +
				"ab    a text that is\n      too long"},
		{"no table", 40, "| a | b |\nc", "| a | b |\nc"},
		{"ideographs", 12, "这是一个很长的句子。**粗体字**", "这是一个很\n长的句子。\n^1m粗体字^0m"},
		{"an emoji of several", 12, "a 👨‍👩‍👧 b 👍🏽 cc 🇩🇪 dd", "a 👨‍👩‍👧 b 👍🏽\ncc 🇩🇪 dd"},
		{"a long word", 12, "see http://a/b/c/d/e/f/g now", "see\nhttp://a/b/c/d/e/f/g\nnow"},
	} {
		want := strings.ReplaceAll(c.want, "^", "\x1b[")
		if got := shown(c.in, c.columns, len(c.in), true); got != want {
			t.Errorf("%s:\n%s\n%q\nwant\n%q", c.name, got, got, want)
		}
	}
	for in, want := range map[string]string{"`a` **b**": "`a` \x1b[1mb\x1b[0m", "> q": "│ q", "```\nx\n```": "```\nx\n```"} {
		if got := shown(in, 40, 1, false); got != want {
			t.Errorf("without colour %q: %q, want %q", in, got, want)
		}
	}
}

// What is written before an answer's end is never taken back, and a word is there once its end is.
func TestMarkdownStreams(t *testing.T) {
	var b bytes.Buffer
	m := NewMarkdown(&b, func() int { return 40 }, true)
	for _, c := range []struct{ in, want string }{{"Hello", ""}, {" wor", "Hello"}, {"ld **bo", "Hello world"},
		{"ld** x", "Hello world \x1b[1mbold"},
		{"\n", "Hello world \x1b[1mbold\x1b[0m x\n"}, {"|a|\n|-|\n", "Hello world \x1b[1mbold\x1b[0m x\n"}} {
		_, _ = m.Write([]byte(c.in))
		if b.String() != c.want {
			t.Errorf("after %q: %q, want %q", c.in, b.String(), c.want)
		}
	}
}

// A hostile answer takes no longer than others: the longest table that is laid out, and a line
// without end, of marks that begin and do not end. It would take minutes otherwise.
func TestMarkdownHostile(t *testing.T) {
	for _, unit := range []string{"*a", "**a _b", "[", "[a](", "`a", "``", "~~a*", "***a** ", "![[", "\\", "*a*", "**a *b* ", "日*"} {
		for _, text := range []string{strings.Repeat(unit, 6000/len(unit)),
			"|a|\n|-|\n|" + strings.Repeat(unit, largestTable/4/len(unit)) + "|\n"} {
			if got := shown(text, 80, len(text), true); content(text) != content(escapeCodes.ReplaceAllString(got, "")) {
				t.Errorf("%s: its content is lost", unit)
			}
		}
	}
}

var escapeCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// content is what of a text is neither mark nor layout: the same before and after.
func content(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune("*_`~#|\\[]()!><-+•│─:", r) {
			return -1
		}
		return r
	}, s)
}

// FuzzMarkdown: whatever an answer is, its content is shown, whole and in order, nothing else
// is sent to the terminal than text and colours, and the parts in which it comes do not matter.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"**a** *b* `c` [d](e)", "# h\n- x\n  - y\n1. z\n> q\n\n```go\nx := 1\n```\nafter",
		"|a|b|\n|-|-:|\n|c|`d|e`|\n|f|\n", "***a** b*", "~~~\na\n~~~", "[a](b", "![", "`", "** a **", "a\\", "|\n|",
		"---\n- - -", "> > a\n>b", "\xff\xfe**", "这**是**", "- [ ] t", "|" + strings.Repeat("a|", 300) + "\n|-|\n",
		"1234567890. a", "____", "``` ` ```", "  indented\n\ttab", "<b>x</b>", "a\u0301b👨‍👩‍👧", "*a**b* c", "|a|\n|-|\n|b|c|\n|d|\n"} {
		f.Add(s, uint8(20), uint8(1))
		f.Add(s, uint8(80), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, columns, part uint8) {
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Skip() // package plain has quoted it
		}
		for _, colour := range []bool{true, false} {
			all := shown(text, int(columns), len(text)+1, colour)
			if got := shown(text, int(columns), int(part%7)+1, colour); got != all {
				t.Errorf("%q in parts is\n%q, not\n%q", text, got, all)
			}
			bare := escapeCodes.ReplaceAllString(all, "")
			if strings.ContainsRune(bare, 27) {
				t.Errorf("%q: %q has other escapes", text, all)
			}
			// An address that is its own text is shown once.
			if a, b := content(text), content(bare); a != b && !strings.Contains(text, "://") {
				t.Errorf("%q has the content %q, shown is %q", text, a, b)
			}
			if i := strings.LastIndex(all, "\x1b["); i >= 0 && !strings.HasPrefix(all[i:], "\x1b[0m") {
				t.Errorf("%q leaves a style on: %q", text, all)
			}
		}
	})
}

// shown is an answer as it is written in parts of some bytes.
func shown(text string, columns, part int, colour bool) string {
	var b bytes.Buffer
	m := NewMarkdown(&b, func() int { return columns }, colour)
	for len(text) > 0 {
		n := min(part, len(text))
		_, _ = m.Write([]byte(text[:n]))
		text = text[n:]
	}
	m.End()
	return b.String()
}
