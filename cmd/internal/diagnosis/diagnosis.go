// Package diagnosis finds out whether a card can be used, and if not, what is wrong and what to do
// about it: the vendor's libraries, the driver, the cards, the suite that every device must pass,
// and whether a model sees what it is shown.
//
// Run makes one. A Diagnosis holds an open device from Examine to Close, so it belongs to one
// goroutine, which holds its OS thread in between.
package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

// Diagnosis is what was found; its JSON form is for programs.
type Diagnosis struct {
	OK          bool            `json:"ok"`
	Device      string          `json:"device,omitempty"` // the one that was opened
	Why         string          `json:"why"`
	Kernel      string          `json:"kernel,omitempty"`
	CMATotal    int64           `json:"cma_total"`
	CMAFree     int64           `json:"cma_free"`
	Libraries   []Library       `json:"libraries"`
	Devices     []Card          `json:"devices"`
	Links       []cards.Link    `json:"links"`
	Findings    []cards.Finding `json:"findings"`
	Conformance []Check         `json:"conformance,omitempty"`
	Abilities   *Abilities      `json:"abilities,omitempty"`
	Vision      []engine.Probe  `json:"vision,omitempty"`
	Head        *Head           `json:"lm_head,omitempty"`

	dev  axcl.Device // open while it is of use
	open func(model string) (*models.Package, error)
}

// Library is a vendor's library that was looked for.
type Library struct {
	Kind    string   `json:"kind"`
	Path    string   `json:"path"`
	Version string   `json:"version"`
	Missing []string `json:"missing"`
	Error   string   `json:"error,omitempty"`
	// Simulated: axle's own simulated card behind the vendor's interface.
	Simulated bool `json:"simulated,omitempty"`
}

// Card is a device that a library knows, or the card in software.
type Card struct {
	ID          string   `json:"id"`
	Kind        string   `json:"kind"`
	Name        string   `json:"name"`
	Bus         string   `json:"bus,omitempty"`
	Firmware    string   `json:"firmware,omitempty"`
	Temperature *float64 `json:"temperature"` // °C; null when unknown, as the loads
	TotalCMM    int64    `json:"cmm_total"`
	FreeCMM     int64    `json:"cmm_free"`
	TotalMem    int64    `json:"memory_total"`
	FreeMem     int64    `json:"memory_free"`
	NPULoad     *float64 `json:"npu_load"`
	CPULoad     *float64 `json:"cpu_load"`
}

// Check is one check of the suite, and what it logged.
type Check struct {
	Name string   `json:"name"`
	OK   bool     `json:"ok"`
	Log  []string `json:"log,omitempty"`
	// How far the furthest row is from one that is rounded nowhere, over its length: as the card
	// computes it, and as bf16 arithmetic does.
	Card *float64 `json:"card,omitempty"`
	BF16 *float64 `json:"bf16,omitempty"`
	// Of a baseline: the card's figure then, or, with a vendor's model, how far rows have moved
	// since.
	Before *float64 `json:"before,omitempty"`
	Moved  *float64 `json:"moved,omitempty"`

	rows [][]uint16 // what the card gave for fixed rows of a vendor's model
}

// Abilities are what a card was proven to do with a model: batching relies on them.
type Abilities struct {
	Wide    bool `json:"wide_passes"`
	Chunk   bool `json:"short_chunks"`
	Mixed   bool `json:"mixed_rows"`
	Scatter bool `json:"scattered_cells"`
	Place   bool `json:"rows_in_place"`
	// The same rows give the same bits in other cells, in the same order and in any.
	Ordered  bool    `json:"alike_ordered"`
	Anywhere bool    `json:"alike_anywhere"`
	States   *States `json:"states,omitempty"` // of layers that keep a state; nil: the model has none
}

// States are what a card was proven to do with layers that keep a state.
type States struct {
	Kept    bool `json:"kept"`    // what passes went on from is as it was: snapshots can be taken
	Stepped bool `json:"stepped"` // chunks are right only where such layers take the rows one by one
}

func known(f float64) *float64 {
	if math.IsNaN(f) {
		return nil
	}
	return &f
}

func deviceOf(i axcl.Info) Card {
	return Card{ID: i.ID, Kind: i.Kind, Name: i.Name, Bus: i.Bus, Firmware: i.Firmware, Temperature: known(i.Temperature),
		TotalCMM: i.TotalCMM, FreeCMM: i.FreeCMM,
		TotalMem: i.TotalMem, FreeMem: i.FreeMem, NPULoad: known(i.NPULoad), CPULoad: known(i.CPULoad)}
}

// Examine opens the device and looks at the machine. The device stays open until Close: it is
// unknown how a vendor's library likes to be started twice.
func Examine(device string) *Diagnosis {
	d := &Diagnosis{open: models.Open, Libraries: []Library{}, Devices: []Card{}, Links: []cards.Link{}, Findings: []cards.Finding{}}
	dev, why, err := cards.Open(device)
	want := kindOf(device)
	libs := slices.DeleteFunc(cards.Libraries(), func(l cards.Library) bool { return want != "" && want != l.Kind })
	r := cards.Examine(os.DirFS("/"), libs)
	d.machine(r)
	if err != nil {
		d.Why = err.Error()
		// One problem for one missing card: what the machine lacks was found, and this is what
		// follows.
		if r.Usable || !slices.ContainsFunc(d.Findings, func(f cards.Finding) bool { return f.State == cards.Problem }) {
			d.problem(device, err, "`--device auto` takes the card that is there")
		}
		return d
	}
	d.dev, d.Why = dev, why
	i, err := dev.Info()
	if err != nil {
		d.problem(device, err, noAnswer)
		return d
	}
	d.Device = i.ID
	if i.Kind == "soft" {
		d.Devices = append(d.Devices, deviceOf(i))
	}
	// The software card is an answer only where it was asked for.
	d.OK = i.Kind != "soft" || kindOf(device) == "soft"
	return d
}

// machine takes over what was found of this machine.
func (d *Diagnosis) machine(r cards.Report) {
	d.Kernel, d.CMATotal, d.CMAFree = r.Kernel, r.CMATotal, r.CMAFree
	d.Links, d.Findings = append(d.Links, r.Links...), append(d.Findings, r.Findings...)
	for _, l := range r.Libraries {
		x := Library{Kind: l.Kind, Path: l.Path, Version: l.Version, Missing: append([]string{}, l.Missing...), Simulated: l.Simulated}
		if l.Err != nil {
			x.Error = l.Err.Error()
		}
		d.Libraries = append(d.Libraries, x)
		for _, i := range l.Devices {
			d.Devices = append(d.Devices, deviceOf(i))
		}
	}
}

const noAnswer = "the card was opened and does not answer as it should: turn the power off and on"

func (d *Diagnosis) problem(device string, err error, fix string) {
	d.OK = false
	d.Findings = append(d.Findings, cards.Finding{Name: "device " + device, State: cards.Problem, Text: err.Error(), Fix: fix})
}

// Close closes the device, if it is open. A device that cannot be closed is a finding.
func (d *Diagnosis) Close() {
	if d.dev == nil {
		return
	}
	if err := d.dev.Close(); err != nil {
		d.problem(d.Device, err, noAnswer)
	}
	d.dev = nil
}

// kindOf is the library a device spec is about; empty for auto.
func kindOf(device string) string {
	kind, _, _ := strings.Cut(device, ":")
	if kind == "auto" {
		return ""
	}
	return kind
}

// reporter is the test that a check believes it runs in.
type reporter struct {
	Check
	dirs []string
}

type failed struct{}

func (r *reporter) Helper()                        {}
func (r *reporter) Logf(format string, a ...any)   { r.Log = append(r.Log, fmt.Sprintf(format, a...)) }
func (r *reporter) Errorf(format string, a ...any) { r.OK = false; r.Logf(format, a...) }
func (r *reporter) Fatalf(format string, a ...any) { r.Errorf(format, a...); panic(failed{}) }

func (r *reporter) Measure(f axcltest.Figures) {
	if r.Card == nil {
		r.Card, r.BF16 = new(float64), new(float64)
	}
	*r.Card, *r.BF16 = max(*r.Card, f.Card), max(*r.BF16, f.BF16)
}

func (r *reporter) Sample(rows [][]uint16) { r.rows = rows }

func (r *reporter) TempDir() string {
	dir, err := os.MkdirTemp("", "axle-doctor-")
	if err != nil {
		r.Fatalf("%v", err)
	}
	r.dirs = append(r.dirs, dir)
	return dir
}

func (d *Diagnosis) check(name string, f func(t axcltest.TB)) {
	r := &reporter{Check: Check{Name: name, OK: true}}
	func() {
		defer func() {
			for _, dir := range r.dirs {
				os.RemoveAll(dir)
			}
			if x := recover(); x != nil && x != (failed{}) {
				panic(x)
			}
		}()
		f(r)
	}()
	d.Conformance = append(d.Conformance, r.Check)
	d.OK = d.OK && r.OK
}

// Conform runs the suite: with a model of the user's on the open device, or, where the device
// computes the software card's models, with small ones made for it. No check begins once ctx has
// ended, or the card was lost. It reports whether the suite was run, to its end.
func (d *Diagnosis) Conform(ctx context.Context, device, model string, patience time.Duration, next beginning) bool {
	if model == "" {
		if !d.computesOurs() {
			d.OK = false
			d.Conformance = append(d.Conformance, Check{Name: "suite", Log: []string{"a vendor's card runs only models compiled for " +
				"it: name one with --model DIR"}})
			return false
		}
		d.Close()     // each check opens it
		lost := false // then nothing else can be learned of it
		open := func() (axcl.Device, error) {
			dev, _, err := cards.Open(device)
			lost = lost || axcl.Fatal(err)
			return dev, err
		}
		for _, c := range axcltest.Checks(axcltest.Options{Open: open}) {
			if ctx.Err() != nil || lost {
				return false
			}
			next("the check \""+c.Name+"\"", checkLimit*patience, cards.Wedged)
			d.check(c.Name, c.Run)
		}
		return true
	}
	d.check("model "+model, func(t axcltest.TB) {
		p, err := d.open(model)
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer p.Close()
		spec := axcl.LoadSpec{Layers: p.Layers, Head: p.Head, Source: p.Sources()}
		next("the check of "+model, checkLimit*patience+loadTime(append(p.Layers[:len(p.Layers):len(p.Layers)], p.Head)...), cards.Wedged)
		a := axcltest.CheckPackage(t, d.dev, spec, func(hidden int, token uint64) []uint16 {
			row := make([]uint16, hidden)
			if err := p.Embed.Row(row, int32(token%uint64(max(p.Vocab, 1)))); err != nil {
				t.Fatalf("%v", err)
			}
			return row
		})
		d.Abilities = &Abilities{a.Wide, a.Chunk, a.Mixed, a.Scatter, a.Place, a.Ordered, a.Anywhere, nil}
		if a.States {
			d.Abilities.States = &States{a.Kept, a.Stepped}
		}
	})
	return true
}

// See loads a package that sees and makes the nine probes of how it does. The engine opens the
// device for itself. The package is closed.
func (d *Diagnosis) See(ctx context.Context, device string, p *models.Package) {
	d.Close()
	m, err := engine.OpenPackage(ctx, p, engine.OpenOptions{Device: device})
	if err != nil {
		err = errors.Join(err, p.Close())
	} else {
		err = errors.Join(m.ProbeSight(ctx, func(probe engine.Probe) {
			d.Vision = append(d.Vision, probe)
			d.OK = d.OK && probe.State != cards.Problem
		}), m.Close())
	}
	if err != nil {
		d.OK = false
		d.Vision = append(d.Vision, engine.Probe{Name: "model " + p.Name, State: cards.Problem, Gave: err.Error(),
			Means: "the probes could not be made, or not all: what is wrong has to be mended first"})
	}
}

// Head says whether this machine's processor can compute a model's LM head.
type Head struct {
	Host bool    `json:"host"`
	Why  string  `json:"why,omitempty"`      // not
	Rest float64 `json:"rest,omitempty"`     // of the card's logits' deviation, that the host's leave
	Bits int     `json:"rounding,omitempty"` // bits of the card's weights, as far as its logits tell; 0: as the table
}

// CompareHead loads a package and compares its LM head on the host with the card's. The engine
// opens the device for itself. The package is closed. A package that the engine cannot load, such
// as one without a tokenizer, has no answer.
func (d *Diagnosis) CompareHead(ctx context.Context, device string, p *models.Package) {
	d.Close()
	dir, err := os.MkdirTemp("", "axle-doctor-")
	if err != nil {
		_ = p.Close()
		return
	}
	defer os.RemoveAll(dir)
	m, err := engine.OpenPackage(ctx, p, engine.OpenOptions{Device: device, Remember: dir, Head: engine.HeadHost})
	if err != nil {
		_ = p.Close()
		return
	}
	if engine.SettleHead(ctx, m.Backend()) == nil {
		h := m.Stats().Head
		d.Head = &Head{h.Ready, h.Why, h.Rest, h.Bits}
	}
	_ = m.Close()
}

// computesOurs: the opened device is the software card or the simulated one.
func (d *Diagnosis) computesOurs() bool {
	for _, l := range d.Libraries {
		if strings.HasPrefix(d.Device, l.Kind) {
			return l.Simulated
		}
	}
	return d.Device == "soft"
}

// Print writes the findings for people, in lines of at most 80 columns, or of the terminal's where
// it is narrower.
func (d *Diagnosis) Print(w io.Writer) {
	width, _ := terminal.Screen(w)
	width = min(width, 80)
	say := func(head, format string, a ...any) {
		text := strings.Join(strings.Fields(fmt.Sprintf(format, a...)), " ")
		fmt.Fprintln(w, terminal.Fold(head+text, strings.Repeat(" ", len(head)), width))
	}
	marks := map[cards.State]string{cards.OK: "ok     ", cards.Note: "note   ", cards.Problem: "PROBLEM"}
	if d.Kernel != "" {
		say("        ", "kernel %s %s", d.Kernel, runtime.GOARCH)
	}
	for _, f := range d.Findings {
		say(marks[f.State]+" ", "%s: %s", f.Name, f.Text)
		if f.Fix != "" {
			say("        -> ", "%s", f.Fix)
		}
	}
	if slices.ContainsFunc(d.Conformance, func(c Check) bool { return c.Card != nil }) {
		say("        ", "%s", legend)
	}
	for _, c := range d.Conformance {
		mark := "ok     "
		if !c.OK {
			mark = "PROBLEM"
		}
		say(mark+" ", "conformance: %s", c.Name)
		if text := c.figures(); text != "" {
			say("        ", "%s", text)
		}
		for _, l := range c.Log {
			say("        ", "%s", l)
		}
	}
	if h := d.Head; h != nil && h.Host {
		say("        ", "LM head: this machine's processor can compute it; it leaves %.4f of the deviation of the card's logits", h.Rest)
	} else if h != nil {
		say("        ", "LM head: the card computes it: %s", h.Why)
	}
	for _, p := range d.Vision {
		say(marks[p.State]+" ", "vision: %s: %s", p.Name, p.Gave)
		say("        -> ", "%s", p.Means)
	}
	if a := d.Abilities; a != nil {
		if !a.Wide {
			say("PROBLEM ", "wide passes: %s", engine.NoWidePasses)
		}
		say("        ", "wide passes %t, short chunks %t, mixed rows %t, scattered cells %t, rows in place %t",
			a.Wide, a.Chunk, a.Mixed, a.Scatter, a.Place)
		if st := a.States; st != nil {
			text := "layers that keep a state: "
			switch {
			case a.Chunk:
				text += "a prompt's rows go through them in chunks"
			case st.Stepped:
				text += "they get a chunk wrong and take a prompt's rows one by one, which is slower, and right"
			default:
				text += "chunks come out wrong, and prompts are evaluated row by row"
			}
			if st.Kept {
				text += "; states are kept, and the next turn of a conversation goes on from one"
			} else {
				text += "; a pass changes the state that it goes on from, so each turn is evaluated from its beginning"
			}
			say("        ", "%s", text)
		}
		switch {
		case a.Anywhere:
			say("        ", "the same rows give the same bits in any cells")
		case a.Ordered:
			say("        ", "the same rows give the same bits in other cells of the same order, not in every order: near ties may vary, "+
				"--repeatable holds them")
		default:
			say("        ", "the same rows give other bits in other cells: near ties may vary at temperature 0, --repeatable holds them")
		}
	}
	fmt.Fprintln(w)
	switch {
	case d.OK:
		say("", "%s can be used: %s.", d.Device, d.Why)
	case slices.ContainsFunc(d.Conformance, func(c Check) bool { return !c.OK }):
		say("", "%s does not do what it must.", d.Device)
	case len(d.Vision) > 0:
		say("", "%s can be used, and this model does not see what it is shown.", d.Device)
	case d.Device == "soft":
		say("", "No card can be used; axle runs on the software card (--device soft).")
	default:
		say("", "No card can be used.")
	}
}
