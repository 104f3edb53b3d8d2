package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// The texts that Qwen3's rerankers were trained with. Other models understand them too.
const (
	rerankSystem = "Judge whether the Document meets the requirements based on the Query and the Instruct provided. " +
		`Note that the answer can only be "yes" or "no".`
	rerankTask = models.SearchTask
)

// scorer is the optional interface behind [Model.Rerank]. It runs n prompts, and returns for each
// the logits of ids at its last token. prompt is called when the prompt is needed, by one goroutine
// each. A common beginning is evaluated once.
type scorer interface {
	Scores(ctx context.Context, n int, prompt func(int) ([]int32, error), ids []int32, key string) ([][]float32, Usage, error)
}

// Rerank scores documents for a query. A model that writes text is asked whether each document
// answers the query, and the logits of yes and no are the score. With an embedding model, the
// vectors are compared. Errors: *ContextError, ErrRequest, ErrUnsupported if yes or no is not a
// token of the model, and as Chat.
func (m *Model) Rerank(ctx context.Context, r RerankRequest) (Ranking, error) {
	start := time.Now()
	var out Ranking
	var err error
	switch s, ok := m.b.(scorer); {
	case len(r.Documents) == 0:
		return out, fmt.Errorf("%w: there is no document to rank", ErrRequest)
	case m.info.Embedding:
		out, err = rankByVectors(ctx, m, r)
	case !ok:
		return out, fmt.Errorf("%w: %s cannot rerank", ErrUnsupported, m.info.Name)
	default:
		out, err = m.rankByAnswer(ctx, r, s)
	}
	out.Total = time.Since(start)
	return out, err
}

// rankByVectors compares vectors.
func rankByVectors(ctx context.Context, m *Model, r RerankRequest) (Ranking, error) {
	p, texts := m.o.Prompts, append([]string{r.Query}, r.Documents...)
	tasks := make([]string, len(texts))
	for i, text := range texts {
		name, task := models.DocumentPrompt, ""
		if i == 0 {
			name, task = models.QueryPrompt, r.Instruction
		}
		if task != "" && p.Task == "" { // as Qwen3's; other models understand it too
			texts[i] = "Instruct: " + task + "\nQuery:" + text
		} else if _, ok := p.Named[name]; ok {
			before, err := p.Before(name, task)
			if err != nil {
				return Ranking{}, err
			}
			if tasks[i] = before; !p.Turns {
				texts[i] = before + text
			}
		}
	}
	q := EmbedRequest{Input: texts, Truncate: r.Truncate, NumCtx: r.NumCtx, Key: r.Key}
	var e Embeddings
	var err error
	if p.Turns {
		e, err = embedTurns(ctx, m, q, func(i int) string { return tasks[i] })
	} else {
		e, err = embedTexts(ctx, m, q, "")
	}
	if err != nil {
		return Ranking{}, err
	}
	out := Ranking{Scoring: ScoringCosine, Cuts: e.Cuts, Prompt: e.Prompt, Scores: make([]float64, len(r.Documents))}
	for i, v := range e.Vectors[1:] {
		for k, x := range v {
			out.Scores[i] += float64(x) * float64(e.Vectors[0][k])
		}
	}
	return out, nil
}

// rankByAnswer asks about each document.
func (m *Model) rankByAnswer(ctx context.Context, r RerankRequest, s scorer) (Ranking, error) {
	var words []int32
	for _, w := range []string{"yes", "no"} {
		ids, err := m.b.Encode(ctx, []chat.Piece{{Text: w}}, false)
		if err != nil {
			return Ranking{}, err
		}
		if len(ids) != 1 {
			return Ranking{}, fmt.Errorf("%w: %s has no token of its own for %q: reranking takes a model that has, or an embedding model",
				ErrUnsupported, m.info.Name, w)
		}
		words = append(words, ids...)
	}
	most := m.info.Context
	if r.NumCtx > 0 {
		most = min(most, r.NumCtx)
	}
	bare, err := judge(ctx, m, r, "")
	if err != nil {
		return Ranking{}, err
	}
	if len(bare) >= most {
		return Ranking{}, &ContextError{Have: len(bare) + 1, Max: most}
	}
	cuts := make([]Cut, len(r.Documents))
	prompt := func(i int) ([]int32, error) {
		ids, err := judge(ctx, m, r, r.Documents[i])
		if n := len(ids); err == nil && n > most {
			if !r.Truncate {
				return nil, &ContextError{Have: n, Max: most}
			}
			// The document loses its end. Behind it comes what also ends the prompt without a
			// document.
			end := 0
			for end < len(bare) && bare[len(bare)-1-end] == ids[n-1-end] {
				end++
			}
			ids = append(ids[:most-end], ids[n-end:]...)
			cuts[i] = Cut{Limit: most, Prompt: n, Kept: most}
		}
		return ids, err
	}
	logits, u, err := s.Scores(ctx, len(r.Documents), prompt, words, m.o.key(r.Key))
	if err != nil {
		return Ranking{}, err
	}
	cuts = slices.DeleteFunc(cuts, func(c Cut) bool { return c == Cut{} })
	out := Ranking{Scoring: ScoringYesNo, Cuts: cuts, Prompt: u.Prompt, Cached: u.Cached, Scores: make([]float64, len(logits))}
	for i, l := range logits {
		out.Scores[i] = 1 / (1 + math.Exp(float64(l[1])-float64(l[0])))
	}
	return out, nil
}

// judge returns the prompt that asks about a document. Thinking is off. If the template begins it
// nevertheless, it ends at once.
func judge(ctx context.Context, m *Model, r RerankRequest, document string) ([]int32, error) {
	task := r.Instruction
	if task == "" {
		task = rerankTask
	}
	ask := Request{Think: chat.ThinkOff, Messages: []chat.Message{{Role: "system", Content: rerankSystem},
		{Role: "user", Content: "<Instruct>: " + task + "\n<Query>: " + r.Query + "\n<Document>: " + document}}}
	ids, _, err := m.encode(ctx, &ask, func() ([]chat.Piece, error) {
		pieces, err := m.pieces(ctx, &ask, true)()
		if t := m.o.Template; err == nil && t != nil {
			if open := m.thoughts(&ask, pieces).open; open != "" {
				for _, tag := range chat.ThinkTags(t.Family()) {
					if tag.Open == open {
						pieces = append(pieces, chat.Piece{Text: "\n" + strings.TrimSpace(tag.Close) + "\n\n", Control: true})
					}
				}
			}
		}
		return pieces, err
	})
	return ids, err
}
