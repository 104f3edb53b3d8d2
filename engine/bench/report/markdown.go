package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/axle-llm/axle/engine/bench"
)

// Markdown writes the report as a line of what was measured on, and one table, to be pasted where
// people compare. Where loads were measured it ends with a row of each model for the table of
// results in docs/performance.md. Errors: w's.
func (r *Report) Markdown(w io.Writer) error {
	t := &markdown{w: w}
	fmt.Fprintf(w, "axle %s, %s UTC, on %s; %s%s\n\n", t.cell(r.Facts.Axle), r.When.Format(time.DateTime), t.cell(r.Facts.String()),
		t.cell(r.Facts.Card.String()), t.cell(r.end()))
	for _, m := range r.Models {
		switch {
		case len(m.Talks) > 0:
			t.head("model", "conversations", "kept on", "first token ms", "sooner", "card", "memory", "disk", "evaluated", "moved")
			for i := range m.Talks {
				c := &m.Talks[i]
				for j := range c.Ways {
					x := &c.Ways[j]
					t.row(m.Name, fmt.Sprintf("%d of %d tokens, %d turns", c.Conversations, c.Prompt, c.Turns), keptWords[x.Kept], x.First,
						sooner(c, j), x.Card, x.Memory, x.Disk, x.Evaluated(), moved(x))
				}
			}
		case m.Against != nil:
			t.head("model", "load", "first token ms here", m.Against.Kind, "decode t/s here", m.Against.Kind,
				"whole t/s here", m.Against.Kind)
			for i := range m.Against.Cases {
				c := &m.Against.Cases[i]
				t.row(m.Name, c.Load, c.Here.First, c.There.First, c.Here.Decode, c.There.Decode, c.Here.Whole, c.There.Whole)
			}
		default:
			t.head("model", "load", "first token ms", "prefill t/s", "decode t/s", "p50 ms", "p95 ms", "p99 ms", "next turn ms", "busy",
				"of the limit")
			for i := range m.Cases {
				c := &m.Cases[i]
				limit := "-"
				if q := m.Roofline; q != nil && q.Reached > 0 && c.Clients == 1 && !c.Speculate && c.Decode.Median == q.Reached {
					if limit = fmt.Sprintf("%.0f%% of %.1f t/s", q.Share, q.Limit); q.Beaten() {
						limit = fmt.Sprintf("more than %.1f t/s", q.Limit)
					}
				}
				t.row(m.Name, c.Load, c.First, c.Prefill, c.Decode, c.P50, c.P95, c.P99, optional(c.Second),
					fmt.Sprintf("%.0f%%", c.Busy.Median), limit)
			}
		}
	}
	if s := r.uneven(); s != "" {
		fmt.Fprintf(w, "\n%s\n", t.cell(s))
	}
	r.results(t)
	return t.err
}

// results writes a row of each model for the table of results: its longest prompt, without guesses.
func (r *Report) results(t *markdown) {
	begun := false
	for i := range r.Models {
		m := &r.Models[i]
		if m.Against != nil || len(m.Cases) == 0 {
			continue
		}
		if !begun {
			begun = true
			t.line("\nFor the table of results in docs/performance.md:\n")
		}
		var one, eight bench.Case
		for _, c := range m.Cases {
			switch {
			case c.Speculate:
			case c.Clients == 1 && c.Prompt >= one.Prompt:
				one = c
			case c.Clients == 8 && c.Prompt >= eight.Prompt:
				eight = c
			}
		}
		if eight.Prompt != one.Prompt { // another load: no figure to set beside the others
			eight = bench.Case{}
		}
		t.row(cmp.Or(r.Facts.Board, r.Facts.CPU), r.Facts.Card.place(), r.Facts.versions(), m.words(), one.Prefill, one.First, one.Decode,
			eight.Decode, r.When.Format(time.DateOnly))
	}
}

// markdown is a table being written.
type markdown struct {
	w     io.Writer
	begun bool
	err   error
}

// head begins the table, once, as all models of a report were measured in one way.
func (t *markdown) head(names ...string) {
	if t.begun {
		return
	}
	t.begun = true
	cells := make([]any, len(names))
	for i, n := range names {
		cells[i] = n
	}
	t.row(cells...)
	t.line("|---|---|" + strings.Repeat("---:|", len(names)-2))
}

func (t *markdown) row(cells ...any) {
	var b strings.Builder
	b.WriteByte('|')
	for _, c := range cells {
		text := fmt.Sprint(c)
		if s, ok := c.(bench.Sample); ok {
			text = s.String()
		}
		fmt.Fprintf(&b, " %s |", t.cell(text))
	}
	t.line(b.String())
}

// cell is text that stays within its cell and is no markup: a name is that of a user's folder, and
// may have any character.
func (t *markdown) cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "`", "'", "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`).Replace(s)
}

func (t *markdown) line(s string) {
	if _, err := io.WriteString(t.w, s+"\n"); t.err == nil {
		t.err = err
	}
}
