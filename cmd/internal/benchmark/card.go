package benchmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/cmd/internal/plan"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/models"
)

// measuredCard is the card that models are measured on, one after the other.
type measuredCard struct {
	card     *engine.Card
	facts    report.Card
	recorder bench.Recorder
	clock    func() time.Duration // the simulated card's, or the host's
	host     engine.HostClock     // of a virtual clock; nil: there is none
	npu      func() time.Duration // the simulated card's count of busy time; nil: there is none
	virtual  bool
	sim      bool
	roof     *profiles.Profile // where the bandwidth comes from; nil: measure it
	split    func(*engine.PassTrace) bench.Parts
	shape    axcl.Shape // of the model that runs
}

// simCounts is what a simulated card counts. attachSim (sim.go, sim_none.go) finds it.
type simCounts interface {
	Clock() uint64
	engine.HostClock
	Busy() uint64
}

func openCard(ctx context.Context, f *Options) (*measuredCard, error) {
	r := &measuredCard{roof: f.Profile}
	start := time.Now()
	r.clock = func() time.Duration { return time.Since(start) }
	var info axcl.Info
	open := func() (axcl.Device, string, error) {
		dev, why, err := cards.Open(f.Device)
		if err != nil {
			return nil, "", err
		}
		if info, err = dev.Info(); err != nil {
			return nil, "", errors.Join(err, dev.Close())
		}
		sim := attachSim(info.Library)
		if sim == nil {
			return dev, why, nil
		}
		r.sim = true
		r.virtual = strings.EqualFold(os.Getenv("AXSIM_CLOCK"), "virtual")
		if c := os.Getenv("AXSIM_CLOCK"); r.virtual || strings.EqualFold(c, "real") {
			r.npu = func() time.Duration { return time.Duration(sim.Busy()) }
		}
		if r.virtual {
			r.clock = func() time.Duration { return time.Duration(sim.Clock()) }
			r.host = sim
		}
		return dev, why, nil
	}
	var err error
	co := engine.CardOptions{Trace: r.recorder.Add}
	if strings.EqualFold(os.Getenv("AXSIM_CLOCK"), "virtual") {
		co.Clock, co.Host = func() time.Duration { return r.clock() }, virtualHost{r}
	}
	r.card, err = engine.OpenCard(open, co)
	if err != nil {
		return nil, err
	}
	if co.Clock == nil {
		r.clock = r.card.Now
	}
	r.facts = factsOf(info, r.card.Why())
	if r.sim {
		r.facts.Simulated, r.facts.Clock = true, strings.ToLower(cmp.Or(os.Getenv("AXSIM_CLOCK"), "off"))
		r.facts.Profile = cmp.Or(os.Getenv("AXSIM_PROFILE"), "pi5")
		if r.roof == nil && r.facts.Clock != "off" {
			// Lines after a comma change a call's price, not the bandwidth; a profile that cannot
			// be read, the card would have refused.
			name, _, _ := strings.Cut(r.facts.Profile, ",")
			r.roof, _ = profiles.Load(name)
		}
	}
	if name := map[string]string{"axcl": "pi5", "axengine": "onboard"}[info.Kind]; r.roof == nil && name != "" && !r.sim {
		r.roof, _ = profiles.Load(name)
	}
	async := info.Kind != "soft"
	r.split = func(p *engine.PassTrace) bench.Parts { return bench.Split(p, async) }
	if r.virtual && r.roof != nil {
		r.split = func(p *engine.PassTrace) bench.Parts {
			up, down := r.roof.Copies["h2d-pinned"], r.roof.Copies["d2h-pinned"]
			u := up.Time(int64(p.Rows*r.shape.Hidden*2)) + up.Time(int64(p.Rows*4)) + up.Time(2)
			each := int64(r.shape.Out)
			if p.HostHead > 0 { // hidden rows came down, no logits
				each = int64(r.shape.Hidden)
			}
			return bench.Modelled(p, u, time.Duration(p.Want)*down.Time(each*2))
		}
	}
	return r, nil
}

// figures are the card's temperature and load, asked for now; NaN what it does not tell.
func (r *measuredCard) figures() (celsius, load float64) {
	celsius, load = math.NaN(), math.NaN()
	_ = r.card.Do(context.Background(), func(dev axcl.Device) error { // a card that is gone says so in the next pass
		i, err := dev.Info()
		if err == nil {
			celsius, load = i.Temperature, i.NPULoad
		}
		return err
	})
	return celsius, load
}

// virtualHost is the host of a card whose clock may turn out to be virtual.
type virtualHost struct{ r *measuredCard }

func (v virtualHost) Takes(bytes, products int64) time.Duration {
	if v.r.host == nil {
		return 0
	}
	return v.r.host.Takes(bytes, products)
}

func (v virtualHost) WaitUntil(t time.Duration) {
	if v.r.host != nil {
		v.r.host.WaitUntil(t)
	}
}

func (r *measuredCard) close() error { return r.card.Close() }

// opened is a model on the card, or its files where only those are needed.
type opened struct {
	report.Model
	plan    plan.Model
	spec    axcl.LoadSpec
	backend engine.Backend
	model   *engine.Model // nil: a shape without weights
	prompt  func(n, client, turn int) (bench.Prompt, error)
	close   func() error
}

// open opens a model; keep says where its rows are kept, other than on the card.
func (r *measuredCard) open(ctx context.Context, f *Options, name string, keep engine.OpenOptions) (o *opened, err error) {
	o = &opened{}
	parallel := 1
	for _, c := range f.Clients {
		parallel = max(parallel, c)
	}
	if f.Parallel > 0 {
		parallel = f.Parallel
	}
	oo := keep
	oo.Card, oo.Parallel, oo.Head = r.card, parallel, f.Head
	if f.Draft != "" {
		oo.Draft = func() (*models.Package, error) { return f.OpenPackage(f.Draft) }
	}
	if shape, ok := plan.Shapes[strings.ToLower(name)]; ok {
		if f.Draft != "" {
			return nil, asked("--draft: %s has no words, so nothing can guess them", name)
		}
		o.plan, _ = plan.Shape(name)
		dir, err := os.MkdirTemp("", "axle-bench-")
		if err != nil {
			return nil, err
		}
		s := shape()
		s.Period = f.Period
		o.Model = report.Model{Name: o.plan.Name, ShapeOnly: true, Context: s.Context, Layers: s.Layers, Bytes: o.plan.Card}
		o.spec.Layers, o.spec.Head = axmodel.Files(dir, s.Name, s.Chunk, s.Layers)
		if o.backend, err = engine.OpenShape(ctx, r.card, dir, s, oo); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		o.close = func() error { return errors.Join(o.backend.Close(), os.RemoveAll(dir)) }
		return o, nil
	}
	// The head's file is made anew, and removed.
	if oo.Remember, err = os.MkdirTemp("", "axle-bench-"); err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(oo.Remember) }
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	p, err := f.OpenPackage(name)
	if err != nil {
		return nil, err
	}
	o.plan = plan.Package(p)
	o.Model = report.Model{Name: p.Name, Digest: p.Digest(), Context: p.Context, Layers: p.Depth(), Bytes: o.plan.Card}
	o.spec = axcl.LoadSpec{Layers: p.Layers, Head: p.Head, Source: p.Sources()}
	if p.Embedding {
		return nil, errors.Join(fmt.Errorf("%s gives vectors, no text: there are no tokens to measure", name), p.Close())
	}
	m, err := engine.OpenPackage(ctx, p, oo)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	o.backend, o.model, o.prompt = m.Backend(), m, bench.Words(m)
	o.close = func() error { return errors.Join(m.Close(), remove()) }
	if err := engine.SettleHead(ctx, o.backend); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	o.Context, o.Draft = m.Info().Context, m.Info().Draft
	return o, nil
}

// measure measures one model. runs gets the runs that a trace is to show.
func (r *measuredCard) measure(ctx context.Context, f *Options, name string, progress io.Writer,
	runs *[]bench.Run) (m report.Model, err error) {
	var loads []bench.Load
	if f.Talks.Conversations > 0 {
		return r.converse(ctx, f, name, progress)
	}
	if f.Against.Kind != "" && r.virtual {
		return m, asked("--against needs a real clock: AXSIM_CLOCK is virtual")
	}
	if shape, ok := plan.Shapes[strings.ToLower(name)]; ok {
		// Before anything is loaded.
		if _, err := f.cases(shape().Context); err != nil {
			return m, err
		}
	}
	o, err := r.open(ctx, f, name, engine.OpenOptions{})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	m = o.Model
	r.shape = engine.ShapeOf(o.backend)
	if loads, err = f.cases(o.Context); err != nil {
		return m, err
	}
	if f.Against.Kind != "" {
		m.Against, err = f.measureAgainst(ctx, r, o, loads, progress)
		return m, err
	}
	meter := &bench.Meter{Backend: o.backend, Clock: r.clock, Prompt: o.prompt, Recorder: &r.recorder, Split: r.split,
		Virtual: r.virtual, NPU: r.npu, Draft: m.Draft != ""}
	meter.Figure = func() float64 { _, load := r.figures(); return load }
	for i, l := range loads {
		fmt.Fprintf(progress, "\r%s: %d of %d: %-24s", plain.Line(m.Name), i+1, len(loads), l)
		c, run, err := meter.Measure(ctx, l, f.Repeats)
		if err != nil {
			fmt.Fprintln(progress)
			return m, fmt.Errorf("%s: %w", l, err)
		}
		m.Cases = append(m.Cases, c)
		if f.Trace {
			*runs = append(*runs, run)
		}
	}
	fmt.Fprintf(progress, "\r%60s\r", "")
	if m.ShapeOnly && r.facts.Kind == "soft" || r.sim && r.facts.Clock == "off" {
		m.Roofline = &bench.Roofline{Text: "No limit is computed: nothing here reads weights as a card would, so these figures are the " +
			"host's alone."}
		return m, nil
	}
	m.Roofline, err = r.roofline(ctx, f, o, m.Cases)
	return m, err
}

// roofline is the model's limit on this card: by the profile that was asked for, else by the
// fastest that a probe saw the card read, else by the profile of a card of its kind.
func (r *measuredCard) roofline(ctx context.Context, f *Options, o *opened, cases []bench.Case) (*bench.Roofline, error) {
	p := &o.plan
	weights, layer, cache, states := p.HeadBytes, int64(0), int64(0), int64(0)
	cells := p.Context
	shape := axcl.Shape{Groups: p.Groups, Cells: p.Context}
	if g := shape.GroupFor(1, 0); g >= 0 {
		cells = p.Groups[g].Cells
	}
	for _, l := range p.Layers {
		layer = max(layer, l.Weights)
		weights += l.Weights
		if states += 2 * l.State; l.State == 0 {
			cache += 4 * int64(cells) * int64(l.KVHeads*l.HeadDim)
		}
	}
	var probes []bench.Probe
	if r.facts.Kind == "soft" { // whose memory is this machine's
		read, copied := bench.Memory(200 * time.Millisecond)
		probes = append(probes, bench.Probe{Name: "a read probe of this machine", Rate: read},
			bench.Probe{Name: "a copy probe of this machine", Rate: copied})
	}
	err := r.card.Do(ctx, func(dev axcl.Device) error {
		probe, err := bench.ReadProbe(ctx, dev, o.spec, layer, (cache+states)/int64(max(len(p.Layers), 1)), p.HeadBytes, r.clock)
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
		if f.Profile != nil || best.Rate == 0 {
			best = q
		}
	}
	roof := bench.NewRoofline(weights, cache, states, best.Rate, best.Name, len(p.Layers)+1, cases)
	roof.Probes = probes
	return &roof, nil
}
