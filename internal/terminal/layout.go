package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width is how many columns s takes on a screen.
func Width(s string) int { return uniseg.StringWidth(s) }

// screenful is text as rows of a screen.
type screenful struct {
	rows     []string
	row, col int // the cursor
}

// layout breaks text into rows of width columns, the first with prompt before it, every line after
// it with more. cursor is a place in text. A row that is full ends: the cursor never stands in a
// column that is not there.
func layout(prompt, more, text string, cursor, width int) screenful {
	var s screenful
	var row strings.Builder
	row.WriteString(prompt)
	col := Width(prompt)
	wrap := func(first string) {
		s.rows = append(s.rows, row.String())
		row.Reset()
		row.WriteString(first)
		col = Width(first)
	}
	place := func(at int) {
		if at == cursor {
			s.row, s.col = len(s.rows), col
		}
	}
	at, state := 0, -1
	for rest := text; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if cluster == "\n" {
			place(at)
			wrap(more)
			at += len(cluster)
			continue
		}
		shown := cluster
		if cluster == "\t" {
			w = 8 - col%8
			shown = strings.Repeat(" ", w)
		}
		if col+w > width && col > 0 {
			wrap("")
			if cluster == "\t" {
				w, shown = 8, strings.Repeat(" ", 8)
			}
		}
		place(at)
		row.WriteString(shown)
		col += w
		at += len(cluster)
		if col >= width && (rest == "" || rest[0] == '\n') && at == cursor {
			wrap("")
		}
	}
	place(at)
	s.rows = append(s.rows, row.String())
	return s
}

// before is where the cluster that ends at pos begins, after is where the one that begins there
// ends.
func before(s string, pos int) int {
	from := strings.LastIndexByte(s[:max(pos-1, 0)], '\n') + 1
	last, state := from, -1
	for rest := s[from:pos]; rest != ""; {
		last = pos - len(rest)
		_, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
	}
	return min(last, pos)
}

func after(s string, pos int) int {
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(s[pos:], -1)
	return pos + len(cluster)
}
