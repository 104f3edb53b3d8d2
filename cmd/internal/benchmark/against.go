package benchmark

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// againstPatience is how long one answer of another server may take, from asking to its end: it may
// have to load the model first.
const againstPatience = 15 * time.Minute

// reply is one answer of either side, by the host's clock.
type reply struct {
	prompt, tokens int
	first, last    time.Time
	err            error
}

// turnFigures is one repeat on one side.
type turnFigures struct {
	first, decode, whole float64 // decode: NaN where no client had a second token
	tokens, prompt       int
}

// turnOf runs one repeat on one side: all clients at once.
func turnOf(ctx context.Context, clients int, ask func(ctx context.Context, client int) reply) (f turnFigures, err error) {
	replies := make([]reply, clients)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() {
			if replies[i] = ask(ctx, i); replies[i].err != nil {
				stop(replies[i].err) // the others' answers are of no use any more
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return f, err
	}
	slowest, last, later, earliest := begin, begin, 0, time.Time{}
	for _, r := range replies {
		if r.tokens == 0 || r.first.IsZero() {
			return f, fmt.Errorf("an answer had no text")
		}
		if r.first.After(slowest) {
			slowest = r.first
		}
		if earliest.IsZero() || r.first.Before(earliest) {
			earliest = r.first
		}
		if r.last.After(last) {
			last = r.last
		}
		f.tokens += r.tokens
		f.prompt += r.prompt
		later += r.tokens - 1
	}
	f.first, f.decode = float64(slowest.Sub(begin))/1e6, math.NaN()
	f.whole = float64(f.tokens) / max(last.Sub(begin), time.Microsecond).Seconds()
	if last.After(slowest) && later > 0 {
		// From the first client's first token: a server that answers clients one by one is not
		// flattered by it.
		f.decode = float64(later) / last.Sub(earliest).Seconds()
	}
	return f, nil
}

// measureAgainst measures the model here and another server in turn.
func (f *Options) measureAgainst(ctx context.Context, r *measuredCard, o *opened, loads []bench.Load,
	progress io.Writer) (*report.Against, error) {
	a := &report.Against{Kind: f.Against.Kind, URL: f.Against.URL, Model: cmp.Or(f.Against.Model, o.Name)}
	web := &http.Client{Timeout: againstPatience}
	seen := map[bench.Load]bool{}
	turn := rand.IntN(1 << 20) // no server has seen these questions before
	for _, l := range loads {
		l.Speculate = len(f.Guesses) > 1 || f.Guesses[0] // here as a server would: where it pays
		if seen[l] {
			continue
		}
		seen[l] = true
		var texts []string // of this turn, a client each
		here := func(ctx context.Context, client int) reply { return o.ask(ctx, texts[client], l, client, turn) }
		there := func(ctx context.Context, client int) reply {
			return f.Against.ask(ctx, web, a.Model, texts[client], l.Output)
		}
		var side [2]struct{ first, decode, whole []float64 }
		x := report.AgainstCase{Load: l}
		for rep := range f.Repeats + 1 { // the first warms both up
			turn++
			fmt.Fprintf(progress, "\r%s: %-24s %d of %d", plain.Line(o.Name), l, rep, f.Repeats)
			texts = texts[:0]
			for c := range l.Clients {
				text, err := o.textFor(l.Prompt, c, turn)
				if err != nil {
					return a, err
				}
				texts = append(texts, text)
			}
			for k := range 2 {
				// Each goes first every other time.
				which := (k + rep) % 2
				ask, to := here, &x.Here
				if which == 1 {
					ask, to = there, &x.There
				}
				f, err := turnOf(ctx, l.Clients, ask)
				if err != nil {
					fmt.Fprintln(progress)
					return a, fmt.Errorf("%s: %w", []string{"here", a.URL}[which], err)
				}
				to.Tokens, to.Prompt = f.tokens, f.prompt
				if rep == 0 {
					continue
				}
				s := &side[which]
				s.first, s.whole = append(s.first, f.first), append(s.whole, f.whole)
				if !math.IsNaN(f.decode) {
					s.decode = append(s.decode, f.decode)
				}
			}
		}
		for k, to := range []*report.AgainstSide{&x.Here, &x.There} {
			to.First, to.Decode, to.Whole = bench.NewSample(side[k].first), bench.NewSample(side[k].decode), bench.NewSample(side[k].whole)
		}
		a.Cases = append(a.Cases, x)
	}
	fmt.Fprintf(progress, "\r%60s\r", "")
	r.recorder.Take()
	return a, nil
}

// count notes a token.
func (r *reply) count() {
	now := time.Now()
	if r.tokens == 0 {
		r.first = now
	}
	r.tokens++
	r.last = now
}

// againstText is a question of this many words, and some that ask for a long answer.
func againstText(words, client, turn int) string {
	list := strings.Fields(bench.Story)
	out := []string{fmt.Sprintf("Story %d of client %d, to be told at great length, without an end:", turn, client)}
	for i := range words {
		out = append(out, list[i%len(list)])
	}
	return strings.Join(out, " ")
}

// textFor is the longest question that the model here sees as no more than n tokens, its template
// included; a server that runs the same model counts as many. A shape without weights has no words:
// there it is one of n words.
func (o *opened) textFor(n, client, turn int) (text string, err error) {
	if o.model == nil {
		return againstText(n, client, turn), nil
	}
	words := sort.Search(n, func(w int) bool {
		have, e := o.model.Tokens(context.Background(), question(againstText(w+1, client, turn)))
		err = errors.Join(err, e)
		return len(have) > n
	})
	return againstText(words, client, turn), err
}

func question(text string) engine.Request {
	return engine.Request{Messages: []chat.Message{{Role: "user", Content: text}}}
}

// ask asks the model here as a server would ask it.
func (o *opened) ask(ctx context.Context, text string, l bench.Load, client, turn int) (r reply) {
	var guess *bool
	if !l.Speculate {
		guess = &l.Speculate
	}
	if o.model != nil {
		q := question(text)
		q.Sampling, q.Limit, q.Speculate = o.model.Sampling(), l.Output, guess
		q.Sampling.Temperature = 0
		for e, err := range o.model.Chat(ctx, q) {
			switch {
			case err != nil:
				return reply{err: err}
			case e.Done != nil:
				r.tokens, r.prompt = e.Done.Usage.Output, e.Done.Usage.Prompt
			case e.Text != "" || e.Thinking != "" || e.ToolCall != nil:
				r.count()
			}
		}
		return r
	}
	s := sampler.Defaults()
	s.Temperature = 0
	ids := make([]int32, l.Prompt)
	for i := range ids {
		ids[i] = int32(1000 + (client*4001+turn*13)%90000 + i)
	}
	r.prompt = len(ids)
	for t, err := range o.backend.Complete(ctx, engine.Job{IDs: ids, Sampling: s, Limit: l.Output, Speculate: guess}) {
		if err != nil {
			return reply{err: err}
		}
		if t.Final == "" {
			r.count()
		}
	}
	return r
}

// ask sends one request to the other server and reads its stream.
func (a *Server) ask(ctx context.Context, c *http.Client, model, prompt string, limit int) (r reply) {
	path, body := "/api/generate", map[string]any{"model": model, "prompt": prompt, "stream": true,
		"options": map[string]any{"temperature": 0, "num_predict": limit}}
	if a.Kind == "openai" {
		path, body = "/v1/chat/completions", map[string]any{"model": model, "stream": true, "temperature": 0, "max_tokens": limit,
			"stream_options": map[string]any{"include_usage": true},
			"messages":       []map[string]string{{"role": "user", "content": prompt}}}
		if strings.HasSuffix(a.URL, "/v1") {
			path = "/chat/completions"
		}
	}
	fail := func(err error) reply { return reply{err: fmt.Errorf("%s: %w", path, err)} }
	b, err := json.Marshal(body)
	if err != nil {
		return fail(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+path, bytes.NewReader(b))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return fail(inner(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		err := fmt.Errorf("%s: %s", res.Status, complaint(text))
		if res.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w (the model is asked for as %q: --against-model gives another name; --against is %s)", err, model, a.Kind)
		}
		return fail(err)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	over := false
	for lines.Scan() {
		line, _ := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		line = bytes.TrimSpace(line)
		over = over || string(line) == "[DONE]"
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		var m struct {
			Error           json.RawMessage
			Response        string
			Thinking        string
			Done            bool
			PromptEvalCount int `json:"prompt_eval_count"`
			EvalCount       int `json:"eval_count"`
			Choices         []struct {
				Delta struct {
					Content          string
					Reasoning        string
					ReasoningContent string `json:"reasoning_content"`
				}
				FinishReason string `json:"finish_reason"`
			}
			Usage *struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return fail(fmt.Errorf("a line that is no JSON: %.80q", line))
		}
		if len(m.Error) > 0 && string(m.Error) != "null" {
			return fail(errors.New(complaint(line)))
		}
		text := m.Response + m.Thinking
		for _, ch := range m.Choices {
			text += ch.Delta.Content + ch.Delta.Reasoning + ch.Delta.ReasoningContent
			over = over || ch.FinishReason != ""
		}
		over = over || m.Done
		if text != "" {
			r.count()
		}
		// A chunk may carry several tokens: the server's own count is right.
		if m.Done && m.EvalCount > 0 {
			r.tokens, r.prompt = m.EvalCount, m.PromptEvalCount
		}
		if m.Usage != nil && m.Usage.Completion > 0 {
			r.tokens, r.prompt = m.Usage.Completion, m.Usage.Prompt
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return fail(fmt.Errorf("the answer broke off: %w", inner(err)))
	case r.first.IsZero():
		return fail(fmt.Errorf("the answer had no text: is it %s's API that this server speaks?", a.Kind))
	case !over:
		return fail(fmt.Errorf("the answer broke off after %d pieces: the stream ended without saying that it is done", r.tokens))
	}
	return r
}

// inner is an error without the method and address that net/http puts before it: ours are there
// already.
func inner(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return fmt.Errorf("no answer within %v", againstPatience)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// complaint is what a server's error says: {"error":"…"}, {"error":{"message":"…"}}, or as it is.
func complaint(body []byte) string {
	var m struct{ Error json.RawMessage }
	if json.Unmarshal(body, &m) == nil && len(m.Error) > 0 {
		var text string
		var object struct{ Message string }
		if json.Unmarshal(m.Error, &text) == nil && text != "" {
			return fmt.Sprintf("%.300s", text)
		}
		if json.Unmarshal(m.Error, &object) == nil && object.Message != "" {
			return fmt.Sprintf("%.300s", object.Message)
		}
	}
	return fmt.Sprintf("%.300s", strings.TrimSpace(string(body)))
}
