package ollama

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/body"
)

// Object is v as JSON. What most answers and their parts are, text and at the end the figures, is
// written without reflection, which would take more of the processor than all else that a token
// costs here; anything with more in it goes through encoding/json.
func Object[R any](v R) ([]byte, error) {
	if b := textPart(any(&v)); b != nil {
		return b, nil
	}
	return json.Marshal(v)
}

// textPart is a response that has only text and figures, as encoding/json writes it; nil for any
// other.
func textPart(v any) []byte {
	switch r := v.(type) {
	case *api.ChatResponse:
		m := &r.Message
		if !textOnly(r.RemoteModel, r.RemoteHost, r.DebugInfo,
			len(r.Logprobs)+len(m.Images)+len(m.ToolCalls)+len(m.ToolName)+len(m.ToolCallID)) {
			return nil
		}
		b := begin(r.Model, r.CreatedAt, len(m.Content)+len(m.Thinking), r.Done)
		b = body.AppendText(append(b, `,"message":{"role":`...), m.Role)
		b = body.AppendText(append(b, `,"content":`...), m.Content)
		if m.Thinking != "" {
			b = body.AppendText(append(b, `,"thinking":`...), m.Thinking)
		}
		return end(append(b, '}'), r.Done, r.DoneReason, &r.Metrics)
	case *api.GenerateResponse:
		if !textOnly(r.RemoteModel, r.RemoteHost, r.DebugInfo, len(r.Logprobs)+len(r.ToolCalls)+len(r.Context)) {
			return nil
		}
		b := begin(r.Model, r.CreatedAt, len(r.Response)+len(r.Thinking), r.Done)
		b = body.AppendText(append(b, `,"response":`...), r.Response)
		if r.Thinking != "" {
			b = body.AppendText(append(b, `,"thinking":`...), r.Thinking)
		}
		return end(b, r.Done, r.DoneReason, &r.Metrics)
	}
	return nil
}

// textOnly: nothing is set that text and figures are not; lists is the length of all that must be
// empty.
func textOnly(remoteModel, remoteHost string, info *api.DebugInfo, lists int) bool {
	return remoteModel == "" && remoteHost == "" && info == nil && lists == 0
}

func begin(model string, at time.Time, text int, last bool) []byte {
	n := 160 + len(model) + text
	if last {
		n += 240 // the figures
	}
	b := make([]byte, 0, n)
	b = body.AppendText(append(b, `{"model":`...), model)
	b = append(b, `,"created_at":"`...)
	return append(at.AppendFormat(b, time.RFC3339Nano), '"')
}

// end adds what stands behind the text: whether the answer is done, why, and what it took.
func end(b []byte, done bool, reason string, m *api.Metrics) []byte {
	b = strconv.AppendBool(append(b, `,"done":`...), done)
	if reason != "" {
		b = body.AppendText(append(b, `,"done_reason":`...), reason)
	}
	b = figure(b, `,"total_duration":`, int64(m.TotalDuration))
	b = figure(b, `,"load_duration":`, int64(m.LoadDuration))
	b = figure(b, `,"prompt_eval_count":`, int64(m.PromptEvalCount))
	if n := m.PromptEvalCachedCount; n != nil { // which is told where it is 0 too
		b = strconv.AppendInt(append(b, `,"prompt_eval_cached_count":`...), int64(*n), 10)
	}
	b = figure(b, `,"prompt_eval_duration":`, int64(m.PromptEvalDuration))
	b = figure(b, `,"eval_count":`, int64(m.EvalCount))
	b = figure(b, `,"eval_duration":`, int64(m.EvalDuration))
	return append(b, '}')
}

// figure adds one that is not 0.
func figure(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}
