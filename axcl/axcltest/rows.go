package axcltest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// checkRows: rows that are saved, restored or copied arrive where they are sent and nowhere else,
// in the layout that is promised, and a text goes on from them.
func checkRows(t TB, d axcl.Device, all []named) {
	for _, y := range all {
		spec := write(t, y.tiny)
		m := load(t, d, spec)
		ref, stop := reference(t, spec)
		checkLayout(t, y.name, m, ref, y.tiny.withDefaults())
		checkText(t, y.name, m, ref)
		checkUntouched(t, y.name, m)
		shuffle(t, y.name, m, m.Shape().Cells, 40)
		checkBadRows(t, y.name, m)
		stop()
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		row := make([]byte, m.Shape().RowBytes())
		for what, err := range map[string]error{"save": m.Save([]uint32{1}, row), "restore": m.Restore([]uint32{1}, row),
			"copy": m.Copy([]uint32{1}, []uint32{2})} {
			if !errors.Is(err, axcl.ErrClosed) {
				t.Errorf("%s: %s after close: %v", y.name, what, err)
			}
		}
	}
}

// checkLayout: a row is, layer after layer, its K and its V, as the software card has them.
func checkLayout(t TB, name string, m, ref axcl.Model, y Tiny) {
	s := m.Shape()
	if s.Piece != axcl.PieceCells(s) || s.Piece < 1 || s.RowBytes() != y.kept()*4 {
		t.Fatalf("%s: a piece is %d cells of %d bytes", name, s.Piece, s.RowBytes())
	}
	embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
	sc := script{passes: prompt(3000, 0, 9, s.MaxRows(), func(i int) uint32 { return uint32(i) })}
	for _, x := range []axcl.Model{m, ref} {
		if _, err := play(x, sc, false, embed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	cells := []uint32{8, 2, 3, 4, 0}
	got, want := make([]byte, len(cells)*s.RowBytes()), make([]byte, len(cells)*s.RowBytes())
	if err := errors.Join(m.Save(cells, got), ref.Save(cells, want)); err != nil {
		t.Fatalf("%s: save: %v", name, err)
	}
	for i, at := range cells {
		got, want := got[i*s.RowBytes():][:s.RowBytes()], want[i*s.RowBytes():][:s.RowBytes()]
		for part := range 2 * (y.Layers - y.Shared) {
			n := 2 * y.KVHeads * y.dim(part/2)
			if c := Cosine(halves(got[:n]), halves(want[:n])); !(c >= Same) {
				t.Errorf("%s: cell %d, part %d is another than the software card's, cosine %.6f", name, at, part, c)
			}
			got, want = got[n:], want[n:]
		}
	}
}

// checkText: a text goes on from rows that were saved, overwritten and restored elsewhere, and from
// rows that were copied.
func checkText(t TB, name string, m, ref axcl.Model) {
	s := m.Shape()
	const n = 10
	embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
	low := func(i int) uint32 { return uint32(i) }
	moved := func(i int) uint32 { return []uint32{20, 21, 22, 23, 14, 13, 11, 30, 31, 12, 24, 25}[i] }
	again := func(i int) uint32 { return []uint32{2, 3, 4, 5, 6, 7, 0, 33, 34, 1, 8, 9}[i] }
	cells := func(at func(i int) uint32) (all []uint32) {
		for i := range n {
			all = append(all, at(i))
		}
		return all
	}
	play1 := func(x axcl.Model, passes [][]row) [][]result {
		got, err := play(x, script{passes: passes}, false, embed)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return got
	}
	begin := prompt(3100, 0, n, s.MaxRows(), low)
	play1(ref, begin)
	play1(m, begin)
	want := play1(ref, prompt(3100, n, 2, 1, low))
	// In pieces of three, so that pieces end within runs.
	piece := min(3, s.Piece)
	rows := make([]byte, n*s.RowBytes())
	for i := 0; i < n; i += piece {
		end := min(i+piece, n)
		if err := m.Save(cells(low)[i:end], rows[i*s.RowBytes():end*s.RowBytes()]); err != nil {
			t.Fatalf("%s: save: %v", name, err)
		}
	}
	play1(m, prompt(3200, 0, n+2, s.MaxRows(), low)) // another text in its cells
	for i := 0; i < n; i += piece {
		end := min(i+piece, n)
		if err := m.Restore(cells(moved)[i:end], rows[i*s.RowBytes():end*s.RowBytes()]); err != nil {
			t.Fatalf("%s: restore: %v", name, err)
		}
	}
	if diff := differ(play1(m, prompt(3100, n, 2, 1, moved)), want); diff != "" {
		t.Errorf("%s: after save and restore: %s", name, diff)
	}
	for i := 0; i < n; i += piece {
		end := min(i+piece, n)
		if err := m.Copy(cells(again)[i:end], cells(moved)[i:end]); err != nil {
			t.Fatalf("%s: copy: %v", name, err)
		}
	}
	if diff := differ(play1(m, prompt(3100, n, 2, 1, again)), want); diff != "" {
		t.Errorf("%s: after copies: %s", name, diff)
	}
}

// shuffle makes random calls on the first cells of m, keeps account of what each must hold, and
// compares all of them in the end. What was in the cells is gone then.
func shuffle(t TB, name string, m axcl.Model, cells, calls int) {
	s := m.Shape()
	n := s.RowBytes()
	rng := rand.New(rand.NewPCG(1, uint64(cells)))
	held := make([][]byte, cells)
	all := make([]uint32, cells)
	for c := range held {
		all[c] = uint32(c)
		held[c] = make([]byte, n)
		for i := range held[c] {
			held[c][i] = byte(rng.Uint32()) &^ 0x40 // as bf16 no NaN and no infinity: a later row may lie beside it
		}
	}
	for piece := range slices.Chunk(all, s.Piece) {
		if err := m.Restore(piece, bytes.Join(held[piece[0]:int(piece[0])+len(piece)], nil)); err != nil {
			t.Fatalf("%s: restore: %v", name, err)
		}
	}
	// Cells in runs and alone, ascending and not.
	some := func(most int) (list []uint32) {
		for len(list) < most {
			at, k := rng.IntN(cells), 1+rng.IntN(5)
			for c := at; c < min(at+k, cells) && len(list) < most; c++ {
				if slices.Contains(list, uint32(c)) {
					return list
				}
				list = append(list, uint32(c))
			}
		}
		return list
	}
	for range calls {
		list := some(1 + rng.IntN(min(s.Piece, cells/2)))
		switch rng.IntN(3) {
		case 0:
			got := make([]byte, len(list)*n)
			if err := m.Save(list, got); err != nil {
				t.Fatalf("%s: save: %v", name, err)
			}
			for i, c := range list {
				if !bytes.Equal(got[i*n:][:n], held[c]) {
					t.Fatalf("%s: cell %d of %d is saved as what it does not hold", name, c, list)
				}
			}
		case 1:
			from := make([]byte, len(list)*n)
			for i, c := range list {
				for k := range n {
					from[i*n+k] = byte(rng.Uint32()) &^ 0x40
				}
				held[c] = from[i*n:][:n]
			}
			if err := m.Restore(list, from); err != nil {
				t.Fatalf("%s: restore: %v", name, err)
			}
		default:
			to, from := list[:len(list)/2], list[len(list)-len(list)/2:]
			if err := m.Copy(to, from); err != nil {
				t.Fatalf("%s: copy: %v", name, err)
			}
			for i, c := range to {
				held[c] = held[from[i]]
			}
		}
	}
	for piece := range slices.Chunk(all, s.Piece) {
		got := make([]byte, len(piece)*n)
		if err := m.Save(piece, got); err != nil {
			t.Fatalf("%s: save: %v", name, err)
		}
		for i, c := range piece {
			if !bytes.Equal(got[i*n:][:n], held[c]) {
				t.Errorf("%s: after %d calls cell %d holds what no pass put there", name, calls, c)
			}
		}
	}
}

// checkUntouched: a pass, whichever group it runs on, writes the cells that it names, and no other.
func checkUntouched(t TB, name string, m axcl.Model) {
	s := m.Shape()
	n := s.RowBytes()
	all := make([]uint32, s.Cells)
	held, got := make([]byte, s.Cells*n), make([]byte, s.Cells*n)
	rng := rand.New(rand.NewPCG(4, uint64(s.Cells)))
	for i := range held {
		held[i] = byte(rng.Uint32()) &^ 0x40 // as bf16 a number
	}
	for c := range all {
		all[c] = uint32(c)
	}
	each := func(call func([]uint32, []byte) error, b []byte) {
		for piece := range slices.Chunk(all, s.Piece) {
			if err := call(piece, b[int(piece[0])*n:][:len(piece)*n]); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
	for i, g := range s.Groups {
		each(m.Restore, held)
		var rows []row
		for r := range min(g.Rows, 3) {
			x := row{token: uint64(3300 + r), pos: uint32(r), cell: uint32((5 + 9*r) % (s.Cells - 1)), rows: upTo(r)}
			if g.Cells > 0 {
				x.cells = []uint32{uint32(g.Cells - 1)} // no smaller group will do
			}
			rows = append(rows, x)
		}
		if err := m.Run(build(s, rows, embed)); err != nil {
			t.Fatalf("%s: group %d: %v", name, i, err)
		}
		each(m.Save, got)
		for c := range all {
			same := bytes.Equal(got[c*n:][:n], held[c*n:][:n])
			if named := slices.ContainsFunc(rows, func(x row) bool { return x.cell == uint32(c) }); named == same {
				t.Errorf("%s: after a pass on group %d that writes cell %d: %v, it is as it was: %v", name, i, c, named, same)
			}
		}
	}
}

// checkBadRows: what is not allowed is refused, and does nothing.
func checkBadRows(t TB, name string, m axcl.Model) {
	s := m.Shape()
	n := s.RowBytes()
	before, after := make([]byte, 2*n), make([]byte, 2*n)
	if err := m.Save([]uint32{0, 1}, before); err != nil {
		t.Fatalf("%s: save: %v", name, err)
	}
	many := make([]uint32, s.Piece+1)
	for i := range many {
		many[i] = uint32(i)
	}
	for i, x := range []struct {
		cells []uint32
		bytes int
	}{{[]uint32{0, uint32(s.Cells)}, 2 * n}, {[]uint32{0, 1 << 31}, 2 * n}, {[]uint32{1, 1}, 2 * n}, {[]uint32{0, 1}, 2*n - 1},
		{[]uint32{0, 1}, 2*n + 1}, {[]uint32{0, 1}, 0}, {nil, n}, {many, len(many) * n}} {
		if err := m.Save(x.cells, make([]byte, x.bytes)); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: bad save %d: %v", name, i, err)
		}
		if err := m.Restore(x.cells, make([]byte, x.bytes)); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: bad restore %d: %v", name, i, err)
		}
	}
	for i, x := range [][2][]uint32{{{0, 1}, {2}}, {{0, uint32(s.Cells)}, {2, 3}}, {{0, 1}, {2, uint32(s.Cells)}}, {{0, 0}, {2, 3}},
		{{0, 1}, {2, 2}}, {{0, 1}, {1, 2}}, {{0}, {0}}, {many, many}} {
		if err := m.Copy(x[0], x[1]); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: bad copy %d: %v", name, i, err)
		}
	}
	if err := errors.Join(m.Save(nil, nil), m.Restore(nil, nil), m.Copy(nil, nil)); err != nil {
		t.Errorf("%s: no cells at all: %v", name, err)
	}
	if err := m.Save([]uint32{0, 1}, after); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%s: a call that was refused changed a cell (%v)", name, err)
	}
}
