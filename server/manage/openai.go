package manage

import (
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/openai"
)

// OpenAIModels is the list as OpenAI has it.
func (m *Manager) OpenAIModels(x *exchange.Exchange) {
	list, err := m.list(x.Ctx())
	var b []byte
	if err == nil {
		b, err = openai.Models(list)
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusOK, exchange.JSONV1, b)
}

// OpenAIModel is one model as OpenAI has it.
func (m *Manager) OpenAIModel(x *exchange.Exchange) {
	id := strings.TrimPrefix(x.Param("model"), "/")
	if id == "" {
		x.Redirect(http.StatusMovedPermanently, "/v1/models")
		return
	}
	resp, err := m.describe(api.ShowRequest{Model: id})
	var b []byte
	if err == nil {
		b, err = openai.Model(*resp, id)
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusOK, exchange.JSONV1, b)
}
