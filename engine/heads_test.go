package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
)

// TestHeadAccepted: of random checkpoints of every family, with heads in 16 bits and in 8, those
// whose head is the embedding table are accepted, and no others.
func TestHeadAccepted(t *testing.T) {
	//proves:G27
	eachHead(t, func(t *testing.T, dir string, tied bool) {
		t.Parallel()
		_, b := load(t, dir, openSoft, OpenOptions{Remember: t.TempDir(), Head: HeadHost})
		if h := headOf(t, b); h.Ready != tied {
			t.Errorf("tied: %t; %+v", tied, h)
		}
	})
}

// eachHead calls f with a random package of every family, with a head in 16 bits and one in 8.
func eachHead(t *testing.T, f func(t *testing.T, dir string, tied bool)) {
	seed := uint64(35)
	for _, a := range slices.Concat(axmodeltest.Archs(), axmodeltest.StateArchs(), axmodeltest.Gemma4Archs(), axmodeltest.SightArchs()) {
		for _, quant := range []string{"bf16", "int8"} {
			seed++
			t.Run(a.Name+" "+quant, func(t *testing.T) {
				from, dir := t.TempDir(), filepath.Join(t.TempDir(), "p")
				if _, err := axmodeltest.WriteCheckpoint(from, a, seed); err != nil {
					t.Fatal(err)
				}
				if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: dir, Context: 95, Chunk: 16,
					History: []int{0, 16, 64}, Quant: quant}); err != nil {
					t.Fatal(err)
				}
				f(t, dir, a.Tied)
			})
		}
	}
}

// TestHeadTable: the head of an untied model is accepted where the package has its matrix, and not
// where that is another's.
func TestHeadTable(t *testing.T) {
	//proves:G27
	for _, a := range axmodeltest.Archs() {
		if a.Tied {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			from, dir := t.TempDir(), filepath.Join(t.TempDir(), "p")
			if _, err := axmodeltest.WriteCheckpoint(from, a, 36); err != nil {
				t.Fatal(err)
			}
			if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: dir, Context: 95, Chunk: 16,
				History: []int{0, 16, 64}, Quant: "int8", HeadTable: true}); err != nil {
				t.Fatal(err)
			}
			_, b := load(t, dir, openSoft, OpenOptions{Remember: t.TempDir(), Head: HeadHost})
			if h := headOf(t, b); !h.Ready {
				t.Errorf("with its own table: %+v", h)
			}
			table := filepath.Join(dir, axmodel.HeadTable)
			whole, err := os.ReadFile(table)
			if err != nil {
				t.Fatal(err)
			}
			other, err := os.ReadFile(filepath.Join(dir, axmodel.EmbedFile))
			if err == nil {
				err = os.WriteFile(table, other, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			_, b = load(t, dir, openSoft, OpenOptions{Remember: t.TempDir(), Head: HeadHost})
			if h := headOf(t, b); h.Ready {
				t.Errorf("with the embedding table: %+v", h)
			}
			if err := os.WriteFile(table, whole[:len(whole)-2], 0o644); err != nil {
				t.Fatal(err)
			}
			if p, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), axmodel.HeadTable) {
				_ = p.Close()
				t.Errorf("a table that is cut off: %v", err)
			}
		})
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
	_, b := load(t, dir, openSoft, OpenOptions{Head: HeadHost, Remember: t.TempDir()})
	if h := headOf(t, b); !h.Ready {
		t.Fatalf("%+v", h)
	}
	differ := 0
	for i, job := range jobs {
		got, _, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want[i]) {
			differ++
			atNearTie(t, card, job, got, want[i])
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
	if h := one(); !h.Ready || h.String() != "host" || len(files()) != 1 {
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

// TestHeadCosts: the time of a head on the host lies between the measured ones, follows a processor
// that becomes slower, and is forgotten while the card computes the heads.
func TestHeadCosts(t *testing.T) {
	c := costs{head: 0.008, host: hostCost{0.014, 0.014, 0.014, 0.014, 0.018}}
	for n, want := range map[int]float64{0: 0, 1: 0.014, 3: 0.014, 8: 0.014, 12: 0.016, 16: 0.018, 17: 0.032, 32: 0.036, 40: 0.05} {
		if got := c.host.of(n); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d rows: %v s, want %v", n, got, want)
		}
	}
	host := func(n int) bool { _, h := c.heads(n); return h }
	if host(1) || !host(2) || !host(16) {
		t.Errorf("on the host: %t, %t, %t, want false, true, true", host(1), host(2), host(16))
	}
	for range 40 { // ten times as slow
		c.host.observe(4, 140*time.Millisecond)
	}
	if got := c.host.of(4); math.Abs(got-0.14) > 0.01 || host(8) {
		t.Errorf("4 rows: %v s after it became slow, and the host computes 8 rows: %t", got, host(8))
	}
	passes := 0
	for ; !host(8) && passes < 10_000; passes++ {
		c.host.scale(forget)
	}
	if passes < 500 || passes > 5000 {
		t.Errorf("it is tried again after %d passes", passes)
	}
	if c.onlyHost = true; !host(1) {
		t.Error("--head host, and the card computes it")
	}
}

// TestHeadKnown: what becomes of the head is told once, without a request that waits for it.
func TestHeadKnown(t *testing.T) {
	for arch, ready := range map[string]bool{"qwen3-sharded": true, "qwen3": false} {
		told := make(chan HeadStats, 9)
		_, b := load(t, compiled(t, arch), openSoft, OpenOptions{Head: HeadHost, Remember: t.TempDir(),
			HeadKnown: func(h HeadStats) { told <- h }})
		select {
		case h := <-told:
			if h.Ready != ready || h.Soon || ready == (h.Why != "") || b.Stats().Head != h {
				t.Errorf("%s: %+v, stats %+v", arch, h, b.Stats().Head)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: nothing was told: %+v", arch, b.Stats().Head)
		}
		select {
		case h := <-told:
			t.Errorf("%s: told again: %+v", arch, h)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestHeadUnprobed: a card that fails to run its head alone is loaded all the same. One that is
// lost is not.
func TestHeadUnprobed(t *testing.T) {
	dir := compiled(t, "qwen3-sharded")
	for _, fault := range []error{&axcl.Error{Op: "axclrtEngineExecute", Code: 0x8030070c}, axcl.ErrLost} {
		card, err := OpenCard(func() (axcl.Device, string, error) {
			d, why, err := openSoft()
			return axcltest.NewFaulty(d, axcltest.Fault{Op: axcltest.OpHead, Sticky: true, Err: fault}), why, err
		}, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer card.Close()
		m, err := Open(context.Background(), dir, OpenOptions{Card: card, Remember: t.TempDir(), Head: HeadHost})
		if fault == axcl.ErrLost {
			if !errors.Is(err, axcl.ErrLost) {
				t.Errorf("a lost card: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if h := headOf(t, m.b.(*cardBackend)); h.Ready || !strings.Contains(h.Why, "execute failed") {
			t.Errorf("%+v", h)
		}
		if got, _, err := run(m.b, greedy([]int32{3, 4, 5}, 4)); err != nil || len(got) != 4 {
			t.Errorf("%v, %v", got, err)
		}
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
			argmax[i] = sampler.Argmax(y)
		}
	}
	return nil
}

func (h *brokenHead) Work(n int) (bytes, products int64) { return 0, 0 }
func (h *brokenHead) Close() error                       { return nil }

// withHead opens a fake whose head the host computes, for this many calls.
func withHead(t *testing.T, f *fake, good int) (*fake, *cardBackend) {
	t.Helper()
	b := onFake(t, f, OpenOptions{Head: HeadHost})
	t.Cleanup(func() { _ = b.Close() })
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		b.m.heads.use(&brokenHead{shape: f.shape, good: good})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return f, b
}

// TestHeadFails: if the host fails while it computes a head, the card computes it, and all later
// ones, and the answer is the same.
func TestHeadFails(t *testing.T) {
	for _, logprobs := range []bool{false, true} {
		t.Run(fmt.Sprint("logprobs ", logprobs), func(t *testing.T) { headFails(t, logprobs) })
	}
}

func headFails(t *testing.T, logprobs bool) {
	answer := func(good int) (out []int32, h HeadStats) {
		_, b := withHead(t, newFake(), good)
		job := greedy([]int32{3, 4, 5}, 12)
		job.Sampling.Logprobs = logprobs // then tokens are drawn from the logits, not taken by index
		out, _, err := run(b, job)
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

// TestHeadLost: a pass whose rows do not reach their cells while the host computes its head fails
// as any other: nothing of it is used, and what the host made does not count. A card that is lost
// then is lost.
func TestHeadLost(t *testing.T) {
	//proves:D4
	//proves:D5
	f, b := withHead(t, newFake(), 1<<20)
	want, _, err := run(b, greedy([]int32{3, 4, 5}, 8))
	if err != nil {
		t.Fatal(err)
	}
	fail := func(n int, err error) {
		f.after = func() error {
			if n--; n == 0 {
				return err
			}
			return nil
		}
	}
	broken := &axcl.Error{Op: "axclrtEngineExecute", Code: 0x8030070c}
	// Before there is an output the pass is tried once more.
	job := greedy([]int32{3, 4, 5}, 8)
	job.Key = "another"
	fail(1, broken)
	rows := b.Stats().Head.Rows
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if n := b.Stats().Head.Rows - rows; n != 8 {
		t.Errorf("%d rows of the host count, want 8", n)
	}
	job.Key = "a third"
	fail(3, broken)
	if got, _, err := run(b, job); !errors.Is(err, broken) || !slices.Equal(got, want[:2]) {
		t.Errorf("%v, %v, want %v and the error", got, err, want[:2])
	}
	job.Key = "a fourth"
	fail(3, axcl.ErrLost)
	if _, _, err := run(b, job); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("%v", err)
	}
}

// atNearTie fails unless the first token in which got differs from want, the card's answer, is one
// of two that are nearly as likely.
func atNearTie(t *testing.T, card *cardBackend, job Job, got, want []int32) {
	t.Helper()
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	if at == len(got) || at == len(want) {
		t.Errorf("%d tokens, want %d", len(got), len(want))
		return
	}
	job.IDs, job.Limit, job.Key = slices.Concat(job.IDs, want[:at]), 1, fmt.Sprint("near ", at, want)
	job.Sampling.Logprobs, job.Sampling.TopLogprobs = true, 5
	var top []Logprob
	for tok, err := range card.Complete(context.Background(), job) {
		if err != nil {
			t.Error(err)
			return
		}
		if tok.Logprob != nil {
			top = tok.Logprob.Top
		}
	}
	if d := top[0].Logprob - top[1].Logprob; d > 0.02 {
		t.Errorf("token %d is %d, want %d, which is %.3f more likely than any other", at, got[at], want[at], d)
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
