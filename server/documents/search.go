package documents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

type content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// result is a passage as OpenAI's API has it, and beyond that where it stands.
type result struct {
	File       string         `json:"file_id"`
	Filename   string         `json:"filename"`
	Score      float64        `json:"score"`
	Attributes map[string]any `json:"attributes"`
	Content    []content      `json:"content"`
	Page       int            `json:"page"`             // index of the page in the file, from 0
	Number     int            `json:"number,omitempty"` // of the page as the file counts it
	Line       int            `json:"line,omitempty"`   // of the page's first line
	Heading    string         `json:"heading,omitempty"`
	Place      place          `json:"place"`
}

// place is where a passage stands in the text of its page.
type place struct {
	Start int `json:"start"` // bytes of UTF-8
	End   int `json:"end"`
	Line  int `json:"line,omitempty"` // in the file, of the passage's first line
}

// Limits of OpenAI's API.
const (
	maxResults = 50
	maxQueries = 8
	maxQuery   = 4 << 10
)

// query is the body of a search.
type query struct {
	Query   json.RawMessage `json:"query"`
	Most    *int            `json:"max_num_results"`
	Filters json.RawMessage `json:"filters"`
	Rewrite bool            `json:"rewrite_query"`
	Ranking *ranking        `json:"ranking_options"`
}

type ranking struct {
	Ranker    string   `json:"ranker"`
	Threshold *float64 `json:"score_threshold"`
}

// asked is what a query asks, checked.
type asked struct {
	texts     []string
	looking   index.Looking
	threshold float64
}

func (q *query) read() (a asked, err error) {
	var one string
	switch {
	case json.Unmarshal(q.Query, &one) == nil && len(q.Query) > 0 && q.Query[0] == '"':
		a.texts = []string{one}
	case json.Unmarshal(q.Query, &a.texts) != nil || len(a.texts) == 0 || len(a.texts) > maxQueries:
		return a, body.Fail(http.StatusBadRequest, "query must be a text, or a list of up to %d texts", maxQueries)
	}
	for _, t := range a.texts {
		if strings.TrimSpace(t) == "" || len(t) > maxQuery {
			return a, body.Fail(http.StatusBadRequest, "a query must have 1 to %d bytes, got %d", maxQuery, len(t))
		}
	}
	a.looking.Most = 10
	if q.Most != nil {
		if a.looking.Most = *q.Most; *q.Most < 1 || *q.Most > maxResults {
			return a, body.Fail(http.StatusBadRequest, "max_num_results must be from 1 to %d, got %d", maxResults, *q.Most)
		}
	}
	if r := q.Ranking; r != nil {
		a.looking.Plain = r.Ranker == "none"
		if r.Threshold != nil {
			if a.threshold = *r.Threshold; a.threshold < 0 || a.threshold > 1 {
				return a, body.Fail(http.StatusBadRequest, "score_threshold must be from 0 to 1, got %v", a.threshold)
			}
		}
	}
	if len(q.Filters) > 0 && !bytes.Equal(q.Filters, []byte("null")) {
		f, err := readFilter(q.Filters, 0)
		if err != nil {
			return a, err
		}
		a.looking.Filter = func(e index.Entry, name string) bool {
			return f.passes(func(key string) (any, bool) {
				v, ok := e.Attributes[key]
				return v, ok
			})
		}
	}
	return a, nil
}

// Search answers with the passages of a vector store that answer a question.
func (d *Documents) Search(x *request.Exchange) error {
	s, id, err := d.store(x)
	if err != nil {
		return err
	}
	var q query
	if err := x.Decode(&q); err != nil {
		return err
	}
	a, err := q.read()
	if err != nil {
		return err
	}
	found, err := d.find(x, s, []string{id}, a)
	if err != nil {
		return err
	}
	out := struct {
		Object  string   `json:"object"`
		Queries []string `json:"search_query"`
		Data    []result `json:"data"`
		HasMore bool     `json:"has_more"`
		Next    *string  `json:"next_page"`
	}{Object: "vector_store.search_results.page", Queries: a.texts, Data: []result{}}
	for _, f := range found {
		out.Data = append(out.Data, resultOf(s, f))
	}
	return send(x, out)
}

// find searches vector stores for each of the questions. A passage that answers several counts with
// the best of its scores.
func (d *Documents) find(x *request.Exchange, s *index.Shelf, stores []string, a asked) ([]index.Found, error) {
	var all []index.Found
	for _, text := range a.texts {
		found, err := d.look(x, s, stores, text, a.looking)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			at := slices.IndexFunc(all, func(o index.Found) bool { return o.File == f.File && o.Passage == f.Passage })
			switch {
			case f.Score < a.threshold:
			case at < 0:
				all = append(all, f)
			default:
				all[at].Score = max(all[at].Score, f.Score)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b index.Found) int { return cmp.Compare(b.Score, a.Score) })
	return all[:min(len(all), a.looking.Most)], nil
}

// reranked is how many passages a model reads again.
const reranked = 20

// look searches for one question, with the models that are loaded. One that fails is left out:
// words alone find something too.
func (d *Documents) look(x *request.Exchange, s *index.Shelf, stores []string, text string, l index.Looking) ([]index.Found, error) {
	m, most, again := d.o.Models, l.Most, ""
	if m != nil && !l.Plain {
		if l.Model = m.Embedder(); l.Model != "" {
			vectors, err := m.Embed(x.Ctx(), l.Model, x.Owner(), []string{text}, true)
			if err == nil && len(vectors) == 1 {
				l.Vector = vectors[0]
			}
			if d.without(x, l.Model, err); err == nil {
				d.missing(x, s, stores, l.Model)
			}
		}
		if again = m.Reranker(); again != "" {
			l.Most = max(most, reranked)
		}
	}
	found, err := s.Find(x.Ctx(), stores, text, l)
	if err != nil {
		return nil, d.failed(err, "vector store")
	}
	if again != "" && len(found) > 1 {
		texts := make([]string, min(len(found), reranked))
		for i := range texts {
			texts[i] = found[i].Heading + "\n" + found[i].Text
		}
		scores, err := m.Rerank(x.Ctx(), again, x.Owner(), text, texts)
		if d.without(x, again, err); err == nil && len(scores) == len(texts) {
			for i := range found {
				if found[i].Score /= 1000; i < len(scores) { // what was not read again comes behind
					found[i].Score = scores[i]
				}
			}
			slices.SortStableFunc(found, func(a, b index.Found) int { return cmp.Compare(b.Score, a.Score) })
		}
	}
	return found[:min(len(found), most)], x.Ctx().Err()
}

// missing has vectors made of the files that a model has none of yet: they were indexed before it
// was loaded.
func (d *Documents) missing(x *request.Exchange, s *index.Shelf, stores []string, model string) {
	for _, id := range stores {
		entries, err := s.Entries(id)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Status == index.Completed && e.Model != model && e.Passages > 0 {
				d.work.add(job{turn: x.Owner(), shelf: s, store: id, file: e.File, vectors: true})
			}
		}
	}
}

// without notes that a model did not help.
func (d *Documents) without(x *request.Exchange, model string, err error) {
	if err != nil && x.Ctx().Err() == nil {
		d.o.Log.Warn("documents are searched without a model that failed", zap.String("model", model), zap.Error(err))
	}
}

func resultOf(s *index.Shelf, f index.Found) result {
	r := result{f.File, f.Name, f.Score, f.Attributes, []content{{"text", f.Text}}, f.Page, f.Number, f.Line, f.Heading,
		place{f.Start, f.End, 0}}
	if r.Attributes == nil {
		r.Attributes = map[string]any{}
	}
	if f.Line > 0 {
		if p, _, _, err := s.Page(f.File, f.Page); err == nil && f.Start <= len(p.Text) {
			r.Place.Line = f.Line + strings.Count(p.Text[:f.Start], "\n")
		}
	}
	return r
}

// filter is a condition on a file's attributes.
type filter struct {
	kind  string
	key   string
	value any
	parts []filter
}

const (
	maxFilterDepth = 8
	maxFilters     = 64
)

func readFilter(raw []byte, depth int) (f filter, err error) {
	var w struct {
		Type    string            `json:"type"`
		Key     string            `json:"key"`
		Value   any               `json:"value"`
		Filters []json.RawMessage `json:"filters"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return f, body.Fail(http.StatusBadRequest, "filters must be an object with a type, got %s", err)
	}
	f = filter{kind: w.Type, key: w.Key, value: w.Value}
	switch w.Type {
	case "and", "or":
		if depth >= maxFilterDepth || len(w.Filters) == 0 || len(w.Filters) > maxFilters {
			return f, body.Fail(http.StatusBadRequest, "filters: %q needs 1 to %d filters, and may stand in up to %d others", w.Type,
				maxFilters,
				maxFilterDepth)
		}
		for _, raw := range w.Filters {
			part, err := readFilter(raw, depth+1)
			if err != nil {
				return f, err
			}
			f.parts = append(f.parts, part)
		}
		return f, nil
	case "in", "nin":
		if _, ok := w.Value.([]any); !ok {
			return f, body.Fail(http.StatusBadRequest, "filters: the value of %s must be a list", body.Ours(w.Type))
		}
	case "eq", "ne", "gt", "gte", "lt", "lte":
		switch w.Value.(type) {
		case string, float64, bool:
		default:
			return f, body.Fail(http.StatusBadRequest, "filters: the value of %s must be a text, a number or a boolean", body.Ours(w.Type))
		}
	default:
		return f, body.Fail(http.StatusBadRequest, "filters: the type must be eq, ne, gt, gte, lt, lte, in, nin, and or or, got %q", w.Type)
	}
	if w.Key == "" {
		return f, body.Fail(http.StatusBadRequest, "filters: %s needs a key", body.Ours(w.Type))
	}
	return f, nil
}

// passes says whether attributes meet the filter. What a file does not have is equal to nothing.
func (f filter) passes(get func(string) (any, bool)) bool {
	is := func(p filter) bool { return p.passes(get) }
	have, ok := get(f.key)
	switch f.kind {
	case "and":
		return !slices.ContainsFunc(f.parts, func(p filter) bool { return !is(p) })
	case "or":
		return slices.ContainsFunc(f.parts, is)
	case "eq":
		return ok && have == f.value
	case "ne":
		return !ok || have != f.value
	case "in", "nin":
		return (ok && slices.Contains(f.value.([]any), have)) == (f.kind == "in")
	}
	order, comparable := compared(have, f.value)
	switch {
	case !ok || !comparable:
		return false
	case f.kind == "gt":
		return order > 0
	case f.kind == "gte":
		return order >= 0
	case f.kind == "lt":
		return order < 0
	}
	return order <= 0
}

func compared(a, b any) (int, bool) {
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return cmp.Compare(x, y), ok
	case string:
		y, ok := b.(string)
		return cmp.Compare(x, y), ok
	}
	return 0, false
}
