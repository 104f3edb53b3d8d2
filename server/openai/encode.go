package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

const (
	stream = "text/event-stream"
	whole  = "application/json"
	done   = "data: [DONE]\n\n"
)

// usage is OpenAI's with what the vendor's server tells in addition.
type usage struct {
	wire.Usage
	TTFT float64 `json:"ttft_ms,omitempty"`
	TPS  float64 `json:"decode_tps,omitempty"`
}

func usageOf(f prompt.Figures, first time.Duration) usage {
	u := usage{Usage: wire.ToUsage(api.ChatResponse{Metrics: ollamatype.Metrics(f)}), TTFT: float64(first.Microseconds()) / 1000}
	if s := f.Decode.Seconds(); s > 0 && f.Output > 1 {
		u.TPS = math.Round(float64(f.Output-1)/s*1000) / 1000
	}
	return u
}

// form is what the encoders of this API have in common: whether the answer streams, and how it and
// its errors are written.
type form struct{ streams bool }

func (f form) Streams() bool                          { return f.streams }
func (form) Type() string                             { return stream }
func (form) WholeType() string                        { return whole }
func (form) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

// chatEncoder writes a chat completion.
type chatEncoder struct {
	form
	id      string
	usage   bool
	began   time.Time // when the request came
	first   time.Duration
	created time.Time
	told    []chatTold
	tally   tally
}

// chatTold is what of a choice was sent.
type chatTold struct{ role, call bool }

// newChatEncoder makes an encoder for n answers to c.
func newChatEncoder(c *chatRequest, n int, began time.Time) *chatEncoder {
	return &chatEncoder{form: form{c.Stream}, id: body.ID("chatcmpl-"), began: began,
		usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage, told: make([]chatTold, n), tally: tally{left: n}}
}

// Candidates is how many answers are written.
func (e *chatEncoder) Candidates() int { return len(e.told) }

// Ranks says that all of them are told.
func (e *chatEncoder) Ranks() bool { return false }

// See notes when the first part of an answer came.
func (e *chatEncoder) See(p prompt.Part) prompt.Part {
	if e.first == 0 {
		e.first = p.Created.Sub(e.began)
	}
	return p
}

// Chunk is ChunkOf of an answer that is the only one.
func (e *chatEncoder) Chunk(p prompt.Part) ([]byte, error) {
	e.tally.left = 1
	return e.ChunkOf(0, p)
}

// ChunkOf gives a choice's role once, its deltas, then its reason on a chunk of its own; after the
// last choice's usage if asked, and [DONE].
func (e *chatEncoder) ChunkOf(i int, p prompt.Part) ([]byte, error) {
	if e.created.IsZero() {
		e.created = p.Created
	}
	p.Created = e.created
	r := ollamatype.Chat(p)
	var out []byte
	add := func(v any) error {
		b, err := event(v)
		out = append(out, b...)
		return err
	}
	told := &e.told[i]
	if !(p.Done && told.role && p.Empty()) {
		for _, c := range wire.ToStreamChunks(e.id, r, !told.role) {
			c.Choices[0].Index = i
			told.call = told.call || len(c.Choices[0].Delta.ToolCalls) > 0
			if err := add(c); err != nil {
				return nil, err
			}
		}
		told.role = true
	}
	if !p.Done {
		return out, nil
	}
	finish := wire.FinishChunk(e.id, r, told.call)
	finish.Choices[0].Index = i
	if err := add(finish); err != nil || !e.tally.end(i, p.Figures) {
		return out, err
	}
	if e.usage {
		finish.Choices = []wire.ChunkChoice{}
		if err := add(struct {
			wire.ChatCompletionChunk
			Usage usage `json:"usage"`
		}{finish, e.tally.usage(e.first, len(e.told) > 1)}); err != nil {
			return nil, err
		}
	}
	return append(out, done...), nil
}

// WholeOf is the body of several answers.
func (e *chatEncoder) WholeOf(all []prompt.Part, _ []float64) ([]byte, error) {
	body := wire.ToChatCompletion(e.id, ollamatype.Chat(all[0]))
	for i := range all {
		e.tally.end(i, all[i].Figures)
		if i > 0 {
			c := wire.ToChatCompletion(e.id, ollamatype.Chat(all[i])).Choices[0]
			c.Index = i
			body.Choices = append(body.Choices, c)
		}
	}
	return line(wholeChat{body, e.tally.usage(e.first, true)})
}

// Whole is the body of an answer in one piece.
func (e *chatEncoder) Whole(p prompt.Part) ([]byte, error) {
	return line(wholeChat{wire.ToChatCompletion(e.id, ollamatype.Chat(p)), usageOf(p.Figures, e.first)})
}

// wholeChat is a chat completion in one piece.
type wholeChat struct {
	wire.ChatCompletion
	Usage usage `json:"usage"`
}

// Rendered is what is told of a prompt that is not answered.
func (e *chatEncoder) Rendered(p prompt.Part, text string, images int) any {
	return api.ChatResponse{Model: p.Model, CreatedAt: p.Created, DebugInfo: ollamatype.Debug(text, images)}
}

// line is v as Ollama's v1 routes write it.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	err := json.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

// ErrorEnd is Ollama's odd last chunk of a stream that failed, with an error in it that OpenAI's
// clients raise; no [DONE] follows.
func (e *chatEncoder) ErrorEnd(status int, text string) []byte {
	r := api.ChatResponse{CreatedAt: e.created}
	chunk := wire.ToStreamChunks(e.id, r, !e.told[0].role)[0]
	b, _ := event(struct {
		wire.ChatCompletionChunk
		wire.ErrorResponse
	}{chunk, wire.NewError(status, text)})
	return b
}

// Lengths are what a model's context takes, in tokens, under the names that vLLM and the vendor's
// server have for it; 0 is not told.
type Lengths struct {
	Model   int `json:"max_model_len,omitempty"`         // prompt and answer together, unless a request asks for another context
	Prefill int `json:"prefill_max_token_num,omitempty"` // of a prompt, that calls of many rows take
	Tokens  int `json:"max_token_len,omitempty"`         // rows of the cache
}

// Listed is a model of /v1/models, with what OpenAI's has not.
type Listed struct {
	wire.Model
	Lengths
	Says string `json:"says,omitempty"` // why it cannot be asked
}

// Models is the body of /v1/models.
func Models(all []Listed) ([]byte, error) {
	if all == nil {
		all = []Listed{}
	}
	return line(struct {
		Object string   `json:"object"`
		Data   []Listed `json:"data"`
	}{"list", all})
}

// OfTag is a model of /api/tags as OpenAI has it.
func OfTag(m api.ListModelResponse) wire.Model {
	return wire.ToListCompletion(api.ListResponse{Models: []api.ListModelResponse{m}}).Data[0]
}

// Model is the body of /v1/models/{id}.
func Model(r api.ShowResponse, id string, n Lengths, says string) ([]byte, error) {
	return line(Listed{wire.ToModel(r, id), n, says})
}
