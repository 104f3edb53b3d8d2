package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

func optional(s *bench.Sample) string {
	if s == nil {
		return "-"
	}
	return s.String()
}

// Text writes the report as tables for a person, as wide as out's terminal.
func (r *Report) Text(out io.Writer) error {
	w := terminal.TabsFor(out)
	fmt.Fprintf(w, "axle %s, %s\nmachine  %s\ncard     %s%s\n", r.Facts.Axle, r.When.Format(time.DateTime), r.Facts, r.Facts.Card, r.end())
	for _, m := range r.Models {
		what := ""
		if m.ShapeOnly {
			what = ", shapes without weights"
		}
		if m.Draft != "" {
			what += ", guesses by " + m.Draft
		}
		fmt.Fprintf(w, "\n%s%s: %d layers, context %d, %s on the card\n", m.Name, what, m.Layers, m.Context, models.HumanBytes(m.Bytes))
		if err := m.writeText(w, terminal.Columns(out)); err != nil {
			return err
		}
	}
	if s := r.uneven(); s != "" {
		fmt.Fprintf(w, "\n%s\n", s)
	}
	return w.Flush()
}

// legend says what the table of cases has.
const legend = "p: prompt tokens, n: tokens of output, c: clients at once, spec: with guesses. ±: the repeat farthest from the median. " +
	"prefill, decode: tokens a second of the prompt and of the answers, all clients together. " +
	"p50, p95, p99: of the times between tokens. " +
	"next turn: the first token of a second turn. busy: share of the time inside passes."

func (m *Model) writeText(w io.Writer, columns int) error {
	switch {
	case len(m.Talks) > 0:
		return m.writeTalks(w)
	case m.Against != nil:
		return m.Against.writeText(w)
	}
	fmt.Fprintln(w, "\nload\tfirst token ms\tprefill t/s\tdecode t/s\tp50 ms\tp95 ms\tp99 ms\tnext turn ms\tbusy\tguesses")
	for i := range m.Cases {
		c := &m.Cases[i]
		guesses := "-"
		if c.Drafted > 0 {
			guesses = fmt.Sprintf("%d of %d right", c.Accepted, c.Drafted)
		}
		note := ""
		if c.Queued {
			note = " (some waited for cells)"
		}
		if c.Short {
			note += " (the context ended before all tokens were out)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f%%\t%s%s\n", c.Load, c.First, c.Prefill, c.Decode, c.P50, c.P95, c.P99,
			optional(c.Second), c.Busy.Median, guesses, note)
	}
	fmt.Fprintf(w, "\n%s\n", legend)
	if err := m.writeStages(w, columns); err != nil {
		return err
	}
	if i := slices.IndexFunc(m.Cases, func(c bench.Case) bool { return c.Clients == 1 && !c.Speculate }); i >= 0 {
		c := &m.Cases[i]
		if c.NPU != nil {
			fmt.Fprintf(w, "\nutilisation, %s: inside passes %.1f%% of the time by our clock, the NPU at work %.1f%%\n", c.Load,
				c.Busy.Median, c.NPU.Median)
		}
		if c.CardLoad != nil {
			fmt.Fprintf(w, "the card's own load figure: %.0f%%\n", c.CardLoad.Median)
		}
	}
	if r := m.Roofline; r != nil {
		fmt.Fprintln(w)
		if r.Limit > 0 {
			most := "at most"
			if r.Beaten() {
				most = "memory would allow"
			}
			fmt.Fprintf(w, "roofline: %s a token at %.1f GB/s (%s): %s %.1f tokens/s alone", r.Reads(), r.Bandwidth/1e9, r.Source, most,
				r.Limit)
			switch {
			case r.Beaten():
				fmt.Fprintf(w, "; reached %.1f", r.Reached)
			case r.Reached > 0:
				fmt.Fprintf(w, "; reached %.1f, %.0f%%\n", r.Reached, r.Share)
				fmt.Fprintf(w, "a token of %.2f ms: reading %.2f, the card's fixed cost and arithmetic %.2f, link %.2f, host %.2f",
					1e3/r.Reached, r.Memory, r.Fixed, r.Link, r.Host)
			}
			fmt.Fprintln(w)
			fmt.Fprintf(w, "bandwidth: %s\n", r.Bandwidths())
		}
		fmt.Fprintln(w, r.Text)
	}
	return nil
}

// writeStages writes the stages of all cases, a column a case.
func (m *Model) writeStages(w io.Writer, columns int) error {
	if len(m.Cases) == 0 {
		return nil
	}
	t := terminal.NewTabs(w, columns, true)
	fmt.Fprint(t, "\nus a token\t")
	for _, c := range m.Cases {
		fmt.Fprintf(t, "%s\t", c.Load)
	}
	fmt.Fprintln(t)
	for i, s := range m.Cases[0].Stages {
		name := s.Name
		if name == "layers" {
			name = fmt.Sprintf("layers (%d)", m.Layers)
		}
		fmt.Fprintf(t, "%s\t", name)
		for _, c := range m.Cases {
			fmt.Fprintf(t, "%.1f\t", c.Stages[i].Token)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprint(t, "in no stage\t")
	for _, c := range m.Cases {
		fmt.Fprintf(t, "%.2f%%\t", c.Rest)
	}
	fmt.Fprintln(t)
	return t.Flush()
}
