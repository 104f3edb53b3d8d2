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
		var plain api.ListResponse
		for _, l := range list.Models {
			plain.Models = append(plain.Models, l.ListModelResponse)
		}
		b, err = openai.Models(plain)
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
