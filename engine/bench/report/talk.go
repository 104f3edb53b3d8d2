package report

import (
	"fmt"
	"io"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/models"
)

// This file shows conversations that take turns.

// keptWords say what a way of keeping rows is.
var keptWords = map[string]string{bench.KeptCard: "the card alone", bench.KeptMemory: "and memory", bench.KeptNoDisk: "loaded anew",
	bench.KeptDisk: "the same, with disk", bench.KeptNowhere: "at another machine", bench.KeptOther: "the same, fetched"}

// sooner is how many times as soon the first token comes as without what way i has in addition.
func sooner(c *bench.TalkCase, i int) string {
	without := map[string]string{bench.KeptMemory: bench.KeptCard, bench.KeptDisk: bench.KeptNoDisk,
		bench.KeptOther: bench.KeptNowhere}[c.Ways[i].Kept]
	for j := range c.Ways {
		if n := c.Ways[j].Sooner(&c.Ways[i]); c.Ways[j].Kept == without && n > 0 {
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
		fmt.Fprintln(w, "\nkept on\tfirst token ms\tsooner\tcard\tmemory\tdisk\tfetched\tevaluated\tmoved\tsaved s")
		for j := range c.Ways {
			x := &c.Ways[j]
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%.1f\n", keptWords[x.Kept], x.First, sooner(c, j), x.Card, x.Memory,
				x.Disk, x.Far, x.Evaluated(), moved(x), x.Saved)
		}
		for j := range c.Ways {
			if x := &c.Ways[j]; x.Kept == bench.KeptMemory && x.Room == 0 {
				fmt.Fprintln(w, "Memory keeps nothing of this model: its rows cannot be copied on this card, or its layers keep states.")
			}
		}
	}
	_, err := fmt.Fprintln(w, "\nOf all prompt tokens: on the card still, brought back from memory, brought from disk, fetched "+
		"from another machine, or evaluated.")
	return err
}
