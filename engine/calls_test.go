//go:build cgo && !fake && linux

package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/tokenizer/chat"
)

var (
	update  = flag.Bool("update", false, "record testdata/calls.txt anew")
	callsTo = flag.String("calls", "", "a folder that TestCalls writes all calls to, a file a load")
)

const recording = "testdata/calls.txt"

// TestCalls: ten loads make the calls to the card that they made when testdata/calls.txt was
// recorded, and give the tokens and answers that they gave. Each has one model, one card, the
// virtual clock, no checkups and no fault. A change of the engine that is to change nothing leaves
// the recording as it is; one that changes calls on purpose records it anew (go test ./engine -run
// TestCalls -update) in a commit that says which and why.
//
// The recording has a hash of each pass's calls, so the test names the first pass that differs and
// shows its calls. To see what they were, run it with -calls=DIR on both commits and compare the
// files.
//
// What changes calls without being noticed: the age of nodes (a match where a peek was), the
// order of the measuring calls at load, the chain of dropped hooks, the order in which memory is
// allocated, the order in which shares are settled, a clock that is not the card's, the order in
// which requests arrive, what corrects the costs, and whether a greedy row asks for logits or for
// the largest one's index.
func TestCalls(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64: other processors round elsewhere, and other tokens make other calls")
	}
	text, err := os.ReadFile(recording)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := map[string]string{} // a phase's text
	for part := range strings.SplitSeq(string(text), "\n== ") {
		name, rest, _ := strings.Cut(strings.TrimPrefix(part, "== "), "\n")
		want[name] = rest
	}
	var all strings.Builder
	loads, done := 0, 0
	for _, l := range callLoads {
		t.Run(l.name, func(t *testing.T) {
			loads++
			for _, p := range recorded(t, l) {
				name := l.name + ": " + p.name
				text := p.text()
				fmt.Fprintf(&all, "== %s\n%s", name, text)
				if done++; *update {
					continue
				}
				if was, ok := want[name]; !ok {
					t.Errorf("%s is not in %s", name, recording)
				} else if strings.TrimSpace(was) != strings.TrimSpace(text) {
					t.Error(name + p.differs(was))
					return // what follows differs too
				}
			}
		})
	}
	switch {
	case t.Failed():
	case *update && loads < len(callLoads):
		t.Errorf("-update records all %d loads, and -run chose %d: nothing is written", len(callLoads), loads)
	case *update:
		if err := os.WriteFile(recording, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	case loads == len(callLoads) && done != len(want):
		t.Errorf("%s has %d phases, the test %d", recording, len(want), done)
	}
}

// quickCopies has copies on the card cost next to nothing, so that sharing passes and guessing pay
// for models as small as these.
const quickCopies = ",enqueue 1us,copy d2d 1us 10GB/s"

// callLoad is one of the ten loads.
type callLoad struct {
	name string
	dear string // what is added to the card's profile pi5
	open func(t *testing.T) (dir string, o OpenOptions)
	work func(r *caller)
}

var callLoads = []callLoad{
	{"single", "", ofArch("qwen3", OpenOptions{Parallel: 1}), func(r *caller) {
		first := greedy(words(1, 21), 24)
		said := r.phase("a prompt", first)[0]
		r.phase("its next turn", greedy(slices.Concat(first.IDs, said, words(2, 9)), 24))
		r.phase("another branch", greedy(slices.Concat(first.IDs[:13], words(3, 11)), 12))
		r.phase("drawn by a seed", byDice(words(4, 7), 20, 5))
		alone := greedy(words(1, 21), 8)
		alone.Repeatable = true
		r.phase("repeatable", alone)
		long := greedy(words(5, 70), 60)
		long.Shift, long.NumCtx, long.NumKeep, long.IgnoreStop = true, 80, 4, true
		r.phase("beyond its context", long)
	}},
	{"batch", quickCopies, ofArch("qwen3", OpenOptions{Parallel: 6}), func(r *caller) {
		r.phase("together", jobsFor(5, 6, axmodeltest.Vocab, 30)...)
		more := jobsFor(6, 11, axmodeltest.Vocab, 40)
		for i := range more {
			if more[i].Key = "ann"; i%3 == 0 {
				more[i].Key = "bob"
			}
			if i%4 == 1 {
				more[i].Sampling.Temperature, more[i].Sampling.Seed = 0.8, int64(i)
			}
		}
		r.phase("more than run at once, of two keys", more...)
		r.phase("the card full", greedy(words(7, 40), 30), greedy(words(8, 40), 30), greedy(words(9, 30), 30))
	}},
	{"speculation", quickCopies, ofArch("qwen3", OpenOptions{Parallel: 3}), func(r *caller) {
		again := func(seed uint64, n int) Job {
			ids := words(seed, 7)
			j := greedy(slices.Repeat(ids, 4), n)
			j.IgnoreStop, j.Mask = true, &refrain{ids: ids}
			return j
		}
		r.phase("one that repeats itself", again(1, 40))
		r.phase("three", again(2, 30), again(3, 30), greedy(words(4, 20), 30))
		if st := r.b.Stats(); st.Accepted == 0 {
			r.t.Errorf("no guess was right: %+v", st)
		}
	}},
	{"pictures", "", func(t *testing.T) (string, OpenOptions) {
		dir, _ := sightPackage(t, axmodeltest.SightArchs()[0])
		return dir, OpenOptions{Parallel: 3}
	}, func(r *caller) {
		one, two := r.looks(1, "is it"), r.looks(2, "and this")
		r.phase("one", one)
		r.phase("it again, and another", two, one)
		r.phase("beside text", r.looks(3, "what"), greedy(words(1, 20), 20))
		if st := r.b.Stats(); st.Encoded == 0 {
			r.t.Errorf("nothing was encoded: %+v", st)
		}
	}},
	{"states", "", ofArch("qwen3_5", OpenOptions{Parallel: 4}), func(r *caller) {
		first := greedy(words(1, 30), 12)
		said := r.phase("a prompt", first)[0]
		r.phase("its next turn, and a branch", greedy(slices.Concat(first.IDs, said, words(2, 9)), 12),
			greedy(slices.Concat(first.IDs, words(3, 6)), 12), greedy(words(4, 20), 12))
		r.phase("the first again", first)
		if st := r.b.Stats(); st.CachedTokens == 0 {
			r.t.Errorf("nothing was cached: %+v", st)
		}
	}},
	{"memory tier", "", func(t *testing.T) (string, OpenOptions) {
		return compiled(t, "qwen3"), OpenOptions{Parallel: 3, CacheRAM: NewMemory(1 << 20)}
	}, func(r *caller) {
		talks := []Job{greedy(words(1, 64), 12), greedy(words(2, 60), 12), greedy(words(3, 62), 12)}
		for i := range talks {
			r.phase(fmt.Sprint("talk ", i+1), talks[i])
		}
		r.phase("the first again", talks[0])
		r.phase("the others together", talks[1], talks[2])
		if st := r.b.Stats(); st.Memory.Hits == 0 {
			r.t.Errorf("nothing came back: %+v", st.Memory)
		}
	}},
	{"disk tier", "", func(t *testing.T) (string, OpenOptions) {
		return compiled(t, "qwen3"), OpenOptions{Parallel: 2, Rows: openRows(t, rows.Options{Dir: t.TempDir()})}
	}, func(r *caller) {
		talks := []Job{greedy(words(1, 33), 8), greedy(words(2, 33), 8), greedy(words(3, 36), 8)} // whole blocks, but the last
		r.phase("two talks", talks[0], talks[1])
		r.phase("a third", talks[2])
		r.phase("the first again", talks[0])
		r.phase("the second goes on", greedy(slices.Concat(talks[1].IDs, words(4, 12)), 12))
		if st := r.b.Stats(); st.Disk.Hits == 0 {
			r.t.Errorf("nothing came back: %+v", st.Disk)
		}
	}},
	{"draft model", quickCopies, func(t *testing.T) (string, OpenOptions) {
		deep, shallow := deepAs(t, 5), deepAs(t, 1) // their first layer is the same
		return deep, OpenOptions{Parallel: 2, Draft: guesser(shallow)}
	}, func(r *caller) {
		r.phase("one", greedy(words(1, 20), 30))
		r.phase("two", greedy(words(2, 12), 30), greedy(slices.Repeat(words(3, 5), 4), 30))
		if st := r.b.Stats(); st.Drafted == 0 {
			r.t.Errorf("nothing was guessed: %+v", st)
		}
	}},
	{"whole decoder", "", func(t *testing.T) (string, OpenOptions) {
		out := filepath.Join(t.TempDir(), "package")
		if _, err := compile.Run(context.Background(), compile.Options{From: filepath.Dir(compiled(t, "qwen3")), Out: out, Context: 95,
			Chunk: 16, Whole: "one"}); err != nil {
			t.Fatal(err)
		}
		return out, OpenOptions{Parallel: 3}
	}, func(r *caller) {
		first := greedy(words(1, 21), 16)
		said := r.phase("a prompt", first)[0]
		r.phase("its next turn, beside others", greedy(slices.Concat(first.IDs, said, words(2, 9)), 16), greedy(words(3, 20), 16),
			greedy(words(4, 5), 16))
	}},
	{"embedding", "", func(t *testing.T) (string, OpenOptions) {
		dir := t.TempDir()
		if _, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9); err != nil {
			t.Fatal(err)
		}
		p, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
			Name: "m", Embedding: true})
		if err != nil {
			t.Fatal(err)
		}
		return p.Dir, OpenOptions{Parallel: 4}
	}, func(r *caller) {
		r.embed("one text", words(1, 12))
		r.embed("several", words(2, 40), words(3, 5), slices.Concat(words(2, 20), words(4, 7)), words(5, 30), words(6, 1), words(7, 25))
	}},
}

func ofArch(arch string, o OpenOptions) func(t *testing.T) (string, OpenOptions) {
	return func(t *testing.T) (string, OpenOptions) { return compiled(t, arch), o }
}

// words are n ids.
func words(seed uint64, n int) []int32 {
	random := rand.New(rand.NewPCG(seed, 32))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(random.IntN(axmodeltest.Vocab))
	}
	return ids
}

// deepAs is a package of that number of layers.
func deepAs(t *testing.T, layers int) string {
	a, _ := axmodeltest.Find("qwen3")
	a.Layers = layers
	dir := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(dir, a, 5); err != nil {
		t.Fatal(err)
	}
	p, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 95, Chunk: 16,
		History: []int{0, 16, 64}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return p.Dir
}

// refrain is a grammar that allows one text, again and again.
type refrain struct {
	ids []int32
	at  int
}

func (r *refrain) Allowed(id int32) bool { return id == r.ids[r.at%len(r.ids)] }

func (r *refrain) Fill(bits []uint64) {
	clear(bits)
	id := r.ids[r.at%len(r.ids)]
	bits[id/64] |= 1 << (id % 64)
}

func (r *refrain) Accept(int32) error { r.at++; return nil }
func (r *refrain) Done() bool         { return false }

func byDice(ids []int32, n int, seed int64) Job {
	j := greedy(ids, n)
	j.Sampling.Temperature, j.Sampling.Seed = 0.8, seed
	return j
}

// caller works on a load's model and takes down what it did.
type caller struct {
	t      *testing.T
	m      *Model
	b      *cardBackend
	calls  *simcardtest.Calls
	out    *os.File // for -calls, or nil
	phases []callPhase
}

// callPhase is what the card was asked for from one moment of rest to the next, and what came of
// it.
type callPhase struct {
	name    string
	calls   []string
	answers []string
}

// recorded runs a load.
func recorded(t *testing.T, l callLoad) []callPhase {
	trace := filepath.Join(t.TempDir(), "trace")
	dir, o := l.open(t)
	open, sim := onSim(t, "hazards=strict\nclock=virtual\nprofile=pi5"+l.dear+"\ntrace="+trace)
	r := &caller{t: t}
	o.CardOptions = CardOptions{Clock: clockOf(sim), Check: -1, CheckWork: -1}
	r.m, r.b = load(t, dir, open, o)
	var err error
	if r.calls, err = simcardtest.ReadCalls(trace); err != nil {
		t.Fatal(err)
	}
	defer r.calls.Close()
	if *callsTo != "" {
		if r.out, err = os.Create(filepath.Join(*callsTo, strings.ReplaceAll(l.name, " ", "-")+".txt")); err != nil {
			t.Fatal(err)
		}
		defer r.out.Close()
	}
	r.rest("load", nil)
	l.work(r)
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.b.card.Close(); err != nil {
		t.Fatal(err)
	}
	r.take("close", nil)
	if n := sim.Live(); n != (simhook.Counts{}) {
		t.Errorf("left on the card: %+v", n)
	}
	return r.phases
}

// phase has jobs arrive in this order while the card waits, and gives what each was answered.
func (r *caller) phase(name string, jobs ...Job) [][]int32 {
	r.t.Helper()
	resume := Hold(r.b)
	answers, ids := make([]string, len(jobs)), make([][]int32, len(jobs))
	done := make([]chan struct{}, len(jobs))
	for i, job := range jobs {
		queued := r.b.Stats().Queued
		done[i] = make(chan struct{})
		go func() {
			defer close(done[i])
			out, last, err := run(r.b, job)
			u := last.Usage
			ids[i] = out
			answers[i] = fmt.Sprintf("%v %s prompt %d cached %d output %d drafted %d accepted %d", out, last.Final, u.Prompt, u.Cached,
				u.Output, u.Drafted, u.Accepted)
			if err != nil {
				r.t.Errorf("%s, request %d: %v", name, i, err)
			}
		}()
		r.arrived(queued+1, done[i])
	}
	resume()
	for _, c := range done {
		<-c
	}
	r.rest(name, answers)
	return ids
}

// arrived waits until n requests are in the queue, or the one that is to come has ended.
func (r *caller) arrived(n int, ended <-chan struct{}) {
	for r.b.Stats().Queued < n {
		select {
		case <-ended:
			return
		default:
			runtime.Gosched()
		}
	}
}

// embed asks for the vectors of texts.
func (r *caller) embed(name string, inputs ...[]int32) {
	r.t.Helper()
	resume := Hold(r.b)
	var vectors [][]float32
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		vectors, err = r.b.Embed(context.Background(), inputs, "")
	}()
	r.arrived(len(inputs), done)
	resume()
	<-done
	if err != nil {
		r.t.Fatal(err)
	}
	var answers []string
	for _, v := range vectors {
		answers = append(answers, fmt.Sprintf("%d values, %.2f …", len(v), v[:4])) // not to the last bit: that is for other tests
	}
	r.rest(name, answers)
}

// looks is a question about a picture.
func (r *caller) looks(seed uint64, question string) Job {
	r.t.Helper()
	q := Request{Messages: []chat.Message{{Role: "user", Content: question, Images: [][]byte{shot(seed)}}}, Sampling: r.m.Sampling(),
		NumCtx: r.m.Info().Context, Limit: 8}
	ids, _, images, err := r.m.prompt(context.Background(), &q, true, new(Cut))
	if err != nil {
		r.t.Fatal(err)
	}
	job := greedy(ids, 8)
	job.Images, job.IgnoreStop = images, true
	return job
}

// rest waits until the card has done what it does without requests, and takes down what it was
// asked for.
func (r *caller) rest(name string, answers []string) {
	r.t.Helper()
	if err := Settle(context.Background(), r.b); err != nil {
		r.t.Fatal(err)
	}
	r.take(name, answers)
}

func (r *caller) take(name string, answers []string) {
	r.t.Helper()
	calls, err := r.calls.Next()
	if err != nil {
		r.t.Fatal(err)
	}
	if r.out != nil {
		fmt.Fprintf(r.out, "== %s\n%s\n", name, strings.Join(slices.Concat(calls, answers), "\n"))
	}
	r.phases = append(r.phases, callPhase{name, calls, answers})
}

// passes cuts the calls behind each synchronisation.
func (p *callPhase) passes() (out [][]string) {
	from := 0
	for i, c := range p.calls {
		if strings.HasPrefix(c, "SynchronizeStream") || i == len(p.calls)-1 {
			out = append(out, p.calls[from:i+1])
			from = i + 1
		}
	}
	return out
}

// text is what is recorded of a phase: how many calls of each kind, the answers, a hash of all
// calls, and one of each pass's.
func (p *callPhase) text() string {
	var b strings.Builder
	kinds := map[string]int{}
	for _, c := range p.calls {
		kind, _, _ := strings.Cut(c, " ")
		kinds[kind]++
	}
	fmt.Fprintf(&b, "%d calls, %x:", len(p.calls), sha256.Sum256([]byte(strings.Join(p.calls, "\n"))))
	b.WriteString(inLines(slices.SortedFunc(func(yield func(string) bool) {
		for kind, n := range maps.All(kinds) {
			if !yield(fmt.Sprint(kind, " ", n)) {
				return
			}
		}
	}, cmp.Compare[string])))
	b.WriteString("\n")
	for _, a := range p.answers {
		fmt.Fprintf(&b, "answer %s\n", a)
	}
	b.WriteString("passes")
	var hashes []string
	for _, calls := range p.passes() {
		h := fnv.New64a()
		for _, c := range calls {
			fmt.Fprintln(h, c)
		}
		hashes = append(hashes, fmt.Sprintf("%05x", h.Sum64()>>44))
	}
	b.WriteString(inLines(hashes) + "\n")
	return b.String()
}

// inLines has words, in lines.
func inLines(words []string) string {
	var b strings.Builder
	width := 200
	for _, w := range words {
		if width+1+len(w) > 130 {
			b.WriteString("\n ")
			width = 1
		}
		b.WriteString(" " + w)
		width += 1 + len(w)
	}
	return b.String()
}

// differs says where a phase is another than was recorded.
func (p *callPhase) differs(was string) string {
	var b strings.Builder
	got, _, _ := strings.Cut(p.text(), "passes")
	wanted, hashes, _ := strings.Cut(was, "passes")
	now, before := strings.Split(got, "\n"), strings.Split(wanted, "\n")
	for i := range max(len(now), len(before)) {
		if a, b2 := at(now, i), at(before, i); a != b2 {
			fmt.Fprintf(&b, "\n    now: %s\nbefore: %s", a, b2)
		}
	}
	_, own, _ := strings.Cut(p.text(), "passes")
	was2, is := strings.Fields(hashes), strings.Fields(own)
	for i, calls := range p.passes() {
		if at(was2, i) == at(is, i) {
			continue
		}
		fmt.Fprintf(&b, "\nthe first pass that differs is number %d of %d (there were %d); its calls are now:", i+1, len(is), len(was2))
		for _, c := range calls[:min(len(calls), 60)] {
			b.WriteString("\n    " + c)
		}
		if len(calls) > 60 {
			fmt.Fprintf(&b, "\n    … %d more", len(calls)-60)
		}
		b.WriteString("\nFor all of them: go test ./engine -run 'TestCalls' -calls=DIR, here and at the commit that recorded it.")
		break
	}
	return b.String()
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
