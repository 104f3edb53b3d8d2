package server_test

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// Of what a client sends not a word is in the log, not at debug level, not where the error's text
// quotes it without quotation marks, in single ones or as a part of a longer word, and not where
// the status is 500 (promise T14). The canary is a word for every parser.
func TestLogWords(t *testing.T) {
	lane.Slow(t)
	var out lockedBuffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)),
		zapcore.DebugLevel))
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Log = log })
	const canary = "canaryword"
	codes := map[int]int{}
	for _, more := range []string{
		`"template":"{{ canaryword }}"`, `"template":"{{ .canaryword }}"`, `"template":"{{ $canaryword }}"`,
		`"template":"{{ if eq .Prompt canaryword }}"`, `"template":"{{ template \"canaryword\" }}"`,
		`"template":"{{ canaryword"`, `"template":"{{ .Prompt.canaryword }}"`, `"template":"{{ end }} canaryword"`,
		`"template":"{{ call .Prompt \"canaryword\" }}"`,
		`"format":"canaryword"`, `"format":{"type":"canaryword"}`, `"format":{"pattern":"canaryword("}`,
		`"format":{"pattern":"\\p{canaryword}"}`, `"format":{"$ref":"#/canaryword"}`,
		`"format":{"properties":{"canaryword":{"type":"array","uniqueItems":true}},"patternProperties":{"canaryword":{"pattern":"(?=canaryword)"}}}`,
		`"options":{"canaryword":1}`, `"options":{"stop":"canaryword"}`, `"options":{"temperature":"canaryword"}`, `"think":"canaryword"`,
		`"keep_alive":"canaryword"`,
		`"tool_choice":{"type":"function","function":{"name":"canaryword"}}`, `"tool_choice":"canaryword"`, `"thinking_mode":"canaryword"`,
		`"encoding_format":"canaryword"`,
		`"logit_bias":{"canaryword":1}`, `"reasoning_effort":"canaryword"`, `"chat_template_kwargs":{"canaryword":"canaryword"}`,
		`"license":{"canaryword":1}`, `"files":{"canaryword":"x"}`,
		`"messages":[{"role":"canaryword","content":["canaryword"]}]`, `"messages":[{"role":"user","content":[{"type":"canaryword"}]}]`,
		`"quantize":"canaryword"`, `"model":"canaryword"`, `"model":"canary word"`,
		`"model":"canaryword:cloud"`, `"source":"canaryword"`, `"destination":"canary word"`, `"from":"canaryword"`, `"from":"canary word"`,
		`"images":["canaryword!"]`, `"input":[{"type":"canaryword"}]`, canary, `"x":` + canary,
	} {
		for _, path := range []string{"/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/create", "/api/show",
			"/api/copy", "/api/pull", "/api/push", "/v1/chat/completions", "/v1/completions",
			"/v1/embeddings", "/v1/responses", "/v1/responses/compact", "/v1/messages", "/v1/messages/count_tokens"} {
			for _, debug := range []string{"", `"_debug_render_only":true,`} {
				body := `{"model":"scripted-chat","source":"scripted","destination":"made","max_tokens":9,"stream":false,"prompt":"[[say:x]]","input":"[[say:x]]","messages":[{"role":"user","content":"[[say:x]]"}],` +
					debug + more + "}"
				codes[r.post(path, body).code]++
			}
		}
	}
	r.do("DELETE", "/api/delete", `{"model":"canaryword"}`)
	r.do("DELETE", "/api/delete", `{"model":"canary word"}`)
	if codes[200] == 0 || codes[400] == 0 || codes[404] == 0 || codes[500] == 0 {
		t.Errorf("the requests are not of all kinds: %v", codes)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "canary") {
			t.Errorf("in the log: %s", line)
		}
	}
	// What went wrong is told all the same.
	for _, want := range []string{`"error":"model '…' not found"`, `"error":"json: cannot unmarshal array into `,
		`"error":"option \"temperature\" must be of type float32"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
}
