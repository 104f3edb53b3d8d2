package terminal

import (
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// writeTable sets rows side by side, two blanks between columns, columns wide at most; 0 or less:
// as wide as they are. right sets all but the first right. What is wider than the screen is
// stacked: the columns that fit, then the rest below with the first column again, so that the
// caller puts the columns in the order of their importance. A cell that is too wide even so is
// folded at its blanks; a first column that takes more than half is cut with "…".
func writeTable(sb *strings.Builder, rows [][]string, right bool, columns int) {
	n := 0
	for _, row := range rows {
		n = max(n, len(row))
	}
	if n == 0 {
		return
	}
	cell := func(row []string, i int) string {
		if i >= len(row) {
			return ""
		}
		if columns > 0 && i == 0 {
			return Cut(row[i], max(columns/2, 8))
		}
		return row[i]
	}
	widths := make([]int, n)
	for _, row := range rows {
		for i := range n {
			widths[i] = max(widths[i], Width(cell(row, i)))
		}
	}
	for from := 1; ; {
		to, wide := from, widths[0]
		for to < n && (columns <= 0 || to == from || wide+2+widths[to] <= columns) {
			wide += 2 + widths[to]
			to++
		}
		for _, row := range rows {
			var line strings.Builder
			put := func(i int) {
				s := cell(row, i)
				pad := strings.Repeat(" ", widths[i]-Width(s))
				switch {
				case columns > 0 && i > 0 && wide > columns:
					begin := strings.Repeat(" ", 2+widths[0])
					pad = ""
					longest := 0
					for word := range strings.FieldsSeq(s) {
						longest = max(longest, Width(word))
					}
					if 2+widths[0]+longest > columns { // no blank helps: below the first column
						first := strings.TrimRight(line.String(), " ")
						line.Reset()
						s = first + "\n  " + s
						break
					}
					s = strings.TrimLeft(Fold(begin+s, begin, columns), " ")
				case right && i > 0:
					s, pad = pad+s, ""
				}
				line.WriteString(s + pad)
			}
			put(0)
			for i := from; i < to; i++ {
				line.WriteString("  ")
				put(i)
			}
			sb.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
		if from = to; from >= n {
			break
		}
		sb.WriteByte('\n')
	}
}

// Tabs is a writer of text with tables in it, written as for text/tabwriter: lines next to each
// other that have tabs are a table, and other lines are folded to the width. Nothing is written
// before Flush.
type Tabs struct {
	w       io.Writer
	columns int
	right   bool
	text    strings.Builder
}

// NewTabs makes one, columns wide; 0 or less: as wide as the text is. right sets all columns right
// but the first.
func NewTabs(w io.Writer, columns int, right bool) *Tabs {
	return &Tabs{w: w, columns: columns, right: right}
}

// Write keeps the text for Flush. It does not fail.
func (t *Tabs) Write(p []byte) (int, error) { return t.text.Write(p) }

// Flush writes what there is.
func (t *Tabs) Flush() error {
	var rows [][]string
	var out strings.Builder
	flush := func() {
		writeTable(&out, rows, t.right, t.columns)
		rows = nil
	}
	for line := range strings.Lines(t.text.String()) {
		text, ended := strings.CutSuffix(line, "\n")
		if strings.Contains(text, "\t") {
			rows = append(rows, strings.Split(strings.TrimSuffix(text, "\t"), "\t"))
			continue
		}
		flush()
		if t.columns > 0 {
			text = Fold(text, "  ", t.columns)
		}
		out.WriteString(text)
		if ended {
			out.WriteByte('\n')
		}
	}
	flush()
	t.text.Reset()
	_, err := io.WriteString(t.w, out.String())
	return err
}

// Cut is s, or as much of it as fits columns with "…" at its end.
func Cut(s string, columns int) string {
	if Width(s) <= columns {
		return s
	}
	var out strings.Builder
	col, state := 0, -1
	for rest := s; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if col+w > columns-1 {
			break
		}
		out.WriteString(cluster)
		col += w
	}
	return out.String() + "…"
}
