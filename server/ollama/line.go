package ollama

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/ollama/ollama/api"
)

// Line is v as one line of a native stream. What most lines of an answer are, a piece of text and nothing else, is written without
// reflection, which would take more of the processor than all else that a token costs here; anything with more in it goes through
// encoding/json.
func Line[R any](v R) ([]byte, error) {
	if b := textPart(any(&v)); b != nil {
		return append(b, '\n'), nil
	}
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}

// textPart is a response that has only text, as encoding/json writes it; nil for any other.
func textPart(v any) []byte {
	switch r := v.(type) {
	case *api.ChatResponse:
		m := &r.Message
		if !textOnly(r.Done, r.DoneReason, r.RemoteModel, r.RemoteHost, r.DebugInfo,
			len(r.Logprobs)+len(m.Images)+len(m.ToolCalls)+len(m.ToolName)+len(m.ToolCallID), &r.Metrics) {
			return nil
		}
		b := begin(r.Model, r.CreatedAt, len(m.Content)+len(m.Thinking))
		b = appendText(append(b, `,"message":{"role":`...), m.Role)
		b = appendText(append(b, `,"content":`...), m.Content)
		if m.Thinking != "" {
			b = appendText(append(b, `,"thinking":`...), m.Thinking)
		}
		return append(b, `},"done":false}`...)
	case *api.GenerateResponse:
		if !textOnly(r.Done, r.DoneReason, r.RemoteModel, r.RemoteHost, r.DebugInfo, len(r.Logprobs)+len(r.ToolCalls)+len(r.Context),
			&r.Metrics) {
			return nil
		}
		b := begin(r.Model, r.CreatedAt, len(r.Response)+len(r.Thinking))
		b = appendText(append(b, `,"response":`...), r.Response)
		if r.Thinking != "" {
			b = appendText(append(b, `,"thinking":`...), r.Thinking)
		}
		return append(b, `,"done":false}`...)
	}
	return nil
}

// textOnly: nothing is set that a piece of text has not; lists is the length of all that must be empty.
func textOnly(done bool, reason, remoteModel, remoteHost string, info *api.DebugInfo, lists int, m *api.Metrics) bool {
	return !done && reason == "" && remoteModel == "" && remoteHost == "" && info == nil && lists == 0 && *m == (api.Metrics{})
}

func begin(model string, at time.Time, text int) []byte {
	b := make([]byte, 0, 160+len(model)+text)
	b = appendText(append(b, `{"model":`...), model)
	b = append(b, `,"created_at":"`...)
	return append(at.AppendFormat(b, time.RFC3339Nano), '"')
}

// appendText adds a string as encoding/json writes it, which is asked for those that it does not write as they are.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c < ' ', c == '"', c == '\\', c == '<', c == '>', c == '&', c == 0x7f:
			return appendQuoted(b, s)
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
				return appendQuoted(b, s)
			}
			i += n
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendQuoted(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // no string fails
	return append(b, q...)
}
