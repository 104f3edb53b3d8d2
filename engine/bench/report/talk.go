package report

import (
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/models"
)

// This file shows conversations that take turns.

// keptWords say what a way of keeping rows is.
var keptWords = map[string]string{bench.KeptCard: "the card alone", bench.KeptMemory: "and memory", bench.KeptNoDisk: "loaded anew",
	bench.KeptDisk: "the same, with disk"}

// keptColors are those of the place that a way of keeping rows adds, as rowsPlot has them.
var keptColors = map[string]string{bench.KeptCard: "s1", bench.KeptMemory: "s2", bench.KeptNoDisk: "s5", bench.KeptDisk: "s3"}

// otherWay is the way that another is to be compared with, nil for none.
func otherWay(c *bench.TalkCase, i int) *bench.TalkWay {
	want := map[string]string{bench.KeptMemory: bench.KeptCard, bench.KeptDisk: bench.KeptNoDisk}[c.Ways[i].Kept]
	for j := range c.Ways {
		if c.Ways[j].Kept == want {
			return &c.Ways[j]
		}
	}
	return nil
}

// sooner is how many times as soon the first token comes as without what way i has in addition.
func sooner(c *bench.TalkCase, i int) string {
	if other := otherWay(c, i); other != nil {
		if n := other.Sooner(&c.Ways[i]); n > 0 {
			return fmt.Sprintf("%.2f times", n)
		}
	}
	return "-"
}

// moved are the bytes that went over the link in addition to the passes' own.
func moved(w *bench.TalkWay) string {
	if w.In+w.Out == 0 {
		return "-"
	}
	return models.HumanBytes(int64(w.In + w.Out))
}

func (m *Model) writeTalks(w io.Writer) error {
	for i := range m.Talks {
		c := &m.Talks[i]
		fmt.Fprintf(w, "\n%d conversations of %d tokens take turns: %d each of %d new tokens, %d of answer\n", c.Conversations, c.Prompt,
			c.Turns, c.New, c.Output)
		fmt.Fprintln(w, "\nkept on\tfirst token ms\tsooner\tcard\tmemory\tdisk\tevaluated\tmoved\tsaved s")
		for j := range c.Ways {
			x := &c.Ways[j]
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%.1f\n", keptWords[x.Kept], x.First, sooner(c, j), x.Card, x.Memory, x.Disk,
				x.Evaluated(), moved(x), x.Saved)
		}
		for j := range c.Ways {
			if x := &c.Ways[j]; x.Kept == bench.KeptMemory && x.Room == 0 {
				fmt.Fprintln(w, "Memory keeps nothing of this model: rows of it cannot travel on this card, or its layers keep states.")
			}
		}
	}
	_, err := fmt.Fprintln(w, "\nOf all prompt tokens: on the card still, brought back from memory, brought from disk, or evaluated.")
	return err
}

func (m *Model) writeTalksCSV(w *csv.Writer, head bool) error {
	if head {
		if err := w.Write(strings.Split("model,conversations,prompt,turns,new,output,kept,first_token_ms,asked_tokens,card_rows,"+
			"memory_rows,disk_rows,in_bytes,out_bytes,saved_seconds", ",")); err != nil {
			return err
		}
	}
	for _, c := range m.Talks {
		for _, x := range c.Ways {
			row := []string{m.Name}
			for _, n := range []int{c.Conversations, c.Prompt, c.Turns, c.New, c.Output} {
				row = append(row, strconv.Itoa(n))
			}
			row = append(row, x.Kept, strconv.FormatFloat(x.First.Median, 'g', 7, 64))
			for _, n := range []uint64{x.Asked, x.Card, x.Memory, x.Disk, x.In, x.Out} {
				row = append(row, strconv.FormatUint(n, 10))
			}
			if err := w.Write(append(row, strconv.FormatFloat(x.Saved, 'g', 7, 64))); err != nil {
				return err
			}
		}
	}
	return nil
}

// turnsPlot shows each turn's first token, a line for each place where rows are kept.
func turnsPlot(c bench.TalkCase) template.HTML {
	most, top := 2.0, 0.0
	for _, w := range c.Ways {
		most, top = max(most, float64(len(w.First.Values))), max(top, w.First.High)
	}
	if top <= 0 {
		return "<p>No turn has a first token.</p>"
	}
	p := newPlot(len(c.Ways), 1, most, 0, top*1.08, false, false)
	p.axes("turn", "ms to the first token", nil)
	for i, w := range c.Ways {
		every := len(w.First.Values)/400 + 1
		var xs, ys []float64
		for j := 0; j < len(w.First.Values); j += every {
			xs, ys = append(xs, float64(j+1)), append(ys, w.First.Values[j])
		}
		p.line(xs, ys, keptColors[w.Kept], "", len(xs) < 16)
		p.key(i, keptColors[w.Kept], "", keptWords[w.Kept])
	}
	return p.done("milliseconds to the first token of each turn")
}

// rowsPlot shows where prompts' rows came from.
func rowsPlot(c bench.TalkCase) template.HTML {
	var b strings.Builder
	y := 16.0
	names, colors := []string{"card", "memory", "disk", "evaluated"}, []string{"s1", "s2", "s3", "s4"}
	for i := range c.Ways {
		w := &c.Ways[i]
		fmt.Fprintf(&b, `<text x="0" y="%.1f">%s</text>`, y, esc(keptWords[w.Kept]))
		x := 0.0
		for k, n := range []uint64{w.Card, w.Memory, w.Disk, w.Evaluated()} {
			wide := 480 * float64(n) / max(float64(w.Asked), 1)
			if wide >= 0.1 {
				fmt.Fprintf(&b, `<rect x="%.2f" y="%.1f" width="%.2f" height="20" class="%s"><title>%s: %d tokens</title></rect>`, x, y+6, wide,
					colors[k], names[k], n)
			}
			x += wide
		}
		y += 46
	}
	for k, n := range names {
		fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="12" height="12" rx="2" class="%s"/><text x="%d" y="%.1f">%s</text>`, k*120, y-10,
			colors[k], k*120+18, y+1, n)
	}
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 480 %.0f" role="img" aria-label="where prompts' rows came from">%s</svg>`, y+19,
		b.String()))
}
