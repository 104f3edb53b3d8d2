package terminal

import (
	"regexp"
	"strings"

	"github.com/rivo/uniseg"
)

// narrowest is the least columns that a cell of a table is folded to.
const narrowest = 6

// delimiter is the row beneath a table's head.
var delimiter = regexp.MustCompile(`^ *\|(?: *:?-+:? *\|)* *(?::?-+:? *)?$`)

// row takes a row of a table. A table that is too large is shown as it was written. whole: the row
// has its end.
func (m *Markdown) row(whole bool) {
	m.rows = append(m.rows, m.start)
	m.held += len(m.start)
	m.start = ""
	if m.held <= largestTable && whole {
		return
	}
	for i, r := range m.rows {
		if i > 0 {
			m.f.write(span{"\n", 0})
		}
		m.f.write(span{r, 0})
	}
	m.rows, m.held = nil, 0
	if !whole { // the rest of the row goes on in its line
		m.block = prose
	}
}

// table writes the table that has come. newline: its last row had a line's end.
func (m *Markdown) table(newline bool) {
	rows := m.rows
	m.rows, m.held = nil, 0
	if len(rows) == 0 {
		return
	}
	if len(rows) < 2 || !delimiter.MatchString(rows[1]) || delimiter.MatchString(rows[0]) { // lines with bars
		for i, r := range rows {
			for _, s := range inline(r, ' ', 0, m.f.colour) {
				m.f.text(s.text, s.style)
			}
			if newline || i < len(rows)-1 {
				m.f.end()
			}
		}
		return
	}
	lines := layTable(rows, m.f.columns(), m.f.colour)
	for i, line := range lines {
		for _, s := range line {
			m.f.write(s)
		}
		if newline || i < len(lines)-1 {
			m.f.write(span{"\n", 0})
		}
	}
}

// cells splits a row at its bars. A bar behind a backslash, or in code, is text.
func cells(row string) (out []string) {
	row = strings.TrimSpace(row)
	row = strings.TrimPrefix(row, "|")
	cell, from := 0, 0
	for i := 0; i < len(row); i++ {
		switch row[i] {
		case '\\':
			i++
		case '`':
			if _, n, _ := codeSpan(row[i:], 0, true, true); n > run(row[i:]) {
				i += n - 1
			}
		case '|':
			out = append(out, strings.TrimSpace(row[from:i]))
			from, cell = i+1, cell+1
		}
	}
	if text := strings.TrimSpace(row[from:]); text != "" || cell == 0 {
		out = append(out, text)
	}
	return out
}

// layTable sets a table, head, delimiter and rows, into columns.
func layTable(rows []string, columns int, colour bool) (lines [][]span) {
	var table [][][]span
	marks := cells(rows[1])
	n := len(cells(rows[0]))
	for i, r := range rows {
		if i == 1 {
			continue
		}
		st := style(0)
		if i == 0 {
			st = bold
		}
		var row [][]span
		for _, c := range cells(r) {
			row = append(row, inline(c, ' ', st, colour))
		}
		n = max(n, len(row)) // a row with too many cells loses none
		table = append(table, row)
	}
	widths := make([]int, n)
	for _, row := range table {
		for i, c := range row {
			widths[i] = max(widths[i], width(c))
		}
	}
	narrow(widths, columns-1-2*(n-1))
	right := func(i int) bool {
		return i < len(marks) && strings.HasSuffix(marks[i], ":") && !strings.HasPrefix(marks[i], ":")
	}
	for r, row := range table {
		folded := make([][][]span, n)
		high := 1
		for i, c := range row {
			folded[i] = fold(c, widths[i])
			high = max(high, len(folded[i]))
		}
		for h := range high {
			var line []span
			blank := 0
			for i := range n {
				var cell []span
				if h < len(folded[i]) {
					cell = folded[i][h]
				}
				pad := max(widths[i]-width(cell), 0)
				if right(i) {
					blank, pad = blank+pad, 0
				}
				if len(cell) > 0 {
					line = append(append(line, span{strings.Repeat(" ", blank), 0}), cell...)
					blank = 0
				}
				blank += pad + 2
			}
			lines = append(lines, line)
		}
		if r == 0 {
			var line []span
			for i, w := range widths {
				if i > 0 {
					line = append(line, span{"  ", 0})
				}
				line = append(line, span{strings.Repeat("─", max(w, 1)), faint})
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// narrow takes columns away from the widest until all fit, or are as narrow as they may be.
func narrow(widths []int, room int) {
	if room < 1 {
		return // nothing is wrapped
	}
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for sum > room {
		most := 0
		for i, w := range widths {
			if w > widths[most] {
				most = i
			}
		}
		if widths[most] <= narrowest {
			return
		}
		// Down to the next widest at once: a cell may be thousands of columns wide.
		next := narrowest
		for _, w := range widths {
			if w < widths[most] {
				next = max(next, w)
			}
		}
		to := max(next, widths[most]-(sum-room))
		if to == widths[most] {
			to--
		}
		sum -= widths[most] - to
		widths[most] = to
	}
}

// fold breaks spans into lines of a width, at blanks where there are any.
func fold(list []span, columns int) (lines [][]span) {
	if width(list) <= columns {
		return [][]span{list}
	}
	limit := max(columns, 1)
	var line []span
	col := 0
	flush := func() {
		lines = append(lines, line)
		line, col = nil, 0
	}
	add := func(s span) {
		line = append(line, s)
		col += Width(s.text)
	}
	word := func(w []span) {
		n := width(w)
		switch {
		case n == 0:
			return
		case col > 0 && col+1+n > limit:
			flush()
		case col > 0:
			add(span{" ", 0})
		}
		for _, s := range w {
			for rest := s.text; rest != ""; { // a word that is longer than a line
				n := fits(rest, limit-col)
				if n == 0 && col > 0 {
					flush()
					continue
				}
				n = max(n, after(rest, 0)) // a character that is wider than the column
				add(span{rest[:n], s.style})
				rest = rest[n:]
			}
		}
	}
	var w []span
	for _, s := range list {
		for i, part := range strings.Split(s.text, " ") {
			if i > 0 {
				word(w)
				w = nil
			}
			if part != "" {
				w = append(w, span{part, s.style})
			}
		}
	}
	word(w)
	if col > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}

// fits is how many bytes of a text fit some columns, in whole clusters.
func fits(s string, columns int) int {
	at, state := 0, -1
	for rest := s; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if columns -= w; columns < 0 {
			break
		}
		at += len(cluster)
	}
	return at
}
