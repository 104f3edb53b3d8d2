package models_test

import (
	"fmt"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

func BenchmarkRow(b *testing.B) {
	dir := b.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		b.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	row := make([]uint16, p.Hidden)
	b.ReportAllocs()
	for i := range b.N {
		if err := p.Embed.Row(row, int32(i%p.Vocab)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a package of the size of Qwen3-0.6B's: 28 layers.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	files := modelstest.Big(28, 1<<20, 1)
	for name, c := range files {
		if err := modelstest.WriteContent(dir, name, c); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		p, err := models.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		if len(p.Layers) != 28 {
			b.Fatal(fmt.Sprint(len(p.Layers)))
		}
		p.Close()
	}
}
