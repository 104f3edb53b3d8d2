package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestDraft: with any draft model, good, bad, always wrong or failing, tokens are those without; a
// good one's guesses are mostly right, and one that is no use is soon left alone.
func TestDraft(t *testing.T) {
	jobs := jobsFor(12, 80, fakeVocab, 50)
	truth := onFake(t, newFake(), OpenOptions{Parallel: 1, Proven: &Proven{}})
	var want [][]int32
	for i, job := range jobs {
		job.Key = fmt.Sprint(i)
		out, _, err := run(truth, job)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, out)
	}
	for _, c := range []struct {
		name        string
		draft       func(*fake)
		least, most float64 // share of the tokens proposed that were right; behind a wrong one none is
	}{
		{"the same model", func(*fake) {}, 0.95, 1},
		{"wrong one time in five", func(f *fake) { f.errs = 5 }, 0.4, 0.97},
		{"always wrong", func(f *fake) { f.errs = 1 }, 0, 1},
		{"fails", func(f *fake) {
			f.run = func(n int) error {
				if n > 60 {
					return errors.New("broken")
				}
				return nil
			}
		}, 0, 1},
		{"has few cells", func(f *fake) {
			f.shape.Cells = 40
			f.content = f.content[:40]
			f.shape.Groups = []axcl.Group{{Rows: 1, Cells: 40}, {Rows: 8, Cells: 0}, {Rows: 8, Cells: 24}}
		}, 0, 1},
	} {
		for _, parallel := range []int{1, 6} {
			t.Run(fmt.Sprintf("%s, %d at once", c.name, parallel), func(t *testing.T) {
				b := onFake(t, newFake(), OpenOptions{Parallel: parallel, CardOptions: still})
				f := newFake()
				c.draft(f)
				withDraft(t, b, f)
				d := b.m.drafter
				var wg sync.WaitGroup
				for i, job := range jobs {
					wg.Go(func() {
						if out, _, err := run(b, job); err != nil || !slices.Equal(out, want[i]) {
							t.Errorf("job %d: %v %v, want %v", i, out, err, want[i])
						}
					})
				}
				wg.Wait()
				st := b.Stats()
				t.Logf("%d of %d guesses right for %d tokens, %d passes of the draft model", st.Accepted, st.Drafted, st.OutputTokens,
					f.passes)
				if share := float64(st.Accepted) / float64(max(st.Drafted, 1)); st.Drafted > 0 && (share < c.least || share > c.most) {
					t.Errorf("%.2f of the guesses were right", share)
				}
				if c.least > 0 && st.Drafted == 0 {
					t.Error("a good draft model was not used")
				}
				clean(t, b)
				if err := b.card.Do(context.Background(), func(axcl.Device) error {
					d.cells.Forget()
					if n, err := cache.Check(d.cells, nil); n != 0 || err != nil {
						t.Errorf("%d cells of the draft model are held by no sequence, %v", n, err)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// poor is a draft model whose every n-th guess is another.
func poor(errs uint64) *fake {
	f := newFake()
	f.errs = errs
	return f
}

// withDraft puts a draft model beside b's.
func withDraft(t testing.TB, b *cardBackend, f *fake) {
	t.Helper()
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		d := newLM(b.card, f, f, nil, nil, OpenOptions{})
		if err := d.prover.measure(context.Background()); err != nil {
			return err
		}
		d.proven = Proven{Chunk: true, Mixed: true, Scatter: true}
		for i := range d.costs.group {
			d.costs.group[i] = 1e-9 // small beside the model it drafts for
		}
		d.costs.head = 1e-9
		b.m.drafter = d.drafting()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDraftPackage loads a draft model by its folder.
func TestDraftPackage(t *testing.T) {
	dir := compiled(t, "qwen3")
	_, plain := load(t, dir, openSoft, OpenOptions{})
	m, b := load(t, dir, openSoft, OpenOptions{Draft: guesser(compiled(t, "qwen2")), CardOptions: still})
	if m.Info().Draft == "" {
		t.Error("Info does not name the draft model")
	}
	rng := rand.New(rand.NewPCG(1, 8))
	for range 20 {
		ids := make([]int32, 4+rng.IntN(20))
		for i := range ids {
			ids[i] = int32(rng.IntN(axmodeltest.Vocab))
		}
		want, _, err := run(plain, greedy(ids, 20))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := run(b, greedy(ids, 20)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	clean(t, b)
}

// TestSampledTheSame: with a seed, sampled text is the same with and without guesses, at every
// temperature.
func TestSampledTheSame(t *testing.T) {
	plain := onFake(t, newFake(), OpenOptions{Parallel: 1})
	b := onFake(t, newFake(), OpenOptions{Parallel: 8, CardOptions: still})
	withDraft(t, b, poor(3))
	off := false
	var wg sync.WaitGroup
	for i, job := range jobsFor(3, 100, fakeVocab, 50) {
		job.Sampling.Temperature, job.Sampling.Seed = float32(i%4)*0.4, int64(i)
		bare := job
		bare.Speculate = &off
		want, _, err := run(plain, bare)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if got, _, err := run(b, job); err != nil || !slices.Equal(got, want) {
				t.Errorf("job %d: %v %v, want %v", i, got, err, want)
			}
		})
	}
	wg.Wait()
	if st := b.Stats(); st.Accepted == 0 || st.Accepted == st.Drafted {
		t.Errorf("%d of %d guesses right: the test shows nothing", st.Accepted, st.Drafted)
	}
}

// TestSampledDistribution: over many seeds the third token is distributed the same with guesses and
// without (chi-square of two samples).
func TestSampledDistribution(t *testing.T) {
	lane.NoRace(t)
	const n = 1500
	counts := [2][fakeVocab]float64{}
	var drafted uint64
	for way := range counts {
		b := onFake(t, newFake(), OpenOptions{Parallel: 8, CardOptions: still})
		if way == 1 {
			withDraft(t, b, poor(4))
		}
		for i := range n {
			job := greedy([]int32{50, 55, 60, 49, 54}, 3)
			job.Sampling.Temperature, job.Sampling.TopK, job.Sampling.Seed = 1, 6, int64(way*n+i)
			use := way == 1
			job.Speculate = &use
			out, _, err := run(b, job)
			if err != nil || len(out) != 3 {
				t.Fatal(out, err)
			}
			counts[way][out[2]]++
		}
		drafted += b.Stats().Drafted
	}
	if drafted == 0 {
		t.Fatal("nothing was guessed: the test shows nothing")
	}
	chi, degrees := 0.0, -1
	for id := range fakeVocab {
		if a, b := counts[0][id], counts[1][id]; a+b >= 10 {
			chi += (a - b) * (a - b) / (a + b)
			degrees++
		}
	}
	// Five standard deviations above the mean of chi-square: never by chance, and the seeds are
	// fixed.
	if limit := float64(degrees) + 5*math.Sqrt(2*float64(degrees)); chi > limit {
		t.Errorf("chi-square %.1f with %d degrees, at most %.1f expected", chi, degrees, limit)
	}
	t.Logf("chi-square %.1f with %d degrees", chi, degrees)
}

// TestDraftRefused: a draft model with other words is refused by name.
func TestDraftRefused(t *testing.T) {
	dir := compiled(t, "qwen3")
	card, err := OpenCard(openSoft, CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	if _, err := Open(context.Background(), dir, OpenOptions{Card: card, Draft: guesser("nowhere")}); err == nil {
		t.Error("a draft model that is not there was opened")
	}
	// Before a card is opened: there is none of this name.
	other := filepath.Join(t.TempDir(), "other")
	if err := os.CopyFS(other, os.DirFS(compiled(t, "qwen2"))); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(other, "*", "tokenizer.json"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	words := found[0]
	b, err := os.ReadFile(words)
	if err != nil {
		t.Fatal(err)
	}
	for _, swap := range [][2]string{{`"A":`, `"swap":`}, {`"B":`, `"A":`}, {`"swap":`, `"B":`}} { // two tokens change places
		b = bytes.Replace(b, []byte(swap[0]), []byte(swap[1]), 1)
	}
	if err := os.WriteFile(words, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"nowhere", "nowhere,nothing", "nowhere+nothing"} {
		_, err := Open(context.Background(), dir, OpenOptions{Device: device, Draft: guesser(other)})
		if err == nil || !strings.Contains(err.Error(), `cannot draft: its token`) || !strings.Contains(err.Error(), "take one of the same") {
			t.Errorf("%s: %v", device, err)
		}
	}
	if err := CheckDraft(nil, guesser(other)); err != nil {
		t.Errorf("for a model that is not there yet: %v", err)
	}
	if m, err := Open(context.Background(), dir, OpenOptions{Card: card}); err != nil {
		t.Errorf("the card afterwards: %v", err)
	} else if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// guesser opens the package in a folder, as a draft model.
func guesser(dir string) func() (*models.Package, error) {
	return func() (*models.Package, error) { return models.Open(dir) }
}
