package terminal

import (
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	list := []string{"/set", "/show", "häuser/", "häute.png", "日本", "日光"}
	complete := func(before string) (int, []string) {
		from := strings.LastIndexByte(before, ' ') + 1
		var out []string
		for _, s := range list {
			if strings.HasPrefix(s, before[from:]) {
				out = append(out, s)
			}
		}
		return from, out
	}
	for _, c := range []struct{ name, keys, want string }{
		{"the only one", "/se\tx\r", "/set x"},
		{"what all have", "/\te\tx\r", "/set x"},
		{"several", "/s\t\th\t\r", "/show "},
		{"none", "a\tb\r", "ab"},
		{"a folder has no blank behind it", "see h\ts\tx\r", "see häuser/x"},
		{"before other text", "/sh now\x1b[D\x1b[D\x1b[D\x1b[D\t\r", "/show  now"},
		{"ideographs", "日\t\t本\t!\r", "日本 !"},
		{"a tab in a paste stays", "\x1b[200~a\tb\x1b[201~\r", "a\tb"},
	} {
		if got, err := typed(t, c.keys, Options{Complete: complete}); err != nil || got != c.want {
			t.Errorf("%s: %q gives %q (%v), want %q", c.name, c.keys, got, err, c.want)
		}
	}
	if got, err := typed(t, "a\tb\r", Options{}); err != nil || got != "a\tb" {
		t.Errorf("without completions: %q %v", got, err)
	}
	if got := listed([]string{"a", "bb", "日本", "d\x1b[31m"}, 20); got != "a      日本\nbb     d[31m\n" {
		t.Errorf("%q", got)
	}
	got := listed(strings.Split(strings.Repeat("x ", 100), " "), 40)
	if strings.Count(got, "x") != mostShown || !strings.HasSuffix(got, "…\n") {
		t.Errorf("%q", got)
	}
}
