package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkPassages indexes 10,000 passages of 150 words, and asks them four words.
func BenchmarkPassages(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	d := &Document{Kind: "text"}
	for range 10_000 {
		var text strings.Builder
		for range 150 {
			fmt.Fprintf(&text, "w%d ", int(r.ExpFloat64()*2000))
		}
		d.Pages = append(d.Pages, Page{Text: text.String()})
	}
	var raw []byte
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			var err error
			if raw, err = Build(d, Cut(d, Cutting{Tokens: 1000})); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(raw)), "bytes")
	})
	b.Run("ask", func(b *testing.B) {
		s, err := Open(raw)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			Search([]*Segment{s}, Ask(fmt.Sprintf("w%d w%d w%d w%d", r.IntN(3000), r.IntN(3000), r.IntN(3000), r.IntN(3000))), 50)
		}
	})
}
