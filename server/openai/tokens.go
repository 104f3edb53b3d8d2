package openai

import (
	"encoding/json"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// This file has vLLM's routes that answer with a prompt's tokens: routers ask them to know which
// machine has evaluated the beginning of a prompt.

// Renders are the routes that answer with a request as the model would be given it.
func Renders() []prompt.Route {
	return []prompt.Route{
		{Path: "/v1/chat/completions/render", Role: access.Ask, Read: readChat, Tokens: rendered("chatcmpl-", false)},
		{Path: "/v1/completions/render", Role: access.Ask, Small: true, Read: readCompletion, Tokens: rendered("cmpl-", true)},
	}
}

// TokenizePath and DetokenizePath are vLLM's, which has them beside the API.
const (
	TokenizePath   = "/tokenize"
	DetokenizePath = "/detokenize"
)

// Tokenizes is the route that answers with the tokens of a text or a conversation.
func Tokenizes() prompt.Route {
	return prompt.Route{Path: TokenizePath, Role: access.Ask, Small: true, Read: readTokenize, Tokens: tokenized}
}

// Beside are dialects of nothing but the errors of the routes beside the API.
func Beside() []prompt.Dialect {
	return []prompt.Dialect{{Under: TokenizePath, ErrorType: whole, Error: errorBody, Routes: []prompt.Route{Tokenizes()}},
		{Under: DetokenizePath, ErrorType: whole, Error: errorBody}}
}

// generateRequest is vLLM's object of that name: a request as its engine takes it.
type generateRequest struct {
	ID       string         `json:"request_id"`
	TokenIDs []int32        `json:"token_ids"`
	Features any            `json:"features"` // of pictures: none are told
	Sampling samplingParams `json:"sampling_params"`
	Model    string         `json:"model"`
	Stream   bool           `json:"stream"`
	Options  any            `json:"stream_options"`
	Salt     any            `json:"cache_salt"`
	Priority int            `json:"priority"`
	Transfer any            `json:"kv_transfer_params"`
}

// samplingParams are vLLM's, as far as axle has them.
type samplingParams struct {
	N           int      `json:"n"`
	MaxTokens   *int     `json:"max_tokens"`
	Temperature float32  `json:"temperature"`
	TopP        float32  `json:"top_p"`
	TopK        int      `json:"top_k"`
	MinP        float32  `json:"min_p"`
	Presence    float32  `json:"presence_penalty"`
	Frequency   float32  `json:"frequency_penalty"`
	Repetition  float32  `json:"repetition_penalty"`
	Seed        *int64   `json:"seed"`
	Stop        []string `json:"stop"`
}

// rendered gives the body of an answer with a rendered prompt, or with a list of it alone.
func rendered(prefix string, list bool) func(prompt.Tokens) ([]byte, error) {
	return func(t prompt.Tokens) ([]byte, error) {
		p := t.Asked.Sampling
		g := generateRequest{ID: body.ID(prefix), TokenIDs: ids(t), Model: t.Model, Sampling: samplingParams{N: 1,
			Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, MinP: p.MinP, Presence: p.PresencePenalty,
			Frequency: p.FrequencyPenalty, Repetition: p.RepeatPenalty, Stop: append([]string{}, t.Asked.Stop...)}}
		if n := t.Asked.Limit; n > 0 {
			g.Sampling.MaxTokens = &n
		}
		if p.Seed >= 0 {
			g.Sampling.Seed = &p.Seed
		}
		if list {
			return line([]generateRequest{g})
		}
		return line(g)
	}
}

// ids are a prompt's, of which JSON has a list even where there are none.
func ids(t prompt.Tokens) []int32 { return append([]int32{}, t.IDs...) }

// tokenize is the body of /tokenize: a prompt, or a conversation.
type tokenize struct {
	continuation
	Model    string          `json:"model"`
	Prompt   *string         `json:"prompt"`
	Messages json.RawMessage `json:"messages"`
	Special  *bool           `json:"add_special_tokens"`
	Strings  bool            `json:"return_token_strs"`
	Template string          `json:"chat_template"`
}

// asTokenize is what of a tokenize the answer depends on. It stands in for the encoder.
type asTokenize struct {
	prompt.Encoder
	strings bool
	bare    bool // the first token is not the text's
}

// readTokenize reads the body of /tokenize.
func readTokenize(from prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	t := new(tokenize)
	if err := decode(b, t, "TokenizeRequest"); err != nil {
		return nil, nil, err
	}
	switch {
	case t.Prompt != nil && t.Messages != nil:
		return nil, nil, body.Fail(400, "prompt and messages cannot be had together: send one of them")
	case t.Prompt != nil:
		r := &prompt.Request{Model: t.Model, Unnamed: prompt.ErrUnnamed}
		r.Ask.Raw, r.Ask.Prompt = true, *t.Prompt
		as := asTokenize{strings: t.Strings, bare: t.Special != nil && !*t.Special}
		if as.bare {
			r.Ask.Context = []int32{0} // behind another token nothing is put before the text
		}
		return r, as, nil
	case t.Messages == nil:
		return nil, nil, body.Fail(400, "prompt is missing, and so are messages: send one of them")
	case t.Template != "":
		return nil, nil, body.Fail(400, "chat_template is not accepted: the model's own is used")
	case t.Special != nil && *t.Special:
		return nil, nil, body.Fail(400, "add_special_tokens is not accepted with messages: the model's template says which there are")
	}
	r, _, err := readChat(from, b)
	if err != nil {
		return nil, nil, err
	}
	if r.Continues() && !t.Continue {
		return nil, nil, body.Fail(400, "continue_final_message must be true if the last message is the assistant's")
	}
	r.Ask.Truncate = false
	return r, asTokenize{strings: t.Strings}, nil
}

// tokenized is the body of an answer to a tokenize.
func tokenized(t prompt.Tokens) ([]byte, error) {
	as := t.Encoder.(asTokenize)
	out := struct {
		Count   int      `json:"count"`
		Max     int      `json:"max_model_len"`
		Tokens  []int32  `json:"tokens"`
		Strings []string `json:"token_strs"`
	}{Max: t.Context, Tokens: ids(t)}
	if as.bare {
		out.Tokens = out.Tokens[1:]
	}
	out.Count = len(out.Tokens)
	if as.strings {
		out.Strings = make([]string, len(out.Tokens))
		for i, id := range out.Tokens {
			out.Strings[i] = t.Text(id)
		}
	}
	return line(out)
}

// DecodeDetokenize reads the body of /detokenize.
func DecodeDetokenize(b []byte) (model string, ids []int64, err error) {
	var d struct {
		Model  string  `json:"model"`
		Tokens []int64 `json:"tokens"`
	}
	if err := decode(b, &d, "DetokenizeRequest"); err != nil {
		return "", nil, err
	}
	if d.Tokens == nil {
		return "", nil, body.Fail(400, "tokens is missing: a list of token ids")
	}
	return d.Model, d.Tokens, nil
}

// Detokenized is the body of an answer to it.
func Detokenized(text string) ([]byte, error) {
	return line(struct {
		Prompt string `json:"prompt"`
	}{text})
}
