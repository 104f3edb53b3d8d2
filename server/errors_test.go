package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// The catalogue of Ollama's errors, text by text.
func TestErrors(t *testing.T) {
	//proves:T3
	r := newRig(t)
	long := strings.Repeat("word ", 200)
	for _, tt := range []struct {
		name, method, path, body string
		code                     int
		text                     string
	}{
		{"no body", "POST", "/api/chat", "", 400, "missing request body"},
		{"no body", "POST", "/api/generate", "", 400, "missing request body"},
		{"no body", "POST", "/api/embed", "", 400, "missing request body"},
		{"no body", "POST", "/api/embeddings", "", 400, "missing request body"},
		{"no body", "POST", "/api/show", "", 400, "missing request body"},
		{"no body", "POST", "/api/create", "", 400, "missing request body"},
		{"no body", "POST", "/api/copy", "", 400, "missing request body"},
		{"no body", "POST", "/api/pull", "", 400, "missing request body"},
		{"no body", "POST", "/api/push", "", 400, "missing request body"},
		{"no body", "DELETE", "/api/delete", "", 400, "missing request body"},
		{"no body", "POST", "/api/experimental/web_search", "", 400, "missing request body"},
		{"truncated", "POST", "/api/chat", `{"model":"scripted-chat","messages":[{"role"`, 400, "unexpected EOF"},
		{"truncated", "POST", "/api/generate", `{"model":`, 400, "unexpected EOF"},
		{"wrong type", "POST", "/api/chat", `{"model":"scripted-chat","messages":"hi"}`, 400,
			"json: cannot unmarshal string into Go struct field .ChatRequest.messages of type []api.Message"},
		{"wrong type", "POST", "/api/generate", `{"model":5}`, 400,
			"json: cannot unmarshal number into Go struct field .GenerateRequest.model of type string"},
		{"content list", "POST", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":[]}]}`, 400,
			"json: cannot unmarshal array into Go struct field .ChatRequest.messages.content of type string"},
		{"no model", "POST", "/api/generate", `{}`, 404, "model '' not found"},
		{"no model", "POST", "/api/embed", `{}`, 404, "model '' not found"},
		{"no model", "POST", "/api/chat", `{}`, 400, "model is required"},
		{"no model", "POST", "/api/embeddings", `{}`, 400, "model is required"},
		{"no model", "POST", "/api/show", `{}`, 400, "model is required"},
		{"no model", "POST", "/api/push", `{}`, 400, "model is required"},
		{"no model", "DELETE", "/api/delete", `{}`, 400, "model is required"},
		{"no model", "POST", "/api/pull", `{}`, 400, "invalid model name"},
		{"no model", "POST", "/api/create", `{}`, 400, "invalid model name"},
		{"no source", "POST", "/api/copy", `{}`, 400, `source "" is invalid`},
		{"no destination", "POST", "/api/copy", `{"source":"scripted"}`, 400, `destination "" is invalid`},
		{"unknown", "POST", "/api/generate", `{"model":"nope:1b"}`, 404, "model 'nope:1b' not found"},
		{"unknown", "POST", "/api/chat", `{"model":"nope:1b"}`, 404, "model 'nope:1b' not found"},
		{"unknown", "POST", "/api/show", `{"model":"nope:1b"}`, 404, "model 'nope:1b' not found"},
		{"unknown, no tag", "POST", "/api/show", `{"model":"nope"}`, 404, "model 'nope:latest' not found"},
		{"unknown, no tag", "POST", "/api/chat", `{"model":"nope"}`, 404, "model 'nope' not found"},
		{"unknown", "DELETE", "/api/delete", `{"model":"nope:1b"}`, 404, "model 'nope:1b' not found"},
		{"unknown", "POST", "/api/embed", `{"model":"nope:1b"}`, 404, `model "nope:1b" not found, try pulling it first`},
		{"unknown", "POST", "/api/embeddings", `{"model":"nope:1b"}`, 404, `model "nope:1b" not found, try pulling it first`},
		{"unknown", "POST", "/api/copy", `{"source":"nope","destination":"b"}`, 404, `model "nope" not found`},
		{"malformed", "POST", "/api/chat", `{"model":"../../etc"}`, 400, "invalid model name"},
		{"malformed", "POST", "/api/generate", `{"model":"a b"}`, 400, "invalid model name"},
		{"malformed", "POST", "/api/show", `{"model":"-x"}`, 400, "invalid model name"},
		{"both sources", "POST", "/api/chat", `{"model":"x:local:cloud"}`, 400, `use either :local or :cloud, not both: "x:local:cloud"`},
		{"cloud", "POST", "/api/chat", `{"model":"gpt-oss:120b-cloud"}`, 403, "ollama cloud is disabled: remote model is unavailable"},
		{"cloud", "POST", "/api/generate", `{"model":"gpt-oss:cloud"}`, 403, "ollama cloud is disabled: remote model is unavailable"},
		{"cloud", "POST", "/api/show", `{"model":"scripted:cloud"}`, 403, "ollama cloud is disabled: remote model details are unavailable"},
		{"cloud", "DELETE", "/api/delete", `{"model":"scripted:cloud"}`, 404, "model 'scripted:cloud' not found"},
		{"license", "POST", "/api/create", `{"model":"b","from":"scripted","license":5}`, 400,
			"license must be a string or a list of strings: got float64"},
		{"license", "POST", "/api/create", `{"model":"b","from":"scripted","license":["a",5]}`, 400,
			"license must be a string or a list of strings: element 1 is float64"},
		{"create of no digest", "POST", "/api/create", `{"model":"b","files":{"a":"sha256:12"}}`, 400,
			"invalid digest for a: invalid digest format"},
		{"web search", "POST", "/api/experimental/web_search", `{"query":"x"}`, 403, "ollama cloud is disabled: web search is unavailable"},
		{"web fetch", "POST", "/api/experimental/web_fetch", `{"url":"x"}`, 403, "ollama cloud is disabled: web fetch is unavailable"},
		{"account", "POST", "/api/me", ``, 503, "account unavailable"},
		{"tools", "POST", "/api/chat",
			`{"model":"scripted","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`, 400,
			"registry.ollama.ai/library/scripted:latest does not support tools"},
		{"insert", "POST", "/api/generate", `{"model":"scripted","prompt":"a","suffix":"b"}`, 400,
			"registry.ollama.ai/library/scripted:latest does not support insert"},
		{"think", "POST", "/api/chat", `{"model":"scripted","messages":[{"role":"user","content":"x"}],"think":true}`, 400,
			`"scripted" does not support thinking`},
		{"think", "POST", "/api/generate", `{"model":"scripted","prompt":"x","think":"high"}`, 400, `"scripted" does not support thinking`},
		{"embedding chat", "POST", "/api/chat", `{"model":"scripted-embed","messages":[{"role":"user","content":"x"}]}`, 400,
			`"scripted-embed" does not support chat`},
		{"embedding generate", "POST", "/api/generate", `{"model":"scripted-embed","prompt":"x"}`, 400,
			`"scripted-embed" does not support generate`},
		{"think word", "POST", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"x"}],"think":"banana"}`, 400,
			`invalid think value: "banana" (must be "high", "medium", "low", "max", true, or false)`},
		{"think number", "POST", "/api/chat", `{"model":"scripted-chat","messages":[],"think":5}`, 400,
			"think must be a boolean or string"},
		{"top logprobs", "POST", "/api/chat",
			`{"model":"scripted-chat","messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":21}`, 400,
			"top_logprobs must be between 0 and 20"},
		{"top logprobs", "POST", "/api/generate", `{"model":"scripted","prompt":"x","top_logprobs":-1}`, 400,
			"top_logprobs must be between 0 and 20"},
		{"raw and system", "POST", "/api/generate", `{"model":"scripted","prompt":"x","raw":true,"system":"y"}`, 400,
			"raw mode does not support template, system, or context"},
		{"raw and template", "POST", "/api/generate", `{"model":"scripted","prompt":"x","raw":true,"template":"y"}`, 400,
			"raw mode does not support template, system, or context"},
		{"raw and context", "POST", "/api/generate", `{"model":"scripted","prompt":"x","raw":true,"context":[1]}`, 400,
			"raw mode does not support template, system, or context"},
		{"format", "POST", "/api/generate", `{"model":"scripted","prompt":"x","format":"yaml"}`, 500,
			`invalid format: "\"yaml\""; expected "json" or a valid JSON Schema object`},
		{"format", "POST", "/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":"x"}],"format":[1]}`, 500,
			`invalid format: "[1]"; expected "json" or a valid JSON Schema object`},
		{"template", "POST", "/api/generate", `{"model":"scripted","prompt":"x","template":"{{ .Prompt"}`, 500,
			"template: :1: unclosed action"},
		{"create template", "POST", "/api/create", `{"model":"b","from":"scripted","template":"{{ .Prompt"}`, 400,
			"template error: template: :1: unclosed action"},
		{"image", "POST", "/api/chat", `{"model":"scripted-vision","messages":[{"role":"user","content":"x","images":["!!"]}]}`, 400,
			"illegal base64 data at input byte 0"},
		{"arguments as text", "POST", "/api/chat",
			`{"model":"scripted-chat","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`, 400,
			"Value looks like object, but can't find closing '}' symbol"},
		{"too long", "POST", "/api/generate", `{"model":"scripted","prompt":"` + long + `","shift":false,"options":{"num_ctx":64}}`, 400,
			"the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context " +
				"length in settings, or use a model with a longer context length"},
		{"too long, no truncation", "POST", "/api/generate", `{"model":"scripted","prompt":"` + long +
			`","truncate":false,"options":{"num_ctx":64}}`, 400,
			"request (200 tokens) exceeds the available context size (64 tokens), try increasing it"},
		{"embed too long", "POST", "/api/embed", `{"model":"scripted-embed","input":"` + strings.Repeat("a ", 5000) + `","truncate":false}`,
			400, "the input length exceeds the context length (5000 tokens, the context has 4096)"},
		{"embed number", "POST", "/api/embed", `{"model":"scripted-embed","input":5}`, 400, "invalid input type"},
		{"embed mixed", "POST", "/api/embed", `{"model":"scripted-embed","input":["a",5]}`, 400, "invalid input type"},
		{"typical_p", "POST", "/api/generate", `{"model":"scripted","prompt":"x","options":{"typical_p":0.5}}`, 400,
			"typical_p is no longer supported"},
		{"temperature type", "POST", "/api/generate", `{"model":"scripted","prompt":"x","options":{"temperature":"hot"}}`, 500,
			`option "temperature" must be of type float32`},
		{"num_ctx type", "POST", "/api/generate", `{"model":"scripted","prompt":"x","options":{"num_ctx":"big"}}`, 500,
			`option "num_ctx" must be of type integer`},
		{"stop type", "POST", "/api/generate", `{"model":"scripted","prompt":"x","options":{"stop":"x"}}`, 500,
			`option "stop" must be of type array`},
		{"keep_alive number as text", "POST", "/api/generate", `{"model":"scripted","keep_alive":"5"}`, 400,
			`time: missing unit in duration "5"`},
		{"keep_alive word", "POST", "/api/generate", `{"model":"scripted","keep_alive":"banana"}`, 400, `time: invalid duration "banana"`},
		{"keep_alive empty", "POST", "/api/generate", `{"model":"scripted","keep_alive":""}`, 400, `time: invalid duration ""`},
		{"keep_alive bool", "POST", "/api/generate", `{"model":"scripted","keep_alive":true}`, 400, `Unsupported type: 'bool'`},
		{"create from nothing", "POST", "/api/create", `{"model":"b","modelfile":"FROM scripted"}`, 400,
			"neither 'from' or 'files' was specified"},
		{"create adapters", "POST", "/api/create", `{"model":"b","from":"scripted","adapters":{"a":"b"}}`, 400,
			"LoRA adapters are no longer supported"},
		{"blob digest", "POST", "/api/blobs/sha256:12", `x`, 400, "invalid digest format"},
		{"blob mismatch", "POST", "/api/blobs/sha256:" + strings.Repeat("0", 64), `x`, 400, `digest mismatch, expected "sha256:` +
			strings.Repeat("0", 64) + `", got "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"`},
		{"scripted error", "POST", "/api/generate", `{"model":"scripted","prompt":"[[err:418:short and stout]]"}`, 418, "short and stout"},
		{"scripted error, whole", "POST", "/api/chat",
			`{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"[[err:503:later]]"}]}`, 503, "later"},
		{"backend died", "POST", "/api/chat", `{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"[[crash]]"}]}`,
			500, "an error was encountered while running the model: unexpected EOF"},
	} {
		t.Run(tt.name+" "+tt.path, func(t *testing.T) {
			a := r.do(tt.method, tt.path, tt.body)
			if got := a.errText(t); a.code != tt.code || got != tt.text {
				t.Errorf("got %d %q\nwant %d %q", a.code, got, tt.code, tt.text)
			}
			if ct := a.header.Get("Content-Type"); ct != "application/json; charset=utf-8" {
				t.Errorf("content type %q", ct)
			}
			if tt.code == 503 && a.header.Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
		})
	}
}

// What /v1 says, in OpenAI's form.
func TestErrorsV1(t *testing.T) {
	r := newRig(t)
	const user = `"messages":[{"role":"user","content":"x"}]`
	for _, tt := range []struct {
		path, body string
		code       int
		kind, text string
	}{
		{"/v1/chat/completions", "", 400, "invalid_request_error", "EOF"},
		{"/v1/chat/completions", `{"model":"scripted-chat","messages":[]}`, 400, "invalid_request_error", "[] is too short - 'messages'"},
		{"/v1/chat/completions", `{` + user + `}`, 400, "invalid_request_error", "model is required"},
		{"/v1/chat/completions", `{"model":"nope",` + user + `}`, 404, "not_found_error", "model 'nope' not found"},
		{"/v1/chat/completions",
			`{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]}`,
			400, "invalid_request_error", "image URLs are not currently supported, please use base64 encoded data instead"},
		{"/v1/chat/completions",
			`{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/html;base64,AA"}}]}]}`,
			400, "invalid_request_error", "invalid image input"},
		{"/v1/chat/completions", `{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"hologram"}]}]}`, 400,
			"invalid_request_error", "invalid message format"},
		{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":null}]}`, 400, "invalid_request_error",
			"invalid message content type: <nil>"},
		{"/v1/chat/completions",
			`{"model":"scripted-chat","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{"}}]}]}`,
			400, "invalid_request_error", "invalid tool call arguments"},
		{"/v1/chat/completions", `{"model":"scripted-chat","reasoning_effort":"banana",` + user + `}`, 400, "invalid_request_error",
			`invalid reasoning value: "banana" (must be "minimal", "low", "medium", "high", "xhigh", "ultra", "max", or "none")`},
		{"/v1/chat/completions", `{"model":"scripted","reasoning_effort":"high",` + user + `}`, 400, "invalid_request_error",
			`"scripted" does not support thinking`},
		{"/v1/chat/completions", `{"model":"scripted-chat","tool_choice":"required",` + user + `}`, 400, "invalid_request_error",
			`tool_choice is "required", but no tools are offered`},
		{"/v1/chat/completions", `{"model":"scripted-chat","logit_bias":{"x":1},` + user + `}`, 400, "invalid_request_error",
			`logit_bias: "x" is no token id`},
		{"/v1/completions", `{"model":"scripted","prompt":["a"]}`, 400, "invalid_request_error",
			"json: cannot unmarshal array into Go struct field CompletionRequest.prompt of type string"},
		{"/v1/embeddings", `{"model":"scripted-embed","input":[1,2]}`, 400, "invalid_request_error", "invalid input type"},
		{"/v1/embeddings", `{"model":"scripted-embed","input":[]}`, 400, "invalid_request_error", "invalid input"},
		{"/v1/embeddings", `{"model":"scripted-embed","input":null}`, 400, "invalid_request_error", "invalid input"},
		{"/v1/embeddings", `{"model":"scripted-embed","input":"x","encoding_format":"int8"}`, 400, "invalid_request_error",
			"Invalid value for 'encoding_format' = int8. Supported values: ['float', 'base64']."},
		{"/v1/responses", `{"model":"scripted-chat","input":[{"type":"computer_call"}]}`, 400, "invalid_request_error",
			`input[0]: unknown input item type: "computer_call"`},
		{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":"[[err:500:broken]]"}]}`, 500, "api_error",
			"broken"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			a := r.post(tt.path, tt.body)
			want := fmt.Sprintf(`{"error":{"message":%s,"type":%q,"param":null,"code":null}}`, quote(tt.text), tt.kind)
			if a.code != tt.code || strings.TrimSpace(a.body) != want {
				t.Errorf("got %d %s\nwant %d %s", a.code, a.body, tt.code, want)
			}
		})
	}
	for _, tt := range []struct {
		body       string
		code       int
		kind, text string
	}{
		{`{"messages":[{"role":"user","content":"x"}],"max_tokens":1}`, 400, "invalid_request_error", "model is required"},
		{`{"model":"scripted-chat","messages":[{"role":"user","content":"x"}]}`, 400, "invalid_request_error",
			"max_tokens is required and must be positive"},
		{`{"model":"scripted-chat","max_tokens":5,"messages":[]}`, 400, "invalid_request_error", "messages is required"},
		{`{"model":"nope","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`, 404, "not_found_error", "model 'nope' not found"},
		{`{"model":"scripted-chat","max_tokens":5,"messages":[{"role":"user","content":"[[err:503:full]]"}]}`, 503, "overloaded_error",
			"full"},
	} {
		a := r.post("/v1/messages", tt.body)
		m := a.object(t)
		e, _ := m["error"].(map[string]any)
		id, _ := m["request_id"].(string)
		if a.code != tt.code || m["type"] != "error" || e["type"] != tt.kind || e["message"] != tt.text || !strings.HasPrefix(id, "req_") ||
			len(id) != 28 {
			t.Errorf("got %d %s\nwant %d %s %s", a.code, a.body, tt.code, tt.kind, tt.text)
		}
	}
	a := r.do("GET", "/v1/models/nope", "")
	if a.code != 404 || !strings.Contains(a.body, "model 'nope:latest' not found") {
		t.Errorf("got %d %s", a.code, a.body)
	}
}

// What is not there, and what is there under another method or spelling.
func TestRoutes(t *testing.T) {
	//proves:T15
	r := newRig(t)
	for _, tt := range []struct {
		method, path string
		code         int
		body, header string
	}{
		{"GET", "/nope", 404, "404 page not found", ""},
		{"GET", "/API/tags", 404, "404 page not found", ""},
		{"GET", "/api/chat", 405, "405 method not allowed", "Allow: POST"},
		{"PUT", "/api/tags", 405, "405 method not allowed", "Allow: "},
		{"GET", "/api/tags/", 301, "", "Location: /api/tags"},
		{"GET", "//api/tags", 307, "", "Location: /api/tags"},
		{"GET", "/", 200, "Ollama is running", "Content-Type: text/plain; charset=utf-8"},
		{"HEAD", "/", 200, "", "Content-Length: 17"},
		{"GET", "/api/version", 200, `{"version":"0.34.4"}`, "Content-Type: application/json; charset=utf-8"},
		{"HEAD", "/api/version", 200, "", ""},
		{"HEAD", "/api/tags", 200, "", ""},
		{"GET", "/api/ps", 200, `{"models":[]}`, ""},
		{"GET", "/api/status", 200, `{"cloud":{"disabled":true,"source":"env"}}`, ""},
		{"GET", "/api/experimental/model-recommendations", 200, `{"recommendations":[]}`, ""},
		{"GET", "/debug/pprof/", 404, "404 page not found", ""},
		{"HEAD", "/api/blobs/sha256:" + strings.Repeat("0", 64), 404, "", ""},
		{"HEAD", "/api/blobs/banana", 400, "", ""},
	} {
		a := r.do(tt.method, tt.path, "")
		if a.code != tt.code || tt.body != "" && a.body != tt.body {
			t.Errorf("%s %s: got %d %q, want %d %q", tt.method, tt.path, a.code, a.body, tt.code, tt.body)
		}
		if name, want, ok := strings.Cut(tt.header, ": "); ok && !strings.Contains(a.header.Get(name), want) {
			t.Errorf("%s %s: %s is %q, want %q", tt.method, tt.path, name, a.header.Get(name), want)
		}
		if tt.code == 404 && tt.method == "GET" && a.header.Get("Content-Type") != "text/plain" {
			t.Errorf("%s: content type %q", tt.path, a.header.Get("Content-Type"))
		}
	}
}

// What clients send that means nothing must not hurt: nulls, obsolete options, other content types.
func TestTolerance(t *testing.T) {
	r := newRig(t)
	for _, body := range []string{
		`{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"[[say:ok]]"}],"think":null,"format":null,"tools":[],"options":{"num_ctx":null},"keep_alive":null}`,
		`{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"[[say:ok]]","images":null,"tool_calls":null}],"options":null,"tools":null}`,
		`{"model":"scripted-chat","stream":false,"messages":[{"role":"assistant","content":null},{"role":"User","content":"[[say:ok]]"}],"format":""}`,
		`{"model":"scripted-chat","stream":false,"messages":[{"role":"wizard","content":"[[say:ok]]"}],"unknown":{"a":[1]}}`,
		`{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"[[say:ok]]"}],"options":{"numa":true,"low_vram":false,"penalize_newline":true,"use_mlock":true,"vocab_only":false,"f16_kv":true,"top_k":-1,"mirostat":2,"mirostat_tau":5,"tfs_z":1,"num_thread":8,"main_gpu":0,"use_mmap":true,"banana":[]}}`,
		`{"model":"scripted-chat","stream":false,"keep_alive":"5m","messages":[{"role":"user","content":"[[say:ok]]"}],"options":{"num_ctx":8192,"temperature":0,"seed":42}} trailing`,
		`{"model":"scripted-chat:local","stream":false,"messages":[{"role":"user","content":"[[say:ok]]"}]}`,
		`{"model":"SCRIPTED-CHAT","stream":false,"messages":[{"role":"user","content":"[[say:ok]]"}]}`,
		`{"model":"scripted","stream":false,"think":false,"messages":[{"role":"user","content":"[[say:ok]]","images":["AAAA"]}]}`,
	} {
		a := r.post("/api/chat", body, "Content-Type", "application/x-www-form-urlencoded", "Authorization", "Bearer whatever")
		m := a.object(t)
		msg, _ := m["message"].(map[string]any)
		if a.code != http.StatusOK || msg["content"] != "ok" || m["done"] != true {
			t.Errorf("%s\n→ %d %s", body, a.code, a.body)
		}
	}
	// The name is given back as it was sent.
	if m := r.post("/api/chat",
		`{"model":"SCRIPTED-CHAT:local","stream":false,"messages":[{"role":"user","content":"x [[say:ok]]"}]}`).object(t); m["model"] !=
		"SCRIPTED-CHAT:local" {
		t.Errorf("model is %q", m["model"])
	}
}

// Numbers at and beyond every option's range: refused by name, never bent.
func TestNumbers(t *testing.T) {
	r := newRig(t)
	// No model is loaded for what cannot be asked of any.
	if a := r.post("/api/generate", `{"model":"scripted","prompt":"x","options":{"top_p":2}}`); a.code != 400 || len(r.Loaded()) != 0 {
		t.Errorf("top_p 2 at first: %d %s, %d loaded", a.code, a.body, len(r.Loaded()))
	}
	for _, tt := range []struct {
		option string
		good   []string
		bad    []string
	}{
		{"temperature", []string{"0", "-0", "0.8", "100"}, []string{"-0.1", "101", "9223372036854775808"}},
		{"top_p", []string{"0", "1"}, []string{"-0.1", "1.1", "1e30"}},
		{"min_p", []string{"0", "1"}, []string{"-0.1", "1.1"}},
		{"top_k", []string{"-1", "0", "2147483647"}, []string{"-2", "2147483648", "9223372036854775808"}},
		{"num_predict", []string{"-2", "-1", "0", "1"}, []string{"-3", "9223372036854775808"}},
		{"num_ctx", []string{"0", "1", "4", "100000"}, []string{"-1", "9223372036854775808"}},
		{"num_keep", []string{"-1", "0", "4"}, []string{"-2", "1e19"}},
		{"seed", []string{"-1", "0", "9007199254740993", "9223372036854774784"}, []string{"9223372036854775808", "1e300"}},
		{"repeat_last_n", []string{"-1", "0", "1048576"}, []string{"-2", "1048577"}},
		{"repeat_penalty", []string{"1", "0.01", "100"}, []string{"0", "-1", "101"}},
		{"presence_penalty", []string{"-2", "2"}, []string{"-101", "101"}},
		{"frequency_penalty", []string{"-2", "2"}, []string{"-101", "101"}},
	} {
		ask := func(v string) answer {
			return r.post("/api/generate", fmt.Sprintf(`{"model":"scripted","prompt":"[[say:ok]]","stream":false,"options":{%q:%s}}`,
				tt.option, v))
		}
		for _, v := range tt.good {
			if a := ask(v); a.code != 200 {
				t.Errorf("%s %s: %d %s", tt.option, v, a.code, a.body)
			}
		}
		for _, v := range tt.bad {
			if a := ask(v); a.code != 400 || !strings.Contains(a.body, tt.option) {
				t.Errorf("%s %s: %d %s", tt.option, v, a.code, a.body)
			}
		}
	}
	for _, body := range []string{`{"model":"scripted","prompt":"x","options":{"temperature":NaN}}`,
		`{"model":"scripted","prompt":"x","options":{"temperature":1e999}}`} {
		if a := r.post("/api/generate", body); a.code != 400 {
			t.Errorf("%s: %d %s", body, a.code, a.body)
		}
	}
}

func TestQueueFull(t *testing.T) {
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Parallel, c.MaxQueue = 1, 1 })
	release := make(chan answer, 2)
	for range 2 {
		go func() {
			release <- r.post("/api/generate", `{"model":"scripted","stream":false,"prompt":"[[delay:200]][[say:a|b]]"}`)
		}()
	}
	for ; ; <-time.After(time.Millisecond) {
		s := r.Loaded()
		if len(s) == 1 && s[0].Stats.Running == 1 && s[0].Stats.Queued == 1 {
			break
		}
	}
	a := r.post("/api/generate", `{"model":"scripted","prompt":"x"}`)
	if a.code != 503 || a.errText(t) != "server busy, please try again.  maximum pending requests exceeded" ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", a.code, a.body)
	}
	for range 2 {
		if a := <-release; a.code != 200 {
			t.Errorf("one that was let in: %d %s", a.code, a.body)
		}
	}
}
