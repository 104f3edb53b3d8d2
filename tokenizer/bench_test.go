package tokenizer

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// BenchmarkEncode measures whole texts over real files; make tokenizer-truth fetches them.
func BenchmarkEncode(b *testing.B) {
	for _, family := range []string{"qwen3", "llama3_2", "gemma3", "llama2"} {
		for _, name := range []string{"code", "english", "mixed"} {
			b.Run(family+"/"+name, func(b *testing.B) {
				tok, err := Open(realFile(b, family))
				if err != nil {
					b.Fatal(err)
				}
				text, err := os.ReadFile(filepath.Join("../build/tokenizers", name+".txt"))
				if err != nil {
					b.Skip(err)
				}
				var ids []int32
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					ids = tok.Encode(ids[:0], string(text), false)
				}
			})
		}
	}
}

// BenchmarkOpen measures the load of a real file, and what stays resident.
func BenchmarkOpen(b *testing.B) {
	for _, family := range []string{"qwen3", "gemma3"} {
		b.Run(family, func(b *testing.B) {
			p := realFile(b, family)
			var tok *Tokenizer
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				var err error
				if tok, err = Open(p); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-resident")
			runtime.KeepAlive(tok)
		})
	}
}

func BenchmarkStream(b *testing.B) {
	tok, err := Open(realFile(b, "qwen3"))
	if err != nil {
		b.Fatal(err)
	}
	s := tok.Stream(false)
	b.ReportAllocs()
	for i := int32(0); b.Loop(); i = (i + 1) % 100_000 {
		s.Next(i)
	}
}
