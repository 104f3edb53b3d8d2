// Package benchmark is the work of 'axle bench'. It opens a card, and the models one after the
// other. Package bench measures them there, and the result is a report. It can also give the same
// load to another server, in turn. An [Ask] reads the command line; the caller writes the report.
// One goroutine at a time may call Run, which closes all that it opens before it returns.
package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/models"
)

// Options say what is measured, and on what.
type Options struct {
	Version string // of this program, for the report
	Device  string // as cards.Open has it

	Prompts, Outputs, Clients []int // the lengths in tokens and the numbers of clients: every combination is a case
	Guesses                   []bool
	Asked                     bool // Prompts or Outputs were asked for: what does not fit the model is an error, else it is made smaller
	Repeats                   int  // of each case, at least 1
	Parallel                  int  // most sequences at once; 0: all clients
	Period                    int  // a shape without weights repeats its text after this many tokens; 0: never

	Profile *profiles.Profile // where the card's bandwidth comes from; nil: found out
	Head    ask.HeadPlace     // where LM heads are computed
	Draft   string            // a smaller package that guesses, a name for OpenPackage; empty: none
	Against Server            // the zero Server: the model here alone
	Trace   bool              // keep every pass, for Result.Trace
	Talks   Talks             // the zero Talks: the loads of Prompts, Outputs, Clients and Guesses

	// OpenPackage opens a model by the name the user gave. The benchmark closes it.
	OpenPackage func(name string) (*models.Package, error)
}

// Server is another server that gets the same load.
type Server struct {
	Kind  string // "ollama" or "openai"; empty: there is none
	URL   string // without a slash at its end
	Model string // the model's name there; empty: as here
}

// Result is what a run found.
type Result struct {
	report.Report
	runs  []bench.Run
	split func(*engine.PassTrace) bench.Parts
}

// Trace writes every pass, for Perfetto or chrome://tracing. Errors: w's.
func (r *Result) Trace(w io.Writer) error { return bench.WriteTrace(w, r.runs, r.split) }

// AskError is that what was asked for cannot be measured: the command line is wrong, not the
// machine.
type AskError struct{ err error }

func (e *AskError) Error() string { return e.err.Error() }
func (e *AskError) Unwrap() error { return e.err }

func asked(format string, a ...any) error { return &AskError{fmt.Errorf(format, a...)} }

// Run measures the models of these names, which are names for OpenPackage or plan.Shapes. progress
// takes a line that rewrites itself. Errors name the model; an AskError is wrapped where the
// command line is to blame.
func Run(ctx context.Context, o Options, names []string, progress io.Writer) (*Result, error) {
	o.Against.URL = strings.TrimRight(o.Against.URL, "/")
	res := &Result{Report: report.Report{Version: 1, When: time.Now().UTC().Truncate(time.Second),
		Facts: hostFacts(o.Version, os.DirFS("/"))}}
	r, err := openCard(ctx, &o)
	if err != nil {
		return nil, err
	}
	res.Facts.Card, res.split = r.facts, r.split
	for _, name := range names {
		var m report.Model
		if m, err = r.measure(ctx, &o, name, progress, &res.runs); err != nil {
			if !strings.HasPrefix(err.Error(), name+" ") { // which has named it already
				err = fmt.Errorf("%s: %w", name, err)
			}
			break
		}
		res.Models = append(res.Models, m)
	}
	if t, _ := r.figures(); !math.IsNaN(t) {
		res.Facts.Card.Warmest = &t
	}
	res.Facts.Held = heldBack(os.DirFS("/"))
	if err = errors.Join(err, r.close()); err != nil {
		return nil, err
	}
	return res, nil
}

// cases are the loads for a model of so much context. A default that does not fit is made smaller;
// one that was asked for is an error.
func (f *Options) cases(context int) (loads []bench.Load, err error) {
	for _, p := range f.Prompts {
		for _, n := range f.Outputs {
			if p+n > context {
				if f.Asked {
					return nil, asked("a prompt of %d tokens and %d of output do not fit the model's context of %d", p, n, context)
				}
				if p, n = min(p, context/2), min(n, context/4); p < 1 || n < 1 {
					return nil, asked("a context of %d is too small to measure", context)
				}
			}
			for _, c := range f.Clients {
				for _, s := range f.Guesses {
					if s && c > 1 && len(f.Guesses) > 1 {
						continue // with and without guesses is for one client only
					}
					loads = append(loads, bench.Load{Prompt: p, Output: n, Clients: c, Speculate: s})
				}
			}
		}
	}
	return loads, nil
}
