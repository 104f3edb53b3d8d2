package ollama

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// Rerank is the body of /api/rerank and of /v1/rerank, which Ollama has not: the form that Jina,
// Cohere and vLLM have in common.
type Rerank struct {
	Model           string         `json:"model"`
	Query           string         `json:"query"`
	Documents       Documents      `json:"documents"`
	TopN            *int           `json:"top_n"`            // nil: all
	ReturnDocuments bool           `json:"return_documents"` // the texts are told too
	Instruction     string         `json:"instruction"`      // what the query is for
	Truncate        *bool          `json:"truncate"`         // nil: true
	KeepAlive       *api.Duration  `json:"keep_alive"`
	Options         map[string]any `json:"options"`
}

// Documents are texts, each alone or as the text of an object.
type Documents []string

// UnmarshalJSON reads a list. Error: what is no text.
func (d *Documents) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(b, &list) != nil {
		return body.Fail(400, "documents must be a list of texts")
	}
	*d = make([]string, len(list))
	for i, raw := range list {
		var o struct {
			Text *string `json:"text"`
		}
		if json.Unmarshal(raw, &(*d)[i]) == nil && string(raw) != "null" {
			continue
		}
		if json.Unmarshal(raw, &o) != nil || o.Text == nil {
			return body.Fail(400, "documents[%d] must be a text, or an object with a text", i)
		}
		(*d)[i] = *o.Text
	}
	return nil
}

// DecodeRerank reads the body of a reranking. Errors: what is missing or out of range, by its name.
func DecodeRerank(b []byte) (*prompt.Rerank, error) {
	r := new(Rerank)
	if err := body.Decode(b, r); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(r.Query) == "":
		return nil, body.Fail(400, "query is required")
	case len(r.Documents) == 0:
		return nil, body.Fail(400, "documents is required, and must not be empty")
	case r.TopN != nil && *r.TopN < 1:
		return nil, body.Fail(400, "top_n must be at least 1, got %d", *r.TopN)
	}
	return &prompt.Rerank{Model: r.Model, Options: r.Options, KeepAlive: ollamatype.KeepAlive(r.KeepAlive), Write: r.write,
		Ask: ask.RerankRequest{Query: r.Query, Documents: r.Documents, Instruction: r.Instruction, Truncate: yes(r.Truncate)}}, nil
}

// Ranked is an answer to a reranking.
type Ranked struct {
	Model   string       `json:"model"`
	Results []RankedItem `json:"results"`
	Scoring string       `json:"scoring"` // what the scores are: ask.ScoringYesNo or ask.ScoringCosine
	Usage   struct {
		PromptTokens int `json:"prompt_tokens"`
		CachedTokens int `json:"cached_tokens"`
		TotalTokens  int `json:"total_tokens"`
	} `json:"usage"`
}

// RankedItem is a document's place among the others.
type RankedItem struct {
	Index    int             `json:"index"` // among the request's documents
	Score    float64         `json:"relevance_score"`
	Document *RankedDocument `json:"document,omitempty"`
}

// RankedDocument is its text.
type RankedDocument struct {
	Text string `json:"text"`
}

// write writes the answer, the best document first, equal ones in the request's order. Error:
// a score that is no number, before anything is written.
func (r *Rerank) write(w io.Writer, got ask.Ranking) error {
	order := make([]int, len(got.Scores))
	for i, s := range got.Scores {
		if order[i] = i; math.IsNaN(s) || math.IsInf(s, 0) {
			return body.Fail(500, "the score of document %d is no number", i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(got.Scores[b], got.Scores[a]) })
	if r.TopN != nil {
		order = order[:min(*r.TopN, len(order))]
	}
	out := Ranked{Model: r.Model, Results: []RankedItem{}, Scoring: got.Scoring}
	out.Usage.PromptTokens, out.Usage.CachedTokens, out.Usage.TotalTokens = got.Prompt, got.Cached, got.Prompt
	frame, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return body.Spread(w, frame, "results", len(order), func(i int) any {
		item := RankedItem{Index: order[i], Score: got.Scores[order[i]]}
		if r.ReturnDocuments {
			item.Document = &RankedDocument{r.Documents[order[i]]}
		}
		return item
	})
}
