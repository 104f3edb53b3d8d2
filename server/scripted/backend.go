package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Config says what a backend pretends to be. The zero value of a number is a default.
type Config struct {
	Info     ask.Info
	Parallel int              // sequences at once; 0: 64
	MaxQueue int              // sequences that may wait; 0: 512
	Delay    time.Duration    // per token where the prompt says nothing; 0: 2 ms
	Asked    func(key string) // told under which key each answer and each embedding is asked for; may be nil
	Speaks   func(n int)      // told before piece n of a speech is computed, from 1; may be nil
	Live     bool             // what is heard is written down while somebody speaks
}

// Backend is a scripted engine.Backend.
type Backend struct {
	c     Config
	words *words
	slots chan struct{}
	end   chan struct{}
	once  sync.Once
	run   sync.WaitGroup

	mu    sync.Mutex
	stats ask.Stats
	texts []*text // what it pretends to have in its cache, the last first
	named int
	turn  int // of what is said in turn
	lost  error
	ended bool
}

// New makes a backend.
func New(c Config) *Backend {
	if c.Parallel <= 0 {
		c.Parallel = 64
	}
	if c.MaxQueue <= 0 {
		c.MaxQueue = 512
	}
	if c.Delay <= 0 {
		c.Delay = 2 * time.Millisecond
	}
	if c.Info.Context == 0 {
		c.Info.Context = 4096
	}
	c.Info.Vocab = vocab + 1<<20 // words get their numbers as they come
	b := &Backend{c: c, words: newWords(), slots: make(chan struct{}, c.Parallel), end: make(chan struct{})}
	b.stats.State = "ready"
	b.stats.Cells = c.Info.Context
	b.stats.Temperature, b.stats.Piece = 41.5, 60*time.Millisecond
	b.stats.Memory = ask.MemoryTier{Rows: 300, Used: 20, Bytes: 300 << 11, UsedBytes: 20 << 11, Hits: 7, Out: 20 << 11, In: 7 << 11,
		Saved: 1500 * time.Millisecond}
	b.stats.Disk = ask.DiskTier{On: true, Rows: 640, Bytes: 640 << 11, Hits: 3, Out: 5 << 11, In: 3 << 11, Saved: 250 * time.Millisecond}
	b.stats.Far = ask.FarTier{Name: "peer", Hits: 5, In: 5 << 11, Late: 1, Rate: 117e6, Wait: 2 * time.Millisecond, Saved: time.Second}
	b.stats.CardTotal = 8 << 30
	b.stats.CardFree = 8<<30 - c.Info.CardBytes
	return b
}

// directives of a prompt.
var (
	errRE  = regexp.MustCompile(`(?s)\[\[err:(\d{3}):(.*?)\]\]`)
	callRE = regexp.MustCompile(`(?i)call (\w+) with (\w+) (?:set to|exactly) ([^.\n<]+)`)
)

// last is what the last directive in s says; most prompts have few, and to look for their
// beginnings is cheap. begins is how one begins, "" where that can be anything.
func last(re *regexp.Regexp, begins, s string) []string {
	if !strings.Contains(s, begins) {
		return nil
	}
	all := re.FindAllStringSubmatch(s, -1)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// number is that of the last directive that begins so and has at most this many digits.
func number(begins string, most int, s string) (n int, ok bool) {
	for {
		_, rest, found := strings.Cut(s, begins)
		if !found {
			return n, ok
		}
		s = rest
		digits, _, closed := strings.Cut(rest, "]]")
		if closed && digits != "" && len(digits) <= most && strings.Trim(digits, "0123456789") == "" {
			n, _ = strconv.Atoi(digits)
			ok = true
		}
	}
}

// saying is what the last [[say:…]] of a prompt, or another directive that begins so, has it say.
// Most prompts of tests and measurements have one, so that it is found without an expression, as
// numbers are.
func saying(begins, s string) (said string, ok bool) {
	for {
		_, rest, found := strings.Cut(s, begins)
		text, rest, closed := strings.Cut(rest, "]]")
		if !found || !closed {
			return said, ok
		}
		said, ok, s = text, true, rest
	}
}

// script is what a prompt asks for.
type script struct {
	tokens []string
	delay  time.Duration
	burst  int     // tokens that come at once; 0: one
	odds   float32 // the log probability of each token
	err    error
	crash  bool
}

func (b *Backend) read(prompt string, seed int64) script {
	s := script{delay: b.c.Delay, odds: -0.25, crash: strings.Contains(prompt, "[[crash]]")}
	if ms, ok := number("[[delay:", 6, prompt); ok {
		s.delay = time.Duration(ms) * time.Millisecond
	}
	s.burst, _ = number("[[burst:", 3, prompt)
	if m := last(errRE, "[[err:", prompt); m != nil {
		code, _ := strconv.Atoi(m[1])
		s.err = body.Fail(code, "%s", m[2])
	}
	thinks := b.c.Info.Capabilities.Thinking && strings.HasSuffix(prompt, assistantOpen)
	if any, ok := saying("[[any:", prompt); ok {
		all := strings.Split(any, "|")
		k := b.pick(seed, len(all))
		s.tokens, s.odds = cut(all[k]), -0.25*float32(k+1)
		return s
	}
	if said, ok := saying("[[say:", prompt); ok {
		s.tokens = strings.Split(said, "|")
		return s
	}
	var call []string
	if strings.Contains(prompt, toolsOpen) {
		call = last(callRE, "", prompt)
	}
	switch {
	case call != nil && strings.Contains(prompt, strconv.Quote(call[1])):
		args, _ := json.Marshal(map[string]string{call[2]: strings.TrimSpace(call[3])})
		s.tokens = cut(fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", call[1], args))
	case thinks:
		s.tokens = cut(thought + paragraph)
	default:
		s.tokens = cut(paragraph)
	}
	return s
}

// pick is one of n, by the seed, or where there is none in turn.
func (b *Backend) pick(seed int64, n int) int {
	if seed < 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turn++
		return (b.turn - 1) % n
	}
	h := fnv.New32a()
	fmt.Fprint(h, seed)
	return int(h.Sum32() % uint32(n))
}

// cut divides text into words, each with the white space before it, the last with that after it
// too.
func cut(text string) []string {
	out := make([]string, 0, 1+len(text)/8)
	start, inWord := 0, false
	for i, r := range text {
		if space := unicode.IsSpace(r); space && inWord {
			out = append(out, text[start:i])
			start, inWord = i, false
		} else if !space {
			inWord = true
		}
	}
	switch rest := text[start:]; {
	case rest == "":
	case inWord || len(out) == 0:
		out = append(out, rest)
	default:
		out[len(out)-1] += rest
	}
	return out
}

// Encode implements engine.Backend.
func (b *Backend) Encode(_ context.Context, pieces []chat.Piece, _ bool) ([]int32, error) {
	var dst []int32
	var sb strings.Builder
	n := 0
	for _, p := range pieces {
		n += len(p.Text)
	}
	sb.Grow(n)
	for _, p := range pieces {
		sb.WriteString(p.Text)
	}
	for _, w := range cut(sb.String()) {
		dst = append(dst, b.words.id(w))
	}
	return dst, nil
}

// Ends implements engine.Backend: nothing stands behind a text.
func (b *Backend) Ends() []int32 { return nil }

// Text implements engine.Backend.
func (b *Backend) Text(ids []int32) string {
	var sb strings.Builder
	sb.Grow(8 * len(ids))
	for _, id := range ids {
		sb.WriteString(b.words.text(id))
	}
	return sb.String()
}

// Info, Sampling and Stats implement engine.Backend.
func (b *Backend) Info() ask.Info { return b.c.Info }

// Sampling implements engine.Backend.
func (b *Backend) Sampling() sampler.Params { return sampler.Defaults() }

// Stats implements engine.Backend.
func (b *Backend) Stats() ask.Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Passes = map[string]uint64{"decode": s.OutputTokens}
	return s
}

// Close implements engine.Backend.
func (b *Backend) Close() error {
	err := ask.ErrClosed
	b.once.Do(func() {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
		close(b.end)
		b.run.Wait()
		err = nil
	})
	return err
}

// Lose makes the backend behave as if its card had gone: everything that runs, and everything
// after, ends with err.
func (b *Backend) Lose(err error) {
	b.mu.Lock()
	b.lost = err
	b.stats.State = "lost"
	b.mu.Unlock()
	b.once.Do(func() { close(b.end) })
}

// enter waits for a place.
func (b *Backend) enter(ctx context.Context) error {
	b.mu.Lock()
	switch {
	case b.lost != nil:
		defer b.mu.Unlock()
		return b.lost
	case b.ended:
		defer b.mu.Unlock()
		return ask.ErrClosed
	case b.stats.Queued >= b.c.MaxQueue && len(b.slots) == cap(b.slots):
		b.stats.Rejected++
		b.mu.Unlock()
		return ask.ErrBusy
	}
	b.stats.Queued++
	b.run.Add(1)
	b.mu.Unlock()
	var err error
	select {
	case b.slots <- struct{}{}:
	case <-b.end:
		err = b.reason()
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	b.stats.Queued--
	if err == nil {
		b.stats.Running++
	}
	b.mu.Unlock()
	if err != nil {
		b.run.Done()
	}
	return err
}

func (b *Backend) leave(n int, err error) {
	b.mu.Lock()
	b.stats.Running--
	b.stats.OutputTokens += uint64(n)
	switch err {
	case nil:
		b.stats.Done++
	default:
		b.stats.Cancelled++
	}
	b.mu.Unlock()
	<-b.slots
	b.run.Done()
}

func (b *Backend) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost != nil {
		return b.lost
	}
	return ask.ErrClosed
}

// wait is the time a token takes.
func (b *Backend) wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.end:
			return b.reason()
		default:
			return nil
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.end:
		return b.reason()
	}
}

func (b *Backend) asked(key string) {
	if b.c.Asked != nil {
		b.c.Asked(key)
	}
}

// Complete implements engine.Backend.
func (b *Backend) Complete(ctx context.Context, job engine.Job) iter.Seq2[engine.Token, error] {
	return func(yield func(engine.Token, error) bool) {
		start := time.Now()
		b.asked(job.Key)
		if err := b.enter(ctx); err != nil {
			yield(engine.Token{}, err)
			return
		}
		n, end := 0, error(context.Canceled)
		defer func() { b.leave(n, end) }()
		s := b.read(b.Text(job.IDs), job.Sampling.Seed)
		u := ask.Usage{Prompt: len(job.IDs), Queue: time.Since(start)}
		kept := &text{tokens: len(job.IDs), key: job.Key, running: true}
		b.keep(kept)
		defer func() { b.grow(kept, len(job.IDs)+n, false) }()
		if s.err != nil {
			yield(engine.Token{}, s.err)
			return
		}
		next := b.source(s.tokens, job)
		reason := ask.ReasonStop
		var first time.Time
		for {
			word, ok := next()
			if !ok {
				break
			}
			if s.crash && n == 2 {
				end = io.ErrUnexpectedEOF
				yield(engine.Token{}, io.ErrUnexpectedEOF)
				return
			}
			delay := s.delay
			if s.burst > 0 && n%s.burst > 0 {
				delay = 0
			}
			if err := b.wait(ctx, delay); err != nil {
				yield(engine.Token{}, err)
				return
			}
			now := time.Now()
			if first.IsZero() {
				first = now
				u.Prefill = now.Sub(start) - u.Queue
				u.FirstToken = now.Sub(start)
			}
			n++
			u.Output, u.Decode = n, now.Sub(first)
			b.grow(kept, len(job.IDs)+n, true)
			t := engine.Token{ID: b.words.id(word), Text: word, Usage: u, More: s.burst > 0 && n%s.burst > 0}
			if job.Sampling.Logprobs || job.Sampling.TopLogprobs > 0 {
				t.Logprob = logprob(word, s.odds, job.Sampling.TopLogprobs)
			}
			if !yield(t, nil) {
				return
			}
			if job.Limit >= 0 && n >= job.Limit || !job.Shift && len(job.IDs)+n >= job.NumCtx {
				reason = ask.ReasonLength
				break
			}
		}
		u.Total = time.Since(start)
		end = nil
		yield(engine.Token{Final: reason, Usage: u}, nil)
	}
}

func logprob(word string, odds float32, top int) *ask.Logprob {
	l := &ask.Logprob{Token: word, Bytes: []byte(word), Logprob: odds}
	for i := range top {
		alt := ask.Logprob{Token: word, Bytes: []byte(word), Logprob: odds}
		if i > 0 {
			name := "alt" + strconv.Itoa(i)
			alt = ask.Logprob{Token: name, Bytes: []byte(name), Logprob: odds - float32(i)}
		}
		l.Top = append(l.Top, alt)
	}
	return l
}

// Embed implements engine.Backend: a text's vector is the sum of its words', which are their
// hashes'.
func (b *Backend) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	b.asked(key)
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave(0, nil)
	dims := max(b.c.Info.Hidden, 1)
	out := make([][]float32, len(inputs))
	var last string
	one := make([]float32, dims) // the last word's
	for i, ids := range inputs {
		v := make([]float32, dims)
		for _, id := range ids {
			if word := strings.ToLower(strings.TrimSpace(b.words.text(id))); word != last {
				last = word
				for d := range one {
					h := fnv.New32a()
					fmt.Fprintf(h, "%d:%s", d, word)
					one[d] = float32(math.Sin(float64(h.Sum32())))
				}
			}
			for d := range v {
				v[d] += one[d]
			}
		}
		out[i] = v
	}
	return out, nil
}

// Scores implements the optional interface behind engine.Model.Rerank: the more of the query's
// words a document has, the surer is yes.
func (b *Backend) Scores(ctx context.Context, n int, prompt func(int) ([]int32, error), _ []int32, key string) (
	[][]float32, ask.Usage, error,
) {
	var u ask.Usage
	b.asked(key)
	if err := b.enter(ctx); err != nil {
		return nil, u, err
	}
	defer b.leave(0, nil)
	out := make([][]float32, n)
	for i := range out {
		ids, err := prompt(i)
		if err != nil {
			return nil, u, err
		}
		u.Prompt += len(ids)
		_, text, _ := strings.Cut(b.Text(ids), "<Query>: ")
		query, document, _ := strings.Cut(text, "\n<Document>: ")
		document, _, _ = strings.Cut(document, "<|im_end|>")
		yes := float32(-1)
		for _, w := range strings.Fields(query) {
			if strings.Contains(document, w) {
				yes++
			}
		}
		out[i] = []float32{yes, 0}
	}
	return out, u, nil
}

// keptTexts is how many texts a backend remembers, to show them as its cache.
const keptTexts = 8

// keep notes the text that a sequence stands on, as a cache would.
func (b *Backend) keep(t *text) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.named++
	t.id = b.named
	b.texts = append([]*text{t}, b.texts...)
	for i := len(b.texts) - 1; i >= keptTexts; i-- {
		if !b.texts[i].running {
			b.texts = append(b.texts[:i], b.texts[i+1:]...)
		}
	}
}

// grow sets how many tokens a text has, and whether it still grows.
func (b *Backend) grow(t *text, tokens int, running bool) {
	b.mu.Lock()
	t.tokens, t.running = tokens, running
	b.mu.Unlock()
}

// text is a sequence's in the cache that this engine pretends to have.
type text struct {
	id, tokens int
	key        string
	running    bool
}

// Maps implements the optional interface behind engine.Model.Maps: one text behind the other, as
// far as there are cells.
func (b *Backend) Maps(context.Context) []ask.CellMap {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := ask.CellMap{Device: b.c.Info.Device, At: time.Now(), Cells: b.stats.Cells, Free: b.stats.Cells}
	for _, t := range b.texts {
		n := min(t.tokens, m.Free)
		if n == 0 {
			continue
		}
		m.Branches = append(m.Branches, ask.Branch{ID: t.id, Key: t.key, Running: t.running, Tokens: n})
		m.Runs = append(m.Runs, ask.CellRun{Cells: n, What: t.id})
		m.Free -= n
		if !t.running {
			m.Cached += n
		}
	}
	m.Used = m.Cells - m.Free
	if m.Free > 0 {
		m.Runs = append(m.Runs, ask.CellRun{Cells: m.Free, What: ask.HoldsNothing})
	}
	m.Tiers = []ask.Tier{{Name: "card", Cells: m.Cells, Used: m.Used, Bytes: b.c.Info.CardBytes}}
	return []ask.CellMap{m}
}
