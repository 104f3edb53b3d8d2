package monitor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/internal/regular"
)

// Bounds of a benchmark that is asked for over the network.
const (
	maxTokens  = 4096
	maxClients = 32
	maxLoads   = 8
	maxRepeats = 10
	maxTime    = 10 * time.Minute
	maxResult  = 4 << 20 // bytes of a file of results
)

// Errors of a benchmark. ErrTry wraps what is wrong with an [Ask].
var (
	ErrTry     = errors.New("bad benchmark")
	ErrRunning = errors.New("a benchmark is running: wait for it, or end it")
	ErrIdle    = errors.New("no benchmark is running")
)

// Ask is what to measure. Zero numbers stand for 128 and 64 tokens, 1 and 4 clients, 3 repeats.
type Ask struct {
	Model   string `json:"model"`
	Prompt  int    `json:"prompt_tokens"`
	Output  int    `json:"output_tokens"`
	Clients []int  `json:"clients"`
	Repeats int    `json:"repeats"`
}

// check fills in what was left out, and says what is out of range.
func (a *Ask) check() error {
	if len(a.Clients) == 0 {
		a.Clients = []int{1, 4}
	}
	a.Prompt, a.Output, a.Repeats = cmp.Or(a.Prompt, 128), cmp.Or(a.Output, 64), cmp.Or(a.Repeats, 3)
	for _, n := range []struct {
		name      string
		have, max int
	}{{"prompt_tokens", a.Prompt, maxTokens}, {"output_tokens", a.Output, maxTokens}, {"repeats", a.Repeats, maxRepeats},
		{"the length of clients", len(a.Clients), maxLoads}} {
		if n.have < 1 || n.have > n.max {
			return fmt.Errorf("%w: %s must be between 1 and %d, got %d", ErrTry, n.name, n.max, n.have)
		}
	}
	for _, c := range a.Clients {
		if c < 1 || c > maxClients {
			return fmt.Errorf("%w: clients must be between 1 and %d, got %d", ErrTry, maxClients, c)
		}
	}
	return nil
}

// Measure measures a model under a load: clients that ask at once, each with prompt tokens and for
// output tokens, this many times.
type Measure func(ctx context.Context, m ask.Model, prompt, output, clients, repeats int) (ask.Figures, error)

// Subject is a model to measure, taken for as long as it takes.
type Subject struct {
	Model        ask.Model
	Name, Digest string
	Card, Driver string       // the chip's name, and its driver's
	Others       func() int64 // answers that clients have running, this one's left out
	Release      func()
}

// Result is what was measured of a model. Last is the one before.
type Result struct {
	Model     string    `json:"model"`
	Digest    string    `json:"digest"`
	When      time.Time `json:"when"`
	Device    string    `json:"device"`
	Name      string    `json:"name"`
	Driver    string    `json:"driver"`
	Disturbed bool      `json:"disturbed"` // clients' answers ran at the same time
	Cases     []Case    `json:"cases"`
	Last      *Result   `json:"last"`
}

// Case is a load and its figures, medians over the repeats.
type Case struct {
	Load    string    `json:"load"`
	Prompt  int       `json:"prompt_tokens"`
	Output  int       `json:"output_tokens"`
	Clients int       `json:"clients"`
	First   float64   `json:"first_token_ms"`
	Prefill float64   `json:"prefill_tps"`
	Decode  float64   `json:"decode_tps"`
	P50     float64   `json:"token_p50_ms"`
	P95     float64   `json:"token_p95_ms"`
	P99     float64   `json:"token_p99_ms"`
	Busy    float64   `json:"busy_percent"`
	Latency []float64 `json:"latency_by_token_ms"`
}

// Bench runs one benchmark at a time and keeps the last two results of each model. Close it.
type Bench struct {
	dir string // where results are kept; "": in memory only
	how Measure

	mu      ranked.Mutex[ranked.Monitor]
	run     *Running
	err     string
	results map[string]*Result
	read    bool
	closed  bool
	done    sync.WaitGroup
}

// Running is a benchmark that runs.
type Running struct {
	Model   string  `json:"model"`
	Step    int     `json:"step"` // of Steps, from 1
	Steps   int     `json:"steps"`
	Load    string  `json:"load"`
	Elapsed float64 `json:"elapsed_seconds"`
	Own     bool    `json:"own"`

	owner  Owner
	since  time.Time
	cancel context.CancelFunc
}

// NewBench makes a Bench that measures by how and keeps results in the folder dir, which it makes
// when there is one to keep; "" for none.
func NewBench(dir string, how Measure) *Bench {
	return &Bench{dir: dir, how: how, results: map[string]*Result{}}
}

// Start begins a benchmark. subject is asked for the model when it is its turn; that may load it.
// Errors: ErrTry, ErrRunning, ask.ErrDraining.
func (b *Bench) Start(a Ask, owner Owner, subject func(context.Context) (*Subject, error)) error {
	if err := a.check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ask.ErrDraining
	case b.run != nil:
		return ErrRunning
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	b.run = &Running{Model: a.Model, Steps: len(a.Clients), owner: owner, since: time.Now(), cancel: cancel}
	b.err = ""
	b.done.Go(func() {
		defer cancel()
		r, err := b.measure(ctx, a, subject)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			err = fmt.Errorf("the benchmark took more than %v and was ended: ask for less", maxTime)
		case ctx.Err() != nil:
			err = errors.New("the benchmark was ended")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.run = nil; err != nil {
			b.err = err.Error()
			return
		}
		if err := b.keep(r); err != nil {
			b.err = "the result could not be kept: " + err.Error()
		}
	})
	return nil
}

// keep puts a result in the place of the model's last one, which it holds as Last. A result that
// Tell gave is not changed: its reader may be encoding it. The caller holds mu.
func (b *Bench) keep(r *Result) error {
	b.load()
	if last := b.results[r.Model]; last != nil {
		before := *last
		before.Last, r.Last = nil, &before
	}
	b.results[r.Model] = r
	return b.save(r)
}

func (b *Bench) measure(ctx context.Context, a Ask, subject func(context.Context) (*Subject, error)) (*Result, error) {
	s, err := subject(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	info := s.Model.Info()
	if info.Embedding {
		return nil, fmt.Errorf("%s gives vectors, no text: there are no tokens to measure", s.Name)
	}
	// A load that the context does not hold is made smaller: half for the prompt, a quarter for the
	// answer.
	if a.Prompt+a.Output > info.Context {
		a.Prompt, a.Output = max(min(a.Prompt, info.Context/2), 1), max(min(a.Output, info.Context/4), 1)
	}
	r := &Result{Model: s.Name, Digest: s.Digest, When: time.Now().UTC().Truncate(time.Second), Device: info.Device, Name: s.Card,
		Driver: s.Driver, Cases: []Case{}}
	for i, clients := range a.Clients {
		load := fmt.Sprintf("p%d n%d c%d", a.Prompt, a.Output, clients)
		b.mu.Lock()
		b.run.Step, b.run.Load = i+1, load
		b.mu.Unlock()
		r.Disturbed = r.Disturbed || s.Others() > 0
		f, err := b.how(ctx, s.Model, a.Prompt, a.Output, clients, a.Repeats)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", load, err)
		}
		r.Disturbed = r.Disturbed || s.Others() > 0
		r.Cases = append(r.Cases, Case{Load: load, Prompt: a.Prompt, Output: a.Output, Clients: clients, First: f.First,
			Prefill: f.Prefill, Decode: f.Decode, P50: f.P50, P95: f.P95, P99: f.P99, Busy: f.Busy, Latency: f.Latency})
	}
	return r, nil
}

// Stop ends the benchmark that runs. Error: ErrIdle.
func (b *Bench) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == nil {
		return ErrIdle
	}
	b.run.cancel()
	return nil
}

// Running reports whether one runs.
func (b *Bench) Running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run != nil
}

// Tell gives the benchmark that runs (nil: none), what the last one failed with, and the results,
// by model.
func (b *Bench) Tell(owner Owner) (run *Running, failed string, results []*Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.load()
	if b.run != nil {
		r := *b.run
		r.Elapsed, r.Own = time.Since(r.since).Seconds(), owner.Same(r.owner)
		run = &r
	}
	results = []*Result{}
	for _, name := range slices.Sorted(maps.Keys(b.results)) {
		results = append(results, b.results[name])
	}
	return run, b.err, results
}

// Close ends what runs and waits for it. A second Close does nothing.
func (b *Bench) Close() {
	b.mu.Lock()
	b.closed = true
	if b.run != nil {
		b.run.cancel()
	}
	b.mu.Unlock()
	b.done.Wait()
}

// load reads the results that were kept, once. What cannot be read is as if it were not there: the
// next result takes its place.
func (b *Bench) load() {
	if b.read || b.dir == "" {
		return
	}
	b.read = true
	files, _ := filepath.Glob(filepath.Join(b.dir, "*.json"))
	for _, name := range files {
		var r Result
		text, err := regular.ReadPath(name, maxResult)
		if err != nil || json.Unmarshal(text, &r) != nil || r.Model == "" || b.results[r.Model] != nil {
			continue
		}
		b.results[r.Model] = &r
	}
}

// save keeps a result.
func (b *Bench) save(r *Result) error {
	if b.dir == "" {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	return regular.Replace(filepath.Join(b.dir, fileOf(r.Model)), 0o600, text)
}

// fileOf is the file of a model's results: its name, with what no file's name should have told by
// its number.
func fileOf(model string) string {
	var sb strings.Builder
	for _, c := range []byte(model) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' && sb.Len() > 0 {
			sb.WriteByte(c)
		} else {
			fmt.Fprintf(&sb, "_%02x", c)
		}
	}
	name := sb.String()
	if len(name) > 200 {
		sum := sha256.Sum256([]byte(model))
		name = name[:160] + "-" + hex.EncodeToString(sum[:8])
	}
	return name + ".json"
}
