package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
)

// TestWindow: local layers see the window and no more, whatever the way rows go through the card;
// without it the text is another.
func TestWindow(t *testing.T) {
	lane.NoRace(t)
	testWindow(t, openSoft)
}

// windowed is a small Gemma whose local layers see twelve rows, with a cache of 95.
func windowed(t testing.TB) (*axmodeltest.Checkpoint, string) {
	t.Helper()
	dir := t.TempDir()
	a, _ := axmodeltest.Find("gemma3")
	a.Window = 12
	ck, err := axmodeltest.WriteCheckpoint(dir, a, 3)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
		History: []int{0, 16, 64}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return ck, r.Dir
}

// againstOracle runs texts longer than the window and counts the tokens that the oracle would not
// have said, beyond rounding.
func againstOracle(t *testing.T, ck *axmodeltest.Checkpoint, b *cardBackend) (wrong, all int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	for range 6 {
		ids := make([]int32, 20+rng.IntN(50))
		for i := range ids {
			ids[i] = int32(rng.IntN(axmodeltest.Vocab))
		}
		out, _, err := run(b, greedy(ids, 8))
		if err != nil {
			t.Fatal(err)
		}
		text := append(ids, out...)
		logits := ck.Oracle(axmodeltest.Causal(text))
		for i, id := range out {
			row := logits[len(text)-len(out)+i-1]
			best := math.Inf(-1)
			for _, v := range row {
				best = max(best, v)
			}
			if all++; row[id] < best-4*math.Abs(best)/128 {
				wrong++
			}
		}
	}
	return wrong, all
}

func testWindow(t *testing.T, open func() (axcl.Device, string, error)) {
	ck, dir := windowed(t)
	t.Run("oracle", func(t *testing.T) {
		_, b := load(t, dir, open, OpenOptions{CardOptions: still})
		if !b.m.shape.Local || b.m.batch.window != 12 {
			t.Fatalf("local %v, window %d", b.m.shape.Local, b.m.batch.window)
		}
		if wrong, all := againstOracle(t, ck, b); wrong > 0 {
			t.Errorf("%d of %d tokens are not the oracle's", wrong, all)
		}
		b.m.batch.window = 95
		if wrong, all := againstOracle(t, ck, b); wrong == 0 {
			t.Errorf("all %d tokens are right without the window too: the test shows nothing", all)
		}
		clean(t, b)
	})
	var jobs []Job
	var want [][]int32
	t.Run("alone", func(t *testing.T) {
		_, alone := load(t, dir, open, OpenOptions{Parallel: 1, Proven: &Proven{}})
		jobs, want = edits(41, 60, axmodeltest.Vocab, 95, truthOn(t, alone))
	})
	for name, w := range ways(jobs) {
		t.Run(name, func(t *testing.T) {
			_, b := load(t, dir, open, w.o)
			sameEverywhere(t, b, w.jobs, want, 9)
		})
	}
}
