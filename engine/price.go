package engine

import (
	"time"

	"github.com/axle-llm/axle/axcl"
)

// prices computes the time of operations on one model's rows, from the shape, from what the card
// was shown to do, and from the cost table.
type prices struct {
	shape  axcl.Shape
	proven Proven
	costs  costs

	decode    int // the smallest group that takes one row
	wide      int // most rows of a wide pass; 0: no wide passes
	wideReach int // cells that wide passes can see, from the first
	minWide   int // rows of the narrowest wide group
}

// groups finds out the use of each of the shape's groups.
func (p *prices) groups() {
	p.decode = p.shape.GroupFor(1, 0)
	p.wide, p.wideReach, p.minWide = 0, 0, 0
	for _, g := range p.shape.Groups {
		if g.Rows > 1 {
			p.wide = max(p.wide, g.Rows)
			p.wideReach = max(p.wideReach, g.Cells)
			if p.minWide == 0 || g.Rows < p.minWide {
				p.minWide = g.Rows
			}
		}
	}
}

// lone returns the time of a row that goes alone and sees this many cells. It runs on the smallest
// group that reaches.
func (p *prices) lone(reach int) float64 {
	if g := p.shape.GroupFor(1, min(reach, p.shape.Cells)); g >= 0 {
		return p.costs.group[g]
	}
	return p.costs.group[p.decode]
}

// widest returns the most rows of a pass that sees this many cells.
func (p *prices) widest(cells int) (rows int) {
	for _, g := range p.shape.Groups {
		if g.Cells >= cells {
			rows = max(rows, g.Rows)
		}
	}
	return rows
}

// redo returns the time to evaluate rows [from, to) of a text that lies low.
func (p *prices) redo(from, to int) (sec float64) {
	for from < to {
		n := 1
		if g := p.shape.GroupFor(p.minWide, from); p.wide > 0 && g >= 0 && p.chunks(to-from) {
			n, sec = min(to-from, p.wide), sec+p.costs.group[g]
		} else {
			sec += p.lone(from)
		}
		from += n
	}
	return sec
}

// chunks reports whether this many rows of a prompt go in a wide pass.
func (p *prices) chunks(rows int) bool { return p.proven.Chunk && rows > 1 || rows >= p.minWide }

// stretch returns the time of this many rows of a prompt that see reach cells. It is never less
// than the measured time of rows that see fewer. Otherwise a small group that was measured in a
// busy moment would send prompts to high cells for good.
func (p *prices) stretch(reach, rows int) (sec float64) {
	wide := p.shape.GroupFor(p.minWide, reach)
	if wide < 0 || !p.chunks(rows) {
		return float64(rows) * p.atLeast(p.shape.GroupFor(1, min(reach, p.shape.Cells)), p.lone(reach))
	}
	return p.atLeast(wide, p.costs.group[wide])
}

// atLeast returns sec, or the time of a group with as many rows as g that sees fewer cells, if that
// is more.
func (p *prices) atLeast(g int, sec float64) float64 {
	for i, other := range p.shape.Groups {
		if g >= 0 && other.Rows == p.shape.Groups[g].Rows && other.Cells < p.shape.Groups[g].Cells {
			sec = max(sec, p.costs.group[i])
		}
	}
	return sec
}

// dear returns how much more time a row of a prompt takes alone than in a wide pass.
func (p *prices) dear() float64 {
	g := p.shape.GroupFor(p.minWide, p.wideReach)
	if g < 0 {
		return 0
	}
	return p.lone(p.wideReach+1) - p.costs.group[g]/float64(p.wide)
}

// pieceHeads is how many answers the longest piece is taken to carry beside a prompt.
const pieceHeads = 4

// longest returns the time of the longest pass.
func (p *prices) longest() time.Duration {
	most := 0.0
	for i, g := range p.shape.Groups {
		heads := 1
		if g.Rows > 1 && p.shape.State == 0 { // else a pass has rows of one sequence
			heads = pieceHeads
		}
		sec := p.costs.group[i]
		if !p.costs.onlyHost {
			sec += float64(heads) * p.costs.head
		}
		most = max(most, sec)
	}
	return time.Duration(most * float64(time.Second))
}

// priceOf returns the time to move the rows to cells in as many runs. A piece is at most
// Shape.Piece rows.
func (p *prices) priceOf(rows []int32) float64 {
	if len(rows) == 0 {
		return 0
	}
	runs := 1 + (len(rows)-1)/max(p.shape.Piece, 1)
	for i := 1; i < len(rows); i++ {
		if rows[i] != rows[i-1]+1 {
			runs++
		}
	}
	return float64(runs)*p.costs.move.Run + float64(len(rows))*p.costs.move.Row
}
