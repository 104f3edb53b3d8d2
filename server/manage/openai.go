package manage

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/openai"
	"github.com/axle-llm/axle/server/request"
)

// OpenAIModels is the list as OpenAI has it.
func (m *Manager) OpenAIModels(x *request.Exchange) error {
	entries, err := m.entries(x.Ctx())
	if err != nil {
		return err
	}
	var all []openai.Listed
	for _, e := range entries {
		all = append(all, openai.Listed{Model: openai.OfTag(listed(e).ListModelResponse), Lengths: m.lengths(e), Says: e.Says()})
	}
	b, err := openai.Models(all)
	if err == nil {
		x.Reply().Whole(http.StatusOK, request.JSONV1, b)
	}
	return err
}

// lengths are what the model's context takes. Of a package without calls of many rows, prompts are
// taken whole all the same, row by row.
func (m *Manager) lengths(e *catalog.Entry) openai.Lengths {
	if e.Says() != "" {
		return openai.Lengths{}
	}
	return openai.Lengths{Model: e.Window(m.o.ContextLength), Prefill: cmp.Or(e.Info.Prefill, e.Info.Context), Tokens: e.Info.Context}
}

// OpenAIModel is one model as OpenAI has it.
func (m *Manager) OpenAIModel(x *request.Exchange) error {
	id := strings.TrimPrefix(x.Param("model"), "/")
	if id == "" {
		x.Redirect(http.StatusMovedPermanently, "/v1/models")
		return nil
	}
	e, resp, err := m.describe(api.ShowRequest{Model: id})
	if err != nil {
		return err
	}
	b, err := openai.Model(*resp, id, m.lengths(e), e.Says())
	if err == nil {
		x.Reply().Whole(http.StatusOK, request.JSONV1, b)
	}
	return err
}
