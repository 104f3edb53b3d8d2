package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// completion is the body of /v1/completions: Ollama's, and what axle honours in addition.
type completion struct {
	wire.CompletionRequest
	extra
}

// readCompletion reads the body of /v1/completions.
func readCompletion(_ prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	c := new(completion)
	if err := decode(b, c, "CompletionRequest"); err != nil {
		return nil, nil, err
	}
	if stops, ok := c.Stop.([]any); ok {
		for _, stop := range stops {
			if _, ok := stop.(string); !ok {
				return nil, nil, body.Fail(400, "%s", fmt.Errorf("invalid type for 'stop' field: %T", stop))
			}
		}
	}
	r := &prompt.Request{Model: c.Model, Unnamed: prompt.ErrMissing(prompt.Missing, c.Model), MaxTokens: c.MaxCompletionTokens,
		Options: options(c.Stop, nil, nil), Assumes: c.Temperature == nil, RenderOnly: c.DebugRenderOnly,
		Loads: c.Prompt == "" && c.Suffix == ""}
	set(r.Options, "num_predict", c.MaxTokens)
	set(r.Options, "temperature", c.Temperature)
	set(r.Options, "seed", c.Seed)
	set(r.Options, "frequency_penalty", &c.FrequencyPenalty)
	set(r.Options, "presence_penalty", &c.PresencePenalty)
	if c.TopP != 0 {
		r.Options["top_p"] = c.TopP
	}
	r.Ask = ask.Request{Prompt: c.Prompt, Suffix: c.Suffix, Truncate: true, Shift: true}
	e := &completionEncoder{form: form{c.Stream}, id: body.ID("cmpl-"), usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage}
	if err := c.checkMax(); err != nil {
		return nil, nil, err
	}
	candidates, err := 0, error(nil)
	if e.n, candidates, err = c.textChoices(c.Stream); err != nil {
		return nil, nil, err
	}
	e.told, e.tally.left = make([]textTold, candidates), candidates
	if n := c.Logprobs; n != nil {
		if *n < 0 || *n > sampler.MaxTopLogprobs {
			return nil, nil, body.Fail(400, "logprobs must be between 0 and %d, got %d", sampler.MaxTopLogprobs, *n)
		}
		r.Ask.Sampling.Logprobs, r.Ask.Sampling.TopLogprobs = true, *n
		e.logprobs, e.tops = true, *n > 0
	}
	if c.Echo != nil && *c.Echo {
		if c.Logprobs != nil {
			return nil, nil, body.Fail(400, "echo and logprobs cannot be had together: the prompt stands inside the model's template, so "+
				"its tokens have no log probabilities of their own")
		}
		e.echo = c.Prompt
	}
	r.Ask.Sampling.LogitBias, err = logitBias(c.LogitBias)
	if err != nil {
		return nil, nil, err
	}
	return r, e, nil
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

// completionEncoder writes a completion.
type completionEncoder struct {
	form
	id       string
	usage    bool
	n        int
	echo     string
	logprobs bool
	tops     bool
	told     []textTold
	tally    tally
}

// textTold is what of a candidate was sent.
type textTold struct {
	echo bool
	at   int // characters
}

// Candidates is how many answers are written.
func (e *completionEncoder) Candidates() int { return len(e.told) }

// Ranks says whether only the likeliest of them are told.
func (e *completionEncoder) Ranks() bool { return e.n < len(e.told) }

// See leaves the log probabilities of tokens out that are not in the text, of thinking for one, and
// all where none were asked for.
func (e *completionEncoder) See(p prompt.Part) prompt.Part {
	if p.Text == "" || !e.logprobs {
		p.Logprobs = nil
	}
	return p
}

// Chunk is ChunkOf of an answer that is the only one.
func (e *completionEncoder) Chunk(p prompt.Part) ([]byte, error) {
	e.tally.left = 1
	return e.ChunkOf(0, p)
}

// ChunkOf gives a choice's chunk, the first time after one with the prompt where that is to be
// there; after the last choice's usage if asked, and [DONE].
func (e *completionEncoder) ChunkOf(i int, p prompt.Part) ([]byte, error) {
	c := wire.ToCompleteChunk(e.id, ollamatype.Generate(p))
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
	choice := e.choice(i, p, told)
	var b []byte
	var err error
	if choice.Logprobs == nil {
		c.Choices[0].Index = i
		b, err = event(c)
	} else {
		b, err = event(textChunk{c, []textChoice{choice}})
	}
	if out = append(out, b...); err != nil || !p.Done || !e.tally.end(i, p.Figures) {
		return out, err
	}
	if e.usage {
		c.Usage, c.Choices = new(usageOf(e.tally.all, 0).Usage), []wire.CompleteChunkChoice{}
		b, err := event(c)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return append(out, done...), nil
}

// choice is a part of an answer, or all of it.
func (e *completionEncoder) choice(i int, p prompt.Part, told *textTold) textChoice {
	c := textChoice{Text: p.Text, Index: i}
	if p.Reason != "" {
		c.FinishReason = &p.Reason
	}
	if len(p.Logprobs) == 0 {
		return c
	}
	c.Logprobs = &textLogprobs{}
	for _, l := range ollamatype.Logprobs(p.Logprobs) {
		c.Logprobs.Tokens = append(c.Logprobs.Tokens, tokenName(l.TokenLogprob))
		c.Logprobs.Logprobs = append(c.Logprobs.Logprobs, finite(l.Logprob))
		c.Logprobs.Offsets = append(c.Logprobs.Offsets, told.at)
		for _, b := range []byte(l.Token) {
			if utf8.RuneStart(b) {
				told.at++
			}
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
func (e *completionEncoder) Whole(p prompt.Part) ([]byte, error) {
	return e.WholeOf([]prompt.Part{p}, nil)
}

// WholeOf is the body of several answers, the likeliest first where only they are told: those with
// the highest scores.
func (e *completionEncoder) WholeOf(all []prompt.Part, scores []float64) ([]byte, error) {
	for i := range all {
		e.tally.end(i, all[i].Figures)
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	if e.Ranks() && len(all) > 1 {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
		order = order[:e.n]
	}
	body := struct {
		wire.Completion
		Choices []textChoice `json:"choices"`
		Usage   wire.Usage   `json:"usage"`
	}{wire.ToCompletion(e.id, ollamatype.Generate(all[0])), nil, usageOf(e.tally.all, 0).Usage}
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

// Rendered is what is told of a prompt that is not answered.
func (e *completionEncoder) Rendered(p prompt.Part, text string, images int) any {
	return api.GenerateResponse{Model: p.Model, CreatedAt: p.Created, DebugInfo: ollamatype.Debug(text, images)}
}

// ErrorEnd ends a stream that failed: a chunk of no model, with the error.
func (e *completionEncoder) ErrorEnd(status int, text string) []byte {
	b, _ := event(struct {
		wire.CompletionChunk
		wire.ErrorResponse
	}{wire.ToCompleteChunk(e.id, api.GenerateResponse{}), wire.NewError(status, text)})
	return b
}
