package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// No body makes a decoder panic, and whatever is refused has a status and a text.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"tool_choice":"required","tools":[{"function":{"name":"f"}}],"logit_bias":{"1":2}}`,
		`{"messages":[{"role":"tool","content":[],"tool_call_id":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:;base64,AAAA"}}]}]}`,
		`{"model":"m","prompt":"x","logprobs":3}`, `{"input":["a"],"encoding_format":"base64"}`,
		`{"input":[{"type":"message","role":"user","content":"x"},{"type":"function_call","arguments":"{}"}],"tools":[{"type":"function","name":"f"}]}`,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:;base64,AAAA"},{"type":"input_text","text":"a"},{"type":"input_image","file_id":"x"}]},{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`} {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"input":[{"type":"item_reference","id":"a"}],"previous_response_id":"b","n":2,"best_of":3,"echo":true}`))
	f.Fuzz(decoders)
}

// TestTally: several answers are counted as OpenAI counts: the prompt and what was cached of it
// once, the tokens of all; and what was written a second is what all wrote since the first token.
func TestTally(t *testing.T) {
	cached := [2]int{3, 19}
	r := func(i int) api.ChatResponse {
		return api.ChatResponse{Done: true, DoneReason: "stop", Metrics: api.Metrics{PromptEvalCount: 20, PromptEvalCachedCount: &cached[i],
			EvalCount: 5 + i, EvalDuration: time.Second, TotalDuration: time.Duration(2+i) * time.Second}}
	}
	c := &Chat{N: 2}
	c.StreamOptions = &wire.StreamOptions{IncludeUsage: true}
	const want = `"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens":11,"total_tokens":31,` +
		`"ttft_ms":1000,"decode_tps":5}`
	e := NewChatEncoder(c)
	e.First = func() time.Duration { return time.Second }
	if b, err := e.WholeOf([]api.ChatResponse{r(0), r(1)}, nil); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s %v", b, err)
	}
	e = NewChatEncoder(c)
	e.First = func() time.Duration { return time.Second }
	second, err := e.ChunkOf(1, r(1))
	first, err2 := e.ChunkOf(0, r(0))
	if err != nil || err2 != nil || bytes.Contains(second, []byte(want)) || !bytes.Contains(first, []byte(want)) {
		t.Errorf("streamed: %s\n%s", second, first)
	}
}

// keptAlways has whatever it is asked for.
type keptAlways struct{}

func (keptAlways) Item(string) ([]byte, bool) {
	return []byte(`{"type":"message","role":"user","content":"x"}`), true
}
func (keptAlways) Conversation(string) ([][]byte, bool) {
	return [][]byte{[]byte(`[]`), []byte(`[{}]`)}, true
}

// decoders gives a body to each decoder, within the limits of promise G5.
func decoders(t *testing.T, b []byte) {
	for name, d := range map[string]func() error{
		"refer": func() error {
			body, err := Refer(b, keptAlways{}, 1<<20)
			if err == nil && len(b) > 0 && len(body.JSON) == 0 {
				t.Error("a body became nothing")
			}
			return err
		},
		"chat": func() error {
			r, err := DecodeChat(b)
			if err == nil {
				places(t, r.Native)
			}
			return err
		},
		"completion": func() error { _, err := DecodeCompletion(b); return err },
		"embeddings": func() error { _, err := DecodeEmbeddings(b); return err },
		"responses": func() error {
			r, err := DecodeResponses(b)
			if err == nil {
				places(t, r.Native)
			}
			return err
		},
		"compaction": func() error { _, err := DecodeCompaction(b); return err },
		"triggered":  func() error { _, err := DecodeTriggered(b); return err },
	} {
		fuzzguard.Check(t, len(b), func() {
			var se api.StatusError
			if err := d(); err != nil && (!errors.As(err, &se) || se.StatusCode < 400 || se.ErrorMessage == "") {
				t.Errorf("%s: an error without a status: %v", name, err)
			}
		})
	}
}

// places: where a message's content keeps an order, it has a place for each of its pictures.
func places(t *testing.T, r *ollama.ChatRequest) {
	er, _, _, err := r.ToEngine(sampler.Defaults(), ollama.Model{Caps: chat.Capabilities{Tools: true, Thinking: true, Vision: true}})
	for i, m := range er.Messages {
		n := 0
		for _, p := range m.Parts {
			if p.Image {
				n++
			}
		}
		if err == nil && m.Parts != nil && n != len(m.Images) {
			t.Errorf("message %d has %d pictures and %d places", i, len(m.Images), n)
		}
	}
}

// A mebibyte of the worst there is, and what is just allowed, stays within the limits.
func TestHostilePeak(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	const user = `{"model":"m","messages":[{"role":"user","content":`
	for _, p := range [][3]string{{`{"model":"m","messages":[{"role":"user","content":"x"}`, `,{}`, `]}`},
		{user + `[{"type":"text","text":"a"}`, `,{"type":"text","text":"a"}`, `]}]}`},
		{user + `"`, `\u0000`, `"}]}`}, {user + `"x"}],"tools":[{"function":{"name":"f"}}`, `,{"function":{"name":"f"}}`, `]}`},
		{user + `"x"}],"logit_bias":{"1":1`, `,"1":1`, `}}`},
		{user + `[{"type":"image_url","image_url":{"url":"data:image/png;base64,`, `AAAA`, `"}}]}]}`},
		{`{"model":"m","input":[{"type":"message","role":"user","content":"x"}`, `,{"type":"message","role":"user","content":"x"}`, `]}`},
		{`{"model":"m","input":["a"`, `,"a"`, `]}`}, {`{"model":"m","input":"`, `\u0000`, `"}`},
		{`{"model":"m","prompt":"x","logprobs":[1`, `,1`, `]}`},
		{`{"model":"m","input":[{"type":"message","role":"user","content":"x"}`, `,{"role":"user","content":"x"}`,
			`,{"type":"compaction_trigger"}]}`}} {
		most := 0 // how often a unit may come, by the parts that a body may hold
		if parts := strings.Count(p[1], `"`)/2 + strings.Count(p[1], "{") + strings.Count(p[1], "["); parts > 0 {
			most = (ollama.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			decoders(t, b)
		}
	}
}

// The parts of a message stay one message; a tool's result keeps what it answers.
func TestParts(t *testing.T) {
	c, err := DecodeChat([]byte(`{"model":"m","messages":[
		{"role":"developer","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"b"}]},
		{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"x\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"42"}]},
		{"role":"user","content":[]},
		{"role":"assistant","content":[],"tool_calls":[{"id":"c2","function":{"name":"g","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c2","content":[]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := c.Native.Messages
	if len(m) != 6 || m[0].Role != "system" || m[1].Content != "a\nb" || len(m[1].Images) != 1 || len(m[2].ToolCalls) != 1 ||
		m[3].ToolName != "f" || m[3].ToolCallID != "c1" || m[3].Content != "42" || len(m[3].ToolCalls) != 0 ||
		len(m[4].ToolCalls) != 1 || m[4].Role != "assistant" || m[5].Role != "tool" || m[5].ToolCallID != "c2" {
		t.Errorf("%+v", m)
	}
	// Absent temperature and top_p are OpenAI's, not Ollama's.
	if c.Native.Options["temperature"] != 1.0 || c.Native.Options["top_p"] != 1.0 {
		t.Errorf("%v", c.Native.Options)
	}
}

func TestToolChoice(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":`
	for in, want := range map[string]string{`null`: "", `"auto"`: "auto", `"none"`: "none", `"required"`: "required",
		`{"type":"function","function":{"name":"f"}}`: "f", `{"type":"function","name":"f"}`: "f"} {
		c, err := DecodeChat([]byte(head + in + "}"))
		if err != nil || c.Native.ToolChoice != want {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{`"any"`, `{"function":{"name":"g"}}`, `5`, `[]`} {
		if _, err := DecodeChat([]byte(head + in + "}")); err == nil {
			t.Errorf("%s is taken", in)
		}
	}
}

// A conversation is summed up by a call of the model's, and what comes of it stands for the
// conversation in the next request.
func TestCompaction(t *testing.T) {
	const talk = `{"role":"user","content":"my name is Ann"},{"role":"assistant","content":"hello Ann"},{"role":"user","content":"remember it"}`
	summary := func(args string) api.ChatResponse {
		r := api.ChatResponse{Model: "m", Done: true, DoneReason: "stop",
			Message: api.Message{Role: "assistant",
				ToolCalls: []api.ToolCall{{ID: "call_1", Function: api.ToolCallFunction{Name: "create_summary"}}}}}
		if err := r.Message.ToolCalls[0].Function.Arguments.UnmarshalJSON([]byte(args)); err != nil {
			t.Fatal(err)
		}
		return r
	}
	c, err := DecodeCompaction([]byte(`{"model":"m","input":[` + talk + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Native; n.ToolChoice != "create_summary" || !n.SerialTools || len(n.Messages) != 4 ||
		!strings.Contains(n.Messages[1].Content, "my name is Ann") {
		t.Errorf("what is asked: %+v", n)
	}
	if _, err := c.Whole(summary(`{"summary":"","retain_item_ids":[]}`)); !errors.Is(err, ErrSummary) ||
		c.WholeType() != "application/json" {
		t.Errorf("an empty summary: %v", err)
	} else if err := c.Again(err); err != nil || !strings.Contains(c.Native.Messages[0].Content, "empty summary") {
		t.Errorf("again: %v %+v", err, c.Native.Messages)
	}
	if b := string(c.ErrorBody(500, ErrSummary.Error())); !strings.Contains(b, `"code":"compaction_failed"`) {
		t.Errorf("failed: %s", b)
	}
	b, err := c.Whole(summary(`{"summary":"the user is Ann","retain_item_ids":[]}`))
	var out struct {
		Object string
		Output []json.RawMessage
	}
	if err != nil || json.Unmarshal(b, &out) != nil || out.Object != "response.compaction" || len(out.Output) != 1 {
		t.Fatalf("%v %s", err, b)
	}
	next, err := DecodeResponses([]byte(`{"model":"m","input":[` + string(out.Output[0]) + `,{"role":"user","content":"who am I?"}]}`))
	if err != nil || len(next.Native.Messages) != 3 || !strings.Contains(next.Native.Messages[1].Content, "the user is Ann") {
		t.Errorf("the next request: %v %+v", err, next)
	}
	// The trigger at the end of an input asks for the same, as events.
	c, err = DecodeTriggered([]byte(`{"model":"m","stream":true,"input":[` + talk + `,{"type":"compaction_trigger"}]}`))
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	b, err = c.Whole(summary(`{"summary":"the user is Ann","retain_item_ids":[]}`))
	if err != nil || c.WholeType() != "text/event-stream" || !strings.HasPrefix(string(b), "event: response.created\n") ||
		strings.Count(string(b), "event: response.output_item.done\n") != 1 {
		t.Errorf("%v %s", err, b)
	}
	for body, refused := range map[string]bool{`{"model":"m","input":[` + talk + `]}`: false, `{"model":"m","input":[` + talk +
		`,{"type":"compaction_trigger"}]}`: true} {
		if c, err := DecodeTriggered([]byte(body)); c != nil || (err != nil) != refused {
			t.Errorf("%s: %v %v", body, c, err)
		}
	}
}

// An answer of vectors that is written in pieces is the one that Ollama's conversion makes whole.
func TestWriteVectors(t *testing.T) {
	for _, format := range []string{"", "float", "base64", "BASE64"} {
		for _, vectors := range [][][]float32{nil, {}, {{1, -0.5, 1e-9}}, {{1}, {2, 3}, {}}} {
			e := &Embeddings{EmbedRequest: wire.EmbedRequest{Model: `"data":[]`, EncodingFormat: format}}
			r := api.EmbedResponse{Embeddings: vectors, PromptEvalCount: 7}
			want, err := line(wire.ToEmbeddingList(e.Model, r, format))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := e.Write(&b, r); err != nil || b.String() != string(want) {
				t.Errorf("%q: got %s, want %s, %v", format, &b, want, err)
			}
		}
	}
}
