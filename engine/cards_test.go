package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// TestSplit: a model split by layers over cards gives what it gives on one; its memory is on both,
// and goes when it is closed; a card that is lost ends it.
func TestSplit(t *testing.T) {
	dir := compiled(t, "qwen3")
	_, alone := load(t, dir, openSoft, OpenOptions{Parallel: 1, Proven: &Proven{}})
	jobs, want := edits(31, 80, axmodeltest.Vocab, 95, truthOn(t, alone))
	var under []*Card
	var faulty *axcltest.Faulty
	for i := range 2 {
		c, err := OpenCard(func() (axcl.Device, string, error) {
			d, err := soft.Open(soft.Options{Threads: 1, CMM: int64(4-2*i) << 20})
			if i == 1 && err == nil {
				faulty = axcltest.NewFaulty(d)
				return faulty, "test", nil
			}
			return d, "test", err
		}, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		under = append(under, c)
	}
	open := func() (axcl.Device, string, error) {
		d, err := Join(under...)
		return d, "test", err
	}
	_, b := load(t, dir, open, OpenOptions{CardOptions: still})
	parts := b.m.model.(*split).parts
	if a, z := parts[0].Shape(), parts[1].Shape(); a.Layers != 2 || z.Layers != 1 || a.Out != 0 || z.Out == 0 {
		t.Errorf("layers %d and %d, outputs %d and %d: want the larger part on the card with more memory, the head on the last", a.Layers,
			z.Layers, a.Out, z.Out)
	}
	if want := (Proven{Chunk: true, Mixed: true, Scatter: true}); b.m.proven != want {
		t.Errorf("proven %+v", b.m.proven)
	}
	sameEverywhere(t, b, jobs, want, 8)
	// A model of its own beside the part it holds.
	beside, err := Open(context.Background(), dir, OpenOptions{Card: under[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	faulty.Plan(axcltest.Fault{Op: axcltest.OpRun, N: 3, Sticky: true, Err: &axcl.Error{Op: "axclrtEngineExecute", Code: 0x8030070a}})
	if _, _, err := run(b, greedy([]int32{1, 2, 3}, 20)); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("a part's card was lost: %v", err)
	}
	if _, _, err := run(beside.b, greedy([]int32{1, 2, 3}, 5)); err != nil {
		t.Errorf("the model on the other card: %v", err)
	}
	if Place(under, 1) != under[0] || Place(under, 1<<40) != nil {
		t.Error("a model is placed on a card that is lost, or where it does not fit")
	}
}

// statsOnly is a backend that only says how much it did.
type statsOnly struct {
	Backend
	st Stats
}

func (b statsOnly) Stats() Stats { return b.st }

// TestReplicasStats: what two cards did is what both did, figure by figure; a limit that both have
// is one.
func TestReplicasStats(t *testing.T) {
	once := map[string]bool{"Piece": true, "Temperature": true, "NPULoad": true, "Memory.Rows": true, "Memory.Bytes": true,
		"Disk.Rows": true, "Disk.Bytes": true, "Far.Rate": true, "Far.Wait": true, "Head.Rest": true, "Head.Bits": true, "Head.Bytes": true}
	// figures calls f with each number of a Stats.
	var figures func(prefix string, v reflect.Value, f func(name string, v reflect.Value))
	figures = func(prefix string, v reflect.Value, f func(name string, v reflect.Value)) {
		for i := range v.NumField() {
			name, field := prefix+v.Type().Field(i).Name, v.Field(i)
			switch {
			case field.Kind() == reflect.Struct:
				figures(name+".", field, f)
			case field.CanInt(), field.CanUint(), field.CanFloat():
				f(name, field)
			}
		}
	}
	var st Stats
	figures("", reflect.ValueOf(&st).Elem(), func(_ string, v reflect.Value) { v.Set(reflect.ValueOf(3).Convert(v.Type())) })
	sum := Replicate(statsOnly{st: st}, statsOnly{st: st}).Stats()
	figures("", reflect.ValueOf(sum), func(name string, v reflect.Value) {
		want := 6
		if once[name] {
			want = 3
		}
		if got := int(v.Convert(reflect.TypeFor[int64]()).Int()); got != want {
			t.Errorf("%s is %d of 3 and 3, want %d", name, got, want)
		}
	})
}

// TestReplicasSee: the same words about another picture are another conversation: each finds the
// card that knows its picture, and neither card encodes the other's.
func TestReplicasSee(t *testing.T) {
	s := newSight(t)
	var bs []Backend
	var eyes []*eye
	for range 2 {
		b, e := s.open(t, OpenOptions{CardOptions: still})
		bs, eyes = append(bs, b), append(eyes, e)
	}
	r := Replicate(bs...)
	words := []any{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	about := func(picture uint64, turn int) Job {
		parts := append([]any{shot(picture)}, words...)
		for i := range turn {
			parts = append(parts, 20+i)
		}
		return asks(2, parts...)
	}
	// The first picture's answer is still being read while the second is asked about, so that it
	// goes to the other card.
	next, stop := iter.Pull2(r.Complete(t.Context(), about(1, 0)))
	if _, err, ok := next(); !ok || err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(r, about(2, 0)); err != nil {
		t.Fatal(err)
	}
	stop()
	for turn := range 3 {
		for _, picture := range []uint64{2, 1} {
			job := about(picture, turn+1)
			got, last, err := run(r, job)
			if err != nil || !slices.Equal(got, s.byHand(t, job)) || last.Usage.Cached < sightRows+len(words) {
				t.Errorf("turn %d about picture %d: %v, %d cached (%v)", turn, picture, got, last.Usage.Cached, err)
			}
		}
	}
	if a, b := eyes[0].calls.Load(), eyes[1].calls.Load(); a != 1 || b != 1 {
		t.Errorf("the cards encoded %d and %d pictures", a, b)
	}
}

// TestReplicas: a conversation stays where its cells are, unless that card is the busier; a lost
// card's work goes to the other.
func TestReplicas(t *testing.T) {
	fakes := []*fake{newFake(), newFake()}
	var bs []Backend
	var cards []*cardBackend
	for _, f := range fakes {
		b := onFake(t, f, OpenOptions{Parallel: 8, CardOptions: still})
		bs, cards = append(bs, b), append(cards, b)
	}
	r := Replicate(bs...)
	defer r.Close()
	jobs := jobsFor(6, 120, fakeVocab, 60)
	truth := onFake(t, newFake(), OpenOptions{Parallel: 1, Proven: &Proven{}})
	want := make([][]int32, len(jobs))
	for i, job := range jobs {
		job.Key = fmt.Sprint(i)
		want[i], _, _ = run(truth, job)
	}
	// Turns of two conversations, one after the other: each finds its own.
	long := func(first int32) (ids []int32) {
		for i := range int32(40) {
			ids = append(ids, (first+i*7)%fakeVocab)
		}
		return ids
	}
	for turn := range 4 {
		for c := range int32(2) {
			_, last, err := run(r, greedy(long(c)[:34+2*turn], 1))
			if err != nil {
				t.Fatal(err)
			}
			if turn > 0 && last.Usage.Cached < 32 {
				t.Errorf("turn %d of conversation %d found %d tokens", turn, c, last.Usage.Cached)
			}
		}
	}
	all := func(jobs []Job) {
		t.Helper()
		// All are there before the first pass: how fast they would come is the machine's affair.
		free := []func(){hold(cards[0]), hold(cards[1])}
		var wg sync.WaitGroup
		for i, job := range jobs {
			wg.Go(func() {
				if out, _, err := run(r, job); err != nil || !slices.Equal(out, want[i]) {
					t.Errorf("job %d: %v %v, want %v", i, out, err, want[i])
				}
			})
		}
		for r.Stats().Queued < len(jobs) {
			runtime.Gosched()
		}
		for _, f := range free {
			f()
		}
		wg.Wait()
	}
	all(jobs[:60])
	a, b := cards[0].Stats().Done, cards[1].Stats().Done
	if a < 10 || b < 10 {
		t.Errorf("%d sequences on one card, %d on the other", a, b)
	}
	if st := r.Stats(); st.Done != a+b || st.Cells != 192 || !st.Proven["mixed"] {
		t.Errorf("Stats do not add up: %+v", st)
	}
	fakes[0].run = func(int) error { return axcl.ErrLost }
	if err := cards[0].card.Do(context.Background(), func(axcl.Device) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs[60:] { // those that had said nothing go on elsewhere
		if out, _, err := run(r, job); err != nil || !slices.Equal(out, want[slices.IndexFunc(jobs, func(j Job) bool {
			return &j.IDs[0] == &job.IDs[0] && len(j.IDs) == len(job.IDs) && j.Limit == job.Limit
		})]) {
			t.Errorf("with one card lost: %v %v", out, err)
		}
	}
	if r.Stats().State != "ready" || cards[0].Stats().State != "lost" {
		t.Errorf("states %q and %q", r.Stats().State, cards[0].Stats().State)
	}
	fakes[1].run = func(int) error { return axcl.ErrLost }
	if _, _, err := run(r, jobs[0]); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("both lost: %v", err)
	}
}

// TestFewer: an answer that had begun on a card that is lost ends with an error that does not mean
// the end of all, unless it is.
func TestFewer(t *testing.T) {
	//proves:D8
	fakes := []*fake{newFake(), newFake()}
	var bs []Backend
	for _, f := range fakes {
		bs = append(bs, onFake(t, f, OpenOptions{CardOptions: still}))
	}
	r := Replicate(bs...)
	defer r.Close()
	for i, f := range fakes {
		at := f.passes + 4
		f.run = func(n int) error {
			if n >= at {
				return axcl.ErrLost
			}
			return nil
		}
		out, _, err := run(r, greedy([]int32{1, 2, 3}, 20))
		if fewer := new(*FewerError); len(out) == 0 || errors.As(err, fewer) != (i == 0) || errors.Is(err, axcl.ErrLost) != (i == 1) {
			t.Errorf("card %d: %d tokens, then %v", i, len(out), err)
		}
	}
}

// TestCopyLost: a card that is lost while a model is loaded leaves the model to the others, and
// they are told that there are fewer.
func TestCopyLost(t *testing.T) {
	dir := compiled(t, "qwen3")
	_, alone := load(t, dir, openSoft, OpenOptions{})
	want, _, err := run(alone, greedy([]int32{5, 6, 7}, 6))
	if err != nil {
		t.Fatal(err)
	}
	for bad := range 2 {
		var copies []*Card
		for i := range 2 {
			c, err := OpenCard(func() (axcl.Device, string, error) {
				d, err := soft.Open(soft.Options{Threads: 1})
				if i == bad && err == nil {
					f := axcltest.NewFaulty(d)
					f.Plan(axcltest.Fault{Op: axcltest.OpLoad, Sticky: true, Err: axcl.ErrLost})
					return f, "test", nil
				}
				return d, "test", err
			}, CardOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			copies = append(copies, c)
		}
		m, err := Open(context.Background(), dir, OpenOptions{Copies: copies})
		if err != nil {
			t.Fatalf("card %d lost: %v", bad, err)
		}
		if got, _, err := run(m.b, greedy([]int32{5, 6, 7}, 6)); err != nil || !slices.Equal(got, want) {
			t.Errorf("card %d lost: %v %v, want %v", bad, got, err, want)
		}
		if !errors.Is(copies[bad].Err(), axcl.ErrLost) || copies[1-bad].Err() != nil {
			t.Errorf("card %d lost: %v, %v", bad, copies[0].Err(), copies[1].Err())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDevices opens packages on several cards by their names.
func TestDevices(t *testing.T) {
	dir := compiled(t, "qwen3")
	_, alone := load(t, dir, openSoft, OpenOptions{})
	want, _, err := run(alone, greedy([]int32{5, 6, 7}, 6))
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"soft", "soft,soft", "soft+soft"} {
		m, err := Open(context.Background(), dir, OpenOptions{Device: device})
		if err != nil {
			t.Fatalf("%s: %v", device, err)
		}
		if got, _, err := run(m.b, greedy([]int32{5, 6, 7}, 6)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", device, got, err, want)
		}
		if err := m.Close(); err != nil {
			t.Errorf("%s: %v", device, err)
		}
	}
	for _, device := range []string{"soft,", ",soft", ",", "soft+", "+"} {
		if _, err := Open(context.Background(), dir, OpenOptions{Device: device}); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v, want ErrRequest", device, err)
		}
	}
	m, err := Open(context.Background(), dir, OpenOptions{Device: "soft", Parallel: -1, MaxQueue: -1, Context: -1, Timeout: -1})
	if err != nil {
		t.Fatalf("options below zero: %v", err)
	}
	if got, _, err := run(m.b, greedy([]int32{5, 6, 7}, 6)); err != nil || !slices.Equal(got, want) {
		t.Errorf("options below zero: %v %v, want %v", got, err, want)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(context.Background(), dir, OpenOptions{Device: "soft,teapot"}); err == nil {
		t.Error("an unknown second device was accepted")
	}
	if _, err := Open(context.Background(), dir, OpenOptions{Device: "soft+soft+soft+soft"}); !errors.Is(err, axcl.ErrModel) {
		t.Errorf("three layers over four cards: %v", err)
	}
}
