package terminal

import (
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

func TestKeys(t *testing.T) {
	past := lines{"first line", "zweite Zeile", "third line"}
	for _, tt := range []struct{ name, keys, want string }{
		{"plain", "hello\r", "hello"},
		{"backspace takes a cluster", "ae\u0301\x7f日\x7f👩‍👩‍👧\x7fb\r", "ab"},
		{"left and right go by clusters", "日本\x1b[D\x1b[Dx\x1b[Cy\r", "x日y本"},
		{"home and end, xterm", "b\x1b[Ha\x1b[Fc\r", "abc"},
		{"home and end, application", "b\x1bOHa\x1bOFc\r", "abc"},
		{"home and end, console", "b\x1b[1~a\x1b[4~c\r", "abc"},
		{"home and end, rxvt", "b\x1b[7~a\x1b[8~c\r", "abc"},
		{"home and end, with Ctrl", "b\x1b[1;5Ha\x1b[1;5Fc\r", "abc"},
		{"Ctrl-A, Ctrl-E", "b\x01a\x05c\r", "abc"},
		{"Alt-B, Alt-F", "eins zwei drei\x1bb\x1bbx\x1bfy\r", "eins xzweiy drei"},
		{"words with Ctrl and arrows", "eins zwei\x1b[1;5Dx\x1bOd_\r", "eins _xzwei"},
		{"Ctrl-U", "eins zwei\x1bb\x15\r", "zwei"},
		{"Ctrl-U on wide ones", "日本語\x15x\r", "x"},
		{"Ctrl-K, Ctrl-Y", "eins zwei\x1bb\x0b\x01\x19 \r", "zwei eins "},
		{"Ctrl-W", "eins zwei.drei\x17x\r", "eins x"},
		{"Alt-Backspace", "eins zwei.drei\x1b\x7fx\r", "eins zwei.x"},
		{"Alt-D", "eins zwei\x01\x1bd\r", " zwei"},
		{"delete and Ctrl-D", "abc\x01\x1b[3~\x04\r", "c"},
		{"unknown sequences", "a\x1b[15~\x1b[[A\x1b[1;2Qb\x1bOP\x1b[?1;2cc\r", "abc"},
		{"up, down", "x\x1b[A\x1b[A\x1b[B!\r", "third line!"},
		{"back to what was typed", "x\x1b[A\x1b[By\r", "xy"},
		{"Ctrl-P, Ctrl-N", "\x10\x10\x0e\r", "third line"},
		{"search", "\x12line\r", "third line"},
		{"search on", "\x12line\x12\r", "first line"},
		{"search on and back", "\x12line\x12\x13\r", "third line"},
		{"search, then edit", "\x12zwei\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C!\r", "zweit!e Zeile"},
		{"search given up", "mine\x12line\x07\r", "mine"},
		{"search without a hit", "mine\x12xyz\x1b\x1b[F!\r", "mine!"},
		{"search left by escape", "\x12first\x1b\x15x\r", "xfirst line"},
		{"search taken back", "mine\x12z\x7f\x05!\r", "mine!"},
		{"Alt-Enter", "one\x1b\rtwo\r", "one\ntwo"},
		{"up within a text", "one\x1b\rtwo\x1b[Ax\x1b[By\r", "onex\ntwoy"},
		{"paste", "a \x1b[200~one\r\ntwo\rthree\x1b[31m\tred\x07\x1b[201~ b\r", "a one\ntwo\nthree\tred b"},
		{"a line end of two characters", "a\r\n", "a"},
		{"no UTF-8", "a\xffb\r", "a\ufffdb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := typed(t, tt.keys, Options{History: past}); err != nil || got != tt.want {
				t.Errorf("%q gives %q (%v), want %q", tt.keys, got, err, tt.want)
			}
		})
	}
}

// glass is a terminal's screen, as much of one as the editor writes to: a grid of clusters that
// scrolls.
type glass struct {
	columns, rows int
	lines         [][]string
	row, col      int
	full          bool // the last column was written: the next cluster begins a row
	scrolled      int
	bell          int
}

func newGlass(columns, rows int) *glass {
	g := &glass{columns: columns, rows: rows}
	for range rows {
		g.lines = append(g.lines, make([]string, columns))
	}
	return g
}

func (g *glass) feed() {
	if g.row++; g.row == g.rows {
		g.lines = append(g.lines[1:], make([]string, g.columns))
		g.row--
		g.scrolled++
	}
}

func (g *glass) Write(p []byte) (int, error) {
	s := string(p)
	for s != "" {
		if strings.HasPrefix(s, "\x1b[") {
			n := 2
			for s[n] < 0x40 {
				n++
			}
			by, _ := strconv.Atoi(strings.Trim(s[2:n], "?"))
			switch s[n] {
			case 'A':
				g.row, g.full = max(g.row-max(by, 1), 0), false
			case 'B':
				g.row, g.full = min(g.row+max(by, 1), g.rows-1), false
			case 'C':
				g.col, g.full = min(g.col+max(by, 1), g.columns-1), false
			case 'D':
				g.col, g.full = max(g.col-max(by, 1), 0), false
			case 'H':
				g.row, g.col, g.full = 0, 0, false
			case 'K':
				clear(g.lines[g.row][g.col:])
			case 'J':
				if by == 0 {
					clear(g.lines[g.row][g.col:])
				}
				for i := range g.lines {
					if i > g.row || by == 2 {
						clear(g.lines[i])
					}
				}
			default:
				panic("the editor wrote " + strconv.Quote(s[:n+1]))
			}
			s = s[n+1:]
			continue
		}
		cluster, rest, w, _ := uniseg.FirstGraphemeClusterInString(s, -1)
		switch cluster {
		case "\r\n":
			g.col, g.full = 0, false
			g.feed()
		case "\r":
			g.col, g.full = 0, false
		case "\n":
			g.full = false
			g.feed()
		case "\a":
			g.bell++
		default:
			if w == 0 || cluster == "\u0301" { // a mark that came later
				at := g.col - 1
				if g.full {
					at = g.col
				}
				g.lines[g.row][at] += cluster
				break
			}
			if g.full || g.col+w > g.columns {
				g.col, g.full = 0, false
				g.feed()
			}
			g.lines[g.row][g.col] = cluster
			for i := 1; i < w; i++ {
				g.lines[g.row][g.col+i] = "\x00"
			}
			if g.col += w; g.col >= g.columns {
				g.col, g.full = g.columns-1, true
			}
		}
		s = rest
	}
	return len(p), nil
}

// String is what can be read on it.
func (g *glass) String() string {
	var sb strings.Builder
	for _, line := range g.lines {
		var row strings.Builder
		for _, c := range line {
			switch c {
			case "":
				row.WriteByte(' ')
			case "\x00":
			default:
				row.WriteString(c)
			}
		}
		sb.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return strings.TrimRight(sb.String(), "\n")
}

// slowly gives its text a byte at a time, as a slow line does.
type slowly struct{ r io.Reader }

func (s slowly) Read(p []byte) (int, error) { return s.r.Read(p[:1]) }

type lines []string

func (l lines) Len() int        { return len(l) }
func (l lines) At(i int) string { return l[len(l)-1-i] }
func (l lines) Add(string)      {}

// typed gives keys to an editor and returns the text.
func typed(t *testing.T, keys string, o Options) (string, error) {
	t.Helper()
	var texts []string
	for _, in := range []io.Reader{strings.NewReader(keys), slowly{strings.NewReader(keys)}} {
		o.In = in
		if o.Out == nil {
			o.Out = io.Discard
		}
		s, err := NewEditor(o).Line(">>> ", "... ")
		if err != nil {
			return s, err
		}
		texts = append(texts, s)
	}
	if texts[0] != texts[1] {
		t.Errorf("%q at once is %q, byte by byte %q", keys, texts[0], texts[1])
	}
	return texts[0], nil
}

func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		keys, text string
		want       error
	}{
		{"\x04", "", io.EOF},
		{"abc", "abc", io.EOF},
		{"ab\x03", "ab", ErrInterrupted},
		{"ab\x1b[200~c\x03", "ab", ErrInterrupted},
		{"\x03", "", ErrInterrupted},
		{"a\x1b[20", "a", io.EOF},
	} {
		if s, err := typed(t, tt.keys, Options{}); !errors.Is(err, tt.want) || s != tt.text {
			t.Errorf("%q: %q, %v, want %q, %v", tt.keys, s, err, tt.text, tt.want)
		}
	}
}

func TestEditAndSuspend(t *testing.T) {
	stopped := 0
	o := Options{Suspend: func() { stopped++ }, Edit: func(s string) (string, error) {
		if s == "bad" {
			return "", errors.New("no editor")
		}
		return s + "\r\nmore\x1b[2J", nil
	}}
	if s, err := typed(t, "one\x07!\x1a\r", o); err != nil || s != "one\nmore[2J!" || stopped != 2 {
		t.Errorf("%q, %v, stopped %d times", s, err, stopped)
	}
	g := newGlass(40, 5)
	o.Out = g
	o.In = strings.NewReader("bad\x07 luck\r")
	if s, err := NewEditor(o).Line("> ", ". "); err != nil || s != "bad luck" || g.String() != "> bad\nno editor\n> bad luck" {
		t.Errorf("%q, %v; the screen has\n%s", s, err, g)
	}
}

// Whatever is typed, the screen has the text as it is, broken into rows, and the cursor where the
// next letter goes.
func TestScreen(t *testing.T) {
	keys := []string{"a", "b ", "日", "e\u0301", "👩‍👩‍👧", "🇩🇪", "\t", "ß", "한", "\x7f", "\x1b[D", "\x1b[C", "\x1b[D\x1b[D\x1b[D", "\x01",
		"\x05", "\x1b[A", "\x1b[B", "\x1bb", "\x1bf",
		"\x17", "\x0b", "\x19", "\x1b\r", "\x1b[200~lorem ipsum\ndolor\x1b[201~", "\x1b[3~", "xyzzy"}
	past := lines{"short", "a line of the history that is longer than the screen is wide, with 日本語 in it"}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		columns, rows := 12+rnd.IntN(30), 4+rnd.IntN(6)
		g := newGlass(columns, rows)
		e := NewEditor(Options{In: strings.NewReader(""), Out: g, Size: func() (int, int) { return columns, rows }, History: past})
		e.prompt, e.more, e.at = ">>> ", "... ", -1
		e.draw()
		var all strings.Builder
		for range 60 {
			k := keys[rnd.IntN(len(keys))]
			all.WriteString(k)
			e.in.Reset(strings.NewReader(k))
			for {
				k, err := e.key()
				if err != nil {
					break
				}
				if _, err := e.press(k); err != nil {
					t.Fatal(err)
				}
			}
			if !utf8.ValidString(e.text) || e.pos > len(e.text) || e.pos < 0 {
				t.Fatalf("seed %d: %q, cursor %d", seed, e.text, e.pos)
			}
			s := layout(e.prompt, e.more, e.text, e.pos, columns)
			top := 0
			if len(s.rows) > rows {
				top = min(max(s.row-rows+1, 0), len(s.rows)-rows)
			}
			want := ""
			for _, row := range s.rows[top:min(len(s.rows), top+rows)] {
				want += strings.TrimRight(row, " ") + "\n"
				if Width(row) > columns {
					t.Fatalf("row %q is wider than %d", row, columns)
				}
			}
			if got := g.String(); got != strings.TrimRight(want, "\n") {
				t.Fatalf("seed %d after %q (%d × %d): the screen has\n%s\nwant\n%s", seed, all.String(), columns, rows, got, want)
			}
			if g.col != s.col || g.full {
				t.Fatalf("seed %d after %q: the cursor is in column %d (%v), want %d", seed, all.String(), g.col, g.full, s.col)
			}
		}
		joined := strings.Join(layout("", "", e.text, 0, 1<<20).rows, "\n")
		if strings.ReplaceAll(joined, " ", "") != strings.NewReplacer(" ", "", "\t", "").Replace(e.text) {
			t.Fatalf("seed %d: the layout of %q is %q", seed, e.text, joined)
		}
	}
}

// What stays on the screen after Enter is the text once, and nothing after it.
func TestLeave(t *testing.T) {
	for _, tt := range []struct{ keys, want string }{
		{"hello\r", "> hello"},
		{"a long line that goes on\x01\r", "> a long line that g\noes on"},
		{"one\x1b\rtwo\x1b\rthree\x1b[A\x1b[A\r", "> one\n. two\n. three"},
		{strings.Repeat("12345678\x1b\r", 4) + "\x1b[A\x1b[A\x1b[A\x1b[A\r", ""},
	} {
		g := newGlass(20, 4)
		e := NewEditor(Options{In: strings.NewReader(tt.keys), Out: g, Size: func() (int, int) { return 20, 4 }})
		s, err := e.Line("> ", ". ")
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" { // higher than the screen: all of it went by
			if g.scrolled != strings.Count(s, "\n")+2-4 {
				t.Errorf("%q: scrolled by %d", tt.keys, g.scrolled)
			}
			continue
		}
		if g.String() != tt.want || g.col != 0 || g.row != strings.Count(tt.want, "\n")+1 {
			t.Errorf("%q: the screen has\n%s\ncursor %d, %d; want\n%s", tt.keys, g, g.row, g.col, tt.want)
		}
	}
}
