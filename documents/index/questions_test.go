package index_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/documents/extract"
	"github.com/axle-llm/axle/documents/index"
)

// TestQuestions: of 200 questions over this repository's texts, 85 in 100 have the passage that
// answers among the first three, with BM25 and the closer look alone. Those that were reworded on
// purpose show what words alone do not find.
func TestQuestions(t *testing.T) {
	l := readTexts(t)
	for _, set := range []struct {
		file        string
		count, most int // questions, and of 100 how many find their passage at least
	}{{"questions.txt", 200, 85}, {"reworded.txt", 198, 62}} {
		questions := readQuestions(t, l, set.file)
		if len(questions) != set.count {
			t.Errorf("%s has %d questions, want %d", set.file, len(questions), set.count)
		}
		plain, closer := 0, 0
		for _, q := range questions {
			ask := index.Ask(q.text)
			hits := index.Search(l.segments, ask, index.Candidates)
			if l.place(hits, q) < 3 {
				plain++
			}
			hits, err := index.Rerank(l.segments, ask, hits, l.text)
			if err != nil {
				t.Fatal(err)
			}
			if l.place(hits, q) < 3 {
				closer++
			}
		}
		n := float64(len(questions)) / 100
		t.Logf("%s, %d passages: among the first three %.1f %% with BM25, %.1f %% after a closer look", set.file, l.count(),
			float64(plain)/n,
			float64(closer)/n)
		if float64(closer) < float64(set.most)*n {
			t.Errorf("%s: %.1f %% of the questions find their passage among the first three, want %d", set.file, float64(closer)/n,
				set.most)
		}
	}
}

// question is a question and the words of the passage that answers it.
type question struct{ file, words, text string }

// texts are the documents that are asked.
type texts struct {
	names    []string
	docs     []*index.Document
	segments []*index.Segment
}

func (l *texts) count() (n int) {
	for _, s := range l.segments {
		n += s.Len()
	}
	return n
}

func (l *texts) text(h index.Hit) (string, error) {
	p := l.segments[h.Segment].Passage(h.Passage)
	return l.docs[h.Segment].Pages[p.Page].Text[p.Start:p.End], nil
}

func (l *texts) answers(h index.Hit, q question) bool {
	text, _ := l.text(h)
	return l.names[h.Segment] == q.file && strings.Contains(index.Lines(text), q.words)
}

// place is where the passage that answers stands, from 0; the number of hits where it is not there.
func (l *texts) place(hits []index.Hit, q question) int {
	for i, h := range hits {
		if l.answers(h, q) {
			return i
		}
	}
	return len(hits)
}

// readTexts reads and indexes the documents of the repository.
func readTexts(t testing.TB) *texts {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	l := &texts{}
	for _, name := range append(names, "../../README.md", "../../SECURITY.md", "../../RATIONALE.md", "../../CONTRIBUTING.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := extract.Read(t.Context(), name, strings.NewReader(string(b)), int64(len(b)), extract.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		d := &index.Document{Title: doc.Title, Kind: doc.Kind}
		for _, p := range doc.Pages {
			d.Pages = append(d.Pages, index.Page{Number: p.Number, Line: p.Line, Label: p.Label, Text: p.Text})
		}
		raw, err := index.Build(d, index.Cut(d, index.Cutting{}))
		if err != nil {
			t.Fatal(err)
		}
		s, err := index.Open(raw)
		if err != nil {
			t.Fatal(err)
		}
		l.names, l.docs, l.segments = append(l.names, filepath.ToSlash(strings.TrimPrefix(name, "../../"))), append(l.docs, d),
			append(l.segments, s)
	}
	return l
}

// readQuestions reads a file of questions. Each has a passage that answers.
func readQuestions(t testing.TB, l *texts, name string) (list []question) {
	t.Helper()
	f, err := os.Open("../../testdata/documents/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") || sc.Text() == "" {
			continue
		}
		parts := strings.Split(sc.Text(), "\t")
		if len(parts) != 3 {
			t.Fatalf("%q is no question", sc.Text())
		}
		q := question{parts[0], index.Lines(parts[1]), parts[2]}
		have := 0
		for i, s := range l.segments {
			for p := range s.Len() {
				if l.answers(index.Hit{Segment: i, Passage: p}, q) {
					have++
				}
			}
		}
		if have == 0 {
			t.Errorf("no passage of %s has the words %q", q.file, q.words)
		}
		list = append(list, q)
	}
	return list
}
