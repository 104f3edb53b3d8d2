package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/axle-llm/axle/internal/folder"
)

// Found is a passage that answers a question.
type Found struct {
	Collection string
	File       string
	Name       string // the file's
	Attributes map[string]any
	Page       int // index of the page in the document, from 0
	Number     int // of the page as the document counts it; 0: it has no pages
	Line       int // of the page's first line; 0: not known
	Passage    int // index in the file's passages, from 0
	Start, End int // bytes of the page's text
	Heading    string
	Text       string
	Score      float64 // between 0 and 1
}

// Looking is how a search goes.
type Looking struct {
	Most   int                      // passages; 0: 10
	Filter func(Entry, string) bool // which files are searched, by entry and name; nil: all
	Plain  bool                     // BM25's order stays: nothing looks at the passages again
	// Vector is what Model makes of the question; nil: words alone decide. Files whose vectors
	// another model made, or that have none, are found by words.
	Vector []float32
	Model  string
}

// Find searches collections for passages that answer a question, the best first. Files that are not
// indexed yet are left out. Errors: ErrNotFound (a collection), those of ctx and the file system.
func (s *Shelf) Find(ctx context.Context, collections []string, question string, l Looking) ([]Found, error) {
	if l.Most <= 0 {
		l.Most = 10
	}
	sets, err := s.searched(ctx, collections, l.Filter)
	if err != nil {
		return nil, err
	}
	segments := make([]*Segment, len(sets))
	for i := range sets {
		segments[i] = sets[i].segment
	}
	q := Ask(question)
	hits := Search(segments, q, max(Candidates, l.Most))
	open := texts{s: s, by: map[string]*opened{}}
	defer open.close()
	if !l.Plain {
		hits, err = Rerank(segments, q, hits, func(h Hit) (string, error) {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			text, err := open.passage(sets[h.Segment].entry.File, segments[h.Segment].Passage(h.Passage))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) {
				return "", nil // it was deleted meanwhile, and is left out below
			}
			return text, err
		})
		if err != nil {
			return nil, err
		}
	} else {
		Scale(q, hits)
	}
	if l.Vector != nil {
		near, err := s.nearest(ctx, sets, l.Model, l.Vector, max(Candidates, l.Most))
		if err != nil {
			return nil, err
		}
		if len(near) > 0 {
			hits = Blend(max(Candidates, l.Most), hits, near)
		}
	}
	var out []Found
	for _, h := range hits {
		if len(out) == l.Most {
			break
		}
		at := sets[h.Segment]
		p := segments[h.Segment].Passage(h.Passage)
		text, err := open.passage(at.entry.File, p)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		page := open.by[at.entry.File].head.Pages[p.Page]
		out = append(out, Found{at.collection, at.entry.File, at.name, at.entry.Attributes, p.Page, page.Number, page.Line, h.Passage,
			p.Start, p.End, p.Heading, text, h.Score})
	}
	return out, nil
}

// set is a file of a collection that is searched.
type set struct {
	collection string
	entry      Entry
	name       string
	segment    *Segment
}

// searched opens the indexes of what is searched. A file that is in several collections is searched
// once.
func (s *Shelf) searched(ctx context.Context, collections []string, filter func(Entry, string) bool) (sets []set, err error) {
	s.mu.Lock()
	seen := map[string]bool{}
	for _, id := range collections {
		c, err := s.find(id)
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		s.use(c)
		for _, e := range c.entries {
			name := s.files[e.File].Name
			if e.Status != Completed || seen[e.File] || filter != nil && !filter(*e, name) {
				continue
			}
			seen[e.File] = true
			sets = append(sets, set{id, e.copy(), name, nil})
		}
	}
	s.mu.Unlock()
	sets = newest(sets, func(s set) (int64, string) { return -s.entry.Created, s.entry.File })
	have := sets[:0]
	for _, at := range sets {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name := s.at(at.collection, at.entry.File+indexExt)
		at.segment, err = s.lib.memory.get(name, func() ([]byte, error) { return s.whole(name) })
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("%w: delete %s from the vector store, and add it again", err, at.entry.File)
		}
		have = append(have, at)
	}
	return have, nil
}

// maxIndex is the largest index that is read.
const maxIndex = 256 << 20

func (s *Shelf) whole(name string) ([]byte, error) {
	f, err := s.lib.disk.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > maxIndex {
		return nil, ErrDamaged
	}
	b := make([]byte, st.Size())
	for n := 0; n < len(b); {
		m, err := f.ReadAt(b[n:], int64(n))
		if n += m; n < len(b) && err != nil {
			return nil, err
		}
	}
	return b, nil
}

// opened is a text that is read.
type opened struct {
	file folder.File
	head textHead
	base int64
}

// texts are the texts that a search has open.
type texts struct {
	s  *Shelf
	by map[string]*opened
}

// mostOpen is how many texts a search has open at a time.
const mostOpen = 64

func (t *texts) open(file string) (*opened, error) {
	if o := t.by[file]; o != nil && o.file != nil {
		return o, nil
	}
	if len(t.by) >= mostOpen {
		for _, o := range t.by {
			o.close()
		}
	}
	o, err := t.s.openText(file)
	if err == nil {
		t.by[file] = o
	}
	return o, err
}

func (o *opened) close() {
	if o.file != nil {
		_ = o.file.Close()
		o.file = nil
	}
}

func (t *texts) close() {
	for _, o := range t.by {
		o.close()
	}
}

func (t *texts) passage(file string, p Passage) (string, error) {
	o, err := t.open(file)
	if err != nil {
		return "", err
	}
	return o.head.page(o.file, o.base, p.Page, p.Start, p.End)
}

// openText opens a file's text, which the caller closes. Errors: ErrNotFound (there is none yet),
// ErrDamaged, the file system's.
func (s *Shelf) openText(file string) (*opened, error) {
	if _, err := s.File(file); err != nil {
		return nil, err
	}
	f, err := s.lib.disk.Open(s.at(file + textSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	o := &opened{file: f}
	st, err := f.Stat()
	if err == nil {
		o.head, o.base, err = readPages(f, st.Size())
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// Document is the text of a file. Errors: ErrNotFound (it is not read yet), ErrDamaged, the file
// system's.
func (s *Shelf) Document(file string) (*Document, error) {
	o, err := s.openText(file)
	if err != nil {
		return nil, err
	}
	defer o.close()
	return o.head.document(o.file, o.base)
}

// Page is a page of a file's text, counted from 0, and how many there are. Errors: those of
// Document.
func (s *Shelf) Page(file string, n int) (p Page, title string, pages int, err error) {
	o, err := s.openText(file)
	if err != nil {
		return p, "", 0, err
	}
	defer o.close()
	text, err := o.head.page(o.file, o.base, n, 0, -1)
	if err != nil {
		return p, "", len(o.head.Pages), err
	}
	h := o.head.Pages[n]
	return Page{h.Number, h.Line, h.Label, text}, o.head.Title, len(o.head.Pages), nil
}

// Passages are the texts of a file's passages in a collection, with the headings that they stand
// under. Errors: those of Find.
func (s *Shelf) Passages(ctx context.Context, id, file string) (list []string, err error) {
	sets, err := s.searched(ctx, []string{id}, func(e Entry, _ string) bool { return e.File == file })
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	open := texts{s: s, by: map[string]*opened{}}
	defer open.close()
	for i := range sets[0].segment.Len() {
		p := sets[0].segment.Passage(i)
		text, err := open.passage(file, p)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}
