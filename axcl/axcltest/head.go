package axcltest

import (
	"bytes"
	"errors"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// checkHead: hidden rows that passes gave go through the head alone to the bits that the passes
// gave, few or many at once. Cells and states stay as they are, and the next pass is as without.
func checkHead(t TB, d axcl.Device, all []named) {
	for _, y := range all {
		spec := write(t, y.tiny)
		m := load(t, d, spec)
		s := m.Shape()
		run := func(first uint64, done, n int) (out []result) {
			t.Helper()
			for _, rows := range prompt(first, done, n, s.MaxRows(), func(i int) uint32 { return uint32(i) }) {
				p := build(s, rows, func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) })
				if err := m.Run(p); err != nil {
					t.Fatalf("%s: run: %v", y.name, err)
				}
				out = append(out, resultsOf(s, p)...)
			}
			return out
		}
		const tokens = 12
		run(6000, 0, tokens)
		want := run(6000, tokens, 1)
		given := run(6000, 0, tokens)
		before := everyByte(t, y.name, m)
		for _, n := range []int{1, 3, 9, axcl.HeadRows} { // the card takes up to eight at a time
			throughHead(t, y.name, m, given, n)
		}
		checkBadHead(t, y.name, m, given[0])
		throughHead(t, y.name, m, given, 2)
		if after := everyByte(t, y.name, m); !bytes.Equal(before, after) {
			t.Errorf("%s: cells or states are others after rows went through the head alone", y.name)
		}
		if got := run(6000, tokens, 1); !equal([][]result{got}, [][]result{want}) {
			t.Errorf("%s: a pass gives something else after rows went through the head alone", y.name)
		}
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := m.Head(given[0].hidden, make([]uint16, s.Out)); !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s: rows through the head after close: %v", y.name, err)
		}
		spec.Head = ""
		m = load(t, d, spec)
		if err := m.Head(given[0].hidden, make([]uint16, s.Out)); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: rows through a head that there is not: %v", y.name, err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// checkMeanwhile: a pass calls Meanwhile once, when its hidden rows are there, and keeps its rows
// as it does without. A pass that is not allowed does not call it.
func checkMeanwhile(t TB, d axcl.Device, all []named) {
	for _, y := range all {
		m := load(t, d, write(t, y.tiny))
		s := m.Shape()
		run := func(done, n int, meanwhile bool) (out [][]uint16) {
			t.Helper()
			for _, rows := range prompt(6100, done, n, s.MaxRows(), func(i int) uint32 { return uint32(i) }) {
				p := build(s, rows, func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) })
				p.Want, p.Logits, p.Argmax = nil, nil, nil
				var then []uint16
				calls := 0
				if meanwhile {
					p.Meanwhile = func() { calls, then = calls+1, slices.Clone(p.HiddenOut) }
				}
				if err := m.Run(p); err != nil {
					t.Fatalf("%s: run: %v", y.name, err)
				}
				if meanwhile && (calls != 1 || !slices.Equal(then, p.HiddenOut)) {
					t.Errorf("%s: the host's work was called %d times, its hidden rows are the pass's: %t", y.name, calls,
						slices.Equal(then, p.HiddenOut))
				}
				out = append(out, p.HiddenOut)
			}
			return out
		}
		const tokens = 11
		want := append(run(0, tokens, false), run(tokens, 2, false)...)
		cells := make([]uint32, tokens+2)
		for i := range cells {
			cells[i] = uint32(i)
		}
		for range 2 {
			if err := m.Clear(cells); err != nil { // else the rows that were there would do
				t.Fatalf("%s: clear: %v", y.name, err)
			}
			if got := append(run(0, tokens, true), run(tokens, 2, true)...); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s: passes with work of the host meanwhile give something else", y.name)
			}
		}
		bad := axcl.Pass{Meanwhile: func() { t.Errorf("%s: a pass without rows called the host's work", y.name) }}
		if err := m.Run(&bad); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: a pass without rows: %v", y.name, err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// throughHead sends n of the rows through the head, in another order than they were given in.
func throughHead(t TB, name string, m axcl.Model, given []result, n int) {
	t.Helper()
	s := m.Shape()
	var rows, want []uint16
	for i := range n {
		r := given[(i*5+7)%len(given)]
		rows, want = append(rows, r.hidden...), append(want, r.logits...)
	}
	got := slices.Repeat([]uint16{0xffff}, n*s.Out)
	if err := m.Head(rows, got); err != nil {
		t.Fatalf("%s: %d rows through the head: %v", name, n, err)
	}
	for i := range n {
		if g, w := got[i*s.Out:][:s.Out], want[i*s.Out:][:s.Out]; !slices.Equal(g, w) {
			t.Errorf("%s: row %d of %d through the head: other bits than the pass gave, cosine %.6f", name, i, n, Cosine(g, w))
		}
	}
}

// checkBadHead: what is not allowed is refused, and no logit is written.
func checkBadHead(t TB, name string, m axcl.Model, good result) {
	s := m.Shape()
	for i, n := range [][2]int{{0, 0}, {0, s.Out}, {s.Hidden - 1, s.Out}, {s.Hidden + 1, s.Out}, {s.Hidden, 0}, {s.Hidden, s.Out - 1},
		{s.Hidden, 2 * s.Out}, {(axcl.HeadRows + 1) * s.Hidden, (axcl.HeadRows + 1) * s.Out}} {
		rows := slices.Repeat(good.hidden, axcl.HeadRows+1)[:n[0]]
		logits := make([]uint16, n[1])
		if err := m.Head(rows, logits); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: bad call %d of the head: %v", name, i, err)
		}
		if slices.ContainsFunc(logits, func(v uint16) bool { return v != 0 }) {
			t.Errorf("%s: bad call %d of the head wrote logits", name, i)
		}
	}
}

// everyByte is what the cells of a piece hold, and slot 1.
func everyByte(t TB, name string, m axcl.Model) []byte {
	t.Helper()
	s := m.Shape()
	cells := make([]uint32, s.Piece)
	for i := range cells {
		cells[i] = uint32(i)
	}
	rows, state := make([]byte, len(cells)*s.RowBytes()), make([]byte, s.StatePiece())
	err := m.Save(cells, rows)
	if err == nil && s.State > 0 {
		err = m.SaveState(1, 0, state)
	}
	if err != nil {
		t.Fatalf("%s: save: %v", name, err)
	}
	return append(rows, state...)
}
