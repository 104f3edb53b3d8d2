package axcltest

import (
	"context"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// Abilities are what a card may or may not do beyond a row at a time, as the scripts show it.
type Abilities struct {
	Wide    bool // full prefill calls give what their rows give alone: the second of two in a row, and one after a decode, too
	Chunk   bool // prefill calls that are not full give what their rows give alone
	Mixed   bool // rows of one call may have unrelated positions, cells and masks
	Scatter bool // a sequence's cells may be any, in any order
	Place   bool // a decode row's K and V are stored in place, without copies

	// Of layers that keep a state, where the model has them: what passes went on from is as it was;
	// a chunk is right only where such layers take its rows one by one. Chunk is what they do with
	// a chunk at once.
	States, Kept, Stepped bool

	// What Alike finds, in CheckPackage only: the same rows give the same bits in other cells, in
	// the same order and in any.
	Ordered, Anywhere bool
}

// Try plays every script on a loaded model, together and with each row alone, and says what the
// card lacks in plain words. It needs no other card to compare with. embed gives a hidden row for a
// number; rows of real tokens make the sharpest test. The error is Run's.
func Try(m axcl.Model, embed func(token uint64) []uint16) (a Abilities, lacks []string, err error) {
	a = Abilities{Wide: true, Chunk: true, Mixed: true, Scatter: true, Place: m.Shape().Place}
	for _, sc := range scripts(m.Shape()) {
		alone := sc
		if sc.ability == "scatter" {
			alone = inOrder(sc)
		}
		want, err := play(m, alone, true, embed)
		if err != nil {
			return Abilities{}, nil, err
		}
		got, err := play(m, sc, false, embed)
		if err != nil {
			return Abilities{}, nil, err
		}
		diff := differ(got, want)
		if diff == "" {
			continue
		}
		lacks = append(lacks, sc.name+": "+diff)
		switch sc.ability {
		case "wide":
			a.Wide, a.Chunk, a.Mixed = false, false, false
		case "chunk":
			a.Chunk = false
		case "mixed":
			a.Mixed = false
		case "scatter":
			a.Scatter = false
		default:
			a.Chunk, a.Mixed = false, false
		}
	}
	if a.States = m.Shape().State > 0; !a.States {
		return a, lacks, nil
	}
	a.Mixed = false // a pass carries rows of one sequence
	if a.Kept, err = keeps(m, embed); err == nil && !a.Kept {
		lacks = append(lacks, "snapshots: a pass changes the state that it goes on from")
	}
	if err == nil && !a.Chunk {
		a.Stepped, err = stepped(m, "chunk", embed)
	}
	if err == nil && !a.Chunk && !a.Scatter { // it may be the chunks that are wrong, not where they lie
		a.Scatter, err = stepped(m, "scatter", embed)
	}
	return a, lacks, err
}

// stepped says whether the scripts of an ability are right where the layers that keep a state take
// a chunk's rows one by one.
func stepped(m axcl.Model, ability string, embed func(token uint64) []uint16) (bool, error) {
	for _, sc := range scripts(m.Shape()) {
		if sc.ability != ability {
			continue
		}
		alone := sc
		if ability == "scatter" {
			alone = inOrder(sc)
		}
		want, err := playOn(m, alone, true, true, embed)
		if err != nil {
			return false, err
		}
		got, err := playOn(m, sc, false, true, embed)
		if err != nil || differ(got, want) != "" {
			return false, err
		}
	}
	return true, nil
}

// keeps says whether a state that a pass went on from is as it was: what comes of it is the same
// again.
func keeps(m axcl.Model, embed func(token uint64) []uint16) (bool, error) {
	s := m.Shape()
	n := min(5, s.Cells-1)
	row := func(i int, to uint32) (result, error) {
		p := build(s, prompt(1500, i, 1, 1, func(i int) uint32 { return uint32(i) })[0], embed)
		p.From, p.To = uint32(min(i, 1)), to
		err := m.Run(p)
		return result{hidden: p.HiddenOut, logits: p.Logits, argmax: append(p.Argmax, -1)[0]}, err
	}
	for i := range n {
		if _, err := row(i, 1); err != nil {
			return false, err
		}
	}
	var said [3]result
	for i := range said {
		var err error
		if said[i], err = row(n, 2); err != nil {
			return false, err
		}
	}
	return differ([][]result{said[1:]}, [][]result{{said[0], said[0]}}) == "", nil
}

// inOrder is the script with its cells renumbered in the order they are written.
func inOrder(sc script) script {
	at := map[uint32]uint32{}
	out := script{name: sc.name, ability: sc.ability}
	for _, rows := range sc.passes {
		var next []row
		for _, x := range rows {
			at[x.cell] = uint32(len(at))
			x.cell = at[x.cell]
			x.cells = append([]uint32(nil), x.cells...)
			for i, c := range x.cells {
				x.cells[i] = at[c]
			}
			next = append(next, x)
		}
		out.passes = append(out.passes, next)
	}
	return out
}

// Alike lays the same rows into other cells, in the same order and in another, and says whether
// what they give is the same to the last bit. A difference in a sum shows only where a rounding to
// bf16 turns over: small models are asked several times. The error is Run's.
func Alike(m axcl.Model, embed func(token uint64) []uint16) (ordered, anywhere bool, err error) {
	s := m.Shape()
	wide, reach := 1, s.Cells
	for _, g := range s.Groups {
		if g.Rows > wide {
			wide, reach = g.Rows, 0
		}
	}
	for _, g := range s.Groups {
		if g.Rows == wide {
			reach = max(reach, g.Cells)
		}
	}
	n := min(reach/3, s.Cells/3-2, 48)
	if n < 4 {
		return false, false, nil
	}
	step := n / 2
	for gcd(step, n) != 1 {
		step++
	}
	places := []func(i int) uint32{
		func(i int) uint32 { return uint32(i) },
		func(i int) uint32 { return uint32(2*i + 1) },
		func(i int) uint32 { return uint32(2*(i*step%n) + 1) },
	}
	ordered, anywhere = true, true
	for round := range uint64(min(max((1<<17)/(s.Hidden*max(s.Layers, 1)*wide), 1), 16)) {
		var first [][]result
		for i, at := range places {
			token := 5000 + 1000*round
			passes := prompt(token, 0, n, wide, at)
			last := prompt(token, n, 1, 1, func(i int) uint32 {
				if i == n {
					return uint32(s.Cells - 1)
				}
				return at(i)
			})
			got, err := play(m, script{passes: append(passes, last...)}, false, embed)
			if err != nil {
				return false, false, err
			}
			switch {
			case i == 0:
				first = got
			case i == 1:
				ordered = ordered && equal(got, first)
			default:
				anywhere = anywhere && equal(got, first)
			}
		}
	}
	return ordered, anywhere && ordered, nil
}

// equal holds results against each other bit for bit.
func equal(a, b [][]result) bool {
	return slices.EqualFunc(a, b, func(x, y []result) bool {
		return slices.EqualFunc(x, y, func(p, q result) bool {
			return slices.Equal(p.hidden, q.hidden) && slices.Equal(p.logits, q.logits)
		})
	})
}

// CheckPackage loads a vendor's model and requires of the card what every card must do: the result
// of a pass does not change when it is made again, with rows placed or copied, and rows that are
// saved, restored or copied arrive as they are. What the card may lack is logged, not held against
// it.
func CheckPackage(t TB, d axcl.Device, spec axcl.LoadSpec, embed func(hidden int, token uint64) []uint16) Abilities {
	t.Helper()
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	s := m.Shape()
	t.Logf("%d layers, hidden %d, K and V %d, %d cells, %d shape groups, %d outputs", s.Layers, s.Hidden, s.KV, s.Cells, len(s.Groups),
		s.Out)
	row := func(token uint64) []uint16 { return embed(s.Hidden, token) }
	sc := script{name: "decode", passes: prompt(100, 0, min(16, s.Cells), 1, func(i int) uint32 { return uint32(i) })}
	var runs [2][][]result
	for i := range runs {
		if runs[i], err = play(m, sc, false, row); err != nil {
			t.Fatalf("%s: %v", sc.name, err)
		}
	}
	if diff := differ(runs[1], runs[0]); diff != "" {
		t.Errorf("the same rows give something else the second time: %s", diff)
	}
	sample(t, runs[0])
	a, lacks, err := Try(m, row)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, l := range lacks {
		t.Logf("not used on this card: %s", l)
	}
	if a.Ordered, a.Anywhere, err = Alike(m, row); err != nil {
		t.Fatalf("%v", err)
	}
	shuffle(t, "rows saved, restored and copied", m, min(s.Cells, 48), 24)
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return a
}
