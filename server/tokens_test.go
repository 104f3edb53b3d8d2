package server_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// TestRender: a request is rendered as the model would be given it, in vLLM's form, on the main
// port and, without a key, on that of the metrics. What is told is what the answer then counts.
func TestRender(t *testing.T) {
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Keys = newKeys("ann", "secret-of-ann") })
	ts := httptest.NewServer(r.MetricsHandler(true))
	defer ts.Close()
	apart := &rig{Server: r.Server, t: t, url: ts.URL}
	key := []string{"Authorization", "Bearer secret-of-ann"}
	long := strings.Repeat("word ", 6000)
	for _, tt := range []struct{ path, body string }{
		{"/v1/chat/completions", chatBody("scripted-chat", "[[say:x]] one two three", `,"max_tokens":7,"seed":3,"stop":["END"]`)},
		{"/v1/completions", `{"model":"scripted-chat","prompt":"[[say:x]] one two three","max_tokens":7,"seed":3,"stop":["END"]}`},
		{"/v1/chat/completions", `{"model":"scripted-chat","max_tokens":7,"seed":3,"stop":["END"],"messages":[{"role":"system","content":"be brief"},` +
			`{"role":"user","content":"` + long + `"},{"role":"assistant","content":"ok"},{"role":"user","content":"[[say:x]] and now"}]}`},
	} {
		type generate struct {
			ID       string  `json:"request_id"`
			TokenIDs []int32 `json:"token_ids"`
			Features any     `json:"features"`
			Sampling struct {
				N           int      `json:"n"`
				MaxTokens   int      `json:"max_tokens"`
				Temperature float64  `json:"temperature"`
				TopP        float64  `json:"top_p"`
				TopK        int      `json:"top_k"`
				MinP        float64  `json:"min_p"`
				Presence    float64  `json:"presence_penalty"`
				Frequency   float64  `json:"frequency_penalty"`
				Repetition  float64  `json:"repetition_penalty"`
				Seed        int      `json:"seed"`
				Stop        []string `json:"stop"`
			} `json:"sampling_params"`
			Model    string `json:"model"`
			Stream   bool   `json:"stream"`
			Options  any    `json:"stream_options"`
			Salt     any    `json:"cache_salt"`
			Priority int    `json:"priority"`
			Transfer any    `json:"kv_transfer_params"`
		}
		var all [2]generate
		for i, a := range []answer{r.post(tt.path+"/render", tt.body, key...), apart.post(tt.path+"/render", tt.body)} {
			if a.code != 200 || a.header.Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %d %v %.300s", tt.path, a.code, a.header, a.body)
			}
			if tt.path == "/v1/completions" { // vLLM has a list, of one for each prompt
				var list []generate
				strict(t, []byte(a.body), &list)
				if len(list) != 1 {
					t.Fatalf("%.300s", a.body)
				}
				all[i] = list[0]
				continue
			}
			strict(t, []byte(a.body), &all[i])
		}
		g := all[0]
		if p := g.Sampling; g.Model != "scripted-chat" || g.ID == "" || p.N != 1 || p.MaxTokens != 7 || p.Seed != 3 ||
			!slices.Equal(p.Stop, []string{"END"}) || !slices.Equal(g.TokenIDs, all[1].TokenIDs) {
			t.Errorf("%s: %+v and %+v", tt.path, g, all[1])
		}
		done := r.post(tt.path, tt.body, key...).object(t)
		if n := done["usage"].(map[string]any)["prompt_tokens"]; n != float64(len(g.TokenIDs)) || len(g.TokenIDs) == 0 {
			t.Errorf("%s: rendered to %d tokens, evaluated %v", tt.path, len(g.TokenIDs), n)
		}
	}
	if a := r.post("/v1/chat/completions/render", chatBody("scripted-chat", "x", "")); a.code != 401 {
		t.Errorf("without a key: %d", a.code)
	}
}

// TestTokenize: text to tokens and back, in vLLM's form.
func TestTokenize(t *testing.T) {
	r := newRig(t)
	ts := httptest.NewServer(r.MetricsHandler(true))
	defer ts.Close()
	for _, at := range []*rig{r, {Server: r.Server, t: t, url: ts.URL}} {
		var said struct {
			Count   int      `json:"count"`
			Max     int      `json:"max_model_len"`
			Tokens  []int32  `json:"tokens"`
			Strings []string `json:"token_strs"`
		}
		a := at.post("/tokenize", `{"model":"scripted-chat","prompt":"red green blue","return_token_strs":true}`)
		strict(t, []byte(a.body), &said)
		if said.Count != 3 || said.Max != 4096 || len(said.Tokens) != 3 || strings.Join(said.Strings, "|") != "red| green| blue" {
			t.Errorf("%d %s", a.code, a.body)
		}
		ids, _ := json.Marshal(said.Tokens)
		if a := at.post("/detokenize", `{"model":"scripted-chat","tokens":`+string(ids)+`}`); a.body != `{"prompt":"red green blue"}`+"\n" {
			t.Errorf("%d %s", a.code, a.body)
		}
		for body, want := range map[string]string{
			`{"model":"scripted-chat","prompt":""}`:                                `{"count":0,"max_model_len":4096,"tokens":[],"token_strs":null}`,
			`{"model":"scripted-embed","prompt":"red","add_special_tokens":false}`: `{"count":1,`,
			`{"model":"scripted-chat","prompt":"a b","add_special_tokens":false}`:  `{"count":2,`,
			`{"model":"scripted-chat","messages":[{"role":"user","content":"x"}]}`: `{"count":`,
			`{"model":"scripted-chat","add_generation_prompt":false,"continue_final_message":true,"messages":` +
				`[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`: `{"count":`,
		} {
			if a := at.post("/tokenize", body); a.code != 200 || !strings.HasPrefix(a.body, want) {
				t.Errorf("%s: %d %s", body, a.code, a.body)
			}
		}
		if a := at.post("/detokenize", `{"model":"scripted-chat","tokens":[]}`); a.body != `{"prompt":""}`+"\n" {
			t.Errorf("%d %s", a.code, a.body)
		}
	}
	chat := `"messages":[{"role":"user","content":"x"}]`
	for _, tt := range []struct {
		path, body string
		code       int
		says       string
	}{
		{"/tokenize", `{}`, 400, "prompt is missing"},
		{"/tokenize", `{"model":"none","prompt":"x"}`, 404, "none"},
		{"/tokenize", `{"prompt":"x"}`, 400, "model is required"},
		{"/tokenize", `{"model":"scripted-chat","prompt":["x"]}`, 400, "prompt"},
		{"/tokenize", `{"model":"scripted-chat","prompt":"x",` + chat + `}`, 400, "send one of them"},
		{"/tokenize", `{"model":"scripted-chat","chat_template":"x",` + chat + `}`, 400, "chat_template is not accepted"},
		{"/tokenize", `{"model":"scripted-chat","add_special_tokens":true,` + chat + `}`, 400, "add_special_tokens is not accepted"},
		{"/tokenize", `{"model":"scripted-chat","add_generation_prompt":false,` + chat + `}`, 400, "add_generation_prompt cannot be false"},
		{"/tokenize", `{"model":"scripted-chat","continue_final_message":true,` + chat + `}`, 400, "continue_final_message wants a last message"},
		{"/tokenize", `{"model":"scripted-chat","messages":[{"role":"assistant","content":"x"}]}`, 400, "must be true if"},
		{"/tokenize", `{"model":"scripted-chat","continue_final_message":true,"add_generation_prompt":true,` + chat + `}`, 400, "together"},
		{"/tokenize", `{"model":"scripted-hearing","prompt":"x"}`, 400, "does not support"},
		{"/tokenize", `{"model":"scripted-chat","prompt":"` + strings.Repeat("x ", 1<<19) + `"}`, 413, "too large"},
		{"/detokenize", `{"model":"scripted-chat"}`, 400, "tokens is missing"},
		{"/detokenize", `{"tokens":[1]}`, 400, "model is required"},
		{"/detokenize", `{"model":"none","tokens":[1]}`, 404, "none"},
		{"/detokenize", `{"model":"scripted-hearing","tokens":[1]}`, 400, "does not support"},
		{"/detokenize", `{"model":"scripted-chat","tokens":[-1]}`, 400, "token id -1 is outside"},
		{"/detokenize", `{"model":"scripted-chat","tokens":[9223372036854775807]}`, 400, "token id 9223372036854775807 is outside"},
		{"/detokenize", `{"model":"scripted-chat","tokens":[1.5]}`, 400, "tokens"},
		{"/detokenize", fmt.Sprintf(`{"model":"scripted-chat","tokens":[0%s]}`, strings.Repeat(",0", 1<<16)), 400, "at most 65536"},
	} {
		a := r.post(tt.path, tt.body)
		var e struct {
			Error struct{ Message, Type string }
		}
		if json.Unmarshal([]byte(a.body), &e); a.code != tt.code || !strings.Contains(e.Error.Message, tt.says) || e.Error.Type == "" {
			t.Errorf("%s %.90s: %d %.300s, want %d %q", tt.path, tt.body, a.code, a.body, tt.code, tt.says)
		}
	}
}
