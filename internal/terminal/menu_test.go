package terminal

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestMenu(t *testing.T) {
	items := []Item{{"Chat", "with a model"}, {"日本", "wide"}, {"a name that is longer than a narrow screen", "x"}, {"four", ""}}
	for _, c := range []struct {
		keys string
		want int
		err  error
	}{
		{"\r", 0, nil}, {"\x1b[B\r", 1, nil}, {"\x1b[A\r", 3, nil}, {"jjk\r", 1, nil}, {"3", 2, nil}, {"9\x1b[F\x1b[C", 3, nil},
		{"\t\r", 1, nil},
		{"q", 0, io.EOF}, {"\x04", 0, io.EOF}, {"\x1b[D", 0, io.EOF}, {"\x03", 0, ErrInterrupted}, {"", 0, io.EOF},
		{"x\x1b[15~2", 1, nil},
	} {
		for _, size := range [][2]int{{80, 24}, {40, 24}, {20, 5}, {8, 2}} {
			var out strings.Builder
			m := NewMenu(Options{In: strings.NewReader(c.keys), Out: &out,
				Size: func() (int, int) { return size[0], size[1] }}, size[0] == 80)
			got, err := m.Choose("What now?", items)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%q at %v: %d %v, want %d %v", c.keys, size, got, err, c.want, c.err)
			}
			text := escapeCodes.ReplaceAllString(out.String(), "")
			if size[0] < 80 && text != out.String() {
				t.Errorf("styles without being asked for them: %q", out.String())
			}
			for frame := range strings.SplitSeq(text, "\x1b[J") {
				for line := range strings.SplitSeq(frame, "\r\n") {
					if !strings.Contains(line, "\x1b") && Width(line) >= size[0] {
						t.Errorf("%d columns: %q", size[0], line)
					}
				}
				if n := strings.Count(frame, "\r\n"); n > max(size[1], 3) {
					t.Errorf("%d rows: %q", size[1], frame)
				}
			}
			if !strings.HasSuffix(out.String(), "A\x1b[J") {
				t.Errorf("the menu stays on the screen: %q", out.String())
			}
		}
	}
}
