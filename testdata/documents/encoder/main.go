// Command encoder trains a small encoder of texts on this repository's own texts, and measures
// whether it helps to find passages: go run ./testdata/documents/encoder. It has a vector of 64
// values for each word, each beginning of a word, and the text's is their sum, weighed by rarity.
//
// It learns by inverse cloze: a sentence that was taken out of a passage is to be nearer to the rest
// of it than to other passages. The passages are those of the documents, and the comments of the Go
// files. The questions of testdata/documents are not among them.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/documents/extract"
	"github.com/axle-llm/axle/documents/index"
)

const (
	values = 64
	batch  = 128
	epochs = 60
	rate   = 0.05
	sharp  = 15 // the softmax's
)

func main() {
	docs := readDocs()
	e := newEncoder(docs)
	r := rand.New(rand.NewPCG(1, 1))
	pieces := comments()
	for _, d := range docs {
		for p := range d.segment.Len() {
			pieces = append(pieces, d.text(p))
		}
	}
	fmt.Printf("%d passages and comments, %d features, %d KB in bytes\n", len(pieces), len(e.ids), len(e.ids)*values>>10)
	for _, set := range []string{"questions.txt", "reworded.txt"} {
		measure(e, docs, set, "untrained")
	}
	for epoch := range epochs {
		loss := e.epoch(pieces, r)
		if epoch%10 == 9 {
			fmt.Printf("epoch %d, loss %.3f\n", epoch+1, loss)
			measure(e, docs, "reworded.txt", "trained")
		}
	}
	measure(e, docs, "questions.txt", "trained")
}

type doc struct {
	name    string
	doc     *index.Document
	segment *index.Segment
}

func (d *doc) text(p int) string {
	at := d.segment.Passage(p)
	return at.Heading + ". " + d.doc.Pages[at.Page].Text[at.Start:at.End]
}

func readDocs() (list []*doc) {
	names, _ := filepath.Glob("docs/*.md")
	for _, name := range append(names, "README.md", "SECURITY.md", "RATIONALE.md", "CONTRIBUTING.md") {
		b, err := os.ReadFile(name)
		check(err)
		got, err := extract.Read(context.Background(), name, strings.NewReader(string(b)), int64(len(b)), extract.Limits{})
		check(err)
		d := &index.Document{Title: got.Title, Kind: got.Kind}
		for _, p := range got.Pages {
			d.Pages = append(d.Pages, index.Page{Number: p.Number, Line: p.Line, Label: p.Label, Text: p.Text})
		}
		raw, err := index.Build(d, index.Cut(d, index.Cutting{}))
		check(err)
		s, err := index.Open(raw)
		check(err)
		list = append(list, &doc{name, d, s})
	}
	return list
}

// comments are those of the Go files that have two sentences or more.
func comments() (list []string) {
	check(filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "build" || d.Name() == ".git" || d.Name() == "node_modules") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if filepath.Ext(name) != ".go" || d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(name)
		var now []string
		for line := range strings.Lines(string(b) + "\n") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok {
				now = append(now, text)
				continue
			}
			if s := strings.Join(now, " "); strings.Count(s, ". ") > 0 {
				list = append(list, s)
			}
			now = nil
		}
		return err
	}))
	return list
}

type encoder struct {
	ids    map[string]int
	weight []float32
	rows   [][values]float32
	seen   [][values]float32 // sums of squares, for Adagrad
}

func features(text string) (list []string) {
	index.Terms(text, index.English, func(term string, _ int) {
		list = append(list, term)
		if len(term) > 5 {
			list = append(list, "^"+term[:5])
		}
	})
	return list
}

func newEncoder(docs []*doc) *encoder {
	often, n := map[string]int{}, 0
	count := func(text string) {
		n++
		seen := map[string]bool{}
		for _, f := range features(text) {
			if !seen[f] {
				seen[f] = true
				often[f]++
			}
		}
	}
	for _, c := range comments() {
		count(c)
	}
	for _, d := range docs {
		for p := range d.segment.Len() {
			count(d.text(p))
		}
	}
	e := &encoder{ids: map[string]int{}}
	r := rand.New(rand.NewPCG(2, 2))
	var names []string
	for f, k := range often {
		if k > 1 {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	for _, f := range names {
		e.ids[f] = len(e.rows)
		e.weight = append(e.weight, float32(math.Log(float64(n)/float64(often[f]))))
		var row [values]float32
		for i := range row {
			row[i] = float32(r.NormFloat64()) / 8
		}
		e.rows, e.seen = append(e.rows, row), append(e.seen, [values]float32{})
	}
	return e
}

// vec is a text's features with their weights, and its vector.
type vec struct {
	ids    []int
	w      []float32
	unit   [values]float32
	length float32
}

func (e *encoder) vec(text string) *vec {
	v := &vec{}
	counts := map[int]float32{}
	for _, f := range features(text) {
		if id, ok := e.ids[f]; ok {
			counts[id]++
		}
	}
	for id := range counts {
		v.ids = append(v.ids, id)
	}
	slices.Sort(v.ids)
	for _, id := range v.ids {
		w := e.weight[id] * float32(1+math.Log(float64(counts[id])))
		v.w = append(v.w, w)
		for k, x := range e.rows[id] {
			v.unit[k] += w * x
		}
	}
	sum := 0.0
	for _, x := range v.unit {
		sum += float64(x) * float64(x)
	}
	v.length = float32(math.Sqrt(sum)) + 1e-6
	for k := range v.unit {
		v.unit[k] /= v.length
	}
	return v
}

func dot(a, b *[values]float32) (s float32) {
	for k := range a {
		s += a[k] * b[k]
	}
	return s
}

// learn moves the features of a text against a gradient of its vector.
func (e *encoder) learn(v *vec, g *[values]float32) {
	along := dot(g, &v.unit)
	for i, id := range v.ids {
		row, seen := &e.rows[id], &e.seen[id]
		for k := range g {
			d := (g[k] - along*v.unit[k]) / v.length * v.w[i]
			seen[k] += d * d
			row[k] -= rate * d / (float32(math.Sqrt(float64(seen[k]))) + 1e-6)
		}
	}
}

func (e *encoder) epoch(pieces []string, r *rand.Rand) float64 {
	order := r.Perm(len(pieces))
	total, n := 0.0, 0
	for at := 0; at+batch <= len(order); at += batch {
		var a, b []*vec
		for _, i := range order[at : at+batch] {
			s := strings.SplitAfter(index.Lines(pieces[i]), ". ")
			if len(s) < 2 {
				continue
			}
			k := r.IntN(len(s))
			ask := s[k]
			if r.IntN(10) > 0 {
				s = slices.Delete(slices.Clone(s), k, k+1)
			}
			x, y := e.vec(ask), e.vec(strings.Join(s, " "))
			if len(x.ids) > 2 && len(y.ids) > 2 {
				a, b = append(a, x), append(b, y)
			}
		}
		ga, gb := make([][values]float32, len(a)), make([][values]float32, len(b))
		for i := range a {
			p, sum := make([]float64, len(b)), 0.0
			for j := range b {
				p[j] = math.Exp(sharp * float64(dot(&a[i].unit, &b[j].unit)))
				sum += p[j]
			}
			total -= math.Log(p[i] / sum)
			n++
			for j := range b {
				c := float32(p[j]/sum) * sharp
				if i == j {
					c -= sharp
				}
				for k := range values {
					ga[i][k] += c * b[j].unit[k]
					gb[j][k] += c * a[i].unit[k]
				}
			}
		}
		for i := range a {
			e.learn(a[i], &ga[i])
			e.learn(b[i], &gb[i])
		}
	}
	return total / float64(n)
}

// measure prints how many questions find their passage among the first three: by words, by the
// encoder, and by both in several ways.
func measure(e *encoder, docs []*doc, set, what string) {
	f, err := os.Open("testdata/documents/" + set)
	check(err)
	defer f.Close()
	var segments []*index.Segment
	var rows [][]*vec
	for _, d := range docs {
		segments = append(segments, d.segment)
		var list []*vec
		for p := range d.segment.Len() {
			list = append(list, e.vec(d.text(p)))
		}
		rows = append(rows, list)
	}
	ways := []string{"words", "encoder", "blended", "half", "quarter", "tenth"}
	right, n := make([]int, len(ways)), 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		parts := strings.Split(sc.Text(), "\t")
		if len(parts) != 3 {
			continue
		}
		n++
		is := func(h index.Hit) bool {
			return docs[h.Segment].name == parts[0] && strings.Contains(index.Lines(docs[h.Segment].text(h.Passage)), index.Lines(parts[1]))
		}
		q := index.Ask(parts[2])
		words := index.Search(segments, q, 200)
		words, err := index.Rerank(segments, q, words, func(h index.Hit) (string, error) {
			p := segments[h.Segment].Passage(h.Passage)
			return docs[h.Segment].doc.Pages[p.Page].Text[p.Start:p.End], nil
		})
		check(err)
		v := e.vec(parts[2])
		var near []index.Hit
		at := map[[2]int]float64{}
		for i := range rows {
			for p, row := range rows[i] {
				score := float64(dot(&v.unit, &row.unit))
				near = append(near, index.Hit{Segment: i, Passage: p, Score: score})
				at[[2]int{i, p}] = score
			}
		}
		sort := func(list []index.Hit) []index.Hit {
			slices.SortStableFunc(list, func(a, b index.Hit) int {
				switch {
				case a.Score > b.Score:
					return -1
				case a.Score < b.Score:
					return 1
				}
				return 0
			})
			return list
		}
		sort(near)
		orders := [][]index.Hit{words, near, index.Blend(100, words[:min(60, len(words))], near[:60])}
		for _, share := range []float64{0.5, 0.25, 0.1} {
			by := map[[2]int]float64{}
			for _, h := range words {
				by[[2]int{h.Segment, h.Passage}] = h.Score
			}
			var both []index.Hit
			for _, h := range near {
				both = append(both, index.Hit{Segment: h.Segment, Passage: h.Passage, Score: share*h.Score + by[[2]int{h.Segment, h.Passage}]})
			}
			orders = append(orders, sort(both))
		}
		for i, order := range orders {
			if slices.ContainsFunc(order[:min(3, len(order))], is) {
				right[i]++
			}
		}
	}
	fmt.Printf("%-10s %-14s", what, set)
	for i, way := range ways {
		fmt.Printf(" %s %.1f", way, 100*float64(right[i])/float64(n))
	}
	fmt.Println()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
