//go:build cgo && !fake && linux

package engine

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
)

// TestThroughput holds clients' aggregate against one client's, and against the bound, beside the
// vendor's way: one sequence, no sharing.
func TestThroughput(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	off := false
	for _, c := range []struct {
		name  string
		shape axmodel.Shape
		p     pi5
		least map[int]float64 // clients: times one client
		cells int             // of the group that short contexts need
	}{
		{"0.6B", axmodel.Qwen3Small(), small, map[int]float64{1: 1, 2: 0.98, 8: 2.5, 16: 3.5, 32: 3.5}, 128},
		{"4B", axmodel.Qwen3Large(), large, map[int]float64{1: 1, 4: 0.98, 8: 1.4, 16: 2}, 256},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, clock := simPi5(t, c.shape, OpenOptions{})
			one := 0.0
			for _, n := range []int{1, 2, 4, 8, 16, 32} {
				least, ok := c.least[n]
				if !ok {
					continue
				}
				// Two tokens of prompt and this many of output that all fit under the lowest rung.
				f := measured(t, b, clock, work{Clients: n, Prompt: 2, Output: min(24, c.cells/n-1), Speculate: &off, First: 1000})
				if n == 1 {
					one = f.Rate
				}
				bound := max(1000/c.p.alone(), float64(n)*1000/c.p.bound(c.cells, n))
				t.Logf("%2d clients: %5.1f tokens/s, %.2f times one client's; bound %5.1f (%.0f %%); the vendor's way %5.1f", n, f.Rate,
					f.Rate/one, bound, 100*f.Rate/bound, one)
				if n == 8 {
					// The same in a cache that is full of what others said.
					for i := range 8 {
						if _, err := measure(context.Background(), b, clock,
							work{Clients: 1, Prompt: 120, Output: 1, First: int32(40000 + 500*i), Speculate: &off}); err != nil {
							t.Fatal(err)
						}
					}
					again, err := measure(context.Background(), b, clock, work{Clients: n, Prompt: 2, Output: min(24, c.cells/n-1),
						Speculate: &off, First: 90000})
					if err != nil {
						t.Fatal(err)
					}
					t.Logf(" 8 clients: %5.1f tokens/s in a full cache", again.Rate)
					if again.Rate < least*one {
						t.Errorf("8 clients in a full cache: %.2f times one client's rate, want %.2f", again.Rate/one, least)
					}
				}
				if f.Rate < least*one {
					t.Errorf("%d clients: %.2f times one client's rate, want %.2f", n, f.Rate/one, least)
				}
				if f.Rate < 0.9*bound {
					t.Errorf("%d clients: %.0f %% of the bound, want 90", n, 100*f.Rate/bound)
				}
			}
		})
	}
}

// TestDocumentedRates: the rates of one client and of several in docs/performance.md, and so those
// in README.md, are what the simulated card gives. A change that moves them by more than 2 % puts a
// new table there.
func TestDocumentedRates(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	doc, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	b, clock := simPi5(t, axmodel.Qwen3Small(), OpenOptions{})
	for _, n := range []int{1, 8, 16} {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^ +p32 n32 c%d (?:.*?%%){2} +([\d.]+) ±`, n)).FindSubmatch(doc)
		if row == nil {
			t.Fatalf("docs/performance.md has no line p32 n32 c%d", n)
		}
		said, err := strconv.ParseFloat(string(row[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		f := measured(t, b, clock, work{Clients: n, Prompt: 32, Output: 32, Speculate: new(bool), First: 1000})
		if t.Logf("%d clients: %.2f tokens/s, in docs/performance.md %.2f", n, f.Rate, said); math.Abs(f.Rate/said-1) > 0.02 {
			t.Errorf("%d clients: %.2f tokens/s, docs/performance.md says %.2f: see its section An example", n, f.Rate, said)
		}
	}
}

// simPi5 opens a model without weights on the simulated card, a Raspberry Pi 5's, with its clock.
// Nothing here depends on how fast this machine is.
func simPi5(t testing.TB, s axmodel.Shape, o OpenOptions) (*cardBackend, func() time.Duration) {
	t.Helper()
	return simOf(t, "pi5", s, o)
}

// simOf is simPi5 on a card of another profile. The card computes all heads, if o does not say
// otherwise.
func simOf(t testing.TB, profile string, s axmodel.Shape, o OpenOptions) (*cardBackend, func() time.Duration) {
	t.Helper()
	open, sim := onSim(t, "clock=virtual\nprofile="+profile)
	o.CardOptions.Clock, o.CardOptions.Host = clockOf(sim), sim
	if o.Head == "" {
		o.Head = HeadCard
	}
	card, err := OpenCard(open, o.CardOptions)
	if err != nil {
		t.Fatal(err)
	}
	b, err := OpenShape(context.Background(), card, t.TempDir(), s, o)
	if err != nil {
		_ = card.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.Close()
		_ = card.Close()
	})
	return b.(*cardBackend), clockOf(sim)
}

// measured is measure on an empty cache.
func measured(t testing.TB, b *cardBackend, clock func() time.Duration, w work) figures {
	t.Helper()
	if err := b.card.Do(context.Background(), func(axcl.Device) error { b.m.cells.Forget(); return nil }); err != nil {
		t.Fatal(err)
	}
	f, err := measure(context.Background(), b, clock, w)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLeftOver: what is left of a card that cannot do all, or whose wide passes are dear, is never
// less than one client's rate, however many there are.
func TestLeftOver(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	off := false
	for _, c := range []struct {
		name, profile string
		proven        *Proven
	}{
		{"nothing but chunks in order", "pi5", &Proven{Chunk: true}},
		{"no rows of several in a pass", "pi5", &Proven{Chunk: true, Scatter: true}},
		{"not even chunks", "pi5", &Proven{}},
		{"wide passes forty times as dear", "pi5,table clear,matrix 0.02TOPS", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, clock := simOf(t, c.profile, axmodel.Qwen3Small(), OpenOptions{Proven: c.proven})
			rate := func(n int) float64 { // from the first pass to the last: those who come later wait
				f := measured(t, b, clock, work{Clients: n, Prompt: 2, Output: 12, Speculate: &off, First: 1000})
				return float64(f.Tokens) / f.Took.Seconds()
			}
			one := rate(1)
			for _, n := range []int{2, 8} {
				all := rate(n)
				t.Logf("%d clients: %.2f times one client's %.1f tokens/s", n, all/one, one)
				if all < 0.98*one {
					t.Errorf("%d clients: %.2f times one client's rate", n, all/one)
				}
			}
		})
	}
}

// TestPassTime: what a pass takes is the arithmetic's sum, for answers together and for prompts.
func TestPassTime(t *testing.T) {
	off := false
	b, clock := simPi5(t, axmodel.Qwen3Small(), OpenOptions{})
	near := func(what string, got, want float64) {
		t.Helper()
		t.Logf("%s: %.1f ms, %.1f by arithmetic", what, got, want)
		if got < 0.95*want || got > 1.05*want {
			t.Errorf("%s: %.1f ms, more than 5 %% off %.1f", what, got, want)
		}
	}
	for _, n := range []int{1, 8, 16, 32} {
		f := measured(t, b, clock, work{Clients: n, Prompt: 1, Output: 4, Speculate: &off, First: 1000})
		want := small.pass(128, n)
		if n == 1 {
			want = small.alone() + small.perRow
		}
		near(fmt.Sprintf("a token for each of %d", n), float64(n)/f.Rate*1e3, want)
	}
	for _, prompt := range []int{128, 512, 1152, 2000} {
		f := measured(t, b, clock, work{Clients: 1, Prompt: prompt, Output: 1, Speculate: &off, First: 1000})
		want := 0.0
		for h := 0; h < min(prompt, 1152); h += 128 {
			want += small.pass(h, 0)
		}
		if prompt <= 1152 {
			want += small.pass(0, 1) - small.pass(0, 0)
		} else {
			want += float64(prompt-1152)*(float64(small.layers)*small.row+0.15) + small.head + small.perRow
		}
		near(fmt.Sprintf("a prompt of %d", prompt), float64(f.First)/1e6, want)
	}
}

// TestLongContext: of several decode groups a row runs on the smallest that holds all it sees, so
// that a token costs what its reach does, within 5 % of the arithmetic, also where the next group
// begins; prompts go in chunks all the way.
func TestLongContext(t *testing.T) {
	lane.NoRace(t)
	off := false
	s := axmodel.Qwen3Long()
	s.Layers, s.KVHeads, s.Vocab, s.HeadBytes = 6, 2, 20000, 8_000_000 // 17 MB of cache a layer, and layers are what is timed
	s.History = nil
	for h := 0; h < 14336; h += 2048 {
		s.History = append(s.History, h)
	}
	s.History = append(s.History, 14336-256)
	b, clock := simPi5(t, s, OpenOptions{})
	// As the profile has it: a measured row of 2047 cells, and memory and attention for what there
	// is more.
	row := func(cells int) float64 {
		more := float64(cells - 2047)
		return 1.5 + more*2*256*2/25e9*1e3 + 4*more*2048/0.48e12*1e3
	}
	const head, home = 0.457 + 8_000_000/20.9e9*1e3, 0.28 // the head, and its logits' way
	for _, c := range []struct{ prompt, cells int }{{1000, 2047}, {3900, 4095}, {4095, 8191}, {12000, 17407}, {14335, 17407}} {
		f := measured(t, b, clock, work{Clients: 1, Prompt: c.prompt, Output: 5, Speculate: &off, First: 1000})
		got, want := 1e3/f.Rate, float64(s.Layers)*row(c.cells)+head+home
		t.Logf("at %d: %.2f ms a token, %.2f by arithmetic; %d passes", c.prompt, got, want, f.Passes)
		if got < 0.95*want || got > 1.05*want {
			t.Errorf("at %d: %.2f ms a token, more than 5 %% off %.2f", c.prompt, got, want)
		}
		if chunks := uint64((c.prompt + 255) / 256); f.Passes != chunks+4 {
			t.Errorf("a prompt of %d and five tokens took %d passes, not %d and 4", c.prompt, f.Passes, chunks)
		}
	}
	for reach, cells := range map[int]int{1: 2047, 2047: 2047, 2048: 4095, 8191: 8191, 8192: 17407, 17407: 17407} {
		g := b.m.shape.GroupFor(1, reach)
		if b.m.shape.Groups[g].Cells != cells || b.m.lone(reach) != b.m.costs.group[g] {
			t.Errorf("a row that sees %d cells runs on a group of %d, at the price of another: %v", reach, b.m.shape.Groups[g].Cells,
				b.m.lone(reach))
		}
	}
}

// TestSpeculationPays on text that copies itself, and costs nothing on text that does not.
func TestSpeculationPays(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	off := false
	for _, c := range []struct {
		name    string
		period  int
		clients int
		least   float64
	}{{"copies", 24, 1, 2}, {"never repeats", 0, 1, 0.98}, {"copies, four clients", 24, 4, 1},
		{"never repeats, four clients", 0, 4, 0.98}} {
		t.Run(c.name, func(t *testing.T) {
			s := axmodel.Qwen3Small()
			s.Period = c.period
			b, clock := simPi5(t, s, OpenOptions{})
			w := work{Clients: c.clients, Prompt: 24, Output: 200, First: 24 * 50, Speculate: &off}
			plain := measured(t, b, clock, w)
			w.Speculate = nil
			f := measured(t, b, clock, w)
			t.Logf("%.1f tokens/s without, %.1f with: %.2f times; %d of %d guesses right", plain.Rate, f.Rate, f.Rate/plain.Rate,
				f.Accepted, f.Drafted)
			if f.Rate < c.least*plain.Rate {
				t.Errorf("%.2f times, want %.2f", f.Rate/plain.Rate, c.least)
			}
		})
	}
}

// TestSecondTurn: the next turn of a long chat costs one chunk until its first token.
func TestSecondTurn(t *testing.T) {
	off := false
	b, clock := simPi5(t, axmodel.Qwen3Large(), OpenOptions{})
	first := measured(t, b, clock, work{Clients: 1, Prompt: 2000, Output: 16, First: 1000, Speculate: &off})
	f, err := measure(context.Background(), b, clock, work{Clients: 1, Prompt: 2040, Output: 1, First: 1000, Speculate: &off})
	if err != nil {
		t.Fatal(err)
	}
	chunk := time.Duration(large.pass(2048, 1) * float64(time.Millisecond))
	t.Logf("first turn %v to its first token, second %v; a chunk %v", first.First, f.First, chunk)
	if f.First > chunk*12/10 {
		t.Errorf("the second turn's first token after %v, a chunk is %v", f.First, chunk)
	}
}

// work is a load to be measured: this many clients, each with a prompt of its own after a beginning
// that all share, each wanting this many tokens. The zero value of Speculate lets the engine
// decide.
type work struct {
	Clients, Shared, Prompt, Output int
	First                           int32 // the first token of the first prompt; the others' follow at a distance
	Speculate                       *bool
	Key                             string
}

// figures are what a work took, by the clock it was measured with.
type figures struct {
	Tokens   int           // put out, all clients together
	Took     time.Duration // from the first pass to the last token
	First    time.Duration // until the last client had its first token
	Rate     float64       // tokens a second, all clients together, from the moment all had their first
	Passes   uint64
	Busy     time.Duration // inside passes
	Drafted  int
	Accepted int
}

// measure runs the work on a backend that has nothing else to do, and reads clock before and after.
// All clients are there before the first pass. Errors: the first that a client met.
func measure(ctx context.Context, b *cardBackend, clock func() time.Duration, w work) (figures, error) {
	var f figures
	var first error
	before := b.Stats()
	begun := clock()
	var mu sync.Mutex
	var steady time.Duration // when the last client had its first token
	late := 0                // tokens after that, counted from each client's second on
	var wg sync.WaitGroup
	jobs := make([]Job, w.Clients)
	for c := range jobs {
		p := sampler.Defaults()
		p.Temperature = 0
		jobs[c] = Job{Sampling: p, Limit: w.Output, Speculate: w.Speculate, Key: w.Key}
		for i := range w.Shared {
			jobs[c].IDs = append(jobs[c].IDs, int32(i%200))
		}
		for i := range w.Prompt {
			jobs[c].IDs = append(jobs[c].IDs, (w.First+int32(c)*4001+int32(i))%150000)
		}
	}
	release := hold(b)
	for _, job := range jobs {
		wg.Go(func() {
			n := 0
			for tok, err := range b.Complete(ctx, job) {
				mu.Lock()
				switch {
				case err != nil:
					if first == nil {
						first = err
					}
				case tok.Final != "":
					f.Drafted += tok.Usage.Drafted
					f.Accepted += tok.Usage.Accepted
					steady = max(steady, begun+tok.Usage.FirstToken)
				default:
					n++
					f.Tokens++
				}
				mu.Unlock()
			}
			mu.Lock()
			late += max(n-1, 0)
			mu.Unlock()
		})
	}
	for b.Stats().Queued < w.Clients {
		runtime.Gosched()
	}
	release()
	wg.Wait()
	f.Took = clock() - begun
	if err := b.card.Do(ctx, func(axcl.Device) error { return nil }); err != nil { // the last pass is counted behind its last token
		return f, err
	}
	after := b.Stats()
	f.First = steady - begun
	if d := f.Took - f.First; d > 0 {
		f.Rate = float64(late) / d.Seconds()
	}
	for k, n := range after.Passes {
		f.Passes += n - before.Passes[k]
	}
	f.Busy = after.Busy - before.Busy
	return f, first
}

// TestPromptsInTurn: prompts that do not fit together under the ladder are taken in turn, which
// costs little more than choosing by hand how many run at once. All at once they went row by row,
// five times as long.
func TestPromptsInTurn(t *testing.T) {
	off := false
	var took [2]time.Duration
	for i, parallel := range []int{2, 0} {
		t.Run(fmt.Sprint("parallel ", parallel), func(t *testing.T) {
			b, clock := simPi5(t, axmodel.Qwen3Small(), OpenOptions{Parallel: parallel})
			took[i] = measured(t, b, clock, work{Clients: 6, Prompt: 512, Output: 16, Speculate: &off, First: 1000}).Took
		})
	}
	t.Logf("six prompts of 512 tokens: %v two at a time, %v as the engine chooses", took[0], took[1])
	if float64(took[1]) > 1.25*float64(took[0]) {
		t.Errorf("%v as the engine chooses, %v two at a time", took[1], took[0])
	}
}

// TestTogetherNative is a row of TestTogether through the vendor's ABI, on the simulated card's
// clock.
func TestTogetherNative(t *testing.T) {
	//proves:G16
	lane.Slow(t)
	var took [2]time.Duration
	for i, parallel := range []int{1, 0} {
		t.Run(fmt.Sprint("parallel ", parallel), func(t *testing.T) {
			b, clock := simPi5(t, axmodel.Qwen3Small(), OpenOptions{Parallel: parallel})
			if err := b.card.Do(context.Background(), func(axcl.Device) error { b.card.Detach(b.m); return nil }); err != nil {
				t.Fatal(err)
			}
			st := &stage{card: b.card, m: b.m, clock: clock}
			_, took[i] = st.crowd(t, prompts(12, 512, 24))
		})
	}
	t.Logf("12 clients, 512 in, 24 out: %.1f s together, %.1f s one after another", took[1].Seconds(), took[0].Seconds())
	if took[1] > took[0]*105/100 {
		t.Errorf("%v together, %v one after another", took[1], took[0])
	}
}

// TestStatesTime: of Qwen3.5-0.8B int4, answers take what the profile's lines add up to, alone and
// in turn, and so do prompts; a second turn takes no more than a chunk.
func TestStatesTime(t *testing.T) {
	lane.Slow(t)
	b, clock := simPi5(t, axmodel.Qwen35SmallInt4(), OpenOptions{})
	const token, head = 18*0.97 + 6*1.04 + 12.62, 12.62
	for _, n := range []int{1, 4} {
		f := measured(t, b, clock, work{Clients: n, Prompt: 2, Output: 24, First: 1000})
		t.Logf("%d clients: %.2f tokens/s, %.1f %% of the arithmetic", n, f.Rate, f.Rate*token/10)
		if f.Rate < 0.97*1000/token {
			t.Errorf("%d clients: %.2f tokens/s of %.2f", n, f.Rate, 1000/token)
		}
	}
	first := measured(t, b, clock, work{Clients: 1, Prompt: 900, Output: 16, First: 1000})
	p, err := profiles.Load("pi5")
	if err != nil {
		t.Fatal(err)
	}
	full := profiles.Layer{Hidden: 1024, Heads: 8, KVHeads: 2, HeadDim: 256, Intermediate: 3584, Weights: 9_460_000}
	chunk := func(h int) float64 {
		wide, _ := p.LayerTime(full, 128, h)
		return 18*13.9 + 6*float64(wide)/1e6
	}
	want := head
	for h := 0; h < 900; h += 128 {
		want += chunk(h)
	}
	got := float64(first.First) / 1e6
	t.Logf("a prompt of 900 tokens: %.0f ms, %.0f by arithmetic", got, want)
	if got < 0.97*want || got > 1.15*want { // a snapshot before its end may cost a chunk of its own
		t.Errorf("a prompt of 900 tokens takes %.0f ms, %.0f by arithmetic", got, want)
	}
	f, err := measure(context.Background(), b, clock, work{Clients: 1, Prompt: 1000, Output: 1, First: 1000})
	if err != nil {
		t.Fatal(err)
	}
	// A chunk, and the rows between the snapshot before its end and the end, one by one.
	least := chunk(1024) + beforeEnd*(token-head) + head
	t.Logf("the second turn's first token after %.0f ms, %.0f by arithmetic", float64(f.First)/1e6, least)
	if float64(f.First)/1e6 > 1.05*least {
		t.Errorf("the second turn's first token after %v, %.0f ms by arithmetic", f.First, least)
	}
}
