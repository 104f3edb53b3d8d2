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
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// No body makes a decoder panic, and whatever is refused has a status and a text.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"tool_choice":"required","tools":[{"function":{"name":"f"}}],"logit_bias":{"1":2}}`,
		`{"model":"m","prompt":"a","logit_bias":{"?":2}}`,
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
	r := func(i int) prompt.Part {
		return prompt.Part{Done: true, Reason: "stop", Figures: prompt.Figures{Prompt: 20, Cached: cached[i], Answered: true,
			Output: 5 + i, Decode: time.Second, Total: time.Duration(2+i) * time.Second}}
	}
	c := new(chatRequest)
	c.StreamOptions = &wire.StreamOptions{IncludeUsage: true}
	const want = `"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens":11,"total_tokens":31,` +
		`"ttft_ms":1000,"decode_tps":5}`
	began := time.Now()
	encoder := func() *chatEncoder {
		e := newChatEncoder(c, 2, began)
		e.See(prompt.Part{Created: began.Add(time.Second)})
		e.See(prompt.Part{Created: began.Add(time.Hour)}) // of what came first alone is told
		return e
	}
	if b, err := encoder().WholeOf([]prompt.Part{r(0), r(1)}, nil); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s %v", b, err)
	}
	e := encoder()
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

// from is who asks without a key.
type from struct{}

func (from) Owner() string            { return "" }
func (from) Began() time.Time         { return time.Now() }
func (from) Weigh([]byte, bool) error { return nil }

// decoders gives a body to each decoder, within the limits of promise G5.
func decoders(t *testing.T, b []byte) {
	if body.Check(b) != nil {
		return
	}
	for name, d := range map[string]func() error{
		"refer": func() error {
			r, err := readResponses(b, keptAlways{})
			if err == nil {
				if whole, err := r.body(); err != nil || len(whole) == 0 {
					t.Errorf("a body became %q, %v", whole, err)
				}
			}
			return err
		},
		"embeddings": func() error { _, err := DecodeEmbeddings(b); return err },
	} {
		fuzzguard.Check(t, len(b), func() { wantStatus(t, name, d()) })
	}
	for _, to := range new(API).Dialect().Routes {
		fuzzguard.Check(t, len(b), func() {
			r, enc, err := to.Read(from{}, b)
			if wantStatus(t, to.Path, err); err == nil {
				places(t, r)
			}
			if (enc == nil) != (err != nil) {
				t.Errorf("%s: an encoder %v beside %v", to.Path, enc, err)
			}
		})
	}
}

func wantStatus(t *testing.T, what string, err error) {
	t.Helper()
	var f *body.Failure
	if err != nil && (!errors.As(err, &f) || f.Status < 400 || f.Text == "") {
		t.Errorf("%s: an error without a status: %v", what, err)
	}
}

// places: where a message's content keeps an order, it has a place for each of its pictures.
func places(t *testing.T, r *prompt.Request) {
	t.Helper()
	er, _, _, err := r.Engine(sampler.Defaults(), prompt.Model{Caps: chat.Capabilities{Tools: true, Thinking: true, Vision: true}})
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
			most = (body.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			decoders(t, b)
		}
	}
}

// The parts of a message stay one message; a tool's result keeps what it answers.
func TestParts(t *testing.T) {
	c, _, err := readChat(from{}, []byte(`{"model":"m","messages":[
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
	m := c.Ask.Messages
	if len(m) != 6 || m[0].Role != "system" || m[1].Content != "a\nb" || len(m[1].Images) != 1 || len(m[2].ToolCalls) != 1 ||
		m[3].ToolName != "f" || m[3].ToolCallID != "c1" || m[3].Content != "42" || len(m[3].ToolCalls) != 0 ||
		len(m[4].ToolCalls) != 1 || m[4].Role != "assistant" || m[5].Role != "tool" || m[5].ToolCallID != "c2" {
		t.Errorf("%+v", m)
	}
	// Absent temperature and top_p are OpenAI's, not Ollama's.
	if c.Options["temperature"] != 1.0 || c.Options["top_p"] != 1.0 {
		t.Errorf("%v", c.Options)
	}
}

// TestGreedyModel: OpenAI's usual temperature is taken where the client says none, but for models
// whose package says that they answer greedily. What the client says counts for all.
func TestGreedyModel(t *testing.T) {
	usual, greedy := sampler.Defaults(), sampler.Defaults()
	greedy.Temperature = 0
	for said, want := range map[string][2]float32{"": {1, 0}, `,"temperature":0.5`: {0.5, 0.5}, `,"temperature":0`: {0, 0}} {
		for name, read := range map[string]func() (*prompt.Request, prompt.Encoder, error){
			"chat": func() (*prompt.Request, prompt.Encoder, error) {
				return readChat(from{}, []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]`+said+"}"))
			},
			"completion": func() (*prompt.Request, prompt.Encoder, error) {
				return readCompletion(from{}, []byte(`{"model":"m","prompt":"x"`+said+"}"))
			},
			"responses": func() (*prompt.Request, prompt.Encoder, error) {
				return new(API).readResponses(from{}, []byte(`{"model":"m","input":"x"`+said+"}"))
			},
		} {
			c, _, err := read()
			if err != nil {
				t.Fatal(name, err)
			}
			for i, base := range []sampler.Params{usual, greedy} {
				if r, _, _, err := c.Engine(base, prompt.Model{}); err != nil || r.Sampling.Temperature != want[i] {
					t.Errorf("%s %q, model %d: %+v, %v", name, said, i, r.Sampling, err)
				}
			}
		}
	}
}

func TestToolChoice(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":`
	for in, want := range map[string]string{`null`: "", `"auto"`: "auto", `"none"`: "none", `"required"`: "required",
		`{"type":"function","function":{"name":"f"}}`: "f", `{"type":"function","name":"f"}`: "f"} {
		c, _, err := readChat(from{}, []byte(head+in+"}"))
		if err != nil || c.Ask.ToolChoice != want {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{`"any"`, `{"function":{"name":"g"}}`, `5`, `[]`} {
		if _, _, err := readChat(from{}, []byte(head+in+"}")); err == nil {
			t.Errorf("%s is taken", in)
		}
	}
}

// A conversation is summed up by a call of the model's, and what comes of it stands for the
// conversation in the next request.
func TestCompaction(t *testing.T) {
	const talk = `{"role":"user","content":"my name is Ann"},{"role":"assistant","content":"hello Ann"},{"role":"user","content":"remember it"}`
	summary := func(args string) prompt.Part {
		return prompt.Part{Model: "m", Done: true, Reason: "stop",
			Calls: []prompt.Call{{ToolCall: chat.ToolCall{ID: "call_1", Name: "create_summary", Arguments: json.RawMessage(args)}}}}
	}
	var a API
	n, enc, err := a.readCompaction(from{}, []byte(`{"model":"m","input":[`+talk+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := enc.(*compaction)
	if q := n.Ask; q.ToolChoice != "create_summary" || !q.SerialTools || len(q.Messages) != 4 ||
		!strings.Contains(q.Messages[1].Content, "my name is Ann") {
		t.Errorf("what is asked: %+v", n)
	}
	_, err = c.Whole(summary(`{"summary":"","retain_item_ids":[]}`))
	if !errors.Is(err, errSummary) || c.WholeType() != "application/json" {
		t.Errorf("an empty summary: %v", err)
	} else if again, ok := c.Again(err); !ok || !strings.Contains(again.Ask.Messages[0].Content, "empty summary") {
		t.Errorf("again: %v %+v", ok, again)
	}
	if _, ok := c.Again(err); ok {
		t.Error("the model is asked a third time")
	}
	if failed, ok := c.Failed(err); !ok || !strings.Contains(string(c.ErrorBody(500, failed.Error())), `"code":"compaction_failed"`) {
		t.Errorf("failed: %v", failed)
	}
	b, err := c.Whole(summary(`{"summary":"the user is Ann","retain_item_ids":[]}`))
	var out struct {
		Object string
		Output []json.RawMessage
	}
	if err != nil || json.Unmarshal(b, &out) != nil || out.Object != "response.compaction" || len(out.Output) != 1 {
		t.Fatalf("%v %s", err, b)
	}
	next, _, err := a.readResponses(from{}, []byte(`{"model":"m","input":[`+string(out.Output[0])+`,{"role":"user","content":"who am I?"}]}`))
	if err != nil || len(next.Ask.Messages) != 3 || !strings.Contains(next.Ask.Messages[1].Content, "the user is Ann") {
		t.Errorf("the next request: %v %+v", err, next)
	}
	// The trigger at the end of an input asks for the same, as events.
	_, enc, err = a.readResponses(from{}, []byte(`{"model":"m","stream":true,"input":[`+talk+`,{"type":"compaction_trigger"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c = enc.(*compaction)
	b, err = c.Whole(summary(`{"summary":"the user is Ann","retain_item_ids":[]}`))
	if err != nil || c.WholeType() != "text/event-stream" || !strings.HasPrefix(string(b), "event: response.created\n") ||
		strings.Count(string(b), "event: response.output_item.done\n") != 1 {
		t.Errorf("%v %s", err, b)
	}
	for body, refused := range map[string]bool{`{"model":"m","input":[` + talk + `]}`: false, `{"model":"m","input":[` + talk +
		`,{"type":"compaction_trigger"}]}`: true} {
		_, enc, err := a.readResponses(from{}, []byte(body))
		if _, compacts := enc.(*compaction); compacts || (err != nil) != refused {
			t.Errorf("%s: %T %v", body, enc, err)
		}
	}
}

// An answer of vectors that is written in pieces is the one that Ollama's conversion makes whole.
func TestWriteVectors(t *testing.T) {
	for _, format := range []string{"", "float", "base64", "BASE64"} {
		for _, vectors := range [][][]float32{{}, {{1, -0.5, 1e-9}}, {{1}, {2, 3}, {}}} {
			e := &wire.EmbedRequest{Model: `"data":[]`, EncodingFormat: format}
			r := api.EmbedResponse{Embeddings: vectors, PromptEvalCount: 7}
			want, err := line(wire.ToEmbeddingList(e.Model, r, format))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := writeVectors(&b, e, prompt.Embedded{Vectors: vectors, Prompt: 7}); err != nil || b.String() != string(want) {
				t.Errorf("%q: got %s, want %s, %v", format, &b, want, err)
			}
		}
	}
}
