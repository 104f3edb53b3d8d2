package documents

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/documents/extract"
	"github.com/axle-llm/axle/documents/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTurns (T16): a key with one file waits for one file of a key with many.
func TestTurns(t *testing.T) {
	//proves:T16 documents that are indexed
	lib, err := index.OpenLibrary(t.TempDir(), index.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	var order []string
	first, goOn, all := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d := New(Options{Library: lib, Log: zap.NewNop(), Read: func(_ context.Context, name string, _ io.ReaderAt,
		_ int64) (*index.Document, error) {
		if order = append(order, name); len(order) == 1 {
			close(first)
			<-goOn
		}
		if len(order) == 6 {
			close(all)
		}
		return &index.Document{Pages: []index.Page{{Text: name}}}, nil
	}})
	defer d.Close()
	add := func(owner string, names ...string) {
		s, err := lib.Of(owner)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Create(index.Collection{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			f, err := s.AddFile(name, strings.NewReader(name), func() (string, error) { return "assistants", nil })
			if err == nil {
				_, err = s.Attach(c.ID, f.ID, nil, index.Cutting{})
			}
			if err != nil {
				t.Fatal(err)
			}
			d.work.add(job{turn: owner, shelf: s, store: c.ID, file: f.ID})
		}
	}
	add("many", "a", "b", "c", "d")
	<-first
	add("few", "x")
	add("other", "y")
	close(goOn)
	<-all
	if want := []string{"a", "b", "x", "y", "c", "d"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct{ data, code, want string }{
		"a.md":  {"# One\n\ntext\n", "", "text"},
		"a.png": {"\x89PNG\r\n\x1a\n", "unsupported_file", "picture"},
		"e.txt": {" \n", "invalid_file", "blank"},
	} {
		doc, err := Read(t.Context(), name, strings.NewReader(c.data), int64(len(c.data)))
		u, _ := err.(*Unread)
		switch {
		case c.code == "" && (err != nil || !strings.Contains(doc.Pages[0].Text, c.want) || doc.Kind != extract.Markdown):
			t.Errorf("%s: %+v %v", name, doc, err)
		case c.code != "" && (u == nil || u.Code != c.code || !strings.Contains(u.Message, c.want)):
			t.Errorf("%s: %v, want %s: %s", name, err, c.code, c.want)
		}
	}
}
