package server_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestContinues: in every dialect an answer goes on from a last message of the assistant's. Its
// prompt ends with those words, and a model that thinks does not think again.
func TestContinues(t *testing.T) {
	at := newRig(t)
	const said = `"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"Because it "}]`
	for _, tt := range []struct{ path, body string }{
		{"/api/chat", `{"model":"scripted-chat","stream":false,"think":true,` + said + `}`},
		{"/v1/chat/completions", `{"model":"scripted-chat",` + said + `}`},
		{"/v1/chat/completions", `{"model":"scripted-chat","continue_final_message":true,"add_generation_prompt":false,` + said + `}`},
		{"/v1/chat/completions", `{"model":"scripted-chat","add_generation_prompt":false,` + said + `}`},
		{"/v1/messages", `{"model":"scripted-chat","max_tokens":500,` + said + `}`},
	} {
		a := at.post(tt.path, tt.body)
		if a.code != 200 || !strings.Contains(a.body, "The sky is blue") || strings.Contains(a.body, "I say what air and water do") {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, a.code, a.body)
		}
	}
	a := at.post("/api/chat", `{"model":"scripted-chat","stream":false,"think":true,"messages":[{"role":"user","content":"Why?"}]}`)
	if !strings.Contains(a.body, "I say what air and water do") {
		t.Errorf("a first answer without a thought: %s", a.body)
	}

	var prompt struct {
		IDs []int32 `json:"token_ids"`
	}
	a = at.post("/v1/chat/completions/render", `{"model":"scripted-chat","continue_final_message":true,`+said+`}`)
	if err := json.Unmarshal([]byte(a.body), &prompt); err != nil || a.code != 200 {
		t.Fatalf("%d %s %v", a.code, a.body, err)
	}
	ids, _ := json.Marshal(prompt.IDs)
	var back struct {
		Prompt string `json:"prompt"`
	}
	a = at.post("/detokenize", `{"model":"scripted-chat","tokens":`+string(ids)+`}`)
	if err := json.Unmarshal([]byte(a.body), &back); err != nil ||
		!strings.HasSuffix(strings.TrimRight(back.Prompt, " "), "assistant\nBecause it") {
		t.Errorf("the prompt %q %v", back.Prompt, err)
	}

	const asked = `"messages":[{"role":"user","content":"Why?"}]`
	const called = `"messages":[{"role":"user","content":"Why?"},{"role":"assistant","tool_calls":[{"id":"c","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]}]`
	for _, tt := range []struct{ body, says string }{
		{`{"model":"scripted-chat","continue_final_message":true,` + asked + `}`, "wants a last message of the assistant's"},
		{`{"model":"scripted-chat","continue_final_message":true,` + called + `}`, "wants a last message of the assistant's"},
		{`{"model":"scripted-chat","continue_final_message":true,"add_generation_prompt":true,` + said + `}`, "together"},
		{`{"model":"scripted-chat","add_generation_prompt":false,` + asked + `}`, "add_generation_prompt cannot be false"},
		{`{"model":"scripted-chat","continue_final_message":"yes",` + said + `}`, "continue_final_message"},
	} {
		if a := at.post("/v1/chat/completions", tt.body); a.code != 400 || !strings.Contains(a.body, tt.says) {
			t.Errorf("%s: %d %s", tt.body, a.code, a.body)
		}
	}
}
