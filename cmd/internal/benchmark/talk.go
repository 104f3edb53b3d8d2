package benchmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/cmd/internal/plan"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/models/rows"
)

const (
	talkTurns = 10 // unless told otherwise
	talkNew   = 32 // tokens that a turn adds, as "next turn" of the other loads
)

// Talks are conversations that take turns, measured with each place where rows can be kept.
type Talks struct {
	Conversations int    // 0: none are measured
	Turns         int    // of each after its first; 0: ten, or as many as fit
	Memory        int64  // bytes of this machine's memory that rows may take; 0: this is not measured
	Disk          int64  // bytes on disk; 0: this is not measured
	Hosts         int    // 2: the next turn is also measured at another machine; 0: it is not
	Dir           string // where the disk's are kept while it is measured; empty: where temporary files are
}

// talk is the load for a model of so much context. What was not asked for is made smaller until it
// fits.
func (f *Options) talk(prompt, context int) (bench.Talk, error) {
	t := bench.Talk{Conversations: f.Talks.Conversations, Prompt: prompt, Turns: cmp.Or(f.Talks.Turns, talkTurns), New: talkNew,
		Output: f.Outputs[0]}
	longest := func() int {
		if f.Talks.Disk > 0 || f.Talks.Hosts > 0 { // the turn after the restart, or the move
			return t.Longest() + t.New + t.Output
		}
		return t.Longest()
	}
	fewer := func() {
		if over := longest() - context; over > 0 && f.Talks.Turns == 0 {
			t.Turns = max(t.Turns-(over+t.New+t.Output-1)/(t.New+t.Output), 1)
		}
	}
	if fewer(); longest() > context && !f.Asked {
		t.Prompt, t.Output = min(t.Prompt, context/2), min(t.Output, context/16)
		fewer()
	}
	if longest() > context || t.Prompt < 1 || t.Output < 1 {
		return t, asked("conversations that begin with %d tokens and have %d turns of %d new tokens and %d of output reach %d, the "+
			"model's context is %d: a smaller -p, -n or --turns would fit", t.Prompt, t.Turns, t.New, t.Output, longest(), context)
	}
	return t, nil
}

// stage is a model on the card with something beside it.
type stage struct {
	*opened
	meter *bench.Meter
}

// with opens the model with rows kept where keep says, does something with it, and closes it.
func (r *measuredCard) with(ctx context.Context, f *Options, name string, keep engine.OpenOptions, do func(*stage) error) (err error) {
	o, err := r.open(ctx, f, name, keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	r.shape = engine.ShapeOf(o.backend)
	return do(&stage{o, &bench.Meter{Backend: o.backend, Clock: r.clock, Prompt: o.prompt, Recorder: &r.recorder,
		Virtual: r.virtual}})
}

// converse measures conversations of each length.
func (r *measuredCard) converse(ctx context.Context, f *Options, name string, progress io.Writer) (m report.Model, err error) {
	if f.Talks.Disk > 0 && r.virtual {
		return m, asked("--cache-disk needs a real clock, which a disk takes its time by: AXSIM_CLOCK is virtual")
	}
	if f.Talks.Hosts > 0 && r.host == nil {
		return m, asked("--hosts needs a simulated card with AXSIM_CLOCK=virtual: the network between the machines is modelled")
	}
	if shape, ok := plan.Shapes[strings.ToLower(name)]; ok {
		for _, p := range f.Prompts { // before anything is loaded
			if _, err := f.talk(p, shape().Context); err != nil {
				return m, err
			}
		}
	}
	for _, p := range f.Prompts {
		c, err := r.talk(ctx, f, name, p, &m, progress)
		if err != nil {
			fmt.Fprintln(progress)
			return m, err
		}
		m.Talks = append(m.Talks, c)
	}
	fmt.Fprintf(progress, "\r%60s\r", "")
	return m, nil
}

// talk measures conversations that begin with prompt tokens.
func (r *measuredCard) talk(ctx context.Context, f *Options, name string, prompt int, m *report.Model,
	progress io.Writer) (c bench.TalkCase, err error) {
	tell := func(what string) {
		fmt.Fprintf(progress, "\r%s: conversations of %d, %-24s", plain.Line(name), prompt, what)
	}
	var said *bench.Talking
	turns := func(kept string) func(s *stage) error {
		w := bench.TalkWay{Kept: kept}
		return func(s *stage) error {
			t, err := f.talk(prompt, s.Context)
			if err != nil {
				return err
			}
			if c.Talk = t; len(m.Talks) == 0 {
				*m = s.Model
			}
			if said, err = s.meter.Begin(t); err == nil {
				err = s.meter.Rounds(ctx, said, 1, nil)
			}
			if err == nil {
				err = s.meter.Rounds(ctx, said, t.Turns, &w)
			}
			c.Ways = append(c.Ways, w)
			return err
		}
	}
	// again is each conversation's next turn on a model that was loaded anew.
	again := func(kept string) func(s *stage) error {
		return func(s *stage) error {
			w := bench.TalkWay{Kept: kept}
			err := s.meter.Rounds(ctx, said.Clone(), 1, &w)
			c.Ways = append(c.Ways, w)
			return err
		}
	}
	tell("kept on the card")
	if err := r.with(ctx, f, name, engine.OpenOptions{}, turns(bench.KeptCard)); err != nil {
		return c, err
	}
	memory := engine.OpenOptions{CacheRAM: engine.NewMemory(f.Talks.Memory)}
	if f.Talks.Memory > 0 {
		tell("and in memory")
		if err := r.with(ctx, f, name, memory, turns(bench.KeptMemory)); err != nil {
			return c, err
		}
	}
	if f.Talks.Hosts > 0 {
		tell("at another machine")
		if err := r.moved(ctx, f, name, said, again); err != nil {
			return c, err
		}
	}
	if f.Talks.Disk == 0 {
		return c, nil
	}
	tell("after a restart")
	dir, err := os.MkdirTemp(f.Talks.Dir, "axle-bench-rows-")
	if err != nil {
		return c, fmt.Errorf("--cache-disk: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := r.with(ctx, f, name, engine.OpenOptions{}, again(bench.KeptNoDisk)); err != nil {
		return c, err
	}
	if err := r.onDisk(ctx, f, name, dir, func(s *stage) error { return s.meter.Repeat(ctx, said) }); err != nil {
		return c, err
	}
	if err := forgetPages(dir); err != nil {
		return c, fmt.Errorf("--cache-disk: %w", err)
	}
	return c, r.onDisk(ctx, f, name, dir, again(bench.KeptDisk))
}

// onDisk is with, with a folder where rows are kept.
func (r *measuredCard) onDisk(ctx context.Context, f *Options, name, dir string, do func(*stage) error) (err error) {
	var failed error
	d, err := rows.Open(rows.Options{Dir: filepath.Join(dir, "rows"), Size: f.Talks.Disk, Off: func(err error) { failed = err }})
	if err != nil {
		return fmt.Errorf("--cache-disk: %w", err)
	}
	err = r.with(ctx, f, name, engine.OpenOptions{Rows: d}, do)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("--cache-disk: %w", failed)
	}
	return nil
}
