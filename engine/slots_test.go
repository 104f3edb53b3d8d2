package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestStatesSameTokens (G12): a model with recurrent layers says the same alone and among
// others, with snapshots and without, with few slots and many, over conversations as chat programs
// edit them.
func TestStatesSameTokens(t *testing.T) {
	//proves:G12
	n := 300
	if testing.Short() || lane.Race {
		n = 30
	}
	alone := onFake(t, withStates(2), OpenOptions{CardOptions: still, Parallel: 1})
	jobs, want := edits(17, n, fakeVocab, 96, truthOn(t, alone))
	for _, c := range []struct {
		name string
		f    *fake
		lie  func(*fake)
		o    OpenOptions
	}{
		{"two slots", withStates(2), nil, OpenOptions{}},
		{"three slots", withStates(3), nil, OpenOptions{}},
		{"15 others", withStates(16), nil, OpenOptions{Parallel: 16}},
		{"many slots", withStates(60), nil, OpenOptions{}},
		{"no snapshots", withStates(16), func(f *fake) { f.spoils = true }, OpenOptions{}},
		{"no chunks", withStates(16), func(f *fake) { f.pads = true }, OpenOptions{}},
		{"no chunks after the first", withStates(16), func(f *fake) { f.cold = true }, OpenOptions{}},
		{"cells in order", withStates(4), func(f *fake) { f.ordered = true }, OpenOptions{}},
		{"one slot", withStates(1), nil, OpenOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.lie != nil {
				c.lie(c.f)
			}
			c.o.CardOptions = still
			sameEverywhere(t, onFake(t, c.f, c.o), jobs, want, 3)
		})
	}
}

// TestStatesProven: what a card does with states is found out at load, and what it does wrongly is
// not used. One that goes on from another text's state where a text begins is not used at all, and
// found out later too.
func TestStatesProven(t *testing.T) {
	all := Proven{Chunk: true, Scatter: true, Kept: true}
	for _, c := range []struct {
		name string
		lie  func(*fake)
		want Proven
	}{
		{"honest", func(*fake) {}, all},
		{"padding goes into the state", func(f *fake) { f.pads = true }, Proven{Chunk: true, Scatter: true, Kept: true, Stepped: true}},
		{"wide passes begin anew", func(f *fake) { f.cold = true }, Proven{Chunk: true, Scatter: true, Kept: true, Stepped: true}},
		{"padding goes into the state, one by one too", func(f *fake) { f.pads, f.steps = true, true }, Proven{Scatter: true, Kept: true}},
		{"what passes go on from is replaced too", func(f *fake) { f.spoils = true }, Proven{Chunk: true, Scatter: true}},
		{"cells in order", func(f *fake) { f.ordered = true }, Proven{Chunk: true, Kept: true}},
	} {
		f := withStates(4)
		c.lie(f)
		b := onFake(t, f, OpenOptions{CardOptions: still})
		if got := b.m.proven; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if n := b.Stats().Slots; n != 4 {
			t.Errorf("%s: %d states are told of before the first answer", c.name, n)
		}
	}
	f := withStates(4)
	b := onFake(t, f, OpenOptions{CardOptions: still})
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		b.m.proven = Proven{}
		f.leaks = true
		return probe(b.m)
	}); !errors.Is(err, ErrWrong) {
		t.Errorf("a forgotten reset: %v", err)
	}
}

// TestStatesForgottenReset: a card that comes to forget resets while it works is found by the known
// row.
func TestStatesForgottenReset(t *testing.T) {
	f := withStates(4)
	b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Clock: still.Clock, CheckWork: 1}})
	if err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.canary.learn() }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(b, greedy([]int32{1, 2, 3, 4}, 5)); err != nil {
		t.Fatal(err)
	}
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		f.leaks = true
		b.m.canary.row.worked, b.m.canary.row.waited = 1e9, 99
		return b.m.lookCanary()
	}); !errors.Is(err, ErrWrong) {
		t.Errorf("%v", err)
	}
}

// TestStatesTurns: from the second turn on, at most a chunk and the new tokens are evaluated: in a
// chat whose thinking is cut out of the history, and where one growing prompt is sent.
func TestStatesTurns(t *testing.T) {
	for _, thinks := range []bool{true, false} {
		b := onFake(t, longStates(8), OpenOptions{CardOptions: still})
		turns(t, thinks, func(job Job) ([]int32, Token) {
			out, last, err := run(b, job)
			if err != nil {
				t.Fatal(err)
			}
			return out, last
		})
		if st := b.Stats(); st.Slots != 8 || st.SlotsKept == 0 || st.SlotsUsed > 8 {
			t.Errorf("%d slots, %d used, %d snapshots", st.Slots, st.SlotsUsed, st.SlotsKept)
		}
		clean(t, b)
	}
}

// longStates is a model that keeps states, with a long context and chunks of 64 rows.
func longStates(slots int) *fake {
	f := withStates(slots)
	f.shape.Cells, f.shape.Groups = 1600, []axcl.Group{{Rows: 1, Cells: 1600}}
	for h := 0; h <= 1536; h += 64 {
		f.shape.Groups = append(f.shape.Groups, axcl.Group{Rows: 64, Cells: h})
	}
	f.content = make([]uint64, f.shape.Cells)
	return f
}

// turns has a chat of twelve turns with a model of longStates, and looks how much of each turn's
// prompt is evaluated.
func turns(t *testing.T, thinks bool, say func(Job) ([]int32, Token)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	text := func(n int) (ids []int32) {
		for range n {
			ids = append(ids, int32(rng.IntN(fakeVocab)))
		}
		return ids
	}
	history := text(70)
	for turn := range 12 {
		user := append(text(5+rng.IntN(40)), 2, 3, 4) // and what begins an answer
		prompt := append(slices.Clone(history), user...)
		if thinks {
			prompt = append(prompt, 5, 6)
		}
		out, last := say(greedy(prompt, 30))
		did := last.Usage.Prompt - last.Usage.Cached
		fresh := len(user) + 2
		if turn > 0 {
			fresh += 30 // the last answer, as the history has it
		}
		if t.Logf("turn %d: %d of %d rows are evaluated, %d are new", turn, did, last.Usage.Prompt, fresh); turn > 0 && did > 64+fresh {
			t.Errorf("turn %d: %d of %d rows are evaluated, %d are new", turn, did, last.Usage.Prompt, fresh)
		}
		history = append(history, user...)
		if thinks {
			out = out[len(out)/2:] // the rest was thought
		}
		history = append(history, out...)
	}
}

// TestStatesFaults: a pass that fails takes the state with it that it was to replace: who has said
// nothing begins again, what others keep stays right, and no slot is lost.
func TestStatesFaults(t *testing.T) {
	lane.NoRace(t)
	alone := onFake(t, withStates(2), OpenOptions{CardOptions: still})
	jobs := jobsFor(5, 60, fakeVocab, 50)
	var want [][]int32
	for _, j := range jobs {
		out, _, err := run(alone, j)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, out)
	}
	for fails := 1; fails < 40; fails++ {
		f := withStates(5)
		f.spoils = fails%2 == 0 // no snapshots: each pass replaces what it went on from
		b := onFake(t, f, OpenOptions{CardOptions: still})
		mild := &axcl.Error{Op: "axclrtEngineExecute", Code: 0x8030070c}
		release := hold(b)
		n := 0
		f.run = func(int) error {
			if n++; n == fails {
				for i := range f.states { // what it was to fill holds nothing
					if f.fills == uint32(i) {
						f.states[i] = 0xdead
					}
				}
				return mild
			}
			return nil
		}
		release()
		var wg sync.WaitGroup
		for i, j := range jobs[:20] {
			wg.Go(func() {
				out, _, err := run(b, j)
				if err != nil && !errors.Is(err, mild) || err == nil && !slices.Equal(out, want[i]) {
					t.Errorf("pass %d fails, job %d: %v, %v; want %v", fails, i, out, err, want[i])
				}
			})
		}
		wg.Wait()
		clean(t, b)
	}
}

// TestStatesKeys (T17): a snapshot of one key's text is never gone on from by another.
func TestStatesKeys(t *testing.T) {
	b := onFake(t, withStates(30), OpenOptions{CardOptions: still})
	job := greedy([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 3)
	for _, step := range []struct {
		key  string
		hits bool
	}{{"ann", false}, {"ann", true}, {"bob", false}, {"", false}, {"", true}, {"ann", true}} {
		job.Key = step.key
		if _, last, err := run(b, job); err != nil || last.Usage.Cached > 0 != step.hits {
			t.Errorf("key %q: %d of its rows were there, %v", step.key, last.Usage.Cached, err)
		}
	}
}

// TestStatesShift: a context that is full goes on with the newer half, evaluated again.
func TestStatesShift(t *testing.T) {
	var said []string
	for _, slots := range []int{2, 9} {
		f := withStates(slots)
		b := onFake(t, f, OpenOptions{CardOptions: still})
		job := greedy([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 120)
		job.Shift, job.NumCtx, job.NumKeep, job.IgnoreStop = true, 40, 4, true
		out, _, err := run(b, job)
		if err != nil || len(out) != 120 {
			t.Fatalf("%d tokens, %v", len(out), err)
		}
		said = append(said, fmt.Sprint(out))
		clean(t, b)
	}
	if said[0] != said[1] {
		t.Errorf("%v, with more slots %v", said[0], said[1])
	}
}

// TestStatesLittleRoom: where a card has no room for all the states that a model would like, and
// nothing can be unloaded, it gets fewer; with less than two it is refused.
func TestStatesLittleRoom(t *testing.T) {
	dir := compiled(t, "qwen3_5")
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, one, load := p.Slots(), p.StateBytes(), p.Memory().Load
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, slots := range []int{all, all - 3, axcl.DefaultSlots, axcl.DefaultSlots - 1} {
		asked := 0
		card, err := OpenCard(func() (axcl.Device, string, error) {
			d, err := soft.Open(soft.Options{Threads: 1, CMM: load - int64(all-slots)*one})
			return d, "", err
		}, still)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(t.Context(), dir, OpenOptions{Card: card, Room: func(need, free int64) bool {
			if asked++; need != load {
				t.Errorf("%d slots: asked for %d, not for %d", slots, need, load)
			}
			return false
		}})
		switch {
		case slots < axcl.DefaultSlots:
			if me := (&MemoryError{}); !errors.As(err, &me) || me.Need != load-int64(all-axcl.DefaultSlots)*one {
				t.Errorf("%d slots: %v", slots, err)
			}
		case err != nil:
			t.Errorf("%d slots: %v", slots, err)
		default:
			if b := m.Backend().(*cardBackend); b.m.queue.stats.Slots != slots || (asked > 0) != (slots < all) {
				t.Errorf("%d slots, want %d; asked %d times", b.m.queue.stats.Slots, slots, asked)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := card.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStatesPackage (G12): a compiled checkpoint whose layers keep states says on the software card
// what it says alone, in edited conversations, many at a time; its probes find nothing wrong.
func TestStatesPackage(t *testing.T) {
	lane.NoRace(t)
	n := 300
	if testing.Short() {
		n = 40
	}
	for _, arch := range []string{"qwen3_5", "qwen3_5-grouped"} {
		t.Run(arch, func(t *testing.T) {
			dir := compiled(t, arch)
			computes(t, dir, openSoft)
			_, alone := load(t, dir, openSoft, OpenOptions{Parallel: 1, CardOptions: still})
			want := Proven{Chunk: true, Scatter: true, Kept: true}
			if alone.m.proven != want || alone.m.queue.stats.Slots < axcl.DefaultSlots {
				t.Fatalf("%+v, %d slots", alone.m.proven, alone.m.queue.stats.Slots)
			}
			jobs, said := edits(uint64(n), n, axmodeltest.Vocab, 95, truthOn(t, alone))
			_, b := load(t, dir, openSoft, OpenOptions{Parallel: 16, CardOptions: still})
			sameEverywhere(t, b, jobs, said, 3)
			off := Proven{Chunk: true, Scatter: true}
			_, b = load(t, dir, openSoft, OpenOptions{Parallel: 16, CardOptions: still, Proven: &off})
			sameEverywhere(t, b, jobs[:min(n, 100)], said[:min(n, 100)], 4)
			n = 60 // of the others
		})
	}
	dir := compiled(t, "qwen3_5")
	if _, err := Open(context.Background(), dir, OpenOptions{Device: "soft", Draft: guesser(dir)}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("with a draft model: %v", err)
	}
}

// computes leaves a test out, with the reason, on a card that refuses the package's layers.
func computes(t *testing.T, dir string, open func() (axcl.Device, string, error)) {
	t.Helper()
	card, err := OpenCard(open, still)
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	m, err := Open(context.Background(), dir, OpenOptions{Card: card})
	if errors.Is(err, axcl.ErrModel) {
		t.Skipf("the card refuses layers that keep a state: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
