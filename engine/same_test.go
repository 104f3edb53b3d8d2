package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestSameTokens (G12): the same greedy tokens for a request alone and among others, with cache
// reuse, batching and speculation on and off, over conversations as chat programs edit them.
func TestSameTokens(t *testing.T) {
	//proves:G17
	lane.Slow(t)
	lane.NoRace(t)
	for _, arch := range []string{"qwen3", "qwen2", "gemma3"} {
		t.Run(arch, func(t *testing.T) {
			dir := compiled(t, arch)
			_, alone := load(t, dir, openSoft, OpenOptions{Parallel: 1, Proven: &Proven{}})
			n := 60
			if arch == "qwen3" && !lane.Race {
				n = 250
			}
			jobs, want := edits(uint64(n), n, axmodeltest.Vocab, 95, truthOn(t, alone))
			for name, w := range ways(jobs) {
				t.Run(name, func(t *testing.T) {
					_, b := load(t, dir, openSoft, w.o)
					sameEverywhere(t, b, w.jobs, want, 3)
					if w.o.CacheRAM != nil {
						t.Logf("%+v", b.Stats().Memory)
					}
				})
			}
		})
	}
}

// compiled makes a package of a random checkpoint of the architecture, once a test binary.
var compiled = func() func(t testing.TB, arch string) string {
	var mu sync.Mutex
	done := map[string]string{}
	return func(t testing.TB, arch string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if dir := done[arch]; dir != "" {
			return dir
		}
		dir := filepath.Join(scratch, arch)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := axmodeltest.RandomCheckpoint(dir, arch, 5); err != nil {
			t.Fatal(err)
		}
		r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
			History: []int{0, 16, 64}, Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		done[arch] = r.Dir
		return r.Dir
	}
}()

// scratch is a folder for the whole test binary.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "engine"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

func openSoft() (axcl.Device, string, error) {
	d, err := soft.Open(soft.Options{Threads: 1})
	return d, "test", err
}

// load opens a package on a device and gives the backend under the model.
func load(t testing.TB, dir string, open func() (axcl.Device, string, error), o OpenOptions) (*Model, *cardBackend) {
	t.Helper()
	card, err := OpenCard(open, o.CardOptions)
	if err != nil {
		t.Fatal(err)
	}
	o.Card = card
	m, err := Open(context.Background(), dir, o)
	if err != nil {
		_ = card.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.Close()
		_ = card.Close()
	})
	return m, m.b.(*cardBackend)
}

// editsOr is how many edits AXLE_TEST_EDITS asks for, or n.
func editsOr(n int) int {
	if more, err := strconv.Atoi(os.Getenv("AXLE_TEST_EDITS")); err == nil {
		return more
	}
	return n
}

// edits are n requests as chat programs make them: a further turn, an answer asked for again, an
// earlier turn changed, a branch, a new conversation. answer gives the truth, which later prompts
// are made of.
func edits(seed uint64, n, vocab, context int, answer func(job Job) []int32) (jobs []Job, want [][]int32) {
	rng := rand.New(rand.NewPCG(seed, 2))
	type turn struct{ user, model []int32 }
	var chats [][]turn
	text := func(n int) (ids []int32) {
		for range n {
			ids = append(ids, int32(rng.IntN(vocab)))
		}
		return ids
	}
	system := text(6)
	for len(jobs) < n {
		var chat []turn
		if len(chats) > 0 && rng.IntN(6) > 0 {
			chat = slices.Clone(chats[rng.IntN(len(chats))])
		}
		switch k := rng.IntN(4); {
		case k == 0 && len(chat) > 0: // again
			chat = chat[:len(chat)-1]
		case k == 1 && len(chat) > 1: // from an earlier turn on
			chat = chat[:1+rng.IntN(len(chat)-1)]
		case k == 2 && len(chat) > 0: // an earlier turn said differently
			chat[rng.IntN(len(chat))].user = text(1 + rng.IntN(4))
		}
		ids := slices.Clone(system)
		for _, u := range chat {
			ids = append(append(ids, u.user...), u.model...)
		}
		next := turn{user: text(1 + rng.IntN(10))}
		ids = append(ids, next.user...)
		if len(ids) > context-12 {
			continue
		}
		job := greedy(ids, 1+rng.IntN(12))
		next.model = answer(job)
		chats = append(chats, append(chat, next))
		jobs, want = append(jobs, job), append(want, next.model)
	}
	return jobs, want
}

// sameEverywhere runs jobs in random orders, many at a time, and requires the tokens that each
// gives alone.
func sameEverywhere(t *testing.T, b *cardBackend, jobs []Job, want [][]int32, seed uint64, sampled ...int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 6))
	var wg sync.WaitGroup
	gate := make(chan struct{}, 40)
	for _, i := range rng.Perm(len(jobs)) {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			if out, _, err := run(b, jobs[i]); err != nil || !slices.Equal(out, want[i]) {
				t.Errorf("job %d, prompt %v: %v %v, alone %v", i, jobs[i].IDs, out, err, want[i])
			}
		})
	}
	wg.Wait()
	st := b.Stats()
	t.Logf("passes %v, %d of %d prompt tokens cached, %d of %d guesses right", st.Passes, st.CachedTokens, st.PromptTokens, st.Accepted,
		st.Drafted)
	clean(t, b)
}

// ways are the settings under which the tokens must be the same.
func ways(jobs []Job) map[string]struct {
	o    OpenOptions
	jobs []Job
} {
	alter := func(f func(i int, j *Job)) []Job {
		out := slices.Clone(jobs)
		for i := range out {
			f(i, &out[i])
		}
		return out
	}
	off := false
	type way = struct {
		o    OpenOptions
		jobs []Job
	}
	return map[string]way{
		"all":            {OpenOptions{CardOptions: still}, jobs},
		"no reuse":       {OpenOptions{CardOptions: still}, alter(func(i int, j *Job) { j.Key = fmt.Sprint(i) })},
		"no speculation": {OpenOptions{CardOptions: still}, alter(func(_ int, j *Job) { j.Speculate = &off })},
		"no batching":    {OpenOptions{CardOptions: still, Parallel: 1}, jobs},
		"memory":         {OpenOptions{CardOptions: still, CacheRAM: NewMemory(4 << 20)}, jobs},
		"little memory":  {OpenOptions{CardOptions: still, CacheRAM: NewMemory(64 << 10)}, jobs},
	}
}

// truthOn answers one at a time: nothing shared, nothing batched, nothing guessed.
func truthOn(t testing.TB, b *cardBackend) func(Job) []int32 {
	n, off := 0, false
	return func(job Job) []int32 {
		n++
		job.Key, job.Speculate = fmt.Sprint("alone", n), &off
		out, _, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// TestPackage goes through a package as a program does: text in, text out, with exact accounts.
func TestPackage(t *testing.T) {
	p, err := models.Open(compiled(t, "qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	card, err := OpenCard(openSoft, CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	m, err := OpenPackage(context.Background(), p, OpenOptions{Card: card})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := Request{Prompt: "the cat", Raw: true, Limit: 9, Sampling: m.Sampling()}
	r.Sampling.Temperature = 0
	var text [2]string
	for i := range text {
		for e, err := range m.Generate(context.Background(), r) {
			if err != nil {
				t.Fatal(err)
			}
			text[i] += e.Text
			if d := e.Done; d != nil {
				if want, err := m.Tokens(context.Background(), r); err != nil || d.Usage.Prompt != len(want) || d.Usage.Output == 0 ||
					d.Usage.Total < d.Usage.FirstToken {
					t.Errorf("usage %+v", d.Usage)
				}
				if i == 1 && d.Usage.Cached != d.Usage.Prompt-1 {
					t.Errorf("the second time %d of %d prompt tokens were cached, all but one should be", d.Usage.Cached, d.Usage.Prompt)
				}
			}
		}
	}
	if text[0] != text[1] {
		t.Errorf("%q, then %q", text[0], text[1])
	}
}
