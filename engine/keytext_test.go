package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// TestKeyGuesses: who asks again gets guesses from the first answer, whatever is cached, and needs
// far fewer passes. Another key does not, nor the same key where the first asked without guesses,
// for vectors, or failed. The text is the same each time.
func TestKeyGuesses(t *testing.T) {
	//proves:T17 guesses too
	prompt, off := []int32{23, 42, 10, 55, 35, 16, 30, 43}, false
	var want []int32
	for _, c := range []struct {
		name    string
		first   func(t *testing.T, b *cardBackend, job Job)
		key     string
		guessed bool
	}{
		{"again", func(t *testing.T, b *cardBackend, job Job) { finishes(t, b, job) }, "ann", true},
		{"another key", func(t *testing.T, b *cardBackend, job Job) { finishes(t, b, job) }, "bob", false},
		{"no key", func(t *testing.T, b *cardBackend, job Job) { finishes(t, b, job) }, "", false},
		{"its caller left", func(t *testing.T, b *cardBackend, job Job) {
			job.Limit++
			n := 0
			for _, err := range b.Complete(t.Context(), job) {
				if n++; err != nil || n == job.Limit-1 {
					break
				}
			}
		}, "ann", true},
		{"without guesses", func(t *testing.T, b *cardBackend, job Job) {
			job.Speculate = &off
			finishes(t, b, job)
		}, "ann", false},
		{"repeatable", func(t *testing.T, b *cardBackend, job Job) {
			job.Repeatable = true
			finishes(t, b, job)
		}, "ann", false},
		{"forgotten", func(t *testing.T, b *cardBackend, job Job) {
			finishes(t, b, job)
			if err := Forget(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}, "ann", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := onStill(t, newFake())
			job := greedy(prompt, 24) // its 24 tokens have no three twice
			job.Key = "ann"
			c.first(t, b, job)
			uncached(t, b)
			before := b.Stats()
			job.Key = c.key
			out := finishes(t, b, job)
			if want == nil {
				want = out
			}
			if !slices.Equal(out, want) {
				t.Errorf("%v, want %v", out, want)
			}
			uncached(t, b) // the last pass is counted behind its last token
			after := b.Stats()
			passes, right := passesOf(after)-passesOf(before), after.KeyAccepted-before.KeyAccepted
			t.Logf("%d passes for %d tokens; %d of %d guesses from the key's text right", passes, len(out), right,
				after.KeyDrafted-before.KeyDrafted)
			if c.guessed && (passes > 12 || right < 12) || !c.guessed && (passes != 24 || right > 0) {
				t.Errorf("%d passes and %d right guesses", passes, right)
			}
			clean(t, b)
		})
	}
}

// TestKeyGuessesMixed: where answers of several keys run together, again and again, each is what it
// is alone, also sampled, and guesses from the keys' texts are used.
func TestKeyGuessesMixed(t *testing.T) {
	plain := onFake(t, newFake(), OpenOptions{Parallel: 1, CardOptions: CardOptions{NoSpeculate: true}})
	b := onStill(t, newFake())
	jobs := jobsFor(21, 40, fakeVocab, 40)
	var want [][]int32
	for i := range jobs {
		jobs[i].Key, jobs[i].Sampling.Seed = fmt.Sprint(i%3), int64(i)
		jobs[i].Sampling.Temperature = float32(i%4) * 0.3
		want = append(want, finishes(t, plain, jobs[i]))
	}
	for round := range 3 {
		done := make(chan struct{})
		for i, job := range jobs {
			go func() {
				defer func() { done <- struct{}{} }()
				if out, _, err := run(b, job); err != nil || !slices.Equal(out, want[i]) {
					t.Errorf("round %d, job %d: %v %v, want %v", round, i, out, err, want[i])
				}
			}()
		}
		for range jobs {
			<-done
		}
		uncached(t, b)
	}
	if st := b.Stats(); st.KeyAccepted == 0 || st.KeyAccepted > st.Accepted || st.KeyDrafted > st.Drafted {
		t.Errorf("%d of %d guesses from the keys' texts right, %d of %d in all", st.KeyAccepted, st.KeyDrafted, st.Accepted, st.Drafted)
	}
	clean(t, b)
}

// TestKeyTextKeys: text is kept for a few keys, and that used longest ago is forgotten. No text
// goes twice into the same key's.
func TestKeyTextKeys(t *testing.T) {
	var ks keyTexts
	add := func(key string, cached int, ids ...int32) *seq {
		s := &seq{job: Job{Key: key}, ids: ids}
		s.usage.Cached = cached
		ks.add(s)
		return s
	}
	for i := range 3 * keysKept {
		add(fmt.Sprint(i), 0, 1, 2, 3, 4, int32(10+i))
		if ks.of("0") == nil {
			t.Fatalf("the text of a key in use was forgotten after %d others", i)
		}
	}
	for i := range 3 * keysKept {
		k := ks.of(fmt.Sprint(i))
		if kept := i == 0 || i > 2*keysKept; kept != (k != nil) {
			t.Errorf("the text of key %d is kept: %v", i, k != nil)
		}
		if k == nil {
			continue
		}
		if at := k.find([]int32{1, 2, 3, 4}); at != 4 || k.ids[at] != int32(10+i) || k.n != 6 {
			t.Errorf("key %d: place %d of %d, %v", i, at, k.n, k.ids[:6])
		}
	}
	if len(ks) != keysKept {
		t.Errorf("the texts of %d keys are kept", len(ks))
	}
	k := ks.of("0")
	s := add("0", 4, 1, 2, 3, 4, 5, 6)
	if want := []int32{1, 2, 3, 4, 10, none, 1, 2, 3, 4, 5, 6, none}; !slices.Equal(k.ids[:k.n], want) {
		t.Errorf("%v, want %v", k.ids[:k.n], want)
	}
	if ks.add(s); k.n != 13 {
		t.Errorf("the same text went in twice: %v", k.ids[:k.n])
	}
	s.embed = &embedding{}
	s.ids = append(s.ids, 7)
	if ks.add(s); k.n != 13 {
		t.Errorf("the text of a vector went in: %v", k.ids[:k.n])
	}
}

// TestKeyTextNaive: places in a ring are those that a plain search finds in all that was added, as
// far as the ring reaches, before and after it wraps and where its count passes 2³².
func TestKeyTextNaive(t *testing.T) {
	for _, begin := range []int{0, 1<<32 - 500} {
		rng := rand.New(rand.NewPCG(7, uint64(begin)))
		k := &keyText{ids: make([]int32, 128), table: make([]uint32, 1<<20), n: begin}
		var all []int32
		found := 0
		for range 3000 {
			text := make([]int32, rng.IntN(30))
			if rng.IntN(40) == 0 {
				text = make([]int32, 300)
			}
			for i := range text {
				text[i] = int32(1 + rng.IntN(4))
			}
			k.add(text)
			all = append(append(all, text[max(0, len(text)-127):]...), none)
			tail := make([]int32, keyGram)
			for i := range tail {
				tail[i] = int32(1 + rng.IntN(4))
			}
			least, want := max(0, len(all)-128), 0
			for p := len(all); p >= least+keyGram && want == 0; p-- {
				if slices.Equal(all[p-keyGram:p], tail) {
					want = p
				}
			}
			at := k.find(append([]int32{9}, tail...))
			if (at == 0) != (want == 0) || want > 0 && at != begin+want {
				t.Fatalf("%d after %d: place %d, want %d", begin, len(all), at, want)
			}
			if at == 0 {
				continue
			}
			found++
			n := rng.IntN(40)
			next := spelled(all[want:min(len(all), want+n)])
			if got := k.from(at, n, nil); !slices.Equal(got, next) {
				t.Fatalf("%v follows, want %v", got, next)
			}
		}
		if found < 500 {
			t.Errorf("only %d strings were found: the test shows nothing", found)
		}
		if k.find([]int32{1, 2, 3}) != 0 || k.from(k.n-200, 5, nil) != nil || k.from(k.n+1, 5, nil) != nil {
			t.Error("a place that is not there was found")
		}
	}
}

// TestFindNaive: guesses come from the place after the one that was right, or else from the last
// occurrence, and from the source that was right more often, as a plain search has it.
func TestFindNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	used := [sources]int{}
	for range 60 {
		var key []int32
		for range 300 {
			key = append(key, int32(rng.IntN(12)))
		}
		k := &keyText{ids: make([]int32, 1024), table: make([]uint32, 1<<22)} // so large that no two strings meet
		k.add(key)
		var sp speculator
		sp.start(false)
		ids := []int32{}
		last := func(text []int32, n int) (at int) { // after the last occurrence of the last n ids
			for p := n; p < len(text) || p == len(text) && &text[0] != &ids[0]; p++ {
				if len(ids) >= n && slices.Equal(text[p-n:p], ids[len(ids)-n:]) {
					at = p
				}
			}
			return at
		}
		at, rate := [2]int{}, [2]float64{}
		copied := 0 // the text copies the key's from here on
		for range 300 {
			id := int32(rng.IntN(12))
			if copied > 0 && copied < len(key) && rng.IntN(10) > 0 {
				id = key[copied]
				copied++
			} else if copied = rng.IntN(len(key)); len(ids) > 30 && rng.IntN(2) == 0 {
				from := rng.IntN(len(ids) - 20)
				ids = append(ids, ids[from:from+rng.IntN(15)]...)
				at, copied = [2]int{}, 0
				sp.learn(99) // nothing was expected
			}
			texts := [2][]int32{ids, key}
			guess, source := [2]int32{none, none}, fromText
			for s, text := range texts {
				if at[s] == 0 && len(ids) > 0 {
					at[s] = last(text, []int{gram, keyGram}[s])
				}
				if at[s] > 0 && at[s] < len(text) {
					guess[s] = text[at[s]]
				}
			}
			if guess[1] != none && (guess[0] == none || rate[1] > rate[0]) {
				source = fromKey
			}
			found := sp.find(ids, k, 5, 1<<20)
			want := []int32(nil)
			if guess[source] != none {
				want = texts[source][at[source]:min(len(texts[source]), at[source]+5)]
				used[source]++
			}
			if !slices.Equal(found, want) || want != nil && sp.source != source {
				t.Fatalf("after %v: %v from %d, want %v from %d; places %v", ids, found, sp.source, want, source, at)
			}
			for s := range at {
				hit := 0.0
				if at[s]++; guess[s] == id {
					hit = 1
				} else {
					at[s] = 0
				}
				if guess[s] != none {
					rate[s] += rateAlpha * (hit - rate[s])
				}
				if got := sp.sources[s].guess; got != guess[s] {
					t.Fatalf("source %d guesses %d, want %d", s, got, guess[s])
				}
			}
			sp.learn(id)
			ids = append(ids, id)
		}
	}
	if used[fromText] < 1000 || used[fromKey] < 1000 {
		t.Errorf("guesses came %v times: the test shows nothing", used)
	}
}

// BenchmarkKeyText: what each id of a sequence costs that ends, and each token of an answer that
// repeats nothing.
func BenchmarkKeyText(b *testing.B) {
	k := &keyText{ids: make([]int32, keyIDs), table: make([]uint32, keyIDs)}
	rng := rand.New(rand.NewPCG(1, 1))
	text := make([]int32, 1<<20)
	for i := range text {
		text[i] = rng.Int32N(150000)
	}
	b.Run("add", func(b *testing.B) {
		for n := b.N; n > 0; n -= 1000 {
			k.add(text[n%1000*1000:][:1000])
		}
	})
	k.add(text[:keyIDs])
	for name, other := range map[string]*keyText{"own text": nil, "own and the key's": k} {
		b.Run("find/"+name, func(b *testing.B) {
			var sp speculator
			sp.start(false)
			sp.find(text[:100], other, 16, 2047)
			for i := range b.N {
				at := 100 + i%1900
				if at == 100 {
					sp.reset()
					sp.indexed = at
				}
				sp.find(text[1<<19:][:at], other, 16, 2047)
				sp.learn(text[1<<19+at])
			}
		})
	}
}

// onStill is onFake by a clock that stands still, so that the costs stay as they are set: a wide
// pass takes as long as two rows.
func onStill(t *testing.T, f *fake) *cardBackend {
	t.Helper()
	b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Clock: func() time.Duration { return time.Second }}})
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		for g, group := range b.m.shape.Groups {
			if b.m.costs.group[g] = 1e-3; group.Rows > 1 {
				b.m.costs.group[g] = 2e-3
			}
		}
		b.m.costs.head, b.m.costs.run, b.m.costs.move = 1e-5, 0, cache.CopyCost{}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// finishes runs a job to its end.
func finishes(t *testing.T, b *cardBackend, job Job) []int32 {
	t.Helper()
	out, _, err := run(b, job)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// uncached drops all cached rows, but not the keys' texts.
func uncached(t *testing.T, b *cardBackend) {
	t.Helper()
	if err := b.card.Do(context.Background(), func(axcl.Device) error {
		b.m.reap()
		b.m.cells.Forget()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func passesOf(st Stats) (n uint64) {
	for _, k := range st.Passes {
		n += k
	}
	return n
}
