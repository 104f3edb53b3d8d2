// Package prove finds out what a card can do with a model, in addition to what every card does. Do
// rows that share a call give the same results as alone? May the cells of a text be anywhere? Do
// states stay unchanged? Are wide passes right?
//
// Each probe first sends rows alone and in order. Then it sends them together, or in unusual cells,
// and compares the outputs of the last layer. A faulty card computes with other positions or masks.
// So each probe also makes these wrong results on purpose, and a result must be much nearer to the
// right one than to the wrong ones. This works for any rounding of the model.
//
// A probe is a table of passes, with names for the results of their rows, and of claims about these
// results. [Model.Abilities], [Model.Wide] and [Model.Alike] make the tables for a model's shape
// and run them. They must run on the goroutine that owns the card, before any sequence does.
// Afterwards no one may rely on the contents of the cells and slots. Nothing needs to be closed.
package prove

import (
	"context"
	"fmt"
	"math"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
)

// Proven says what a model on this card was shown to do, beyond what every card does. The engine
// does not use anything else.
type Proven struct {
	Chunk   bool // a prefill call that is not full gives the results of its rows alone
	Mixed   bool // rows of one call may have unrelated positions, cells and masks
	Scatter bool // a sequence may have any cells, in any order
	Kept    bool // a state is unchanged after passes that continued from it
	// Stepped: layers that keep a state compute a chunk wrong, but right if they take its rows one
	// by one, as passes then request. Chunk was found with this.
	Stepped bool
	// Narrow: a full wide pass, the second of two, or one after a decode gave other results than
	// its rows alone, or could not be tried. Then no wide pass is used, not even a full one.
	Narrow bool
}

// ErrWrong reports a card that computes wrongly, or otherwise than before, without an error.
var ErrWrong = ask.ErrWrong

// Model is what the probes test. Every field except Slots and Stepped must be set.
type Model struct {
	Shape axcl.Shape
	Vocab int // number of ids with an embedding
	// Run is axcl.Model's Run, under the caller's watchdog.
	Run func(p *axcl.Pass) error
	// Row fills row r of a pass: the token's embedding, and the further inputs of its layers.
	Row func(p *axcl.Pass, r int, id int32) error

	Slots   int  // for states; 0: no layer keeps a state
	Stepped bool // see [Proven]
}

// Row is a row of a pass: a token at a position, kept in a cell. It sees cells and earlier rows.
type Row struct {
	ID    int32
	Pos   uint32
	Cell  uint32
	Cells []uint32
	Rows  []int

	From, To uint32 // of a pass's first row: the states of a model that keeps them
}

// Try sends the rows in one pass, and returns each row's output of the last layer. For a whole
// decoder it returns the logits, its only output. Errors: Run's and Row's.
func (m *Model) Try(rows ...Row) ([][]uint16, error) { return m.tryHead(false, rows...) }

// tryHead is Try in which the last row may go through the LM head, as that of a prompt's last chunk
// does. A pass with the head may copy its new K and V to their cells in another way: while the head
// runs.
func (m *Model) tryHead(head bool, rows ...Row) ([][]uint16, error) {
	p, results, err := m.Pass(rows...)
	if err != nil {
		return nil, err
	}
	//rule:G23 ./engine TestWideProven false
	if head && !m.Shape.Whole && m.Shape.Out > 0 {
		p.Want, p.Argmax = []int{len(rows) - 1}, make([]int32, 1)
	}
	if err := m.Run(p); err != nil {
		return nil, err
	}
	out, width := make([][]uint16, p.Rows()), m.Telling()
	for r := range out {
		out[r] = (*results)[r*width : (r+1)*width]
	}
	return out, nil
}

// Pass returns the pass of these rows, and where it will write their results. Errors: Row's.
func (m *Model) Pass(rows ...Row) (*axcl.Pass, *[]uint16, error) {
	n, h := len(rows), m.Shape.Hidden
	cw, rw := axcl.Words(m.Shape.Cells), axcl.Words(n)
	p := &axcl.Pass{Hidden: make([]uint16, n*h), LayerInputs: make([]uint16, n*m.Shape.Layers*m.Shape.LayerInputs),
		Pos:      make([]uint32, n*m.Shape.Pos),
		Cell:     make([]uint32, n),
		SeeCells: make([]uint64, n*cw), SeeRows: make([]uint64, n*rw)}
	results, width := &p.HiddenOut, m.Telling()
	if m.Shape.Whole {
		results = &p.Logits
		for r := range n {
			p.Want = append(p.Want, r)
		}
	}
	*results = make([]uint16, n*width)
	for r, t := range rows {
		if err := m.Row(p, r, t.ID); err != nil {
			return nil, nil, err
		}
		for k := range m.Shape.Pos {
			p.Pos[r*m.Shape.Pos+k] = t.Pos
		}
		p.Cell[r] = t.Cell
		for _, c := range t.Cells {
			p.SeeCells[r*cw+int(c)/64] |= 1 << (c % 64)
		}
		for _, e := range t.Rows {
			p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
		}
	}
	p.From, p.To, p.Single = rows[0].From, rows[0].To, m.Stepped
	return p, results, nil
}

// Telling returns how many values the result of a row has. A whole decoder gives only its logits.
func (m *Model) Telling() int {
	if m.Shape.Whole {
		return m.Shape.Out
	}
	return m.Shape.Hidden
}

// wide returns the most rows of a pass that sees this many cells. narrow returns the fewest rows of
// any group for several rows. reach returns the farthest cell that such a group sees.
func (m *Model) wide(cells int) (rows int) {
	for _, g := range m.Shape.Groups {
		if g.Rows > 1 && g.Cells >= cells {
			rows = max(rows, g.Rows)
		}
	}
	return rows
}

func (m *Model) narrow() (rows int) {
	for _, g := range m.Shape.Groups {
		if g.Rows > 1 && (rows == 0 || g.Rows < rows) {
			rows = g.Rows
		}
	}
	return rows
}

func (m *Model) reach() (cells int) {
	for _, g := range m.Shape.Groups {
		if g.Rows > 1 {
			cells = max(cells, g.Cells)
		}
	}
	return cells
}

// short returns how many of up to most rows go in a call that is not full; two, if every call of
// two is full.
func (m *Model) short(most int) int {
	//rule:G23 ./engine TestFewRows$ min(most, max(m.narrow()-1, 2)) => most
	return min(most, max(m.narrow()-1, 2))
}

// together makes each row see those before it in the call.
func together(rows []Row) []Row {
	for r := range rows {
		rows[r].Rows = nil
		for e := range r {
			rows[r].Rows = append(rows[r].Rows, e)
		}
	}
	return rows
}

// cells returns n cells from one on.
func cells(from, n int) (c []uint32) {
	for i := range n {
		c = append(c, uint32(from+i))
	}
	return c
}

// call is a pass of a probe. Each row's result is stored under its name. A nil name stores none.
type call struct {
	rows []Row
	name func(r int) string
	head bool // the last row goes through the LM head
}

// as names the result of a call's one row, or of all its rows: "name 0", "name 1" …
func as(name string, rows ...Row) call {
	if len(rows) == 1 {
		return call{rows: rows, name: func(int) string { return name }}
	}
	return call{rows: rows, name: func(r int) string { return nth(name, r) }}
}

func nth(name string, i int) string { return fmt.Sprint(name, " ", i) }

// claim says that the result got equals the result right and none of the wrong ones, as far as
// these differ from right.
type claim struct {
	right, got string
	wrong      []string
	least      float64 // its own least limit: see Within; 0: none
}

// probe is a table of passes, and of claims about their results.
type probe struct {
	calls  []call
	claims []claim
	limit  float64 // the most distance of equal results; 0: near
}

// near is the most distance of equal results, relative to their length.
const near = 0.1

// results are the results of calls, by name.
type results map[string][]uint16

// try runs a probe and reports whether all its claims hold. Errors: those of passes, ctx's.
func (m *Model) try(ctx context.Context, seen results, p probe) (holds bool, err error) {
	for _, c := range p.calls {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		out, err := m.tryHead(c.head, c.rows...)
		if err != nil {
			return false, err
		}
		for r := range out {
			if c.name != nil {
				seen[c.name(r)] = out[r]
			}
		}
	}
	limit := p.limit
	if limit == 0 {
		limit = near
	}
	for _, c := range p.claims {
		var wrong [][]uint16
		for _, w := range c.wrong {
			wrong = append(wrong, seen[w])
		}
		if !Within(limit, c.least, seen[c.right], seen[c.got], wrong...) {
			return false, nil
		}
	}
	return true, nil
}

// Same reports whether got equals right and none of the wrong values, as far as these differ from
// right.
func Same(right, got []uint16, wrong ...[]uint16) bool { return Within(near, 0, right, got, wrong...) }

// Within is Same with another limit. Wrong values do not lower it below least.
func Within(limit, least float64, right, got []uint16, wrong ...[]uint16) bool {
	d := Distance(right, got)
	if math.IsNaN(d) {
		return false
	}
	for _, w := range wrong {
		if away := Distance(right, w); away > 1e-6 {
			limit = min(limit, max(away/2, least))
		}
	}
	return d <= limit
}

// Distance returns how far apart two outputs are, relative to the length of the first.
func Distance(a, b []uint16) float64 {
	var d, n float64
	for i := range a {
		x, y := float64(axcl.Float32(a[i])), float64(axcl.Float32(b[i]))
		d += (x - y) * (x - y)
		n += x * x
	}
	if n == 0 {
		return d
	}
	return math.Sqrt(d / n)
}
