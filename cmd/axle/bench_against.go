//go:build !scripted

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/sampler"
)

// againstReport is the same load here and on another server, in turn.
type againstReport struct {
	Kind  string        `json:"kind"`
	URL   string        `json:"url"`
	Model string        `json:"model"`
	Cases []againstCase `json:"cases"`
}

type againstCase struct {
	bench.Load
	Here  againstSide `json:"here"`
	There againstSide `json:"there"`
}

type againstSide struct {
	First  bench.Sample `json:"first_token_ms"` // the slowest client's
	Decode bench.Sample `json:"decode_tps"`
	Tokens int          `json:"tokens"` // a repeat, all clients
	Prompt int          `json:"prompt_tokens,omitempty"`
}

// reply is one answer of either side, by the host's clock.
type reply struct {
	prompt, tokens int
	begin          time.Time
	first, last    time.Time
	err            error
}

// turnOf is one repeat on one side: all clients at once.
func turnOf(clients int, ask func(client int) reply) (first, decode float64, tokens, prompt int, err error) {
	replies := make([]reply, clients)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = ask(i) })
	}
	wg.Wait()
	slowest, last, later := begin, begin, 0
	for _, r := range replies {
		switch {
		case r.err != nil:
			return 0, 0, 0, 0, r.err
		case r.tokens == 0:
			return 0, 0, 0, 0, fmt.Errorf("an answer had no tokens")
		}
		if r.first.After(slowest) {
			slowest = r.first
		}
		if r.last.After(last) {
			last = r.last
		}
		tokens += r.tokens
		prompt += r.prompt
		later += r.tokens - 1
	}
	decode = math.NaN()
	if last.After(slowest) && later > 0 {
		// From the first client's first token: a server that answers clients one by one is not flattered by it.
		earliest := last
		for _, r := range replies {
			if r.first.Before(earliest) {
				earliest = r.first
			}
		}
		decode = float64(later) / last.Sub(earliest).Seconds()
	}
	return float64(slowest.Sub(begin)) / 1e6, decode, tokens, prompt, nil
}

func (f *benchFlags) measureAgainst(ctx context.Context, r *benchRig, o *opened, loads []bench.Load, progress io.Writer) (*againstReport, error) {
	a := &againstReport{Kind: f.against, URL: strings.TrimRight(f.url.String(), "/"), Model: f.model}
	if a.Model == "" {
		a.Model = o.Name
	}
	client := &http.Client{Timeout: 15 * time.Minute}
	seen := map[bench.Load]bool{}
	turn := 0
	for _, l := range loads {
		l.Speculate = len(f.guesses) > 1 || f.guesses[0] // here as a server would: where it pays
		if seen[l] {
			continue
		}
		seen[l] = true
		here := func(client int) (rep reply) {
			p, err := r.againstPrompt(o, l.Prompt, client, turn)
			if err != nil {
				return reply{err: err}
			}
			s := sampler.Defaults()
			s.Temperature = 0
			spec := l.Speculate
			rep.prompt = len(p)
			job := engine.Job{IDs: p, Sampling: s, Limit: l.Output, IgnoreStop: true}
			if !spec {
				job.Speculate = &spec
			}
			for t, err := range o.backend.Complete(ctx, job) {
				if err != nil {
					rep.err = err
					return rep
				}
				if t.Final == "" {
					rep.count()
				}
			}
			return rep
		}
		there := func(c int) reply { return a.ask(ctx, client, againstText(l.Prompt, c, turn), l.Output) }
		var side [2]struct{ first, decode []float64 }
		x := againstCase{Load: l}
		for rep := range f.repeats + 1 { // the first warms both up
			turn++
			fmt.Fprintf(progress, "\r%s: %-24s %d of %d", o.Name, l, rep, f.repeats)
			for k := range 2 {
				// Each goes first every other time.
				which := (k + rep) % 2
				ask, to := here, &x.Here
				if which == 1 {
					ask, to = there, &x.There
				} else if err := engine.Forget(ctx, o.backend); err != nil {
					return a, err
				}
				first, decode, tokens, prompt, err := turnOf(l.Clients, ask)
				if err != nil {
					fmt.Fprintln(progress)
					return a, fmt.Errorf("%s: %w", []string{"here", a.URL}[which], err)
				}
				to.Tokens, to.Prompt = tokens, prompt
				if rep == 0 {
					continue
				}
				side[which].first = append(side[which].first, first)
				if !math.IsNaN(decode) {
					side[which].decode = append(side[which].decode, decode)
				}
			}
		}
		x.Here.First, x.Here.Decode = bench.NewSample(side[0].first), bench.NewSample(side[0].decode)
		x.There.First, x.There.Decode = bench.NewSample(side[1].first), bench.NewSample(side[1].decode)
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

// againstText is a prompt of about n tokens: most tokenizers have a token for each of its words.
func againstText(n, client, turn int) string {
	words := strings.Fields(benchWords)
	out := []string{fmt.Sprintf("Story %d of client %d:", turn, client)}
	for i := len(out[0]) / 4; i < n; i++ {
		out = append(out, words[i%len(words)])
	}
	return strings.Join(out, " ")
}

func (r *benchRig) againstPrompt(o *opened, n, client, turn int) ([]int32, error) {
	if o.prompt == nil {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(1000 + (client*4001+turn*13)%90000 + i)
		}
		return ids, nil
	}
	p, err := o.prompt(n, client, turn)
	return p.IDs, err
}

// ask sends one request to the other server and reads its stream.
func (a *againstReport) ask(ctx context.Context, c *http.Client, prompt string, limit int) (r reply) {
	path, body := "/api/generate", map[string]any{"model": a.Model, "prompt": prompt, "stream": true, "raw": true, "options": map[string]any{"temperature": 0, "num_predict": limit}}
	if a.Kind == "openai" {
		path, body = "/v1/chat/completions", map[string]any{"model": a.Model, "stream": true, "temperature": 0, "max_tokens": limit, "stream_options": map[string]any{"include_usage": true},
			"messages": []map[string]string{{"role": "user", "content": prompt}}}
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
		return fail(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return fail(fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(text))))
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := bytes.TrimPrefix(lines.Bytes(), []byte("data: "))
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
					Content   string
					Reasoning string `json:"reasoning"`
				}
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
			return fail(fmt.Errorf("%.200s", m.Error))
		}
		text := m.Response + m.Thinking
		for _, ch := range m.Choices {
			text += ch.Delta.Content + ch.Delta.Reasoning
		}
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
	if err := lines.Err(); err != nil {
		return fail(err)
	}
	if r.first.IsZero() {
		return fail(fmt.Errorf("the answer had no text"))
	}
	return r
}

func (a *againstReport) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nagainst %s at %s, model %s, in turn\nload\tfigure\there\tthere\there to there\t\n", a.Kind, a.URL, a.Model)
	for i := range a.Cases {
		c := &a.Cases[i]
		fmt.Fprintf(t, "%s\tfirst token ms\t%s\t%s\t%s\n", c.Load, c.Here.First, c.There.First, change(&c.There.First, &c.Here.First))
		if len(c.Here.Decode.Values) > 0 && len(c.There.Decode.Values) > 0 {
			fmt.Fprintf(t, "\tdecode t/s\t%s\t%s\t%s\n", c.Here.Decode, c.There.Decode, change(&c.There.Decode, &c.Here.Decode))
		}
		fmt.Fprintf(t, "\ttokens out\t%d\t%d\t\t\n", c.Here.Tokens, c.There.Tokens)
	}
	return t.Flush()
}

func (a *againstReport) writeCSV(w *csv.Writer, model string) error {
	rows := [][]string{strings.Split("model,against,prompt,output,clients,first_token_ms_here,first_token_ms_there,decode_tps_here,decode_tps_there", ",")}
	for _, c := range a.Cases {
		num := func(s bench.Sample) string { return strconv.FormatFloat(s.Median, 'g', 7, 64) }
		rows = append(rows, []string{model, a.Kind, strconv.Itoa(c.Prompt), strconv.Itoa(c.Output), strconv.Itoa(c.Clients), num(c.Here.First), num(c.There.First), num(c.Here.Decode), num(c.There.Decode)})
	}
	return w.WriteAll(rows)
}
