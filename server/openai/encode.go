package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/ollama"
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

func usageOf(r api.ChatResponse, first time.Duration) usage {
	u := usage{Usage: wire.ToUsage(r), TTFT: float64(first.Microseconds()) / 1000}
	if s := r.EvalDuration.Seconds(); s > 0 && r.EvalCount > 1 {
		u.TPS = math.Round(float64(r.EvalCount-1)/s*1000) / 1000
	}
	return u
}

// ChatEncoder writes a chat completion. First, when set, gives the time to the first token, for
// usage.ttft_ms.
type ChatEncoder struct {
	First   func() time.Duration
	id      string
	stream  bool
	usage   bool
	created time.Time
	told    []chatTold
	tally   tally
}

// chatTold is what of a choice was sent.
type chatTold struct{ role, call bool }

// NewChatEncoder makes an encoder for the answer to c.
func NewChatEncoder(c *Chat) *ChatEncoder {
	return &ChatEncoder{id: ollama.ID("chatcmpl-"), stream: c.Stream,
		usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage, told: make([]chatTold, c.N), tally: tally{left: c.N}}
}

func (e *ChatEncoder) Streams() bool     { return e.stream }
func (e *ChatEncoder) Type() string      { return stream }
func (e *ChatEncoder) WholeType() string { return whole }

func (e *ChatEncoder) first() time.Duration {
	if e.First == nil {
		return 0
	}
	return e.First()
}

// Candidates is how many answers are written.
func (e *ChatEncoder) Candidates() int { return len(e.told) }

// Ranks says that all of them are told.
func (e *ChatEncoder) Ranks() bool { return false }

// Chunk is ChunkOf of an answer that is the only one.
func (e *ChatEncoder) Chunk(r api.ChatResponse) ([]byte, error) {
	e.tally.left = 1
	return e.ChunkOf(0, r)
}

// ChunkOf gives a choice's role once, its deltas, then its reason on a chunk of its own; after the
// last choice's usage if asked, and [DONE].
func (e *ChatEncoder) ChunkOf(i int, r api.ChatResponse) ([]byte, error) {
	if e.created.IsZero() {
		e.created = r.CreatedAt
	}
	r.CreatedAt = e.created
	var out []byte
	add := func(v any) error {
		b, err := event(v)
		out = append(out, b...)
		return err
	}
	told := &e.told[i]
	empty := r.Message.Content == "" && r.Message.Thinking == "" && len(r.Message.ToolCalls) == 0 && len(r.Logprobs) == 0
	if !(r.Done && told.role && empty) {
		for _, c := range wire.ToStreamChunks(e.id, r, !told.role) {
			c.Choices[0].Index = i
			told.call = told.call || len(c.Choices[0].Delta.ToolCalls) > 0
			if err := add(c); err != nil {
				return nil, err
			}
		}
		told.role = true
	}
	if !r.Done {
		return out, nil
	}
	finish := wire.FinishChunk(e.id, r, told.call)
	finish.Choices[0].Index = i
	if err := add(finish); err != nil || !e.tally.end(i, r.Metrics) {
		return out, err
	}
	if e.usage {
		finish.Choices = []wire.ChunkChoice{}
		if err := add(struct {
			wire.ChatCompletionChunk
			Usage usage `json:"usage"`
		}{finish, e.tally.usage(e.first(), len(e.told) > 1)}); err != nil {
			return nil, err
		}
	}
	return append(out, done...), nil
}

// WholeOf is the body of several answers.
func (e *ChatEncoder) WholeOf(all []api.ChatResponse, _ []float64) ([]byte, error) {
	body := wire.ToChatCompletion(e.id, all[0])
	for i, r := range all {
		e.tally.end(i, r.Metrics)
		if i > 0 {
			c := wire.ToChatCompletion(e.id, r).Choices[0]
			c.Index = i
			body.Choices = append(body.Choices, c)
		}
	}
	return line(struct {
		wire.ChatCompletion
		Usage usage `json:"usage"`
	}{body, e.tally.usage(e.first(), true)})
}

// Whole is the body of an answer in one piece.
func (e *ChatEncoder) Whole(r api.ChatResponse) ([]byte, error) {
	u := usageOf(r, e.first())
	if b := textAnswer(e.id, &r, u); b != nil {
		return b, nil
	}
	return wholeAnswer(e.id, r, u)
}

func wholeAnswer(id string, r api.ChatResponse, u usage) ([]byte, error) {
	return line(struct {
		wire.ChatCompletion
		Usage usage `json:"usage"`
	}{wire.ToChatCompletion(id, r), u})
}

// line is v as Ollama's v1 routes write it.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	err := json.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (e *ChatEncoder) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

// ErrorEnd is Ollama's odd last chunk of a stream that failed, with an error in it that OpenAI's
// clients raise; no [DONE] follows.
func (e *ChatEncoder) ErrorEnd(status int, text string) []byte {
	r := api.ChatResponse{CreatedAt: e.created}
	chunk := wire.ToStreamChunks(e.id, r, !e.told[0].role)[0]
	b, _ := event(struct {
		wire.ChatCompletionChunk
		wire.ErrorResponse
	}{chunk, wire.NewError(status, text)})
	return b
}

// Embeddings is an embedding request.
type Embeddings struct {
	wire.EmbedRequest
	Input []string
}

// DecodeEmbeddings reads the body of /v1/embeddings.
func DecodeEmbeddings(b []byte) (*Embeddings, error) {
	e := new(Embeddings)
	if err := decode(b, &e.EmbedRequest); err != nil {
		return nil, err
	}
	switch f := e.EncodingFormat; f {
	case "", "float", "base64", "FLOAT", "BASE64", "Float", "Base64":
	default:
		return nil, ollama.Fail(400, "Invalid value for 'encoding_format' = %s. Supported values: ['float', 'base64'].", f)
	}
	switch in := e.EmbedRequest.Input.(type) {
	case nil:
		return nil, ollama.Fail(400, "invalid input")
	case string:
		e.Input = []string{in}
		return e, nil
	case []any:
		if len(in) == 0 {
			return nil, ollama.Fail(400, "invalid input")
		}
	}
	var err error
	e.Input, err = ollama.Inputs(e.EmbedRequest.Input)
	return e, err
}

// Write writes the body of the answer, a vector at a time, so that its text is nowhere whole.
func (e *Embeddings) Write(w io.Writer, r api.EmbedResponse) error {
	if len(r.Embeddings) == 0 { // of an input that only loads; Ollama's conversion has its own idea of that
		b, err := line(wire.ToEmbeddingList(e.Model, r, e.EncodingFormat))
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	one := r
	list := wire.ToEmbeddingList(e.Model, r, "float") // which shares the vectors
	list.Data = []wire.Embedding{}
	frame, err := line(list)
	if err != nil {
		return err
	}
	return ollama.Spread(w, frame, "data", len(r.Embeddings), func(i int) any {
		one.Embeddings = r.Embeddings[i : i+1]
		v := wire.ToEmbeddingList(e.Model, one, e.EncodingFormat).Data[0]
		v.Index = i
		return v
	})
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
