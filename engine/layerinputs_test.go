package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestLayerInputs: a model whose layers share K and V and have layer inputs says what the
// formulas say, token for token where they are sure, with prompts that cross chunks, and the same
// among others as alone.
func TestLayerInputs(t *testing.T) {
	windows := [][]int{{24, 512}, {24}}
	for i, a := range axmodeltest.Gemma4Archs() {
		testLayerInputs(t, a, windows[i], 20, func(*testing.T) func() (axcl.Device, string, error) { return openSoft })
	}
}

func testLayerInputs(t *testing.T, a axmodeltest.Arch, windows []int, talks int,
	card func(t *testing.T) func() (axcl.Device, string, error)) {
	for _, window := range windows {
		a.Window = window
		dir, ck := gemma4Package(t, a)
		t.Run(a.Name, func(t *testing.T) {
			var jobs []Job
			var want [][]int32
			t.Run("alone", func(t *testing.T) {
				_, alone := load(t, dir, card(t), OpenOptions{Parallel: 1, Proven: &Proven{}})
				truth := truthOn(t, alone)
				jobs, want = edits(79, talks, axmodeltest.Vocab, 95, truth)
				// One that loses its oldest half, twice: what is left gets its layer inputs anew.
				long := greedy(twenty, 70)
				long.Shift, long.NumCtx, long.NumKeep, long.IgnoreStop = true, 50, 4, true
				jobs, want = append(jobs, long), append(want, truth(long))
				sure := 0
				for i, job := range jobs[:8] {
					sure += saysAs(t, ck, job.IDs, want[i])
				}
				if sure < 40 {
					t.Errorf("the formulas are sure of %d tokens of eight answers", sure)
				}
			})
			t.Run("among others", func(t *testing.T) {
				_, b := load(t, dir, card(t), OpenOptions{CardOptions: still})
				if s := b.m.shape; s.LayerInputs != a.Gemma4.Width || s.Shared != a.Gemma4.Shared || b.m.wide != 16 {
					t.Errorf("%+v", s)
				}
				if want := (Proven{Chunk: true, Mixed: true, Scatter: true}); b.m.proven != want {
					t.Errorf("proven %+v", b.m.proven)
				}
				sameEverywhere(t, b, jobs, want, 4)
			})
		})
	}
}

// TestLayerInputsCached: what was made for a token is kept up to the limit and made again behind
// it; a row of a picture gets what belongs to the pad token and to the row itself, and no other row
// gets that.
func TestLayerInputsCached(t *testing.T) {
	//proves:G12 Gemma-4: what the host makes of a token
	made := &countsInputs{}
	m := &core{prices: prices{shape: axcl.Shape{Hidden: 2, Layers: 3, LayerInputs: 1}}, layerInputs: &layerInputRows{from: made}}
	p := &axcl.Pass{Hidden: []uint16{7, 8, 9, 10}, LayerInputs: make([]uint16, 6)}
	for range 2 {
		if err := m.picturedRow(p, 1); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"0 of [9 10]", "0 of [9 10]"}; !slices.Equal(made.asked, want) ||
		!slices.Equal(p.LayerInputs, []uint16{0, 0, 0, 9, 9, 9}) {
		t.Errorf("asked for %q, layer inputs %v", made.asked, p.LayerInputs)
	}
	g := &layerInputRows{from: made}
	wide := make([]uint16, layerInputRoom/2/4) // four of those are kept
	for i, c := range []struct{ id, made int32 }{{1, 1}, {2, 1}, {1, 0}, {3, 1}, {4, 1}, {5, 1}, {2, 0}, {1, 1}, {2, 1}, {5, 0}} {
		before := len(made.asked)
		err := g.Row(wide, c.id, []uint16{uint16(c.id)})
		if err != nil || wide[0] != uint16(c.id) || len(made.asked)-before != int(c.made) {
			t.Errorf("row %d: %d asked for, %d made, %v", i, c.id, len(made.asked)-before, err)
		}
	}
}

// countsInputs makes rows of an embedding's first value.
type countsInputs struct{ asked []string }

func (c *countsInputs) Row(dst []uint16, id int32, embed []uint16) error {
	c.asked = append(c.asked, fmt.Sprint(id, " of ", embed))
	for i := range dst {
		dst[i] = embed[0]
	}
	return nil
}

func gemma4Package(t *testing.T, a axmodeltest.Arch) (dir string, ck *axmodeltest.Checkpoint) {
	t.Helper()
	from := t.TempDir()
	ck, err := axmodeltest.WriteCheckpoint(from, a, 5)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "package")
	if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: dir, Context: 95, Chunk: 16,
		History: []int{0, 16, 64}}); err != nil {
		t.Fatal(err)
	}
	return dir, ck
}

// saysAs holds an answer against the formulas', as far as those are sure of a token, and gives how
// many that are.
func saysAs(t *testing.T, ck *axmodeltest.Checkpoint, prompt, answer []int32) (sure int) {
	t.Helper()
	ids := append(append([]int32(nil), prompt...), answer...)
	logits := ck.Oracle(axmodeltest.Causal(ids[:len(ids)-1]))
	for i, got := range answer {
		row := logits[len(prompt)+i-1]
		best, second := 0, -1
		for j, v := range row {
			switch {
			case v > row[best]:
				best, second = j, best
			case j != best && (second < 0 || v > row[second]):
				second = j
			}
		}
		if row[best]-row[second] < 0.03*row[best] { // what bf16 may blur
			continue
		}
		if sure++; int32(best) != got {
			t.Errorf("token %d of an answer to %d is %d, the formulas say %d", i, len(prompt), got, best)
		}
	}
	return sure
}
