package answer

import (
	"strconv"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/sampler/grammar"
	"github.com/axle-llm/axle/server/request"
)

const (
	maxWarnings = 8   // Warning headers of an answer
	maxWarning  = 240 // bytes of one
)

// notEnforced tells of what a schema asks for and its answer is not held to: the client in a
// Warning header for each, before the answer begins, and the log by keyword and place. Names that
// the schema chose are a client's words, and in the log only where prompts are.
func (a *Answers) notEnforced(x *request.Exchange, notes []grammar.Note) {
	for i, n := range notes[:min(len(notes), maxWarnings)] {
		text, place := n.String(), n.Place
		if i == maxWarnings-1 && len(notes) > maxWarnings {
			text = strconv.Itoa(len(notes)-i) + " more keywords are not enforced"
		}
		if len(text) > maxWarning {
			text = text[:maxWarning] + "…"
		}
		x.Writer.Header().Add("Warning", "299 axle "+strconv.QuoteToASCII(text))
		if a.o.Shared.LogPrompts {
			place = n.Where
		}
		a.log.Warn("a schema's keyword is not enforced", zap.String("path", x.Request.URL.Path), zap.String("keyword", n.Keyword),
			zap.String("place", request.Clip(place)), zap.Int("keywords", len(notes)))
	}
}
