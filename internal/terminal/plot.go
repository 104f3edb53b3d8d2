package terminal

import (
	"fmt"
	"math"
	"strings"
)

// Plot draws values in braille, two to a column, the last at the right, filled from the bottom:
// rows lines, none wider than columns. What is below low or above high is drawn at the edge; NaN is
// a gap. Values that do not fit are the oldest, and are left out.
func Plot(values []float64, columns, rows int, low, high float64) []string {
	if columns < 1 || rows < 1 {
		return nil
	}
	if len(values) > 2*columns {
		values = values[len(values)-2*columns:]
	}
	dots := make([]int, 2*columns) // how high each is filled, in quarters of a line
	for i, v := range values {
		if math.IsNaN(v) || high <= low {
			continue
		}
		n := int(math.Round((v - low) / (high - low) * float64(4*rows)))
		dots[2*columns-len(values)+i] = max(1, min(n, 4*rows)) // one dot says that there was a value
	}
	// The dots of a cell from the bottom up, left and right.
	left, right := [4]rune{0x40, 0x04, 0x02, 0x01}, [4]rune{0x80, 0x20, 0x10, 0x08}
	out := make([]string, rows)
	for r := range rows {
		var sb strings.Builder
		base := 4 * (rows - 1 - r)
		for c := range columns {
			cell := rune(0x2800)
			for k := range 4 {
				if dots[2*c] > base+k {
					cell |= left[k]
				}
				if dots[2*c+1] > base+k {
					cell |= right[k]
				}
			}
			sb.WriteRune(cell)
		}
		out[r] = sb.String()
	}
	return out
}

// Run is a run of cells that hold the same: see [Map].
type Run struct {
	Cells, What int // What: 0 nothing, below 0 shared or of others, else a text's number
	Idle        bool
}

// mapColours are of the 256 that terminals know: told apart on black and on white.
var mapColours = []int{32, 35, 166, 98, 130, 37, 161, 64}

// Map draws cells as blocks, line by line, in at most columns × rows characters: each stands for as
// many cells as it has to, and shows what most of them hold. A text that runs is █, one that is
// kept ▒, a beginning that several share ▓, nothing ·. colour tells texts apart too. per is how
// many cells a block is.
func Map(runs []Run, columns, rows int, colour bool) (lines []string, per int) {
	total := 0
	for _, r := range runs {
		total += max(r.Cells, 0)
	}
	if total == 0 || columns < 1 || rows < 1 {
		return nil, 0
	}
	per = (total + columns*rows - 1) / (columns * rows)
	var sb strings.Builder
	at, left, was, used := 0, runs[0].Cells, 0, 0
	end := func() {
		if was != 0 {
			sb.WriteString("\x1b[0m")
			was = 0
		}
		lines = append(lines, sb.String())
		sb.Reset()
		used = 0
	}
	for done := 0; done < total; done += per {
		var most Run
		for need := min(per, total-done); need > 0; {
			for left <= 0 {
				at++
				left = runs[at].Cells
			}
			n := min(need, left)
			if n > most.Cells {
				most = Run{n, runs[at].What, runs[at].Idle}
			}
			need, left = need-n, left-n
		}
		block, tint := '·', 0
		switch {
		case most.What < 0:
			block = '▓'
		case most.What > 0:
			block, tint = '█', mapColours[most.What%len(mapColours)]
			if most.Idle {
				block = '▒'
			}
		}
		if colour && tint != was {
			if was = tint; tint == 0 {
				sb.WriteString("\x1b[0m")
			} else {
				fmt.Fprintf(&sb, "\x1b[38;5;%dm", tint)
			}
		}
		sb.WriteRune(block)
		if used++; used == columns {
			end()
		}
	}
	if used > 0 {
		end()
	}
	return lines, per
}
