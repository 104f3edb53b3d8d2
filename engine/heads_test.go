package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestHeadAccepted: of random checkpoints of every family, with heads in 16 bits and in 8, those
// whose head is the embedding table are accepted, and no others.
func TestHeadAccepted(t *testing.T) {
	//proves:G27
	seed := uint64(35)
	for _, a := range slices.Concat(axmodeltest.Archs(), axmodeltest.StateArchs(), axmodeltest.Gemma4Archs(), axmodeltest.SightArchs()) {
		for _, quant := range []string{"bf16", "int8"} {
			seed++
			t.Run(a.Name+" "+quant, func(t *testing.T) {
				t.Parallel()
				from, dir := t.TempDir(), filepath.Join(t.TempDir(), "p")
				if _, err := axmodeltest.WriteCheckpoint(from, a, seed); err != nil {
					t.Fatal(err)
				}
				if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: dir, Context: 95, Chunk: 16,
					History: []int{0, 16, 64}, Quant: quant}); err != nil {
					t.Fatal(err)
				}
				_, b := load(t, dir, openSoft, OpenOptions{Remember: t.TempDir(), Head: HeadHost})
				if h := headOf(t, b); h.Ready != a.Tied {
					t.Errorf("tied: %t; %+v", a.Tied, h)
				}
			})
		}
	}
}

// TestHeadSameTokens: where the host computes the head, answers are those of the card's head, but
// for near ties; a repeatable request has the card's bits.
func TestHeadSameTokens(t *testing.T) {
	//proves:G12
	//proves:G14
	dir := compiled(t, "qwen3-sharded")
	_, card := load(t, dir, openSoft, OpenOptions{CardOptions: still, Head: HeadCard})
	jobs, want := edits(35, 60, axmodeltest.Vocab, 95, truthOn(t, card))
	_, b := load(t, dir, openSoft, OpenOptions{CardOptions: still, Head: HeadHost, Remember: t.TempDir()})
	if h := headOf(t, b); !h.Ready {
		t.Fatalf("%+v", h)
	}
	differ := 0
	for i, job := range jobs {
		got, _, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for at < min(len(got), len(want[i])) && got[at] == want[i][at] {
			at++
		}
		if at == len(got) && at == len(want[i]) {
			continue
		}
		if at == len(got) || at == len(want[i]) {
			t.Fatalf("job %d: %d tokens, want %d", i, len(got), len(want[i]))
		}
		differ++
		again := job
		again.IDs, again.Limit, again.Key = slices.Concat(job.IDs, want[i][:at]), 1, fmt.Sprint("near", i)
		again.Sampling.Logprobs, again.Sampling.TopLogprobs = true, 5
		var top []Logprob
		for tok, err := range card.Complete(context.Background(), again) {
			if err != nil {
				t.Fatal(err)
			}
			if tok.Logprob != nil {
				top = tok.Logprob.Top
			}
		}
		if d := top[0].Logprob - top[1].Logprob; d > 0.02 {
			t.Errorf("job %d: token %d is %d, want %d, which is %.3f more likely than any other", i, at, got[at], want[i][at], d)
		}
	}
	h := headOf(t, b)
	t.Logf("%d of %d answers differ, at near ties; the host computed %d rows", differ, len(jobs), h.Rows)
	if h.Rows == 0 {
		t.Error("the host computed none")
	}
	before := h.Rows
	for i, job := range jobs[:5] {
		job.Repeatable = true
		got, _, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		theirs, _, err := run(card, job)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, theirs) {
			t.Errorf("repeatable job %d: %v, the card's %v", i, got, theirs)
		}
	}
	if h := headOf(t, b); h.Rows != before {
		t.Errorf("the host computed %d rows of repeatable requests", h.Rows-before)
	}
}

// TestHeadFile: the file is made once, and found again; one that is damaged is made anew at the
// load after.
func TestHeadFile(t *testing.T) {
	//proves:G27
	dir, kept := compiled(t, "qwen3-sharded"), t.TempDir()
	files := func() []string {
		all, _ := filepath.Glob(filepath.Join(kept, "head-*"))
		return all
	}
	one := func() (h HeadStats) {
		t.Helper()
		card, err := OpenCard(openSoft, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer card.Close()
		m, err := Open(context.Background(), dir, OpenOptions{Card: card, Remember: kept, Head: HeadHost})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return headOf(t, m.b.(*cardBackend))
	}
	if h := one(); !h.Ready || len(files()) != 1 {
		t.Fatalf("%+v, files %v", h, files())
	}
	first, err := os.Stat(files()[0])
	if err != nil {
		t.Fatal(err)
	}
	if h := one(); !h.Ready {
		t.Errorf("%+v", h)
	}
	if st, err := os.Stat(files()[0]); err != nil || !os.SameFile(first, st) {
		t.Errorf("the file was made again: %v", err)
	}
	b, err := os.ReadFile(files()[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 8
	if err := os.WriteFile(files()[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	if h := one(); h.Ready || !strings.Contains(h.Why, "damaged") || len(files()) != 0 {
		t.Errorf("%+v, files %v", h, files())
	}
	if h := one(); !h.Ready || len(files()) != 1 {
		t.Errorf("%+v, files %v", h, files())
	}
}

// brokenHead is a head on the host that fails from a call on, or says what the card's fake does.
type brokenHead struct {
	shape axcl.Shape
	good  int // calls
	calls int
}

func (h *brokenHead) Run(rows [][]uint16, logits []uint16, argmax []int32) error {
	if h.calls++; h.calls > h.good {
		return errors.New("the table is gone")
	}
	f := &fake{shape: h.shape}
	for i, row := range rows {
		y := make([]uint16, h.shape.Out)
		if err := f.Head(row, y); err != nil {
			return err
		}
		if logits != nil {
			copy(logits[i*h.shape.Out:], y)
		}
		if argmax != nil {
			argmax[i] = largestOf(y)
		}
	}
	return nil
}

func (h *brokenHead) Work(n int) (bytes, products int64) { return 0, 0 }
func (h *brokenHead) Close() error                       { return nil }

// TestHeadFails: if the host fails while it computes a head, the card computes it, and all later
// ones, and the answer is the same.
func TestHeadFails(t *testing.T) {
	answer := func(good int) (out []int32, h HeadStats) {
		f := newFake()
		b := onFake(t, f, OpenOptions{Head: HeadHost})
		defer b.Close()
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			b.m.heads.use(&brokenHead{shape: f.shape, good: good})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		out, _, err := run(b, greedy([]int32{3, 4, 5}, 12))
		if err != nil {
			t.Fatal(err)
		}
		return out, b.Stats().Head
	}
	const measured = 2 * len(hostRows)
	all, h := answer(1 << 20)
	if !h.Ready || h.Rows == 0 || len(all) != 12 {
		t.Fatalf("%d tokens, %+v", len(all), h)
	}
	if h := func() HeadStats { _, h := answer(measured - 1); return h }(); h.Ready || !strings.Contains(h.Why, "gone") {
		t.Errorf("it fails when it is measured: %+v", h)
	}
	got, h := answer(measured + 4)
	if h.Ready || !strings.Contains(h.Why, "gone") || h.Rows != 4 {
		t.Errorf("%+v", h)
	}
	if !slices.Equal(got[:5], all[:5]) {
		t.Errorf("%v, want %v: the row whose head failed is another's", got, all)
	}
}

// TestHeadLost: a card that is lost while the host computes, or a pass whose rows do not reach
// their cells, ends as any failed pass does.
func TestHeadLost(t *testing.T) {
	//proves:D5
	dir := compiled(t, "qwen3-sharded")
	var dev *axcltest.Faulty
	card, err := OpenCard(func() (axcl.Device, string, error) {
		d, why, err := openSoft()
		dev = axcltest.NewFaulty(d)
		return dev, why, err
	}, CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	m, err := Open(context.Background(), dir, OpenOptions{Card: card, Remember: t.TempDir(), Head: HeadHost})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := m.b.(*cardBackend)
	if h := headOf(t, b); !h.Ready {
		t.Fatalf("%+v", h)
	}
	job := greedy([]int32{3, 4, 5}, 8)
	want, _, err := run(b, job)
	if err != nil {
		t.Fatal(err)
	}
	// A pass that fails before there is an output is tried once more.
	job.Key = "another"
	dev.Plan(axcltest.Fault{Op: axcltest.OpRun, Err: errors.New("no")})
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	job.Key = "a third"
	dev.Plan(axcltest.Fault{Op: axcltest.OpRun, N: 3, Err: axcl.ErrLost})
	if _, _, err := run(b, job); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("%v", err)
	}
}

// headOf waits until the head was compared with the card's, and returns what became of it.
func headOf(t testing.TB, b *cardBackend) HeadStats {
	t.Helper()
	if err := SettleHead(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return b.Stats().Head
}
