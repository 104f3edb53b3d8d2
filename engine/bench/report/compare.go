package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/internal/terminal"
)

// Read reads a report from a file that --json wrote.
func Read(name string) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const limit = 256 << 20
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	var r Report
	if len(b) > limit {
		return nil, fmt.Errorf("%s is larger than any report", name)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w; --compare takes what 'axle bench --json' wrote", name, err)
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("%s: version %d of the report, this program reads 1", name, r.Version)
	}
	return &r, nil
}

// metric is one figure that reports are compared by.
type metric struct {
	name string
	get  func(*bench.Case) *bench.Sample
}

var metrics = []metric{
	{"first token ms", func(c *bench.Case) *bench.Sample { return &c.First }},
	{"prefill t/s", func(c *bench.Case) *bench.Sample { return &c.Prefill }},
	{"decode t/s", func(c *bench.Case) *bench.Sample { return &c.Decode }},
	{"token p50 ms", func(c *bench.Case) *bench.Sample { return &c.P50 }},
	{"token p99 ms", func(c *bench.Case) *bench.Sample { return &c.P99 }},
	{"next turn ms", func(c *bench.Case) *bench.Sample { return c.Second }},
}

// Compare writes two reports side by side, as benchstat does: medians with spreads, what changed,
// and ~ where chance may have done it.
func Compare(w io.Writer, before, after string) error {
	t := terminal.TabsFor(w)
	a, err := Read(before)
	if err != nil {
		return err
	}
	b, err := Read(after)
	if err != nil {
		return err
	}
	if x, y := a.Facts.String(), b.Facts.String(); x != y {
		fmt.Fprintf(t, "the machines differ: %s\n                     %s\n", x, y)
	}
	if x, y := a.Facts.Card.String(), b.Facts.Card.String(); x != y {
		fmt.Fprintf(t, "the cards differ:    %s\n                     %s\n", x, y)
	}
	pairs, few := 0, false
	type sum struct {
		log float64
		n   int
	}
	means := make([]sum, len(metrics))
	for i, m := range metrics {
		head := false
		for _, x := range a.Models {
			for _, y := range b.Models {
				if x.Name != y.Name {
					continue
				}
				for j := range x.Cases {
					for k := range y.Cases {
						if x.Cases[j].Load != y.Cases[k].Load {
							continue
						}
						s, u := m.get(&x.Cases[j]), m.get(&y.Cases[k])
						if s == nil || u == nil || len(s.Values) == 0 || len(u.Values) == 0 || s.Median <= 0 || u.Median <= 0 {
							continue
						}
						if !head {
							fmt.Fprintf(t, "%s\t%s\t%s\tchange\t\n", m.name, before, after)
							head = true
						}
						pairs++
						few = few || len(s.Values) < 4 || len(u.Values) < 4
						fmt.Fprintf(t, "%s %s\t%s\t%s\t%s\n", x.Name, x.Cases[j].Load, s, u, change(s, u))
						means[i].log += math.Log(u.Median / s.Median)
						means[i].n++
					}
				}
			}
		}
		if means[i].n > 1 {
			fmt.Fprintf(t, "geometric mean\t\t\t%+.2f%%\t\n", 100*(math.Exp(means[i].log/float64(means[i].n))-1))
		}
		if head {
			fmt.Fprintln(t)
		}
	}
	if n := compareTalks(t, a, b, before, after); n > 0 {
		pairs += n
		fmt.Fprintln(t)
	}
	if pairs == 0 {
		return fmt.Errorf("%s and %s have no case in common", before, after)
	}
	fmt.Fprintf(t, "~ : no difference that %.0f%% chance would not explain (Mann-Whitney U)\n", 100*bench.Alpha)
	if few {
		fmt.Fprintln(t, "Fewer than four repeats on a side tell no difference: use -r 5 or more.")
	}
	return t.Flush()
}

// compareTalks writes conversations side by side, and says how many there were.
func compareTalks(w io.Writer, a, b *Report, before, after string) (pairs int) {
	for _, x := range a.Models {
		for _, y := range b.Models {
			for _, c := range x.Talks {
				for _, d := range y.Talks {
					if x.Name != y.Name || c.Talk != d.Talk {
						continue
					}
					for i := range c.Ways {
						for j := range d.Ways {
							s, u := &c.Ways[i].First, &d.Ways[j].First
							if c.Ways[i].Kept != d.Ways[j].Kept || s.Median <= 0 || u.Median <= 0 {
								continue
							}
							if pairs++; pairs == 1 {
								fmt.Fprintf(w, "first token ms\t%s\t%s\tchange\t\n", before, after)
							}
							fmt.Fprintf(w, "%s, %s: %s\t%s\t%s\t%s\n", x.Name, keptWords[c.Ways[i].Kept], c.Talk, s, u, change(s, u))
						}
					}
				}
			}
		}
	}
	return pairs
}

// change is the ratio of two samples, with the smallest and the largest that their ends allow; ~
// when chance explains it.
func change(a, b *bench.Sample) string {
	p := bench.Differ(a.Values, b.Values)
	tail := fmt.Sprintf("\t(p=%.3f n=%d+%d)", p, len(a.Values), len(b.Values))
	if p >= bench.Alpha {
		return "~" + tail
	}
	if a.Low <= 0 {
		return fmt.Sprintf("%+.2f%%", 100*(b.Median/a.Median-1)) + tail
	}
	return fmt.Sprintf("%+.2f%%, %.3f times [%.3f, %.3f]", 100*(b.Median/a.Median-1), b.Median/a.Median, b.Low/a.High, b.High/a.Low) + tail
}
