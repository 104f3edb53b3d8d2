package server

import (
	"context"
	"slices"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
)

// helpers are the loaded models that help to find passages of documents.
type helpers struct{ s *Server }

// loaded is the entry of a loaded model, the one that stays longest; nil: none is.
func (h helpers) loaded(is func(*catalog.Entry) bool) *catalog.Entry {
	for _, r := range h.s.models.Loaded() {
		if is(r.Entry) {
			return r.Entry
		}
	}
	return nil
}

// Embedder leaves out the model of pictures inside the program, which knows 92 words.
func (h helpers) Embedder() string {
	return name(h.loaded(func(e *catalog.Entry) bool {
		return e.Embedding && e.Info.Context > 0 && !(e.Builtin() && e.Caps.Vision)
	}))
}

// Reranker goes by the name, which all packages of rerankers have: nothing in them says it.
func (h helpers) Reranker() string {
	return name(h.loaded(func(e *catalog.Entry) bool { return strings.Contains(strings.ToLower(e.Name.Full()), "rerank") }))
}

func name(e *catalog.Entry) string {
	if e == nil {
		return ""
	}
	return e.Name.Full()
}

// lease takes a loaded model by its name.
func (h helpers) lease(ctx context.Context, model string) (*pool.Lease, error) {
	e := h.loaded(func(e *catalog.Entry) bool { return e.Name.Full() == model })
	if e == nil {
		return nil, ask.ErrClosed
	}
	return h.s.models.Acquire(ctx, e, nil, 0)
}

// Embed makes vectors of passages, or of questions. A model that knows prompts by name gets the one
// for what it is.
func (h helpers) Embed(ctx context.Context, model, owner string, texts []string, questions bool) ([][]float32, error) {
	l, err := h.lease(ctx, model)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	r := ask.EmbedRequest{Input: texts, Truncate: true, Key: owner}
	for _, p := range []string{"query", "document", "passage"} {
		if (p == "query") == questions && slices.Contains(l.Info().Prompts, p) {
			r.PromptName = p
			break
		}
	}
	got, err := l.Embed(ctx, r)
	return got.Vectors, err
}

// Rerank scores texts.
func (h helpers) Rerank(ctx context.Context, model, owner, question string, texts []string) ([]float64, error) {
	l, err := h.lease(ctx, model)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	got, err := l.Rerank(ctx, ask.RerankRequest{Query: question, Documents: texts, Truncate: true, Key: owner})
	return got.Scores, err
}
