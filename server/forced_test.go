package server_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestForcedEnds: the scripted model ends what it is made to say as soon as it may, free texts
// among it, in tokens that limits are met between.
func TestForcedEnds(t *testing.T) {
	r := newRig(t)
	const city = `"parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`
	for _, say := range []string{"what is the weather?", "[[say:prose]]", "[[say:<think>|hm|</think>|prose]]",
		`[[say:<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par]]`} {
		for _, more := range []string{"", `,"parallel_tool_calls":false`, `,"reasoning_effort":"none"`} {
			m := r.post("/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":"`+say+`"}],"tools":[`+
				`{"type":"function","function":{"name":"get_weather",`+city+`}}],"tool_choice":"required"`+more+`}`).object(t)
			c := asList(m["choices"])[0].(map[string]any)
			calls := asList(c["message"].(map[string]any)["tool_calls"])
			var args map[string]any
			if len(calls) == 1 {
				text, _ := calls[0].(map[string]any)["function"].(map[string]any)["arguments"].(string)
				_ = json.Unmarshal([]byte(text), &args)
			}
			_, output, _ := usageIn(m)
			if _, isText := args["city"].(string); !isText || c["finish_reason"] != "tool_calls" || output < 8 || output > 80 {
				t.Errorf("%s%s: %v", say, more, m)
			}
		}
	}
	if m := r.post("/v1/messages", chatBody("scripted-chat", "[[say:prose]]", `,"max_tokens":200,"tool_choice":{"type":"any"},"tools":[`+
		`{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`)).
		object(t); m["stop_reason"] != "tool_use" {
		t.Errorf("anthropic: %v", m)
	}
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                       `{"a":""}`,
		`{"type":"object","properties":{"a":{"type":"string","minLength":3}},"required":["a"]}`:                         `{"a":"}}}"}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"minItems":2}},"required":["a"]}`: `{"a":["",""]}`,
		`{"type":"string"}`: `""`,
	} {
		m := r.post("/api/chat", chatBody("scripted-chat", "[[say:prose]]", `,"stream":false,"think":false,"format":`+schema)).object(t)
		if got := m["message"].(map[string]any)["content"]; got != want || m["done_reason"] != "stop" {
			t.Errorf("%s: %v, want %s", schema, m, want)
		}
		for limit := 1; limit <= 3; limit++ {
			m := r.post("/api/chat", chatBody("scripted-chat", `[[say:{"aa":"bb cc"}]]`, fmt.Sprintf(
				`,"stream":false,"think":false,"options":{"num_predict":%d},"format":{"type":"object"}`, limit))).object(t)
			if m["done_reason"] != "length" || m["eval_count"] != float64(limit) {
				t.Errorf("%d tokens: %v", limit, m)
			}
		}
	}
}
