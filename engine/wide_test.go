package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
)

// TestWideProven (G23): a card whose wide passes are wrong, from the second on or after a decode,
// is found at the first load, and gets no wide pass, a full one neither: it says what single rows
// say. Stats tell, and the outcome is remembered.
func TestWideProven(t *testing.T) {
	lane.NoRace(t)
	dir := compiled(t, "qwen3")
	_, alone := load(t, dir, openSoft, OpenOptions{Parallel: 1, Proven: &Proven{Narrow: true}})
	if alone.m.wide != 0 {
		t.Fatalf("wide passes of %d rows", alone.m.wide)
	}
	jobs, want := edits(91, 25, axmodeltest.Vocab, 95, truthOn(t, alone))
	for _, how := range []string{"", "kept", "beside", "given", "full", "decoded"} {
		for name, remember := range map[string]string{"remembered": t.TempDir(), "not remembered": ""} {
			t.Run(how+", "+name, func(t *testing.T) {
				open, card := onStale(how)
				var first []uint64
				for range 2 {
					_, b := load(t, dir, open, OpenOptions{CardOptions: still, Remember: remember})
					if b.m.proven.Narrow != (how != "") || b.Stats().Proven["wide"] != (how == "") {
						t.Errorf("proven %+v, Stats %v", b.m.proven, b.Stats().Proven)
					}
					first = append(first, uint64(card.runs))
					wides := card.wides
					sameEverywhere(t, b, jobs, want, 3)
					if card.wides != wides && how != "" || card.wides == wides && how == "" {
						t.Errorf("%d wide passes to answer", card.wides-wides)
					}
				}
				if remember != "" && first[1] > 16 {
					t.Errorf("%d passes at the first load, %d at the second", first[0], first[1])
				}
			})
		}
	}
}

// TestWideShortProof (G23): a later load proves wide passes in short. A card that has come to get
// them wrong is found out again, and what it is found to be is remembered; one that gets single
// rows wrong too is refused.
func TestWideShortProof(t *testing.T) {
	for _, arch := range []string{"qwen3", "qwen3_5"} {
		dir := compiled(t, arch)
		for _, how := range []string{"kept", "given"} {
			kept := t.TempDir()
			open, card := onStale("")
			_, b := load(t, dir, open, OpenOptions{CardOptions: still, Remember: kept})
			if b.m.proven.Narrow {
				t.Fatalf("%s, %s: proven %+v", arch, how, b.m.proven)
			}
			card.how = how
			_, b = load(t, dir, open, OpenOptions{CardOptions: still, Remember: kept})
			if !b.m.proven.Narrow || b.m.wide != 0 {
				t.Errorf("%s, %s: proven %+v", arch, how, b.m.proven)
			}
			if _, _, err := run(b, greedy([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9}, 5)); err != nil {
				t.Error(err)
			}
			_, b = load(t, dir, open, OpenOptions{CardOptions: still, Remember: kept})
			if !b.m.proven.Narrow || card.runs > 12 {
				t.Errorf("%s, %s: %d passes at the third load, proven %+v", arch, how, card.runs, b.m.proven)
			}
			if files, _ := filepath.Glob(filepath.Join(kept, "proven-*")); len(files) != 1 {
				t.Error(files)
			}
		}
	}
}

// TestWideUnable (G23): a package that cannot do without wide passes is refused on a card that gets
// them wrong, with the check's name.
func TestWideUnable(t *testing.T) {
	//proves:G23
	f := newFake()
	f.shape.Groups[0].Cells = 24
	b := onFake(t, f, OpenOptions{CardOptions: still})
	err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.prover.narrow("fake") })
	if !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), `the check "wide passes"`) {
		t.Errorf("%v", err)
	}
}

// TestWideRoom (G23): where the cache has no room for a full chunk and a row after it, nothing can
// be proven, and no wide pass is used.
func TestWideRoom(t *testing.T) {
	//proves:G23
	for cells, want := range map[int]bool{8: false, 9: true, 12: true, 13: true} {
		f := newFake()
		f.shape.Cells, f.shape.Groups = cells, []axcl.Group{{Rows: 1, Cells: cells}, {Rows: 8, Cells: 0}}
		f.content = f.content[:cells]
		b := onFake(t, f, OpenOptions{CardOptions: still})
		if err := b.card.Do(context.Background(), func(axcl.Device) error {
			sound, err := b.m.prover.trials().Wide(context.Background(), 8)
			if sound != want {
				t.Errorf("%d cells: %v", cells, sound)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestFewRows (G23): packages whose wide passes take 2 to 8 rows load and answer as single rows do,
// alone and together; what a card gets wrong of them is found, where calls of so few rows can show
// it.
func TestFewRows(t *testing.T) {
	lane.NoRace(t)
	//proves:G23 chunks of few rows
	for _, states := range []bool{false, true} {
		fakeOf := func(rows int) *fake {
			f := newFake()
			if states {
				f = withStates(4)
			}
			for i := range f.shape.Groups[1:] {
				f.shape.Groups[i+1].Rows = rows
			}
			return f
		}
		for rows := 2; rows <= 8; rows++ {
			alone := onFake(t, fakeOf(rows), OpenOptions{CardOptions: still, Parallel: 1, Proven: &Proven{}})
			jobs := jobsFor(uint64(rows), 20, fakeVocab, 60)
			want := answersOf(t, alone, jobs, 1)
			for lie, proven := range map[string]Proven{
				"":          {Chunk: true, Mixed: !states, Scatter: true, Kept: states},
				"ordered":   {Chunk: true, Scatter: false, Kept: states},
				"positions": {Chunk: true, Mixed: states, Scatter: true, Kept: states},
				"masks":     {Chunk: true, Mixed: states, Scatter: true, Kept: states},
				"shorts":    {Chunk: rows == 2, Mixed: states, Scatter: true, Kept: states},
			} {
				if states && (lie == "positions" || lie == "masks") {
					continue // rows of one text show neither
				}
				if lie == "shorts" && rows == 2 && !states {
					proven.Mixed = true // every call is full
				}
				f := fakeOf(rows)
				f.ordered, f.positions, f.masks, f.shorts = lie == "ordered", lie == "positions", lie == "masks", lie == "shorts"
				b := onFake(t, f, OpenOptions{CardOptions: still})
				if states {
					proven.Mixed = false
				}
				if b.m.proven != proven {
					t.Errorf("states %v, %d rows, %q: proven %+v, want %+v", states, rows, lie, b.m.proven, proven)
				}
				for i, out := range answersOf(t, b, jobs, 8) {
					if !slices.Equal(out, want[i]) {
						t.Errorf("states %v, %d rows, %q, job %d: %v, want %v", states, rows, lie, i, out, want[i])
					}
				}
			}
		}
	}
}

// TestFewRowsPackage (G23): the same on the software card, with all that a load does.
func TestFewRowsPackage(t *testing.T) {
	//proves:G23 chunks of few rows
	for _, rows := range []int{2, 3, 4, 5, 6} {
		m := newTiny(t, withChunk(rows))
		b := m.open(t, OpenOptions{CardOptions: still})
		if want := (Proven{Chunk: true, Mixed: true, Scatter: true}); b.m.proven != want {
			t.Errorf("%d rows: proven %+v", rows, b.m.proven)
		}
		jobs := jobsFor(uint64(rows), 20, tinyVocab, 60)
		want := alone(t, m, jobs)
		for i, out := range answersOf(t, b, jobs, 8) {
			if !slices.Equal(out, want[i]) {
				t.Errorf("%d rows, job %d: %v, want %v", rows, i, out, want[i])
			}
		}
	}
}

// TestLongPrompts (G23): prompts of 1 to 1,000 tokens, up to sixteen wide passes in a row, many of
// them at a time, give the tokens that single rows give. The comparison tells: on a card that gets
// wide passes wrong, where nothing was proven, most answers are others.
func TestLongPrompts(t *testing.T) {
	//proves:G23
	lane.Slow(t)
	lane.NoRace(t)
	l := long(t)
	_, b := load(t, l.dir, openSoft, OpenOptions{CardOptions: still})
	if want := (Proven{Chunk: true, Mixed: true, Scatter: true}); b.m.proven != want {
		t.Errorf("proven %+v", b.m.proven)
	}
	l.same(t, b, 1)
	for _, how := range []string{"kept", "full"} {
		open, _ := onStale(how)
		_, b := load(t, l.dir, open, OpenOptions{CardOptions: still, Proven: &Proven{Chunk: true}})
		wrong, of := 0, len(l.jobs)/10
		for i := range of {
			at := len(l.jobs) - 1 - 5*i
			out, _, err := run(b, l.jobs[at])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out, l.want[at]) {
				wrong++
			}
		}
		if wrong < of*3/4 {
			t.Errorf("%s: %d of %d answers are others", how, wrong, of)
		}
	}
}

// longTexts are a package whose cache holds 1,000 tokens, prompts of 1 to 1,000 for it, and what
// single rows on the software card say to each.
type longTexts struct {
	dir  string
	jobs []Job
	want [][]int32
}

// long makes them, once a test binary: 200 prompts, 40 where the tests are to be short.
func long(t *testing.T) longTexts {
	t.Helper()
	madeLong.Lock()
	defer madeLong.Unlock()
	if madeLong.dir != "" {
		return madeLong.longTexts
	}
	dir := t.TempDir()
	// Gemma norms what attention gives, and this one's scores are far apart: what a long prompt's
	// answer is depends on single cells.
	a, _ := axmodeltest.Find("gemma3")
	a.Layers, a.Hidden, a.Heads, a.KV, a.HeadDim, a.Inter, a.QueryScalar, a.Tied = 2, 32, 2, 1, 16, 32, 1, false
	if _, err := axmodeltest.WriteCheckpoint(dir, a, 7); err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(scratch, "long"), Context: 1023, Chunk: 64,
		History: []int{0, 64, 256, 512, 960}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	_, rows := load(t, r.Dir, openSoft, OpenOptions{CardOptions: still, Parallel: 1, Proven: &Proven{Narrow: true}})
	if rows.m.wide != 0 {
		t.Fatalf("wide passes of %d rows", rows.m.wide)
	}
	l := longTexts{dir: r.Dir}
	n := 200
	if testing.Short() {
		n = 40
	}
	l.jobs = longJobs(30, n, 1000, axmodeltest.Vocab)
	answer := truthOn(t, rows)
	for _, job := range l.jobs {
		l.want = append(l.want, answer(job))
	}
	madeLong.longTexts = l
	return l
}

var madeLong struct {
	sync.Mutex
	longTexts
}

// same holds a backend to every step-th text, and sees that the prompts' rows went in wide passes,
// eight a prompt on average.
func (l longTexts) same(t *testing.T, b *cardBackend, step int) {
	t.Helper()
	var jobs []Job
	var want [][]int32
	for i := 0; i < len(l.jobs); i += step {
		jobs, want = append(jobs, l.jobs[i]), append(want, l.want[i])
	}
	sameEverywhere(t, b, jobs, want, 3)
	st := b.Stats()
	if least := uint64(len(jobs) * 5); st.Passes["prefill"]+st.Passes["mixed"] < least || st.Passes["decode"] > least {
		t.Errorf("passes %v", st.Passes)
	}
}

// staleCard is a card whose wide passes are wrong in one way.
type staleCard struct {
	axcl.Device
	how   string // see Run; empty: right
	runs  int
	wides int
}

func (c *staleCard) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := c.Device.Loader(spec)
	return axcltest.LoadAs(l, err, func(m axcl.Model) axcl.Model { return &staleModel{Model: m, c: c} })
}

type staleModel struct {
	axcl.Model
	c       *staleCard
	kept    []byte // K and V of the last wide pass
	hidden  []uint16
	decoded bool // the last pass was of one row
}

func (m *staleModel) Run(p *axcl.Pass) error {
	m.c.runs++
	n, s := p.Rows(), m.Shape()
	err := m.Model.Run(p)
	if err != nil || n == 1 {
		m.decoded = true
		return err
	}
	m.c.wides++
	full := n == s.Groups[s.GroupFor(n, p.Reach(s))].Rows
	after := m.decoded
	m.decoded = false
	switch m.c.how {
	case "kept", "beside": // from the second on, the cells get what the first had left: a one-shot event; or only beside the head
		if m.c.how == "beside" && len(p.Want) == 0 {
			return nil
		}
		now := make([]byte, n*s.RowBytes())
		if err := m.Save(p.Cell, now); err != nil {
			return err
		}
		if m.kept != nil {
			old := slices.Clone(now)
			copy(old, m.kept)
			if err := m.Restore(p.Cell, old); err != nil {
				return err
			}
		}
		m.kept = now
	case "given": // from the second on, what comes out is the last pass's
		if p.HiddenOut == nil {
			return nil
		}
		now := slices.Clone(p.HiddenOut)
		copy(p.HiddenOut, m.hidden)
		m.hidden = now
	case "full": // only where all rows of the group are used: rows see nothing of the last cells
		if full {
			return m.Clear(sorted(p.Cell[n/2:]))
		}
	case "decoded": // only after a decode
		if after {
			return m.Clear(sorted(p.Cell))
		}
	}
	return nil
}

func sorted(cells []uint32) []uint32 {
	cells = slices.Clone(cells)
	slices.Sort(cells)
	return cells
}

// onStale opens a software card that is wrong in such a way.
func onStale(how string) (open func() (axcl.Device, string, error), card *staleCard) {
	card = &staleCard{how: how}
	return func() (axcl.Device, string, error) {
		d, why, err := openSoft()
		card.Device, card.runs, card.wides = d, 0, 0
		return card, why, err
	}, card
}

// withChunk are files of a tiny model whose wide passes take this many rows.
func withChunk(rows int) []axmodel.SoftGroup {
	return []axmodel.SoftGroup{{Rows: 1, Cells: tinyCells, Cache: tinyCells}, {Rows: rows, Cells: 0, Cache: 1},
		{Rows: rows, Cells: 56, Cache: 56}, {Rows: rows, Cells: 88, Cache: 88}}
}

// longJobs are n prompts of 1 to most tokens, of different lengths.
func longJobs(seed uint64, n, most, vocab int) (jobs []Job) {
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range n {
		ids := make([]int32, 1+i*(most-1)/(n-1))
		for k := range ids {
			ids[k] = int32(rng.IntN(vocab))
		}
		jobs = append(jobs, greedy(ids, 3))
	}
	return jobs
}

// answersOf are what the jobs say, this many at a time.
func answersOf(t *testing.T, b Backend, jobs []Job, together int) [][]int32 {
	t.Helper()
	out := make([][]int32, len(jobs))
	gate := make(chan struct{}, together)
	var wg sync.WaitGroup
	for i, job := range jobs {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			var err error
			if out[i], _, err = run(b, job); err != nil {
				t.Errorf("a prompt of %d tokens: %v", len(job.IDs), err)
			}
		})
	}
	wg.Wait()
	return out
}
