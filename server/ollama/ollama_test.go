package ollama

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Defaults, the model's, the Modelfile's, the request's: the later wins.
func TestPrecedence(t *testing.T) {
	base := sampler.Defaults()
	base.Temperature, base.TopK = 0.6, 20
	m := prompt.Model{Params: map[string]any{"top_k": 30.0, "num_ctx": 512.0, "stop": []any{"END"}}, System: "model's",
		Caps: chat.Capabilities{Thinking: true}}
	r, _, err := readChat(nil, []byte(`{"model":"m","messages":[{"role":"USER","content":"q"}],"options":{"num_ctx":1024,"seed":7,"min_p":0.1,"speculate":false,"repeatable":true},"think":"high","format":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	er, _, unknown, err := r.Engine(base, m)
	if err != nil || len(unknown) != 0 {
		t.Fatal(err, unknown)
	}
	s := er.Sampling
	if s.Temperature != 0.6 || s.TopK != 30 || s.TopP != 0.9 || s.MinP != 0.1 || s.Seed != 7 || er.NumCtx != 1024 || er.Stop[0] != "END" ||
		er.Limit != -1 || *er.Speculate || !er.Repeatable {
		t.Errorf("%+v", er)
	}
	if len(er.Messages) != 2 || er.Messages[0].Content != "model's" || er.Messages[1].Role != "user" || er.Think != chat.ThinkHigh ||
		!er.Truncate || !er.Shift || len(er.Format.Schema) == 0 {
		t.Errorf("%+v", er)
	}
	// A system message of its own keeps the model's away.
	r, _, _ = readChat(nil, []byte(
		`{"messages":[{"role":"system","content":"mine"},{"role":"assistant","content":null},{"role":"assistant","content":"go"}],"truncate":false,"shift":false}`))
	if er, _, _, err = r.Engine(base, m); err != nil || len(er.Messages) != 3 || er.Messages[0].Content != "mine" ||
		!er.Messages[1].Null || er.Messages[2].Null || !er.Continue || er.Truncate || er.Shift {
		t.Errorf("%+v %v", er, err)
	}
}

// What a request says of a tool reaches the template whole, keys in order, and its schema with
// every keyword.
func TestToolsWhole(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"z":{"type":"integer","minimum":3},"a":{"$ref":"#/$defs/x"}},"additionalProperties":false}}}`
	r, _, err := readChat(nil, []byte(`{"messages":[{"role":"user","content":"q"}],"tools":[`+tool+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	er, _, _, err := r.Engine(sampler.Defaults(), prompt.Model{})
	if err != nil {
		t.Fatal(err)
	}
	if got := er.Tools[0]; string(got.Raw) != tool || !strings.Contains(string(got.Parameters), `"minimum":3},"a":`) ||
		!strings.Contains(string(got.Parameters), "additionalProperties") {
		t.Errorf("%s", got.Parameters)
	}
}

func TestAnswer(t *testing.T) {
	now := time.Unix(1700000000, 123456789)
	a := &prompt.Answer{Model: "m", Start: now.Add(-time.Second), Load: time.Millisecond}
	call := a.Part(ask.Event{ToolCall: &chat.ToolCall{Name: "f", Arguments: json.RawMessage(`{"z":1,"a":"<"}`)}}, now)
	b, err := (&encoder{}).Chunk(call)
	want := `{"model":"m","created_at":"2023-11-14T22:13:20.123456789Z","message":{"role":"assistant","content":"","tool_calls":[{"id":"` +
		call.Calls[0].ID +
		`","function":{"index":0,"name":"f","arguments":{"z":1,"a":"\u003c"}}}]},"done":false}` + "\n"
	if err != nil || string(b) != want {
		t.Errorf("got  %swant %s", b, want)
	}
	part := a.Part(ask.Event{ToolCall: &chat.ToolCall{Name: "g"}}, now)
	if second := ollamatype.Chat(part).Message.ToolCalls[0]; second.Function.Index != 1 || second.Function.Arguments.String() != "{}" {
		t.Errorf("%+v", second)
	}
	done := a.Part(ask.Event{Done: &ask.Result{Reason: "length", Context: []int32{1, 2},
		Usage: ask.Usage{Prompt: 5, Output: 3, Decode: 9, Prefill: 8}}}, now)
	b, _ = (&encoder{form: generateForm}).Whole(done)
	if want := `{"model":"m","created_at":"2023-11-14T22:13:20.123456789Z","response":"","done":true,"done_reason":"length","context":[1,2],"total_duration":1000000000,"load_duration":1000000,"prompt_eval_count":5,"prompt_eval_cached_count":0,"prompt_eval_duration":8,"eval_count":3,"eval_duration":9}`; string(b) !=
		want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// No body makes a decoder panic, and what it accepts can be asked of a model.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"model":"m","messages":[{"role":"user","content":"x","images":["AAAA"]}],"tools":[{"function":{"name":"f"}}],"options":{"seed":1,"stop":["a"]},"think":true,"format":"json","keep_alive":"5m"}`,
		`{"messages":[{"tool_calls":[{"function":{"arguments":{"a":{"b":1}}}}]}]}`, `{"options":{"num_ctx":1e308}}`, `[[[[`,
		`{"prompt":"x","context":[1,-1]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(decoders)
}

// decoders gives a body to each decoder, within the limits of promise G5.
func decoders(t *testing.T, b []byte) {
	if body.Check(b) != nil {
		return
	}
	m := prompt.Model{Asked: "m", Full: "m", Caps: chat.Capabilities{Tools: true, Thinking: true, Vision: true, Insert: true}}
	fuzzguard.Check(t, len(b), func() {
		if r, _, err := readChat(nil, b); err == nil && r.Check(m) == nil {
			er, _, _, err := r.Engine(sampler.Defaults(), m)
			if err == nil && er.Sampling.Check() != nil {
				t.Errorf("out of range: %+v", er.Sampling)
			}
		} else if err != nil {
			wantStatus(t, err)
		}
	})
	fuzzguard.Check(t, len(b), func() {
		if r, _, err := readGenerate(nil, b); err == nil && r.Check(m) == nil {
			r.Ask.Template.Text = "" // which has a fuzzer of its own
			if _, _, _, err := r.Engine(sampler.Defaults(), m); err != nil {
				wantStatus(t, err)
			}
		}
	})
}

// A mebibyte of the worst there is, and what is just allowed, stays within the limits.
func TestHostilePeak(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for _, p := range [][3]string{{`{"messages":[{}`, `,{}`, `]}`}, {`{"messages":[{"role":"user","content":"`, `\u0000`, `"}]}`},
		{`{"messages":[{"content":"x"}],"tools":[{}`, `,{}`, `]}`},
		{`{"messages":[{"images":[""`, `,""`, `]}]}`}, {`{"prompt":"x","context":[1`, `,1`, `]}`},
		{`{"prompt":"x","options":{"stop":["a"`, `,"a"`, `]}}`},
		{`{"messages":[{"tool_calls":[{"function":{"arguments":{"a":1`, `,"a":1`, `}}}]}]}`},
		{`{"prompt":"x","format":{"enum":[0`, `,0`, `]}}`}, {`{"prompt":"x","images":["`, `AAAA`, `"]}`}} {
		most := 0 // how often a unit may come, by the parts that a body may hold
		if parts := strings.Count(p[1], `"`)/2 + strings.Count(p[1], "{") + strings.Count(p[1], "["); parts > 0 {
			most = (body.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			decoders(t, b)
		}
	}
}

func wantStatus(t *testing.T, err error) {
	t.Helper()
	var f *body.Failure
	if !errors.As(err, &f) || f.Status < 400 || f.Text == "" {
		t.Errorf("an error without a status: %v", err)
	}
}
