package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// TestFormatDialects: on a model that may think and does not, or thinks without end, every
// dialect's way to ask for an answer of a schema gives one.
func TestFormatDialects(t *testing.T) {
	//proves:T16
	r := newRig(t)
	for _, f := range formatted {
		for name, say := range map[string]string{
			"prose":            "Sure! Here it is.",
			"no thinking":      `{"a": 7}`,
			"thinking":         "<think>\nhm\n</think>\n\n{\"a\": 7}",
			"endless thinking": "<think>\n" + strings.Repeat("hm, ", 3000),
		} {
			res := r.post(f.path, fmt.Sprintf(f.body, formatSchema, quote("[[say:"+say+"]]")))
			code, body := res.code, res.body
			var v any
			if code != 200 || json.Unmarshal([]byte(body), &v) != nil {
				t.Errorf("%s, %s: %d %s", f.name, name, code, body)
				continue
			}
			said, _ := saidIn(v)
			var a struct{ A *int }
			if json.Unmarshal([]byte(said), &a) != nil || a.A == nil {
				t.Errorf("%s, %s: %.400s", f.name, name, body)
			}
			if strings.HasPrefix(f.name, "chat") && strings.HasSuffix(name, "thinking") && name != "endless thinking" && *a.A != 7 {
				t.Errorf("%s, %s: %s", f.name, name, body)
			}
		}
	}
}

const formatSchema = `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`

// formatted are the ways to ask for an answer of a schema; %[1]s is the schema, %[2]s the prompt.
var formatted = []struct{ name, path, body string }{
	{"chat", "/api/chat", `{"model":"scripted-chat","format":%[1]s,"stream":false,"messages":[{"role":"user","content":%[2]s}]}`},
	{"generate", "/api/generate", `{"model":"scripted-chat","format":%[1]s,"stream":false,"prompt":%[2]s}`},
	{"response_format", "/v1/chat/completions",
		`{"model":"scripted-chat","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":%[1]s}},"messages":[{"role":"user","content":%[2]s}]}`},
	{"text.format", "/v1/responses",
		`{"model":"scripted-chat","text":{"format":{"type":"json_schema","name":"n","schema":%[1]s}},"input":%[2]s}`},
	{"forced function", "/v1/chat/completions",
		`{"model":"scripted-chat","tool_choice":{"type":"function","function":{"name":"f"}},"tools":[{"type":"function","function":{"name":"f","parameters":%[1]s}}],"messages":[{"role":"user","content":%[2]s}]}`},
	{"required function", "/v1/responses",
		`{"model":"scripted-chat","tool_choice":"required","tools":[{"type":"function","name":"f","parameters":%[1]s}],"input":%[2]s}`},
	{"output_config", "/v1/messages",
		`{"model":"scripted-chat","max_tokens":500,"output_config":{"format":{"type":"json_schema","schema":%[1]s}},"messages":[{"role":"user","content":%[2]s}]}`},
	{"output_format", "/v1/messages",
		`{"model":"scripted-chat","max_tokens":500,"output_format":{"type":"json_schema","schema":%[1]s},"messages":[{"role":"user","content":%[2]s}]}`},
	{"forced tool", "/v1/messages",
		`{"model":"scripted-chat","max_tokens":500,"thinking":{"type":"enabled","budget_tokens":40},"tool_choice":{"type":"tool","name":"f"},"tools":[{"name":"f","input_schema":%[1]s}],"messages":[{"role":"user","content":%[2]s}]}`},
}

// saidIn finds what an answer of any dialect says: the innermost text or arguments that are an
// object with the key a.
func saidIn(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(strings.TrimSpace(v), "{") {
			return v, true
		}
	case []any:
		for _, x := range v {
			if s, ok := saidIn(x); ok {
				return s, true
			}
		}
	case map[string]any:
		if _, ok := v["a"].(float64); ok {
			b, _ := json.Marshal(v)
			return string(b), true
		}
		for key, x := range v {
			if key == "tools" || key == "text" && v["format"] != nil || key == "thinking" || key == "reasoning" {
				continue // the request's own words, come back
			}
			if m, ok := x.(map[string]any); ok && key == "text" && m["format"] != nil {
				continue
			}
			if s, ok := saidIn(x); ok {
				return s, true
			}
		}
	}
	return "", false
}

// TestFormatNotes: what of a schema is not enforced is told in a header before the answer, in every
// dialect, and in the log by keyword and place; strict, where a dialect has it, refuses.
func TestFormatNotes(t *testing.T) {
	var out lockedBuffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)),
		zapcore.WarnLevel))
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Log = log })
	const schema = `{"type":"object","properties":{"a":{"type":"integer"},"list":{"type":"array","items":{"type":"string"},"uniqueItems":true}},"required":["a"]}`
	for _, f := range formatted {
		for _, stream := range []string{"", `,"stream":true`} {
			body := fmt.Sprintf(f.body, schema, quote(`[[say:{"a": 7}]]`))
			if stream != "" {
				body = strings.Replace(strings.TrimSuffix(body, "}"), `"stream":false,`, "", 1) + stream + "}"
			}
			res := r.post(f.path, body)
			got := strings.Join(res.header.Values("Warning"), "|")
			if res.code != 200 || !strings.HasPrefix(got, `299 axle "`) ||
				!strings.Contains(got, `#/properties/list: uniqueItems: is not enforced`) || strings.Contains(got, "|") {
				t.Errorf("%s: %d %q %.200s", f.name, res.code, got, res.body)
			}
			if res := r.post(f.path, fmt.Sprintf(f.body, formatSchema, quote("[[say:x]]"))); len(res.header.Values("Warning")) > 0 {
				t.Errorf("%s: warned of nothing: %q", f.name, res.header.Values("Warning"))
			}
		}
		for from, to := range map[string]string{`"name":"n",`: `"name":"n","strict":true,`, `"name":"f",`: `"name":"f","strict":true,`} {
			if body := strings.Replace(f.body, from, to, 1); body != f.body {
				if res := r.post(f.path, fmt.Sprintf(body, schema, quote("[[say:x]]"))); res.code != 400 ||
					!strings.Contains(res.body, "uniqueItems") {
					t.Errorf("%s, strict: %d %.200s", f.name, res.code, res.body)
				}
				if res := r.post(f.path, fmt.Sprintf(body, formatSchema, quote("[[say:x]]"))); res.code != 200 {
					t.Errorf("%s, strict: %d %.200s", f.name, res.code, res.body)
				}
			}
		}
	}
	if n := strings.Count(out.String(), `"keyword":"uniqueItems","place":"#/properties/*"`); n != 2*len(formatted) {
		t.Errorf("the log tells of %d keywords: %.500s", n, out.String())
	}
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf(`"p%d\"\n\r:é":{"type":"array","uniqueItems":true}`, i))
	}
	res := r.post("/api/chat", fmt.Sprintf(formatted[0].body, `{"type":"object","properties":{`+strings.Join(many, ",")+`}}`,
		quote("[[say:x]]")))
	if w := res.header.Values("Warning"); res.code != 200 || len(w) != 8 || !strings.Contains(w[7], "23 more") ||
		len(strings.Join(w, "")) > 4096 {
		t.Errorf("%d %q", res.code, w)
	}
}
