package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/models"
)

// Options say what is examined.
type Options struct {
	Device string
	// Conformance also runs the suite, with Model where that is not empty.
	Conformance bool
	// Model is a package's folder, or another name that OpenPackage knows. Without Conformance a
	// layer of it is loaded and executed once.
	Model string
	// OpenPackage opens Model; nil: models.Open. What it gives is closed.
	OpenPackage func(name string) (*models.Package, error)
	// Baseline is a file that Save wrote of an earlier run of the same suite: a card that has
	// become less precise is a problem. Save is where to write what this run measured, if no check
	// fails. Both count with Conformance only; empty: none.
	Baseline, Save string
	// Sees is a package that pictures are shown to, or nil. It is closed.
	Sees *models.Package
	// Patience is how long the library may take to open the card and tell of it, or to close it; 0
	// means 15 s.
	Patience time.Duration

	enough <-chan struct{} // closed where a test has no more patience
}

// lastWish is how long the library has to give the card back once we are told to end.
const lastWish = 2 * time.Second

// checkLimit is how many times a card's patience one check of the suite may take. The slowest takes
// seconds.
const checkLimit = 40

// loadRate is what a file of a layer is loaded at in the worst case, in bytes a second: a seventh
// of what was measured of a slow link.
const loadRate = 5 << 20

// step is what was found so far, and what comes next.
type step struct {
	found Diagnosis
	next  string
	limit time.Duration // how long that may take; 0: as long as it wants
	fix   string        // what to do where it takes longer
}

// Run examines the device as the options say, on a goroutine of its own that holds its thread. A
// library that hangs is given up: then the diagnosis says so, with what was found before. It
// returns ctx's error once ctx has ended, and waits for the library for two seconds then. The
// goroutine of a library that never returns stays until the process ends.
func Run(ctx context.Context, o Options) (*Diagnosis, error) {
	if o.Patience <= 0 {
		o.Patience = 15 * time.Second
	}
	if o.OpenPackage == nil {
		o.OpenPackage = models.Open
	}
	before, err := o.prepare()
	if err != nil {
		if o.Sees != nil {
			err = errors.Join(err, o.Sees.Close())
		}
		return nil, err
	}
	steps := make(chan step)
	within, cancel := context.WithCancel(ctx)
	defer cancel() // a library that answers after it was given up is asked nothing more
	go examine(within, o, before, steps)
	now := step{next: "the vendor's library", limit: o.Patience}
	timer := time.NewTimer(now.limit)
	defer timer.Stop()
	for {
		select {
		case s, more := <-steps:
			if !more {
				return &now.found, ctx.Err()
			}
			now = s
			timer.Stop()
			if now.limit > 0 {
				timer.Reset(now.limit)
			}
		case <-timer.C:
			return now.gaveUp(o), nil
		case <-o.enough:
			return now.gaveUp(o), nil
		case <-ctx.Done():
			timer.Reset(lastWish)
			for {
				select {
				case _, more := <-steps:
					if !more {
						return nil, ctx.Err()
					}
				case <-timer.C:
					return nil, ctx.Err()
				}
			}
		}
	}
}

func examine(ctx context.Context, o Options, before *baseline, steps chan<- step) {
	defer close(steps)
	runtime.LockOSThread() // a device belongs to the thread that opened it
	defer runtime.UnlockOSThread()
	d := Examine(o.Device)
	d.open = o.OpenPackage
	if !d.OK {
		d.unused(o)
	}
	next := func(what string, limit time.Duration, fix string) {
		select {
		case steps <- step{*d, what, limit, fix}:
		case <-ctx.Done():
		}
	}
	if d.OK && o.Conformance && ctx.Err() == nil {
		if d.Conform(ctx, o.Device, o.Model, o.Patience, next) {
			d.keep(o, before)
		}
		if o.Model != "" && d.OK && ctx.Err() == nil {
			if p, err := o.OpenPackage(o.Model); err == nil { // the suite has opened it
				next("comparing the LM head", 0, "") // the engine watches its calls itself
				d.CompareHead(ctx, o.Device, p)
			}
		}
	} else if d.OK && o.Model != "" && ctx.Err() == nil {
		d.Try(o.Model, o.Patience, next)
	}
	switch {
	case o.Sees != nil && d.OK && ctx.Err() == nil:
		next("showing pictures", 0, "") // the engine watches its calls itself
		d.See(ctx, o.Device, o.Sees)
	case o.Sees != nil:
		_ = o.Sees.Close() // nothing is written
	}
	next("closing the card", o.Patience, cards.Wedged)
	d.Close()
	next("", 0, "")
}

// gaveUp is what was found until the step that did not end.
func (s step) gaveUp(o Options) *Diagnosis {
	d := &s.found
	hangs := fmt.Errorf("%s did not answer within %v: %w", s.next, s.limit, axcl.ErrLost)
	if d.Why != "" { // the library did answer, once
		d.Why = hangs.Error()
		d.OK = false
		d.Findings = append(slices.Clip(d.Findings),
			cards.Finding{Name: "device " + d.Device, State: cards.Problem, Text: hangs.Error(), Fix: s.fix})
		return d
	}
	kind := cmp.Or(kindOf(o.Device), "axcl")
	d.Libraries, d.Devices, d.Links, d.Findings = []Library{}, []Card{}, []cards.Link{}, []cards.Finding{}
	d.Why = hangs.Error()
	d.machine(cards.Examine(os.DirFS("/"), []cards.Library{{Kind: kind, Path: s.next, Err: hangs}}))
	d.unused(o)
	return d
}

// unused says which options could not be followed, for there is no card to follow them on.
func (d *Diagnosis) unused(o Options) {
	for _, option := range []struct {
		name  string
		given bool
	}{{"--conformance", o.Conformance}, {"--model", o.Model != ""}, {"--vision", o.Sees != nil}} {
		if option.given {
			d.Findings = append(d.Findings, cards.Finding{Name: option.name, State: cards.Note,
				Text: "not used: it needs a card, and none can be used", Fix: "`--device soft` tries it on the software card"})
		}
	}
}

// beginning is told what begins, how long it may take, and what to do where it takes longer.
type beginning func(what string, limit time.Duration, fix string)

// Try loads a layer of a model, or a net of one of another kind, on the open device and executes it
// once: a card that is wedged loads, and does not execute.
func (d *Diagnosis) Try(model string, patience time.Duration, next beginning) {
	d.check("a layer of "+model+", loaded and executed once", func(t axcltest.TB) {
		p, err := d.open(model)
		layer, kind := "", new(models.KindError)
		switch {
		case err == nil:
			defer p.Close()
			layer = p.Layers[0]
			for i, f := range p.Facts { // one whose inputs are all listed
				if f.Kind != models.LinearAttention && i < len(p.Layers) {
					layer = p.Layers[i]
					break
				}
			}
		case errors.As(err, &kind) && kind.Runs() && kind.Net() != "":
			layer = kind.Net()
		default:
			t.Fatalf("%v", err)
		}
		next("loading "+layer, patience+loadTime(layer), cards.Wedged)
		n, err := d.dev.LoadNet(layer)
		if err != nil {
			t.Fatalf("%v", err)
		}
		in := map[string][]byte{}
		for _, x := range n.Inputs(0) {
			in[x.Name] = make([]byte, x.Size)
		}
		next("executing "+layer+", which was loaded,", patience, cards.Wedged)
		if err := n.Run(0, in, nil); err != nil {
			t.Fatalf("it was loaded and does not execute: %v; %s", err, cards.Wedged)
		}
		next("unloading "+layer, patience, cards.Wedged)
		if err := n.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// loadTime is how long the files take to load in the worst case.
func loadTime(files ...string) time.Duration {
	var long time.Duration
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			long += time.Duration(st.Size()) * time.Second / loadRate
		}
	}
	return long
}
