package plain

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range cases {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Line("a\nb\tc\x1b"); got != `a\nb c\u001b` {
		t.Errorf("got %q", got)
	}
}

var cases = map[string]string{
	"":                           "",
	"qwen3:0.6b":                 "qwen3:0.6b",
	"Größe 模型 😀 a\tb\n":          "Größe 模型 😀 a\tb\n",
	"👩‍🚀 می‌خواهم ❤️":            "👩‍🚀 می‌خواهم ❤️",
	"\x1b]0;title\x07\x1b[2J":    `\u001b]0;title\u0007\u001b[2J`,
	"a\rb":                       `a\u000db`,
	"a\r\nb\r\n":                 "a\nb\n",
	"\x7f\x00\b":                 `\u007f\u0000\u0008`,
	"\u009b31m":                  `\u009b31m`,
	"\x9b31m":                    `\x9b31m`,
	"\u202egnp.exe\u2066":        `\u202egnp.exe\u2066`,
	"one\u2028two\ufeff":         `one\u2028two\ufeff`,
	"\xff\xe2\x82":               `\xff\xe2\x82`,
	"�":                          "�",
	strings.Repeat("\x1b", 3000): strings.Repeat(`\u001b`, 3000),
}

// However text is cut into parts, the writer quotes the same.
func TestWriter(t *testing.T) {
	for in, want := range cases {
		for _, part := range []int{1, 2, 3, 5, 1 << 20} {
			var b strings.Builder
			w := &Writer{W: &b}
			for s := in; len(s) > 0; {
				n := min(part, len(s))
				if k, err := w.Write([]byte(s[:n])); k != n || err != nil {
					t.Fatal(k, err)
				}
				s = s[n:]
			}
			if err := w.Flush(); err != nil || b.String() != want {
				t.Errorf("%q in parts of %d: %q, want %q, %v", in, part, b.String(), want, err)
			}
		}
	}
}

// Nothing that a terminal obeys comes through, and what is printable is as it was.
func FuzzText(f *testing.F) {
	//proves:T14
	for in := range cases {
		f.Add(in, 2)
	}
	f.Fuzz(func(t *testing.T, s string, part int) {
		got := Text(s)
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q in %q", r, got)
			}
		}
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no text", got)
		}
		var b strings.Builder
		w := &Writer{W: &b}
		at := max(0, min(part, len(s)))
		_, _ = w.Write([]byte(s[:at]))
		_, _ = w.Write([]byte(s[at:]))
		_ = w.Flush()
		if b.String() != got {
			t.Fatalf("cut at %d: %q, whole: %q", at, b.String(), got)
		}
	})
}
