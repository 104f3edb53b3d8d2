package watch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

// This file is what is drawn below the figures on a terminal: what came before, and what the cache
// holds.

// keptTurns is how many turns the plots remember: two a column of a wide terminal.
const keptTurns = 1024

// page is a page that is drawn anew each turn.
type page struct {
	colour     bool
	rate, warm []float64
	cells      *cellMap // nil: the server tells of none
}

// cellMap is what /api/axle/cells says, as far as it is drawn.
type cellMap struct {
	Model  string `json:"model"`
	Copies []struct {
		Device   string   `json:"device"`
		Cells    int      `json:"cells"`
		Free     int      `json:"free"`
		Cached   int      `json:"cached"`
		Shared   int      `json:"shared"`
		Map      [][2]int `json:"map"`
		Branches []struct {
			ID    int    `json:"id"`
			State string `json:"state"`
		} `json:"branches"`
	} `json:"copies"`
}

// coloured reports whether the reader wants colours.
func coloured(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// readCells asks for the map. A server that has none, or an older one, is no error: there is
// nothing to draw then.
func readCells(ctx context.Context, c *client.Client) *cellMap {
	var m cellMap
	if c.Get(ctx, "/api/axle/cells", &m) != nil || len(m.Copies) == 0 {
		return nil
	}
	return &m
}

// take adds a turn to the plots.
func (p *page) take(l turn) {
	warm := math.NaN()
	for _, m := range l.Models {
		if m.Temperature != nil && !(warm >= *m.Temperature) {
			warm = *m.Temperature
		}
	}
	add := func(to *[]float64, v float64) {
		if *to = append(*to, v); len(*to) > keptTurns {
			*to = slices.Delete(*to, 0, len(*to)-keptTurns)
		}
	}
	add(&p.rate, l.PerSecond)
	add(&p.warm, warm)
}

// draw gives the plots and the map in at most this many columns and lines; what there is no room
// for is left out, the map first. The lines hold numbers, names that are made printable, and
// colours of our own.
func (p *page) draw(columns, lines int) string {
	var sb strings.Builder
	most := 1.0
	for _, v := range p.rate {
		most = max(most, v)
	}
	last := p.rate[len(p.rate)-1]
	rate := fmt.Sprintf("tokens/s  now %.1f, most %.1f", last, most)
	warm, hot := "", p.warm[len(p.warm)-1]
	if !math.IsNaN(hot) {
		warm = fmt.Sprintf("card  %.0f °C, from 20 to 110", hot)
	}
	const rows = 5
	switch wide := columns >= 100 && warm != ""; {
	case lines < rows+2:
		return ""
	case wide:
		half := (columns - 3) / 2
		a, b := terminal.Plot(p.rate, half, rows, 0, most), terminal.Plot(p.warm, half, rows, 20, 110)
		fmt.Fprintf(&sb, "\n%-*s   %s\n", half, rate, warm)
		for i := range a {
			fmt.Fprintf(&sb, "%s   %s\n", a[i], b[i])
		}
		lines -= rows + 2
	default:
		for i, plot := range [][]string{terminal.Plot(p.rate, columns, rows, 0, most), terminal.Plot(p.warm, columns, rows, 20, 110)} {
			if i == 1 && (warm == "" || lines < rows+2) {
				break
			}
			fmt.Fprintf(&sb, "\n%s\n%s\n", terminal.Cut([]string{rate, warm}[i], columns), strings.Join(plot, "\n"))
			lines -= rows + 2
		}
	}
	if p.cells == nil {
		return sb.String()
	}
	for _, c := range p.cells.Copies {
		running := map[int]bool{}
		for _, b := range c.Branches {
			running[b.ID] = b.State == "running"
		}
		runs := make([]terminal.Run, 0, len(c.Map))
		for _, r := range c.Map {
			runs = append(runs, terminal.Run{Cells: r[0], What: r[1], Idle: !running[r[1]]})
		}
		room := min(lines-2, 8)
		if room < 1 {
			break
		}
		drawn, per := terminal.Map(runs, columns, room, p.colour)
		if drawn == nil {
			continue
		}
		head := fmt.Sprintf("cache of %s on %s: a block is %d of %d cells  █ running ▒ kept ▓ shared · free", plain.Line(p.cells.Model),
			plain.Line(c.Device), per, c.Cells)
		if terminal.Width(head) > columns {
			head = terminal.Cut(fmt.Sprintf("%d cells, %d a block", c.Cells, per), columns)
			if len(drawn)+3 <= lines {
				head, lines = head+"\n"+terminal.Cut("█ running ▒ kept ▓ shared · free", columns), lines-1
			}
		}
		fmt.Fprintf(&sb, "\n%s\n%s\n", head, strings.Join(drawn, "\n"))
		lines -= len(drawn) + 2
	}
	return sb.String()
}
