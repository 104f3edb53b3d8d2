//go:build !scripted

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// benchRig is the card that models are measured on, one after the other.
type benchRig struct {
	card     *engine.Card
	facts    cardFacts
	recorder bench.Recorder
	counters bench.Counters // the simulated card's, or the host's clock alone
	virtual  bool
	sim      bool
	roof     *profiles.Profile // where the bandwidth comes from; nil: measure it
	split    func(*engine.PassTrace) bench.Parts
	shape    axcl.Shape // of the model that runs
}

// benchSim is what a simulated card counts. attachSim (bench_sim.go) finds it.
type benchSim interface {
	Clock() uint64
	Busy() uint64
	Calls(string) uint64
	Crossings() uint64
}

func openBenchRig(ctx context.Context, f *benchFlags) (*benchRig, error) {
	r := &benchRig{roof: f.roof}
	start := time.Now()
	r.counters.Clock = func() time.Duration { return time.Since(start) }
	var info axcl.Info
	open := func() (axcl.Device, string, error) {
		dev, why, err := cards.Open(f.device)
		if err != nil {
			return nil, "", err
		}
		if info, err = dev.Info(); err != nil {
			return nil, "", errors.Join(err, dev.Close())
		}
		if f.layers {
			r.recorder.Apart = &bench.Apart{Device: dev, Clock: func() time.Duration { return r.counters.Clock() }}
			dev = r.recorder.Apart
		}
		sim := attachSim(info.Library)
		if sim == nil {
			return dev, why, nil
		}
		r.sim = true
		r.virtual = strings.EqualFold(os.Getenv("AXSIM_CLOCK"), "virtual")
		if c := os.Getenv("AXSIM_CLOCK"); r.virtual || strings.EqualFold(c, "real") {
			r.counters.NPU = func() time.Duration { return time.Duration(sim.Busy()) }
		}
		if r.virtual {
			r.counters.Clock = func() time.Duration { return time.Duration(sim.Clock()) }
		}
		r.counters.Calls, r.counters.Cross = func() uint64 { return sim.Calls("") }, sim.Crossings
		return dev, why, nil
	}
	var err error
	r.card, err = engine.OpenCard(open, engine.CardOptions{Clock: func() time.Duration { return r.counters.Clock() }, Trace: r.recorder.Add})
	if err != nil {
		return nil, err
	}
	r.facts = factsOf(info, r.card.Why())
	if r.sim {
		r.facts.Simulated, r.facts.Clock, r.facts.Profile = true, strings.ToLower(os.Getenv("AXSIM_CLOCK")), os.Getenv("AXSIM_PROFILE")
		if r.facts.Clock == "" {
			r.facts.Clock = "off"
		}
		if r.facts.Profile == "" {
			r.facts.Profile = "pi5"
		}
		if r.roof == nil && r.facts.Clock != "off" {
			// Lines after a comma change a call's price, not the bandwidth; a profile that cannot be read, the card would have refused.
			name, _, _ := strings.Cut(r.facts.Profile, ",")
			r.roof, _ = profiles.Load(name)
		}
	}
	if r.roof == nil && info.Kind == "axcl" && !r.sim {
		r.roof, _ = profiles.Load("pi5")
	}
	if r.roof == nil && info.Kind == "axengine" && !r.sim {
		r.roof, _ = profiles.Load("onboard")
	}
	async := info.Kind != "soft"
	r.split = func(p *engine.PassTrace) bench.Parts { return bench.Split(p, async) }
	if r.virtual && r.roof != nil {
		r.split = func(p *engine.PassTrace) bench.Parts {
			up, down := r.roof.Copies["h2d-pinned"], r.roof.Copies["d2h-pinned"]
			u := up.Time(int64(p.Rows*r.shape.Hidden*2)) + up.Time(int64(p.Rows*4)) + up.Time(2)
			return bench.Modelled(p, u, time.Duration(p.Want)*down.Time(int64(r.shape.Out)*2))
		}
	}
	return r, nil
}

// figure is the card's own load figure, asked for now.
func (r *benchRig) figure() float64 {
	load := math.NaN()
	_ = r.card.Do(context.Background(), func(dev axcl.Device) error { // a card that is gone says so in the next pass
		i, err := dev.Info()
		if err == nil {
			load = i.NPULoad
		}
		return err
	})
	return load
}

func (r *benchRig) close() error { return r.card.Close() }

// benchModel is a model's part of a report.
type benchModel struct {
	Name     string          `json:"name"`
	Hollow   bool            `json:"without_weights,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Context  int             `json:"context"`
	Layers   int             `json:"layers"`
	Bytes    int64           `json:"card_bytes"`
	Cases    []bench.Case    `json:"cases,omitempty"`
	Roofline *bench.Roofline `json:"roofline,omitempty"`
	Apart    bool            `json:"layers_apart,omitempty"` // each layer was waited for by itself
	Draft    string          `json:"draft_model,omitempty"`
	Loops    []bench.Loop    `json:"loops,omitempty"`
	Against  *againstReport  `json:"against,omitempty"`
}

// benchShapes are the models that have shapes and no weights.
var benchShapes = map[string]func() axmodel.HollowShape{"qwen3-0.6b": axmodel.Qwen3Small, "qwen3-4b": axmodel.Qwen3Large}

// opened is a model on the card, or its files where only those are needed.
type opened struct {
	benchModel
	plan    planModel
	spec    axcl.LoadSpec
	backend engine.Backend
	model   *engine.Model // nil: a shape without weights
	prompt  func(n, client, turn int) (bench.Prompt, error)
	close   func() error
}

func (r *benchRig) open(ctx context.Context, f *benchFlags, name string) (o *opened, err error) {
	o = &opened{}
	parallel := 1
	for _, c := range f.together {
		parallel = max(parallel, c)
	}
	if f.parallel > 0 {
		parallel = f.parallel
	}
	oo := engine.OpenOptions{Card: r.card, Parallel: parallel, Draft: f.draft}
	if shape, ok := benchShapes[strings.ToLower(name)]; ok {
		if f.draft != "" {
			return nil, usageError("--draft: %s has no words, so nothing can guess them", name)
		}
		if o.plan, err = planShape(name); err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "axle-bench-")
		if err != nil {
			return nil, err
		}
		s := shape()
		s.Period = f.period
		o.close = func() error { return os.RemoveAll(dir) }
		o.benchModel = benchModel{Name: o.plan.Name, Hollow: true, Context: s.Context, Layers: s.Layers, Bytes: o.plan.Card}
		o.spec.Layers, o.spec.Head = axmodel.Files(dir, s.Name, s.Chunk, s.Layers)
		if f.loop != "" {
			s.NoEmbeddings = true
			err = axmodel.WriteHollow(dir, s)
		} else if o.backend, err = engine.OpenHollow(ctx, r.card, dir, s, oo); err == nil {
			o.close = func() error { return errors.Join(o.backend.Close(), os.RemoveAll(dir)) }
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return o, nil
	}
	p, err := openPackage(name)
	if err != nil {
		return nil, err
	}
	o.plan = planPackage(p)
	o.benchModel = benchModel{Name: p.Name, Digest: p.Digest(), Context: p.Context, Layers: len(p.Layers), Bytes: o.plan.Card}
	o.spec = axcl.LoadSpec{Layers: p.Layers, Head: p.Head}
	if f.loop != "" {
		o.close = p.Close
		return o, nil
	}
	if p.Embedding {
		return nil, errors.Join(fmt.Errorf("%s gives vectors, no text: there are no tokens to measure", name), p.Close())
	}
	m, err := engine.OpenPackage(ctx, p, oo)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	o.backend, o.model, o.close, o.prompt = m.Backend(), m, m.Close, benchPrompts(m)
	o.Context, o.Draft = m.Info().Context, m.Info().Draft
	return o, nil
}

// benchWords is the text of prompts: plain words, no two clients' alike from the first on.
const benchWords = "the quick brown fox jumps over a lazy dog while seven small boats drift past an old stone harbour and nobody counts them "

// benchPrompts makes prompts of a real model's words through its template and tokenizer, cut to exactly n tokens.
func benchPrompts(m *engine.Model) func(n, client, turn int) (bench.Prompt, error) {
	return func(n, client, turn int) (p bench.Prompt, err error) {
		for words := n*4 + 64; ; words *= 2 {
			text := fmt.Sprintf("Story %d of client %d: ", turn, client) + strings.Repeat(benchWords, words/len(benchWords)+1)
			at := time.Now()
			rendered, err := m.Render(context.Background(), engine.Request{Messages: []chat.Message{{Role: "user", Content: text}}})
			if err != nil {
				return p, err
			}
			p.Template = time.Since(at)
			at = time.Now()
			if p.IDs, err = m.Tokenize(rendered); err != nil {
				return p, err
			}
			p.Tokenize = time.Since(at)
			if len(p.IDs) >= n {
				p.IDs = p.IDs[:n]
				return p, nil
			}
			if words > 64*maxBenchTokens {
				return p, fmt.Errorf("the tokenizer gives %d tokens for %d characters", len(p.IDs), words)
			}
		}
	}
}

// measure measures one model.
func (r *benchRig) measure(ctx context.Context, f *benchFlags, name string, progress io.Writer, runs *[]bench.Run) (m benchModel, err error) {
	var loads []bench.Load
	if f.against != "" && r.virtual {
		return m, usageError("--against needs a real clock: AXSIM_CLOCK is virtual")
	}
	if shape, ok := benchShapes[strings.ToLower(name)]; ok && f.loop == "" {
		// Before anything is loaded.
		if _, err := f.cases(shape().Context); err != nil {
			return m, err
		}
	}
	o, err := r.open(ctx, f, name)
	if err != nil {
		return m, err
	}
	defer func() {
		if e := o.close(); err == nil {
			err = e
		}
	}()
	m = o.benchModel
	m.Apart = f.layers
	if f.loop != "" {
		var one, other bench.Loop
		err := r.card.Do(ctx, func(dev axcl.Device) (err error) {
			one, other, err = bench.Loops(ctx, dev, o.spec, f.loop, 4, f.repeats, r.counters)
			return err
		})
		m.Loops = []bench.Loop{one, other}
		return m, err
	}
	r.shape = engine.ShapeOf(o.backend)
	if loads, err = f.cases(o.Context); err != nil {
		return m, err
	}
	if f.against != "" {
		m.Against, err = f.measureAgainst(ctx, r, o, loads, progress)
		return m, err
	}
	rig := &bench.Rig{Backend: o.backend, Clock: r.counters.Clock, Prompt: o.prompt, Recorder: &r.recorder, Split: r.split, Virtual: r.virtual, NPU: r.counters.NPU, Figure: r.figure, Draft: m.Draft != ""}
	for i, l := range loads {
		fmt.Fprintf(progress, "\r%s: %d of %d: %-24s", plain.Line(m.Name), i+1, len(loads), l)
		c, run, err := rig.Measure(ctx, l, f.repeats)
		if err != nil {
			fmt.Fprintln(progress)
			return m, fmt.Errorf("%s: %w", l, err)
		}
		m.Cases = append(m.Cases, c)
		if f.trace != "" {
			*runs = append(*runs, run)
		}
	}
	fmt.Fprintf(progress, "\r%60s\r", "")
	if m.Hollow && r.facts.Kind == "soft" || r.sim && r.facts.Clock == "off" {
		m.Roofline = &bench.Roofline{Text: "No limit is computed: nothing here reads weights as a card would, so these figures are the host's alone."}
		return m, nil
	}
	m.Roofline, err = r.roofline(ctx, f, o, m.Cases)
	return m, err
}

// roofline is the model's limit on this card: by the profile that was asked for, else by the fastest that a probe saw the card read, else by
// the profile of a card of its kind.
func (r *benchRig) roofline(ctx context.Context, f *benchFlags, o *opened, cases []bench.Case) (*bench.Roofline, error) {
	p := &o.plan
	weights, layer, cache := p.HeadBytes, int64(0), int64(0)
	cells := p.Context
	shape := axcl.Shape{Groups: p.Groups, Cells: p.Context}
	if g := shape.GroupFor(1, 0); g >= 0 {
		cells = p.Groups[g].Cells
	}
	for _, l := range p.Layers {
		layer = max(layer, l.Weights)
		weights += l.Weights
		cache += 4 * int64(cells) * int64(l.KVHeads*l.HeadDim)
	}
	var probes []bench.Probe
	if r.facts.Kind == "soft" { // whose memory is this machine's
		read, copied := bench.Memory(200 * time.Millisecond)
		probes = append(probes, bench.Probe{Name: "a read probe of this machine", Rate: read}, bench.Probe{Name: "a copy probe of this machine", Rate: copied})
	}
	err := r.card.Do(ctx, func(dev axcl.Device) error {
		if a := r.recorder.Apart; a != nil {
			dev = a.Device
		}
		probe, err := bench.ReadProbe(ctx, dev, o.spec, layer, cache/int64(max(len(p.Layers), 1)), p.HeadBytes, r.counters.Clock)
		if err == nil {
			probes = append(probes, probe)
		} else if axcl.Fatal(err) || ctx.Err() != nil {
			return err
		}
		return nil // a model that cannot be used as a probe, or does not fit twice
	})
	if err != nil {
		return nil, err
	}
	best := bench.Probe{}
	for _, q := range probes {
		if q.Rate > best.Rate {
			best = q
		}
	}
	if r.roof != nil {
		q := bench.Probe{Name: "the profile " + r.roof.Name, Rate: r.roof.Memory}
		probes = append(probes, q)
		if f.roof != nil || best.Rate == 0 {
			best = q
		}
	}
	roof := bench.NewRoofline(weights, cache, best.Rate, best.Name, len(p.Layers)+1, cases)
	roof.Probes = probes
	return &roof, nil
}

// benchFacts is the machine that was measured.
type benchFacts struct {
	Axle     string    `json:"axle"`
	Go       string    `json:"go"`
	System   string    `json:"system"`
	Kernel   string    `json:"kernel"`
	Board    string    `json:"board,omitempty"`
	CPU      string    `json:"cpu"`
	Cores    int       `json:"cores"`
	Governor string    `json:"governor,omitempty"`
	Load     string    `json:"load_average,omitempty"`
	Memory   int64     `json:"memory_bytes,omitempty"`
	Card     cardFacts `json:"card"`
}

type cardFacts struct {
	Kind        string      `json:"kind"`
	Name        string      `json:"name"`
	ID          string      `json:"id"`
	Why         string      `json:"why"`
	Bus         string      `json:"bus,omitempty"`
	Driver      string      `json:"driver,omitempty"`
	Firmware    string      `json:"firmware,omitempty"`
	Link        *cards.Link `json:"link,omitempty"`
	Temperature *float64    `json:"temperature_celsius"`
	Memory      int64       `json:"card_memory_bytes,omitempty"`
	Simulated   bool        `json:"simulated,omitempty"`
	Clock       string      `json:"clock,omitempty"`
	Profile     string      `json:"profile,omitempty"`
}

func factsOf(i axcl.Info, why string) cardFacts {
	f := cardFacts{Kind: i.Kind, Name: i.Name, ID: i.ID, Why: why, Bus: i.Bus, Driver: i.Version, Firmware: i.Firmware, Memory: i.TotalCMM}
	if !math.IsNaN(i.Temperature) {
		f.Temperature = &i.Temperature
	}
	if i.Kind == "axcl" {
		for _, l := range cards.Examine(os.DirFS("/"), nil).Links {
			if strings.HasSuffix(l.Bus, i.Bus) && i.Bus != "" {
				f.Link = &l
			}
		}
	}
	return f
}

// hostFacts reads what Linux tells of the machine; what it does not tell stays empty.
func hostFacts(root fs.FS) benchFacts {
	read := func(name string) string {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.Trim(strings.TrimSpace(string(b)), "\x00")
	}
	f := benchFacts{Axle: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Kernel: read("proc/sys/kernel/osrelease"),
		Board: read("proc/device-tree/model"), Cores: runtime.NumCPU(), Governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")}
	for _, l := range strings.Split(read("proc/cpuinfo"), "\n") {
		if k, v, ok := strings.Cut(l, ":"); ok && (strings.TrimSpace(k) == "model name" || strings.TrimSpace(k) == "Model" && f.CPU == "") {
			f.CPU = strings.TrimSpace(v)
			if strings.TrimSpace(k) == "model name" {
				break
			}
		}
	}
	if w := strings.Fields(read("proc/loadavg")); len(w) > 2 {
		f.Load = strings.Join(w[:3], " ")
	}
	for _, l := range strings.Split(read("proc/meminfo"), "\n") {
		if w := strings.Fields(l); len(w) > 1 && w[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(w[1], 10, 64)
			f.Memory = kb << 10
		}
	}
	return f
}
