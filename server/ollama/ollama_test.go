package ollama

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

func TestParseRef(t *testing.T) {
	required, invalid := errors.New("required"), errors.New("invalid")
	for _, tt := range []struct {
		in, name string
		cloud    bool
		err      string
	}{
		{"llama3.2", "llama3.2:latest", false, ""},
		{" a/b:c ", "a/b:c", false, ""},
		{"x:local", "x:latest", false, ""},
		{"x:7b:local", "x:7b", false, ""},
		{"gpt-oss:120b-cloud", "gpt-oss:120b", true, ""},
		{"gpt-oss:cloud", "gpt-oss:latest", true, ""},
		{"host.example:5000/ns/m", "host.example:5000/ns/m:latest", false, ""},
		{"", "", false, "required"},
		{"  ", "", false, "required"},
		{"a b", "", false, "invalid"},
		{"../x", "", false, "invalid"},
		{"x:", "", false, "invalid"},
		{"x:local:cloud", "", false, `use either :local or :cloud, not both: "x:local:cloud"`},
	} {
		r, err := ParseRef(tt.in, required, invalid)
		if got := ""; err != nil {
			got = err.Error()
			if got != tt.err {
				t.Errorf("%q: %v", tt.in, err)
			}
			continue
		}
		if tt.err != "" || r.Name.String() != tt.name || r.Cloud != tt.cloud || r.Asked != tt.in {
			t.Errorf("%q: %+v %s", tt.in, r, r.Name)
		}
	}
}

// Defaults, the model's, the Modelfile's, the request's: the later wins.
func TestPrecedence(t *testing.T) {
	base := sampler.Defaults()
	base.Temperature, base.TopK = 0.6, 20
	m := Model{Params: map[string]any{"top_k": 30.0, "num_ctx": 512.0, "stop": []any{"END"}}, System: "model's",
		Caps: chat.Capabilities{Thinking: true}}
	r, err := DecodeChat(
		[]byte(`{"model":"m","messages":[{"role":"USER","content":"q"}],"options":{"num_ctx":1024,"seed":7,"min_p":0.1,"speculate":false,"repeatable":true},"think":"high","format":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	er, _, unknown, err := r.ToEngine(base, m)
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
	r, _ = DecodeChat([]byte(
		`{"messages":[{"role":"system","content":"mine"},{"role":"assistant","content":null},{"role":"assistant","content":"go"}],"truncate":false,"shift":false}`))
	if er, _, _, err = r.ToEngine(base, m); err != nil || len(er.Messages) != 3 || er.Messages[0].Content != "mine" ||
		!er.Messages[1].Null || er.Messages[2].Null || !er.Continue || er.Truncate || er.Shift {
		t.Errorf("%+v %v", er, err)
	}
}

// TestOwnOptions: an option that Ollama has not is named in docs/api.md, where nobody else could.
func TestOwnOptions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.Options]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		theirs[name] = true
	}
	if !theirs["top_k"] || !theirs["num_batch"] {
		t.Fatalf("Ollama's options are %v", theirs)
	}
	for _, name := range append(slices.Collect(maps.Keys(intLimits)), "speculate", "repeatable") {
		if !theirs[name] && !strings.Contains(string(doc), "`options."+name+"`") {
			t.Errorf("docs/api.md does not name options.%s", name)
		}
	}
}

// What a request says of a tool reaches the template whole, keys in order, and its schema with
// every keyword.
func TestToolsWhole(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"z":{"type":"integer","minimum":3},"a":{"$ref":"#/$defs/x"}},"additionalProperties":false}}}`
	r, err := DecodeChat([]byte(`{"messages":[{"role":"user","content":"q"}],"tools":[` + tool + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	er, _, _, err := r.ToEngine(sampler.Defaults(), Model{})
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
	a := &Answer{Model: "m", Start: now.Add(-time.Second), Load: time.Millisecond}
	call := a.Chat(ask.Event{ToolCall: &chat.ToolCall{Name: "f", Arguments: json.RawMessage(`{"z":1,"a":"<"}`)}}, now)
	b, err := Line(call)
	want := `{"model":"m","created_at":"2023-11-14T22:13:20.123456789Z","message":{"role":"assistant","content":"","tool_calls":[{"id":"` +
		call.Message.ToolCalls[0].ID +
		`","function":{"index":0,"name":"f","arguments":{"z":1,"a":"\u003c"}}}]},"done":false}` + "\n"
	if err != nil || string(b) != want {
		t.Errorf("got  %swant %s", b, want)
	}
	if second := a.Chat(ask.Event{ToolCall: &chat.ToolCall{Name: "g"}}, now).Message.ToolCalls[0]; second.Function.Index != 1 ||
		second.Function.Arguments.String() != "{}" {
		t.Errorf("%+v", second)
	}
	done := a.Generate(ask.Event{Done: &ask.Result{Reason: "length", Context: []int32{1, 2},
		Usage: ask.Usage{Prompt: 5, Output: 3, Decode: 9, Prefill: 8}}}, now)
	b, _ = json.Marshal(done)
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
	m := Model{Asked: "m", Full: "m", Caps: chat.Capabilities{Tools: true, Thinking: true, Vision: true, Insert: true}}
	fuzzguard.Check(t, len(b), func() {
		if r, err := DecodeChat(b); err == nil && r.Check(m) == nil {
			er, _, _, err := r.ToEngine(sampler.Defaults(), m)
			if err == nil && er.Sampling.Check() != nil {
				t.Errorf("out of range: %+v", er.Sampling)
			}
		} else if err != nil {
			wantStatus(t, err)
		}
	})
	fuzzguard.Check(t, len(b), func() {
		if r, err := DecodeGenerate(b); err == nil && r.Check(m) == nil {
			r.Template = "" // which has a fuzzer of its own
			if _, _, _, err := r.ToEngine(sampler.Defaults(), m); err != nil {
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
			most = (MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			decoders(t, b)
		}
	}
}

func wantStatus(t *testing.T, err error) {
	t.Helper()
	var se api.StatusError
	if !errors.As(err, &se) || se.StatusCode < 400 || se.ErrorMessage == "" {
		t.Errorf("an error without a status: %v", err)
	}
}

func TestDepth(t *testing.T) {
	for in, ok := range map[string]bool{"": true, `"[[["`: true, `"\"[["`: true, strings.Repeat("[", MaxDepth): true,
		strings.Repeat("[", MaxDepth+1): false, strings.Repeat(`{"a":`, MaxDepth+1): false, strings.Repeat("[]", 999): true} {
		if got := Check([]byte(in)) == nil; got != ok {
			t.Errorf("%.20q…: %v", in, got)
		}
	}
}

// What a body holds is counted before it is decoded.
func TestWeigh(t *testing.T) {
	image := strings.Repeat("AAAA", 2000)
	for in, want := range map[string]Weight{
		``:                          {},
		`{"a":1,"b":[-2.5e3,true]}`: {25, 4, 3, 2, 0},
		`"a\"b" , 5 6`:              {12, 1, 2, 4, 0},
		`["` + image + `"]`:         {8004, 2, 0, 0, 8000},
		`["` + image + ` "]`:        {8005, 2, 0, 8001, 0},
		`"no end`:                   {7, 1, 0, 6, 0},
	} {
		if got, err := Weigh([]byte(in)); err != nil || got != want {
			t.Errorf("%.40s: %+v, want %+v, %v", in, got, want, err)
		}
	}
	for in, want := range map[string]Weight{ // JSON in a string counts with the rest
		`{"arguments":"{\"a\":[1,{}]}"}`:                        {30, 7, 1, 23, 0},
		`{"ARGUMENT\u0053" : "\u007b\"a\":[1,{}]}"}`:            {42, 7, 1, 33, 0},
		`{"argument\u017f":" [1,[]]"}`:                          {28, 5, 1, 21, 0},
		`{"arguments":["[1,[]]"],"content":"[1,[]]"}`:           {43, 6, 0, 28, 0},
		`{"arguments":"no [ json {"}`:                           {27, 3, 0, 20, 0},
		`{"encrypted_content":"{\"m\":[{\"c\":\"[{},{}]\"}]}"}`: {53, 12, 0, 46, 0},
	} {
		if got, err := Weigh([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %+v, want %+v, %v", in, got, want, err)
		}
	}
	for in, ok := range map[string]bool{
		`{"arguments":"[` + strings.Repeat("{},", MaxParts-5) + `1]"}`:          true,
		`{"arguments":"[` + strings.Repeat("{},", MaxParts) + `1]"}`:            false,
		`{"a":"[` + strings.Repeat("{},", MaxParts) + `1]"}`:                    true,
		`{"arguments":"` + strings.Repeat("[", MaxDepth) + `"}`:                 true,
		`{"arguments":"` + strings.Repeat("[", MaxDepth+1) + `"}`:               false,
		`{"encrypted_content":"[\"` + strings.Repeat("[", MaxDepth+1) + `\"]"}`: false,
		"[" + strings.Repeat("{},", MaxParts-2) + "1]":                          true, "[" + strings.Repeat("{},", MaxParts) + "1]": false,
		"[" + strings.Repeat("1,", MaxNumbers-1) + "1]": true, "[" + strings.Repeat("1,", MaxNumbers) + "1]": false,
		`"` + strings.Repeat("a ", MaxText/2) + `"`: true, `"` + strings.Repeat("a ", MaxText/2) + `."`: false,
	} {
		if err := Check([]byte(in)); (err == nil) != ok {
			t.Errorf("%.20s…: %v", in, err)
		}
	}
}

func TestInputs(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want []string
		ok   bool
	}{{nil, nil, true}, {"", nil, true}, {"a", []string{"a"}, true}, {[]any{"a", ""}, []string{"a", ""}, true}, {[]any{}, []string{}, true},
		{5.0, nil, false}, {[]any{"a", 1.0}, nil, false}} {
		got, err := Inputs(tt.in)
		if (err == nil) != tt.ok || tt.ok && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v: %v %v", tt.in, got, err)
		}
	}
}
