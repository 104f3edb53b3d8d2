package answer

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/request"
)

// cutHeader tells a client that its prompt was cut, which the body has no place for in any dialect.
const cutHeader = "Axle-Truncated"

// cut tells of a prompt that did not fit and was cut, as Ollama cuts it: the log with what would
// help, the metrics, and the client in a header, since an answer to half a question reads like that
// of a bad model. Of many inputs that are embedded at once the log and the header have the first.
func (a *Answers) cut(x *request.Exchange, all ...ask.Cut) {
	for _, k := range all {
		h := x.Writer.Header()
		first := h.Get(cutHeader) == ""
		if first {
			h.Set(cutHeader, fmt.Sprintf("limit=%d, prompt=%d, kept=%d, cut=%d", k.Limit, k.Prompt, k.Kept, k.Prompt-k.Kept))
		}
		a.noteCut(k, first, x.Request.URL.Path, x.Log.Model, x.Request.RemoteAddr)
	}
}

// noteCut counts a prompt that was cut, and tells the log where say is set.
func (a *Answers) noteCut(k ask.Cut, say bool, path, model, client string) {
	a.Figures.cuts.Add(1)
	a.Figures.cutTokens.Add(uint64(k.Prompt - k.Kept))
	if say {
		a.log.Warn("a prompt did not fit and was cut: a model of a longer context, a larger num_ctx or a shorter prompt (fewer tools) "+
			"would keep it",
			zap.String("path", request.Clip(path)), zap.String("model", model), zap.Int("limit", k.Limit), zap.Int("prompt", k.Prompt),
			zap.Int("kept", k.Kept), zap.Int("cut", k.Prompt-k.Kept), zap.String("client", client))
	}
}
