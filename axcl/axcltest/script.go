package axcltest

import (
	"fmt"
	"math"

	"github.com/axle-llm/axle/axcl"
)

// row is one row of a script's pass: which token it is (a number that gives its embedding), where,
// and what it sees.
type row struct {
	token uint64
	pos   uint32
	cell  uint32
	cells []uint32 // that it sees
	rows  []int    // earlier rows of the pass that it sees
}

// script is a list of passes, each a list of rows, that starts from cells of unknown content: a row
// sees only what the script wrote.
type script struct {
	name    string
	ability string // what a card lacks where this differs from the rows alone; empty for what every card must do
	passes  [][]row
}

// result is what a row gave.
type result struct {
	hidden, logits []uint16
	argmax         int32
}

// build makes the pass for rows that all want their output.
func build(s axcl.Shape, rows []row, embed func(token uint64) []uint16) *axcl.Pass {
	n, cw, rw := len(rows), axcl.Words(s.Cells), axcl.Words(len(rows))
	p := &axcl.Pass{SeeCells: make([]uint64, n*cw), SeeRows: make([]uint64, n*rw), HiddenOut: make([]uint16, n*s.Hidden)}
	for r, x := range rows {
		p.Hidden, p.LayerInputs = append(p.Hidden, embed(x.token)...), append(p.LayerInputs, layerInputs(s, x.token)...)
		for k := range max(s.Pos, 1) { // of three components the further ones are others, by the token
			p.Pos = append(p.Pos, x.pos+uint32(k)*uint32(x.token%5))
		}
		p.Cell = append(p.Cell, x.cell)
		for _, c := range x.cells {
			p.SeeCells[r*cw+int(c)/64] |= 1 << (c % 64)
		}
		for _, e := range x.rows {
			p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
		}
		if s.Out > 0 {
			p.Want = append(p.Want, r)
		}
	}
	if s.Out > 0 {
		p.Logits, p.Argmax = make([]uint16, n*s.Out), make([]int32, n)
	}
	if s.State > 0 { // in place, until someone says otherwise
		if p.To = 1; len(rows[0].cells) > 0 {
			p.From = 1
		}
	}
	return p
}

// play runs the script as it is, or with every row in a pass of its own.
func play(m axcl.Model, sc script, alone bool, embed func(uint64) []uint16) ([][]result, error) {
	return playOn(m, sc, alone, false, embed)
}

// playOn plays a script; where layers keep a state, each pass leaves it in another slot than it
// read, and singly is Pass.Single. Scripts for such models take one sequence after the other.
func playOn(m axcl.Model, sc script, alone, singly bool, embed func(uint64) []uint16) ([][]result, error) {
	s := m.Shape()
	slot := uint32(1)
	var out [][]result
	for i, rows := range sc.passes {
		var res []result
		take := func(rows []row) error {
			p := build(s, rows, embed)
			if s.State > 0 {
				if p.From != 0 {
					p.From = slot
				}
				slot = slot%uint32(s.Slots) + 1
				p.To, p.Single = slot, singly
			}
			if err := m.Run(p); err != nil {
				return fmt.Errorf("pass %d: %w", i, err)
			}
			for r := range rows {
				x := result{hidden: p.HiddenOut[r*s.Hidden:][:s.Hidden]}
				if s.Out > 0 {
					x.logits, x.argmax = p.Logits[r*s.Out:][:s.Out], p.Argmax[r]
				}
				res = append(res, x)
			}
			return nil
		}
		if !alone {
			if err := take(rows); err != nil {
				return nil, err
			}
		} else {
			for _, x := range rows {
				x.cells = append([]uint32(nil), x.cells...)
				for _, e := range x.rows {
					x.cells = append(x.cells, rows[e].cell)
				}
				x.rows = nil
				if err := take([]row{x}); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, res)
	}
	return out, nil
}

// Same is the cosine above which two rows are the same but for rounding.
const Same = 0.9999

// alikeBF16 is Same for models whose states are bf16: they are rounded once a call, and the calls
// are not the same.
const alikeBF16 = 0.999

// alikeShared is Same for models whose layers share K and V: what one of them rounds otherwise,
// several layers read. Where a processor multiplies bf16 with bf16, one row of some hundred has
// 0.99988 on the card in software.
const alikeShared = 0.9997

// differ says where two results differ by more than rounding; empty when they do not.
func differ(got, want [][]result) string { return differBy(got, want, Same) }

// differBy does so for rows that may agree to another cosine.
func differBy(got, want [][]result, least float64) string {
	for i := range want {
		for r := range want[i] {
			g, w := got[i][r], want[i][r]
			if c := Cosine(g.hidden, w.hidden); !(c >= least) {
				return fmt.Sprintf("pass %d, row %d: hidden states agree only to a cosine of %.6f", i, r, c)
			}
			if w.logits == nil {
				continue
			}
			if c := Cosine(g.logits, w.logits); !(c >= least) {
				return fmt.Sprintf("pass %d, row %d: logits agree only to a cosine of %.6f", i, r, c)
			}
			if least == Same && g.argmax != w.argmax && !tied(w.logits, g.argmax, w.argmax) {
				return fmt.Sprintf("pass %d, row %d: the largest logit is %d, not %d", i, r, g.argmax, w.argmax)
			}
		}
	}
	return ""
}

// tied: the two logits are within two roundings of each other, so that either may come out as the
// larger.
func tied(logits []uint16, a, b int32) bool {
	if a < 0 || int(a) >= len(logits) {
		return false
	}
	x, y := float64(axcl.Float32(logits[a])), float64(axcl.Float32(logits[b]))
	return math.Abs(x-y) <= math.Max(math.Abs(x), math.Abs(y))/64
}

// Cosine of two bf16 vectors; NaN when either holds one or is zero and the other is not, 1 when
// both are zero.
func Cosine(a, b []uint16) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(axcl.Float32(a[i])), float64(axcl.Float32(b[i]))
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 && bb == 0 {
		return 1
	}
	return ab / math.Sqrt(aa*bb)
}

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// prompt makes passes of at most chunk rows for tokens first.. of one sequence whose i-th token
// goes to cell(i), continuing after `done` tokens.
func prompt(first uint64, done, n, chunk int, cell func(i int) uint32) (passes [][]row) {
	for n > 0 {
		k := min(n, chunk)
		var rows []row
		for r := range k {
			x := row{token: first + uint64(done+r), pos: uint32(done + r), cell: cell(done + r), rows: upTo(r)}
			for i := range done {
				x.cells = append(x.cells, cell(i))
			}
			rows = append(rows, x)
		}
		passes, done, n = append(passes, rows), done+k, n-k
	}
	return passes
}

// scripts are what a model of shape s is put through. Each group is used; chunk borders are
// crossed; cells are permuted, shared and reused.
func scripts(s axcl.Shape) []script {
	low := func(i int) uint32 { return uint32(i) }
	wide, reach := 1, 0
	for _, g := range s.Groups {
		if g.Rows > 1 {
			wide, reach = max(wide, g.Rows), max(reach, g.Cells)
		}
	}
	join := func(parts ...[][]row) (out [][]row) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	few := min(24, s.Cells/2)
	all := []script{
		{"decode, a row at a time", "", prompt(100, 0, few, 1, low)},
		{"decode, cells from the far end", "scatter", prompt(200, 0, few, 1, func(i int) uint32 { return uint32(s.Cells - 1 - i) })},
		{"decode, a cell used again by another sequence", "", join(prompt(300, 0, 3, 1, low), prompt(320, 0, 4, 1, low))},
	}
	if wide == 1 {
		return all
	}
	long := min(2*wide+wide/2+1, reach) // crosses chunk borders, ends in a short chunk
	room := reach / 4
	scattered := func(i int) uint32 { return uint32((i*7 + 3) % reach) }
	for gcd(7, reach) != 1 {
		reach--
	}
	all = append(all,
		script{"a full chunk", "wide", prompt(400, 0, wide, wide, low)},
		script{"a short chunk", "chunk", join(prompt(500, 0, min(5, wide), wide, low), prompt(500, min(5, wide), 3, 1, low))},
		script{"several chunks, then decode", "chunk",
			join(prompt(600, 0, long, wide, low), prompt(600, long, min(4, s.Cells-long), 1, low))},
		script{"chunks into scattered cells, then decode", "scatter", join(prompt(700, 0, min(wide+3, reach), wide, scattered),
			prompt(700, min(wide+3, reach), min(3, max(reach-wide-3, 0)), 1, scattered))},
	)
	if wide < s.Cells {
		// Two texts, one after the other: what the first has left somewhere must not come in the
		// place of the second.
		all = append(all, script{"two full chunks in a row, and one after a decode", "wide",
			join(prompt(1700, 0, wide, wide, low), prompt(1800, 0, wide, wide, low), prompt(1800, wide, 1, 1, low),
				prompt(1900, 0, wide, wide, low), prompt(1900, wide, 1, 1, low))})
	}
	if room < 4 {
		return all
	}
	if s.State > 0 { // a state is that of one sequence, and the gaps of another are not its own
		return all
	}
	// Sequences in their own stripes of cells, then one pass with a row of each at its own
	// position.
	at := func(q int) func(i int) uint32 { return func(i int) uint32 { return uint32(q*room + i) } }
	lens := []int{room - 1, 1, min(3, room-1)}
	var begin [][]row
	var mixed []row
	for q, n := range lens {
		begin = append(begin, prompt(uint64(800+100*q), 0, n, wide, at(q))...)
		if next := prompt(uint64(800+100*q), n, 1, 1, at(q))[0][0]; len(mixed) < wide {
			mixed = append(mixed, next)
		}
	}
	all = append(all, script{"rows of several sequences in one pass", "mixed", join(begin, [][]row{mixed})})
	// Two sequences share the cells of a prefix; one pass carries two rows of each, each pair
	// seeing only its own.
	n := min(3, room)
	prefix := prompt(1200, 0, n, wide, at(0))
	var seen []uint32
	for i := range n {
		seen = append(seen, at(0)(i))
	}
	if wide >= 4 {
		p := uint32(n)
		fork := []row{{token: 1300, pos: p, cell: at(1)(0), cells: seen}, {token: 1400, pos: p, cell: at(2)(0), cells: seen},
			{token: 1301, pos: p + 1, cell: at(1)(1), cells: seen, rows: []int{0}}, {token: 1401, pos: p + 1, cell: at(2)(1), cells: seen,
				rows: []int{1}}}
		all = append(all, script{"a prefix shared by two sequences", "mixed", join(prefix, [][]row{fork})})
	}
	// A row that skips cells in between, and one far ahead of its context.
	var even []uint32
	for i := 0; i < room; i += 2 {
		even = append(even, uint32(i))
	}
	gap := []row{{token: 1500, pos: uint32(room), cell: uint32(room), cells: even},
		{token: 1501, pos: uint32(room + 20), cell: uint32(room + 1), cells: even[:1]}}
	return append(all, script{"masks with gaps and positions ahead", "mixed", join(prompt(1450, 0, room, wide, low), [][]row{gap})})
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
