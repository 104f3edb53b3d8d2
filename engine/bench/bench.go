// Package bench measures what a model on a card does: how long the first token takes, how fast the
// rest comes, and where the time goes.
//
// A [Meter] runs one load at a time on a backend that has nothing else to do. Its methods belong to
// one goroutine. All times are by the meter's clock, which must be the card's
// (engine.CardOptions.Clock): a simulated card's virtual clock gives the same figures every time.
// The caller closes the backend.
package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/sampler"
)

// Load is what is asked of a model: this many clients at once, each with a prompt of its own and
// wanting this many tokens.
type Load struct {
	Prompt    int  `json:"prompt_tokens"`
	Output    int  `json:"output_tokens"`
	Clients   int  `json:"clients"`
	Speculate bool `json:"speculate"`
}

// String is the load's name in tables.
func (l Load) String() string {
	s := fmt.Sprintf("p%d n%d c%d", l.Prompt, l.Output, l.Clients)
	if l.Speculate {
		s += " spec"
	}
	return s
}

// Meter is a backend to be measured.
type Meter struct {
	Backend engine.Backend
	Clock   func() time.Duration
	// Prompt makes a client's prompt of exactly n tokens; nil counts up, as models without weights
	// understand it. turn tells repeats apart.
	Prompt func(n, client, turn int) (Prompt, error)
	// Recorder is what CardOptions.Trace of the backend's card was set to, or nil.
	Recorder *Recorder
	// Split says what of a pass's time in the device was what; nil takes the pass's own account.
	Split func(*engine.PassTrace) Parts
	// Virtual: the clock is one that does not run for what the host does.
	Virtual bool
	// Draft: the backend has a draft model, whose time is a stage.
	Draft bool
	// NPU is the card's own count of busy time, nil where it has none.
	NPU func() time.Duration
	// Figure asks the card for its own load figure, in per cent; NaN where it has none. It is
	// called before and after a repeat, when nothing runs. Nil takes the engine's, which is a few
	// seconds old.
	Figure func() float64

	turns int
}

// Prompt is a prompt, and what making it took.
type Prompt struct {
	IDs                []int32
	Template, Tokenize time.Duration
}

// Case is a load's figures. Times are milliseconds, rates tokens a second.
type Case struct {
	Load
	First    Sample  `json:"first_token_ms"`        // from asking to each client's first token, the slowest client's
	Prefill  Sample  `json:"prefill_tps"`           // all clients' prompts until the last has its first token
	Decode   Sample  `json:"decode_tps"`            // all clients together, from the moment all have their first token
	P50      Sample  `json:"token_p50_ms"`          // between a client's tokens
	P95      Sample  `json:"token_p95_ms"`          //
	P99      Sample  `json:"token_p99_ms"`          //
	Second   *Sample `json:"second_turn_ms"`        // first token of the next turn of the same conversation; one client only
	Wall     Sample  `json:"wall_ms"`               //
	Busy     Sample  `json:"busy_percent"`          // time inside passes, by our clock
	NPU      *Sample `json:"npu_percent,omitempty"` // the card's own count of its work, where it keeps one
	CardLoad *Sample `json:"card_load_percent"`     // the load figure that the driver gives, asked for when the repeat is over

	Passes   float64   `json:"passes"` // a repeat
	Rows     float64   `json:"rows"`
	Drafted  int       `json:"drafted"`
	Accepted int       `json:"accepted"`
	Short    bool      `json:"ended_early,omitempty"` // the context was full before all tokens were out
	Queued   bool      `json:"queued,omitempty"`      // the clients do not fit together: some waited
	Latency  []float64 `json:"latency_by_token_ms"`   // medians, from the second token on
	Stages   []Stage   `json:"stages"`
	Rest     float64   `json:"unaccounted_percent"` // of the wall time: what is in no stage
	Token    Parts     `json:"decode_token"`        // a decoded token's time, without prompts
}

// Stage is a share of the wall time.
type Stage struct {
	Name  string  `json:"name"`
	Token float64 `json:"us_per_token"`
	Share float64 `json:"percent"`
}

// Parts says where the time of passes went.
type Parts struct {
	Host   time.Duration `json:"host_ns"` // planning, rows, drawing, words
	Upload time.Duration `json:"upload_ns"`
	Layers time.Duration `json:"layers_ns"`
	Head   time.Duration `json:"head_ns"`
	Down   time.Duration `json:"download_ns"`
}

// Split is the account that a device gives of itself. Where it works beside the host (async), its
// work is in the waiting, and is divided between layers and head as the scheduler has measured
// them.
func Split(p *engine.PassTrace, async bool) Parts {
	t := &p.Timing
	s := Parts{Upload: t.Upload, Down: t.Download}
	work := max(p.Run-t.Upload-t.Download, 0)
	if !async {
		s.Head = min(t.Head, work)
		s.Layers = work - s.Head
		return s
	}
	return s.divide(work, p.Layers, p.Head)
}

// Modelled is the same where the device's own account is by another clock than the pass: the link's
// share is given.
func Modelled(p *engine.PassTrace, up, down time.Duration) Parts {
	s := Parts{Upload: min(up, p.Run), Down: min(down, max(p.Run-up, 0))}
	return s.divide(p.Run-s.Upload-s.Down, max(p.Layers-s.Upload, 1), max(p.Head-s.Down, 0))
}

func (s Parts) divide(work, layers, head time.Duration) Parts {
	if all := layers + head; all > 0 {
		s.Head = time.Duration(float64(work) * float64(head) / float64(all))
	}
	s.Layers = work - s.Head
	return s
}

// Recorder keeps passes. Its Add is for CardOptions.Trace; all methods are safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	passes []engine.PassTrace
}

// Add copies a pass.
func (r *Recorder) Add(p *engine.PassTrace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := *p
	c.Parts = slices.Clone(p.Parts) // the engine uses its own again
	r.passes = append(r.passes, c)
}

// Take gives the passes since the last Take.
func (r *Recorder) Take() []engine.PassTrace {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.passes
	r.passes = nil
	return p
}

// Request is one client's way through a run, for the trace.
type Request struct {
	Client            int
	Begin, First, End time.Duration
	Prompt, Tokens    int
}

// Run is one repeat, in the detail that a trace shows.
type Run struct {
	Load     Load
	Passes   []engine.PassTrace
	Requests []Request
}

// once is what one repeat gave.
type once struct {
	wall, first, prefill, decode, busy, npu, load float64
	second                                        float64
	gaps                                          []float64   // all clients'
	byIndex                                       [][]float64 // by token
	stages                                        map[string]time.Duration
	total                                         time.Duration
	tokens, drafted, accepted, rows               int
	short, queued                                 bool
	token                                         Parts
	passes, decoded                               int
	run                                           Run
}

// stageNames are in the order of a request's way. "draft" is there only with a draft model.
func (r *Meter) stageNames() []string {
	names := []string{"template", "tokenize", "queue", "plan", "draft", "embed", "upload", "layers", "head", "download", "sample",
		"detokenize", "write"}
	if !r.Draft {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "draft" })
	}
	return names
}

// Measure runs the load: once shortly to warm up, then repeats times on an empty cache. Run has the
// detail of the last repeat. Errors: the first that a client met, ctx's.
func (r *Meter) Measure(ctx context.Context, l Load, repeats int) (Case, Run, error) {
	warm := l
	warm.Output = min(l.Output, 2)
	if _, err := r.once(ctx, warm, false); err != nil {
		return Case{}, Run{}, err
	}
	c := Case{Load: l}
	var all []once
	for range repeats {
		o, err := r.once(ctx, l, l.Clients == 1)
		if err != nil {
			return Case{}, Run{}, err
		}
		all = append(all, o)
	}
	col := func(f func(o *once) float64) Sample {
		var v []float64
		for i := range all {
			if x := f(&all[i]); !math.IsNaN(x) {
				v = append(v, x)
			}
		}
		return NewSample(v)
	}
	c.First, c.Prefill, c.Decode = col(func(o *once) float64 { return o.first }), col(func(o *once) float64 { return o.prefill }),
		col(func(o *once) float64 { return o.decode })
	for _, q := range []struct {
		to *Sample
		at float64
	}{{&c.P50, 0.5}, {&c.P95, 0.95}, {&c.P99, 0.99}} {
		*q.to = col(func(o *once) float64 { return Percentile(o.gaps, q.at) })
	}
	c.Wall, c.Busy = col(func(o *once) float64 { return o.wall }), col(func(o *once) float64 { return o.busy })
	optional := func(f func(o *once) float64) *Sample {
		if s := col(f); len(s.Values) > 0 {
			return &s
		}
		return nil
	}
	c.NPU, c.CardLoad = optional(func(o *once) float64 { return o.npu }), optional(func(o *once) float64 { return o.load })
	if l.Clients == 1 {
		c.Second = optional(func(o *once) float64 { return o.second })
	}
	c.sum(all, r.stageNames())
	return c, all[len(all)-1].run, nil
}

// sum adds up what repeats share.
func (c *Case) sum(all []once, names []string) {
	var total time.Duration
	stages := map[string]time.Duration{}
	tokens, decoded := 0, 0
	var index [][]float64
	for _, o := range all {
		total += o.total
		tokens += o.tokens
		decoded += o.decoded
		c.Drafted, c.Accepted = c.Drafted+o.drafted, c.Accepted+o.accepted
		c.Short, c.Queued = c.Short || o.short, c.Queued || o.queued
		c.Passes += float64(o.passes) / float64(len(all))
		c.Rows += float64(o.rows) / float64(len(all))
		c.Token.Host += o.token.Host
		c.Token.Upload += o.token.Upload
		c.Token.Layers += o.token.Layers
		c.Token.Head += o.token.Head
		c.Token.Down += o.token.Down
		for n, t := range o.stages {
			stages[n] += t
		}
		for i, g := range o.byIndex {
			if i == len(index) {
				index = append(index, nil)
			}
			index[i] = append(index[i], g...)
		}
	}
	for _, p := range []*time.Duration{&c.Token.Host, &c.Token.Upload, &c.Token.Layers, &c.Token.Head, &c.Token.Down} {
		*p /= time.Duration(max(decoded, 1))
	}
	for _, g := range index {
		c.Latency = append(c.Latency, Percentile(g, 0.5))
	}
	perToken := func(t time.Duration) float64 { return float64(t.Nanoseconds()) / 1e3 / float64(max(tokens, 1)) }
	var in time.Duration
	for _, n := range names {
		in += stages[n]
		c.Stages = append(c.Stages, Stage{n, perToken(stages[n]), percent(stages[n], total)})
	}
	c.Rest = percent(total-in, total)
}

func percent(part, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

// client is what one caller of a run saw.
type client struct {
	Prompt
	begin, first, end time.Duration

	asked time.Duration
	at    []time.Duration // when its tokens came, after being asked
	out   []int32
	usage engine.Usage
	write time.Duration
	wait  time.Duration // until the card was let go
	final string
	err   error
}

func (r *Meter) once(ctx context.Context, l Load, second bool) (o once, err error) {
	if err = engine.Forget(ctx, r.Backend); err != nil {
		return o, err
	}
	r.turns++
	r.Recorder.Take()
	var prepared time.Duration
	clients := make([]*client, l.Clients)
	for i := range clients {
		at := r.Clock()
		p, err := r.prompt(l.Prompt, i, r.turns)
		if err != nil {
			return o, err
		}
		prepared += r.Clock() - at
		clients[i] = &client{Prompt: p}
	}
	if r.Figure != nil {
		r.Figure() // drivers count from one question to the next
	}
	npu, before := time.Duration(0), r.Backend.Stats()
	begin := r.run(ctx, l, clients, func() {
		if r.NPU != nil {
			npu = r.NPU()
		}
	})
	end := begin
	o.run.Load = l
	for i, c := range clients {
		if c.err != nil {
			return o, c.err
		}
		end = max(end, c.end)
		o.run.Requests = append(o.run.Requests, Request{Client: i, Begin: c.begin, First: c.first, End: c.end, Prompt: len(c.IDs),
			Tokens: len(c.out)})
	}
	after := r.Backend.Stats()
	passes := r.Recorder.Take()
	o.run.Passes = passes
	o.account(l, clients, begin, end, r.split, passes)
	o.total += prepared
	o.wall = ms(o.total)
	o.npu, o.load = math.NaN(), after.NPULoad
	if r.Figure != nil {
		o.load = r.Figure()
	}
	if r.NPU != nil && end > begin {
		o.npu = 100 * float64(r.NPU()-npu) / float64(end-begin)
	}
	if d := end - begin; d > 0 {
		o.busy = 100 * float64(after.Busy-before.Busy) / float64(d)
	}
	o.second = math.NaN()
	if second && len(clients[0].out) > 0 {
		c := clients[0]
		ids := append(slices.Clone(c.IDs), c.out...)
		for range 32 {
			ids = append(ids, ids[len(ids)-1]+1)
		}
		if shape := engine.ShapeOf(r.Backend); len(ids) < shape.Cells && int(ids[len(ids)-1]) < shape.Out {
			next := &client{Prompt: Prompt{IDs: ids}}
			r.run(ctx, Load{Prompt: len(ids), Output: 1, Clients: 1}, []*client{next}, nil)
			if next.err != nil {
				return o, next.err
			}
			o.second = ms(next.first - next.begin)
		}
		r.Recorder.Take()
	}
	return o, nil
}

func (r *Meter) prompt(n, client, turn int) (Prompt, error) {
	if r.Prompt != nil {
		return r.Prompt(n, client, turn)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(1000 + (client*4001)%90000 + i)
	}
	return Prompt{IDs: ids}, nil
}

func (r *Meter) split(p *engine.PassTrace) Parts {
	if r.Split != nil {
		return r.Split(p)
	}
	return Split(p, true)
}

// run lets all clients ask before the first pass, in order, and gives the moment the card was let
// go.
func (r *Meter) run(ctx context.Context, l Load, clients []*client, ready func()) (begin time.Duration) {
	resume := engine.Hold(r.Backend)
	var wg sync.WaitGroup
	let := make(chan struct{})
	for i, c := range clients {
		over := make(chan struct{}) // closed when it ended before it began
		wg.Go(func() { r.ask(ctx, l, c, over, let, &begin) })
		for waiting := true; waiting && r.Backend.Stats().Queued <= i; {
			select {
			case <-over:
				waiting = false
			case <-time.After(50 * time.Microsecond):
			}
		}
	}
	if ready != nil {
		ready()
	}
	begin = r.Clock()
	close(let)
	resume()
	wg.Wait()
	engine.Hold(r.Backend)() // the last pass's account comes after its tokens
	return begin
}

func (r *Meter) ask(ctx context.Context, l Load, c *client, over chan<- struct{}, let <-chan struct{}, begin *time.Duration) {
	p := sampler.Defaults()
	p.Temperature = 0
	spec := l.Speculate
	job := engine.Job{IDs: c.IDs, Sampling: p, Limit: l.Output, Speculate: &spec, IgnoreStop: true}
	c.asked = r.Clock()
	line := json.NewEncoder(io.Discard)
	for t, err := range r.Backend.Complete(ctx, job) {
		if err != nil {
			c.err = err
			break
		}
		if t.Final != "" {
			c.final, c.usage = t.Final, t.Usage
			break
		}
		c.at = append(c.at, t.Usage.Total)
		c.out = append(c.out, t.ID)
		// What a server does with a token, but for the socket.
		at := time.Now()
		c.err = line.Encode(map[string]any{"model": "bench", "message": map[string]string{"role": "assistant", "content": t.Text},
			"done": false})
		if !r.Virtual {
			c.write += time.Since(at)
		}
	}
	close(over)
	<-let
	c.wait = max(*begin-c.asked, 0)
	c.begin, c.end = *begin, r.Clock()
	if len(c.at) > 0 {
		c.first = c.asked + c.at[0]
	}
}

// account turns a run into figures.
func (o *once) account(l Load, clients []*client, begin, end time.Duration, split func(*engine.PassTrace) Parts,
	passes []engine.PassTrace) {
	o.stages = map[string]time.Duration{}
	first := begin
	prompts := 0
	for _, c := range clients {
		first = max(first, c.first)
		prompts += len(c.IDs) - c.usage.Cached
		o.tokens += len(c.out)
		o.drafted, o.accepted = o.drafted+c.usage.Drafted, o.accepted+c.usage.Accepted
		o.stages["template"] += c.Template
		o.stages["tokenize"] += c.Tokenize
		o.stages["write"] += c.write
		o.short = o.short || len(c.out) < l.Output
		for i := 1; i < len(c.at); i++ {
			g := ms(c.at[i] - c.at[i-1])
			o.gaps = append(o.gaps, g)
			if i > len(o.byIndex) {
				o.byIndex = append(o.byIndex, nil)
			}
			o.byIndex[i-1] = append(o.byIndex[i-1], g)
		}
	}
	o.first = ms(first - begin)
	if first > begin {
		o.prefill = float64(prompts) / (first - begin).Seconds()
	}
	last := first
	for _, c := range clients {
		for _, at := range c.at {
			if c.asked+at > first {
				o.decoded++
				last = max(last, c.asked+at)
			}
		}
		o.queued = o.queued || c.usage.Queue-c.wait > (first-begin)/2 && len(clients) > 1
	}
	o.decode = math.NaN()
	if last > first {
		o.decode = float64(o.decoded) / (last - first).Seconds()
	}
	for i := range passes {
		p := &passes[i]
		if p.Kind == "draft" || p.Kind == "head" {
			continue // within the Draft of the pass it guesses for; beside passes
		}
		if o.passes++; o.passes == 1 {
			o.stages["queue"] += max(p.Start-begin, 0)
		}
		s := split(p)
		o.rows += p.Rows
		o.stages["plan"] += p.Plan + p.Build - p.Embed
		o.stages["draft"] += p.Draft
		o.stages["embed"] += p.Embed
		o.stages["upload"] += s.Upload
		o.stages["layers"] += s.Layers
		o.stages["head"] += s.Head + p.HostHead
		o.stages["download"] += s.Down
		o.stages["sample"] += p.Sample - p.Detokenize
		o.stages["detokenize"] += p.Detokenize
		if p.Start >= first-p.Sample-time.Microsecond && p.Kind != "prefill" && p.Kind != "mixed" {
			o.token.Host += p.Plan + p.Build + p.Sample
			o.token.Upload += s.Upload
			o.token.Layers += s.Layers
			o.token.Head += s.Head + p.HostHead
			o.token.Down += s.Down
		}
	}
	o.total = end - begin
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Percentile is the value below which a share q of the values lies, drawn straight between
// neighbours; NaN for none.
func Percentile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.SortedFunc(slices.Values(v), cmp.Compare[float64])
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (s[i+1]-s[i])*(at-float64(i))
}
