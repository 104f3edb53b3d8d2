package engine

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestGiven: a model whose layers share K and V and are given rows besides says what the formulas say, token for token where they are sure,
// with prompts that cross chunks, and the same among others as alone.
func TestGiven(t *testing.T) {
	windows := [][]int{{24, 512}, {24}}
	for i, a := range axmodeltest.GivenArchs() {
		testGiven(t, a, windows[i], 20, func(*testing.T) func() (axcl.Device, string, error) { return openSoft })
	}
}

func testGiven(t *testing.T, a axmodeltest.Arch, windows []int, talks int, card func(t *testing.T) func() (axcl.Device, string, error)) {
	for _, window := range windows {
		a.Window = window
		dir, ck := givenPackage(t, a)
		t.Run(a.Name, func(t *testing.T) {
			var jobs []Job
			var want [][]int32
			t.Run("alone", func(t *testing.T) {
				_, alone := load(t, dir, card(t), OpenOptions{Parallel: 1, Proven: &Proven{}})
				jobs, want = edits(79, talks, axmodeltest.Vocab, 95, truthOn(t, alone))
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
				if s := b.m.shape; s.Given != a.Given.Width || s.Shared != a.Given.Shared || b.m.wide != 16 {
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

func givenPackage(t *testing.T, a axmodeltest.Arch) (dir string, ck *axmodeltest.Checkpoint) {
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

// saysAs holds an answer against the formulas', as far as those are sure of a token, and gives how many that are.
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
