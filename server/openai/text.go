package openai

import (
	"strconv"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// textAnswer is a chat completion that has only text, as encoding/json writes it, without the
// reflection that takes longer than all else in it; nil for any other, and for figures that
// encoding/json might write in another form.
func textAnswer(id string, p *prompt.Part, u usage) []byte {
	if !p.Done || len(p.Logprobs)+len(p.Calls) > 0 || !plainFigure(u.TTFT) || !plainFigure(u.TPS) {
		return nil
	}
	b := make([]byte, 0, 420+len(p.Model)+len(p.Text)+len(p.Thinking))
	b = body.AppendText(append(b, `{"id":`...), id)
	b = strconv.AppendInt(append(b, `,"object":"chat.completion","created":`...), p.Created.Unix(), 10)
	b = body.AppendText(append(b, `,"model":`...), p.Model)
	b = append(b, `,"system_fingerprint":"fp_ollama","choices":[{"index":0,"message":{"role":"assistant","content":`...)
	b = body.AppendText(b, p.Text)
	if p.Thinking != "" {
		b = body.AppendText(append(b, `,"reasoning":`...), p.Thinking)
	}
	b = append(b, `},"finish_reason":`...)
	if p.Reason == "" {
		b = append(b, "null"...)
	} else {
		b = body.AppendText(b, p.Reason)
	}
	b = strconv.AppendInt(append(b, `}],"usage":{"prompt_tokens":`...), int64(u.PromptTokens), 10)
	if d := u.PromptTokensDetails; d != nil {
		b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), int64(d.CachedTokens), 10)
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(u.CompletionTokens), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(u.TotalTokens), 10)
	if u.TTFT != 0 {
		b = strconv.AppendFloat(append(b, `,"ttft_ms":`...), u.TTFT, 'f', -1, 64)
	}
	if u.TPS != 0 {
		b = strconv.AppendFloat(append(b, `,"decode_tps":`...), u.TPS, 'f', -1, 64)
	}
	return append(b, "}}\n"...)
}

// plainFigure says whether encoding/json writes a number without an exponent.
func plainFigure(f float64) bool { return f == 0 || f >= 1e-6 && f < 1e21 }
