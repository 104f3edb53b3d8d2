package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/ollama"
)

// Completion is a completion request.
type Completion struct {
	wire.CompletionRequest
	Native *ollama.GenerateRequest

	N, Candidates int    // answers, and how many are written of which they are the likeliest
	Echo          string // what stands before each
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
	c.Native = &ollama.GenerateRequest{GenerateRequest: native}
	var x extra
	if err := decode(b, &x); err != nil {
		return nil, err
	}
	if err := x.checkMax(); err != nil {
		return nil, err
	}
	if c.N, c.Candidates, err = x.textChoices(c.Stream); err != nil {
		return nil, err
	}
	if n := c.Logprobs; n != nil {
		if *n < 0 || *n > sampler.MaxTopLogprobs {
			return nil, ollama.Fail(400, "logprobs must be between 0 and %d, got %d", sampler.MaxTopLogprobs, *n)
		}
		c.Native.Logprobs = true // Ollama's conversion takes 0 for none
	}
	if x.Echo != nil && *x.Echo {
		if c.Logprobs != nil {
			return nil, ollama.Fail(400, "echo and logprobs cannot be had together: the prompt stands inside the model's template, so its "+
				"tokens have no log probabilities of their own")
		}
		c.Echo = c.Prompt
	}
	c.Native.MaxTokens = x.MaxCompletionTokens
	c.Native.LogitBias, err = logitBias(x.LogitBias)
	return c, err
}

// textChoice is an answer, or a part of one. Up to its logprobs it is Ollama's, to the byte.
type textChoice struct {
	Text         string        `json:"text"`
	Index        int           `json:"index"`
	FinishReason *string       `json:"finish_reason"`
	Logprobs     *textLogprobs `json:"logprobs,omitempty"`
}

// textLogprobs are OpenAI's for completions: a list for each thing that is told of the tokens.
type textLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []float64            `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"` // null where no rivals were asked for
	Offsets  []int                `json:"text_offset"`  // of characters in the choice's text
}

type textChunk struct {
	wire.CompletionChunk
	Choices []textChoice `json:"choices"`
}

// CompletionEncoder writes a completion.
type CompletionEncoder struct {
	id            string
	stream, usage bool
	n             int
	echo          string
	logprobs      bool
	tops          bool
	told          []textTold
	tally         tally
}

// textTold is what of a candidate was sent.
type textTold struct {
	echo bool
	at   int // characters
}

// NewCompletionEncoder makes an encoder for the answer to c.
func NewCompletionEncoder(c *Completion) *CompletionEncoder {
	return &CompletionEncoder{id: ollama.ID("cmpl-"), stream: c.Stream,
		usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage, n: c.N, echo: c.Echo,
		logprobs: c.Native.Logprobs, tops: c.Native.TopLogprobs > 0, told: make([]textTold, c.Candidates), tally: tally{left: c.Candidates}}
}

func (e *CompletionEncoder) Streams() bool     { return e.stream }
func (e *CompletionEncoder) Type() string      { return stream }
func (e *CompletionEncoder) WholeType() string { return whole }

// Candidates is how many answers are written.
func (e *CompletionEncoder) Candidates() int { return len(e.told) }

// Ranks says whether only the likeliest of them are told.
func (e *CompletionEncoder) Ranks() bool { return e.n < len(e.told) }

// Chunk is ChunkOf of an answer that is the only one.
func (e *CompletionEncoder) Chunk(r api.GenerateResponse) ([]byte, error) {
	e.tally.left = 1
	return e.ChunkOf(0, r)
}

// ChunkOf gives a choice's chunk, the first time after one with the prompt where that is to be
// there; after the last choice's usage if asked, and [DONE].
func (e *CompletionEncoder) ChunkOf(i int, r api.GenerateResponse) ([]byte, error) {
	c := wire.ToCompleteChunk(e.id, r)
	if e.usage {
		c.Usage = &wire.Usage{}
	}
	var out []byte
	told := &e.told[i]
	if !told.echo && e.echo != "" {
		b, err := event(textChunk{c, []textChoice{{Text: e.echo, Index: i}}})
		if err != nil {
			return nil, err
		}
		told.at, out = utf8.RuneCountInString(e.echo), b
	}
	told.echo = true
	choice := e.choice(i, r, told)
	var b []byte
	var err error
	if choice.Logprobs == nil {
		c.Choices[0].Index = i
		b, err = event(c)
	} else {
		b, err = event(textChunk{c, []textChoice{choice}})
	}
	if out = append(out, b...); err != nil || !r.Done || !e.tally.end(i, r.Metrics) {
		return out, err
	}
	if e.usage {
		u := wire.ToUsageGenerate(api.GenerateResponse{Metrics: e.tally.all})
		c.Usage, c.Choices = &u, []wire.CompleteChunkChoice{}
		b, err := event(c)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return append(out, done...), nil
}

// choice is a part of an answer, or all of it.
func (e *CompletionEncoder) choice(i int, r api.GenerateResponse, told *textTold) textChoice {
	c := textChoice{Text: r.Response, Index: i}
	if r.DoneReason != "" {
		c.FinishReason = &r.DoneReason
	}
	if len(r.Logprobs) == 0 {
		return c
	}
	c.Logprobs = &textLogprobs{}
	for _, l := range r.Logprobs {
		c.Logprobs.Tokens = append(c.Logprobs.Tokens, tokenName(l.TokenLogprob))
		c.Logprobs.Logprobs = append(c.Logprobs.Logprobs, finite(l.Logprob))
		c.Logprobs.Offsets = append(c.Logprobs.Offsets, told.at)
		for _, b := range []byte(l.Token) {
			if !utf8.RuneStart(b) {
				continue
			}
			told.at++
		}
		if e.tops {
			top := map[string]float64{}
			for _, t := range append(l.TopLogprobs, l.TokenLogprob) {
				top[tokenName(t)] = finite(t.Logprob)
			}
			c.Logprobs.Top = append(c.Logprobs.Top, top)
		}
	}
	return c
}

// tokenName is a token as OpenAI names it: one that is not whole characters by its bytes.
func tokenName(t api.TokenLogprob) string {
	if utf8.ValidString(t.Token) {
		return t.Token
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for _, c := range []byte(t.Token) {
		fmt.Fprintf(&b, "\\x%02x", c)
	}
	return b.String()
}

// finite is a log probability as JSON can have it: what cannot be is as unlikely as with OpenAI.
func finite(p float64) float64 { return max(p, -9999) }

// Whole is the body of an answer in one piece.
func (e *CompletionEncoder) Whole(r api.GenerateResponse) ([]byte, error) {
	return e.WholeOf([]api.GenerateResponse{r}, nil)
}

// WholeOf is the body of several answers, the likeliest first where only they are told: those with
// the highest scores.
func (e *CompletionEncoder) WholeOf(all []api.GenerateResponse, scores []float64) ([]byte, error) {
	for i, r := range all {
		e.tally.end(i, r.Metrics)
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	if e.Ranks() && len(all) > 1 {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
		order = order[:e.n]
	}
	c := wire.ToCompletion(e.id, all[0])
	body := struct {
		ID          string       `json:"id"`
		Object      string       `json:"object"`
		Created     int64        `json:"created"`
		Model       string       `json:"model"`
		Fingerprint string       `json:"system_fingerprint"`
		Choices     []textChoice `json:"choices"`
		Usage       wire.Usage   `json:"usage"`
	}{c.Id, c.Object, c.Created, c.Model, c.SystemFingerprint, nil, wire.ToUsageGenerate(api.GenerateResponse{Metrics: e.tally.all})}
	for at, i := range order {
		choice := e.choice(at, all[i], &textTold{at: utf8.RuneCountInString(e.echo)})
		if choice.Logprobs == nil && e.logprobs { // of an answer without a word
			choice.Logprobs = &textLogprobs{Tokens: []string{}, Logprobs: []float64{}, Offsets: []int{}}
		}
		choice.Text = e.echo + choice.Text
		body.Choices = append(body.Choices, choice)
	}
	return line(body)
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
