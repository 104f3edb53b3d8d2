package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
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

// usage is OpenAI's with what the vendor's server tells besides.
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

// ChatEncoder writes a chat completion. First, when set, gives the time to the first token, for usage.ttft_ms.
type ChatEncoder struct {
	First   func() time.Duration
	id      string
	stream  bool
	usage   bool
	role    bool // the role was sent
	called  bool // a tool call was sent
	created time.Time
}

// NewChatEncoder makes an encoder for the answer to c.
func NewChatEncoder(c *Chat) *ChatEncoder {
	return &ChatEncoder{id: "chatcmpl-" + strconv.Itoa(rand.IntN(999)), stream: c.Stream,
		usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage}
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

// Chunk gives the role once, deltas, then the reason on a chunk of its own, then usage if asked, then [DONE].
func (e *ChatEncoder) Chunk(r api.ChatResponse) ([]byte, error) {
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
	empty := r.Message.Content == "" && r.Message.Thinking == "" && len(r.Message.ToolCalls) == 0 && len(r.Logprobs) == 0
	if !(r.Done && e.role && empty) {
		for _, c := range wire.ToStreamChunks(e.id, r, !e.role) {
			e.called = e.called || len(c.Choices) > 0 && len(c.Choices[0].Delta.ToolCalls) > 0
			if err := add(c); err != nil {
				return nil, err
			}
		}
		e.role = true
	}
	if !r.Done {
		return out, nil
	}
	finish := wire.FinishChunk(e.id, r, e.called)
	if err := add(finish); err != nil {
		return nil, err
	}
	if e.usage {
		finish.Choices = []wire.ChunkChoice{}
		if err := add(struct {
			wire.ChatCompletionChunk
			Usage usage `json:"usage"`
		}{finish, usageOf(r, e.first())}); err != nil {
			return nil, err
		}
	}
	return append(out, done...), nil
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

// ErrorEnd is Ollama's odd last chunk of a stream that failed, with an error in it that OpenAI's clients raise; no [DONE] follows.
func (e *ChatEncoder) ErrorEnd(status int, text string) []byte {
	r := api.ChatResponse{CreatedAt: e.created}
	chunk := wire.ToStreamChunks(e.id, r, !e.role)[0]
	b, _ := event(struct {
		wire.ChatCompletionChunk
		wire.ErrorResponse
	}{chunk, wire.NewError(status, text)})
	return b
}

// Completion is a completion request.
type Completion struct {
	wire.CompletionRequest
	Native *ollama.GenerateRequest
}

// DecodeCompletion reads the body of /v1/completions.
func DecodeCompletion(b []byte) (*Completion, error) {
	c := new(Completion)
	if err := decode(b, &c.CompletionRequest); err != nil {
		return nil, err
	}
	native, err := wire.FromCompleteRequest(c.CompletionRequest)
	if err != nil {
		return nil, bad(err)
	}
	if native.TopLogprobs < 0 || native.TopLogprobs > 20 {
		return nil, ollama.Fail(400, "top_logprobs must be between 0 and 20")
	}
	c.Native = &ollama.GenerateRequest{GenerateRequest: native}
	var x extra
	if err := decode(b, &x); err != nil {
		return nil, err
	}
	if err := x.checkMax(); err != nil {
		return nil, err
	}
	c.Native.MaxTokens = x.MaxCompletionTokens
	c.Native.LogitBias, err = logitBias(x.LogitBias)
	return c, err
}

// CompletionEncoder writes a completion.
type CompletionEncoder struct {
	id            string
	stream, usage bool
}

// NewCompletionEncoder makes an encoder for the answer to c.
func NewCompletionEncoder(c *Completion) *CompletionEncoder {
	return &CompletionEncoder{id: fmt.Sprintf("cmpl-%d", rand.IntN(999)), stream: c.Stream,
		usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage}
}

func (e *CompletionEncoder) Streams() bool     { return e.stream }
func (e *CompletionEncoder) Type() string      { return stream }
func (e *CompletionEncoder) WholeType() string { return whole }

// Chunk gives a chunk, then usage if asked, then [DONE].
func (e *CompletionEncoder) Chunk(r api.GenerateResponse) ([]byte, error) {
	c := wire.ToCompleteChunk(e.id, r)
	if e.usage {
		c.Usage = &wire.Usage{}
	}
	out, err := event(c)
	if err != nil || !r.Done {
		return out, err
	}
	if e.usage {
		u := wire.ToUsageGenerate(r)
		c.Usage, c.Choices = &u, []wire.CompleteChunkChoice{}
		b, err := event(c)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return append(out, done...), nil
}

// Whole is the body of an answer in one piece.
func (e *CompletionEncoder) Whole(r api.GenerateResponse) ([]byte, error) {
	return line(wire.ToCompletion(e.id, r))
}

func (e *CompletionEncoder) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

// ErrorEnd ends a stream that failed: a chunk of no model, with the error.
func (e *CompletionEncoder) ErrorEnd(status int, text string) []byte {
	b, _ := event(struct {
		wire.CompletionChunk
		wire.ErrorResponse
	}{wire.ToCompleteChunk(e.id, api.GenerateResponse{}), wire.NewError(status, text)})
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

// Models is the body of /v1/models.
func Models(l api.ListResponse) ([]byte, error) {
	list := wire.ToListCompletion(l)
	if list.Data == nil {
		list.Data = []wire.Model{}
	}
	return line(list)
}

// Model is the body of /v1/models/{id}.
func Model(r api.ShowResponse, id string) ([]byte, error) { return line(wire.ToModel(r, id)) }
