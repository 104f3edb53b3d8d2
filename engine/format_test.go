package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/sampler/grammar"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestFormatHolds: whatever a model wants to say, thinking or not, in every family, an answer under
// a format is of that format or ends with "length", and never has more tokens than a context. Bias
// against the tags makes no difference to that.
func TestFormatHolds(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	object := Format{Schema: []byte(
		`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`)}
	tool := chat.Tool{Name: "f", Parameters: object.Schema}
	fits := func(text string) bool {
		var v struct{ A *int64 }
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		return d.Decode(&v) == nil && v.A != nil && !d.More()
	}
	for _, family := range chat.Families() {
		tags := chat.ThinkTags(family)
		all := append([]string{"<tool_call>", "</tool_call>"}, chat.CallTags(family)...)
		for _, tag := range tags {
			all = append(all, tag.Open, tag.Close)
		}
		for i, tag := range all {
			if strings.LastIndexByte(tag, '>') < 0 {
				all[i] = tag + ">"
			}
		}
		for i, begun := range append([]chat.ThinkTag{{}}, tags...) { // by the model, and by the prompt with each tag
			tmpl, err := chat.NewJinja("{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}{{ '"+
				strings.ReplaceAll(begun.Open, "\n", "\\n")+"' }}{% endif %}", family, chat.JinjaOptions{Family: family})
			if err != nil {
				t.Fatal(err)
			}
			own := tags[max(i-1, 0)]
			think := own.Open + "so"
			if i > 0 {
				think = "so"
			}
			const right, endless = `{"a": 12}`, "hm, and "
			wants := map[string]string{
				"no thinking":         right,
				"prose":               "Sure! Here it is: " + right,
				"thinking":            think + own.Close + "\n\n" + right,
				"thinking, no answer": think + own.Close + "\n\nSure!",
				"endless thinking":    think + strings.Repeat(endless, 200),
				"endless prose":       strings.Repeat(endless, 200),
				"endless space":       strings.Repeat("\n", 900),
				"tags":                think + tags[len(tags)-1].Open + own.Open + own.Close + own.Close + right,
				"only a tag":          own.Close,
				"call in thinking":    think + "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
				"other call":          think + all[len(all)-1] + "call:f{a:1}",
				"noise":               "\x01",
			}
			for name, want := range wants {
				for _, kind := range []string{"schema", "json", "schema beside tools", "required call"} {
					for _, bias := range []string{"", own.Open, own.Close} {
						for _, limit := range []int{0, 30} {
							if bias != "" && (limit > 0 || kind == "json") {
								continue
							}
							w := newTalker(all, limit == 0)
							w.want, w.seed = want, uint64(len(name)+i)
							m := New(w, Options{Template: tmpl, Vocabulary: w})
							r := Request{Messages: []chat.Message{{Role: "user", Content: "q"}}, Think: chat.ThinkOn,
								Sampling: m.Sampling(), Format: object, Limit: limit, Shift: true}
							r.Sampling.Seed = 1
							if bias != "" {
								id := w.next(bias)
								r.Sampling.LogitBias = map[int32]float32{id: -100}
							}
							switch kind {
							case "json":
								r.Format = Format{JSON: true}
							case "schema beside tools":
								r.Tools = []chat.Tool{tool}
							case "required call":
								if family == "plain" {
									continue // it has no calls
								}
								r.Tools, r.ToolChoice, r.Format = []chat.Tool{tool}, "required", Format{}
							}
							a, err := hear(m.Chat(context.Background(), r))
							what := fmt.Sprintf("%s, begun %q, %s, %s, limit %d, bias %q", family, begun.Open, name, kind, limit, bias)
							if err != nil || a.done == nil {
								t.Fatalf("%s: %v", what, err)
							}
							most := 400
							if limit > 0 {
								most = limit
							}
							if n := a.done.Usage.Output; n > most || len(a.thinking) > 9+most*3/4*len("<|thought_start|>") {
								t.Fatalf("%s: %d tokens, %d bytes of thinking", what, n, len(a.thinking))
							}
							if a.done.Reason == ReasonLength {
								if limit == 0 && (name == "no thinking" || strings.HasPrefix(name, "thinking") ||
									strings.HasPrefix(name, "endless")) && kind == "schema" {
									t.Errorf("%s: ends with length: %q, %q", what, a.thinking, a.text)
								}
								continue
							}
							ok := fits(a.text) && len(a.calls) == 0
							switch {
							case kind == "json":
								ok = strings.HasPrefix(strings.TrimSpace(a.text), "{") && json.Valid([]byte(a.text))
							case len(a.calls) > 0:
								ok = kind != "schema" && strings.TrimSpace(a.text) == ""
								for _, c := range a.calls {
									ok = ok && c.Name == "f" && fits(string(c.Arguments))
								}
							case kind == "required call":
								ok = false
							}
							if !ok {
								t.Fatalf("%s: thinking %q, text %q, calls %v", what, a.thinking, a.text, a.calls)
							}
							// What fits is said as it was meant.
							if name == "no thinking" && i == 0 && strings.HasPrefix(kind, "schema") &&
								(a.text != right || a.done.Usage.Output != len(right)) {
								t.Errorf("%s: %q in %d tokens", what, a.text, a.done.Usage.Output)
							}
							if name == "thinking" && strings.HasPrefix(kind, "schema") && bias == "" && limit == 0 &&
								(a.text != right || a.thinking != "so") {
								t.Errorf("%s: %q, %q", what, a.thinking, a.text)
							}
						}
					}
				}
			}
		}
	}
}

// talker is a model that wants to say something, token for token, and does not know how to go on
// where that is forbidden: noise then, in which what closes a text is a little likelier.
type talker struct {
	parrot
	list []string // what the tokens are; the first 128 are letters, the last ends a text
	ctl  map[string]bool
	want string
	seed uint64
}

// TestGrammarGivesUp: a grammar that cannot go on ends its request with an error of the request,
// and the next request is answered.
func TestGrammarGivesUp(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{CardOptions: still})
	job := greedy([]int32{7, 3, 9}, 20)
	job.Mask = givesUp{}
	if _, _, err := run(b, job); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "too ambiguous") {
		t.Errorf("%v, want ErrRequest", err)
	}
	job.Mask = nil
	if out, _, err := run(b, job); err != nil || len(out) != 20 {
		t.Errorf("%d tokens, %v", len(out), err)
	}
}

// givesUp is a grammar that gives up at the first token.
type givesUp struct{ anything }

func (givesUp) Accept(int32) error { return &grammar.Error{Where: "rule y", Msg: "too ambiguous"} }

func newTalker(tags []string, control bool) *talker {
	w := &talker{ctl: map[string]bool{}}
	for b := range 128 {
		w.list = append(w.list, string([]byte{byte(b)}))
	}
	for _, tag := range tags {
		i := strings.LastIndexByte(tag, '>') + 1
		w.list = append(w.list, tag[:i])
		w.ctl[tag[:i]] = control
	}
	w.list = append(w.list, "<eos>")
	w.ctl["<eos>"] = true
	return w
}

func (w *talker) Vocab() int { return len(w.list) }

func (w *talker) Bytes(id int32) []byte { return []byte(w.list[id]) }

func (w *talker) Control(id int32) bool { return w.ctl[w.list[id]] }

func (w *talker) EOS() []int32 { return []int32{int32(len(w.list) - 1)} }

func (w *talker) Info() Info { return Info{Name: "talker", Context: 400} }

// next is the longest token that begins text.
func (w *talker) next(text string) (best int32) {
	best = int32(len(w.list) - 1)
	for id, s := range w.list[:len(w.list)-1] {
		if strings.HasPrefix(text, s) && (best == int32(len(w.list)-1) || len(s) > len(w.list[best])) {
			best = int32(id)
		}
	}
	return best
}

func (w *talker) Complete(_ context.Context, job Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		w.job = job
		draw, err := sampler.New(job.Sampling, len(w.list))
		if err != nil {
			yield(Token{}, err)
			return
		}
		r := rand.New(rand.NewPCG(w.seed, 1))
		logits, rest, lost := make([]uint16, len(w.list)), w.want, false
		for n := 0; ; n++ {
			u := Usage{Prompt: len(job.IDs), Output: n}
			if n == job.Limit || !job.Shift && len(job.IDs)+n >= job.NumCtx {
				yield(Token{Final: ReasonLength, Usage: u}, nil)
				return
			}
			for id, s := range w.list {
				x := r.Float32() * 4
				if s == "}" || s == "]" || s == `"` || s == "<eos>" {
					x += 3
				}
				logits[id] = bf16(x)
			}
			if !lost {
				logits[w.next(rest)] = bf16(30)
			}
			var m sampler.Mask
			if job.Mask != nil {
				m = job.Mask
			}
			c, err := draw.Sample(logits, m)
			if err == nil && job.Mask != nil {
				err = job.Mask.Accept(c.ID)
			}
			if err != nil {
				yield(Token{}, err)
				return
			}
			if c.ID == w.EOS()[0] {
				yield(Token{Final: ReasonStop, Usage: u}, nil)
				return
			}
			if lost = lost || c.ID != w.next(rest); !lost {
				rest = rest[len(w.list[c.ID]):]
			}
			draw.Accept(c.ID)
			u.Output++
			if !yield(Token{ID: c.ID, Text: w.list[c.ID], Usage: u}, nil) {
				return
			}
		}
	}
}

// answered is an answer, added up.
type answered struct {
	text, thinking string
	calls          []chat.ToolCall
	done           *Result
}

func hear(seq iter.Seq2[Event, error]) (a answered, err error) {
	for e, err := range seq {
		if err != nil {
			return a, err
		}
		a.text += e.Text
		a.thinking += e.Thinking
		if e.ToolCall != nil {
			a.calls = append(a.calls, *e.ToolCall)
		}
		a.done = e.Done
	}
	return a, nil
}

func bf16(x float32) uint16 { return uint16(math.Float32bits(x) >> 16) }

// TestEncodeEnds: a package whose rules make too much of a text is refused as the request's fault,
// and one whose client has left ends with the caller's own error, in chats, bare
// prompts and vectors, on one card and on several.
func TestEncodeEnds(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	rules := strings.TrimSuffix(strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 40), ",")
	words, err := tokenizer.OpenFS(fstest.MapFS{"tokenizer.json": {Data: []byte(`{"normalizer":{"type":"Sequence","normalizers":[` + rules +
		`]},"model":{"type":"BPE","unk_token":"a","vocab":{"a":0},"merges":[]}}`)}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	one := &cardBackend{tokenizer: words, info: Info{Context: 64, Hidden: 8}}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, b := range map[string]Backend{"one card": one, "several": &replicas{all: []*replica{{Backend: one}}}} {
		m := &Model{b: b, info: one.info, trie: func() *grammar.Trie { return nil }}
		ask := map[string]func(ctx context.Context) error{
			"chat": func(ctx context.Context) error {
				_, err := hear(m.Chat(ctx, Request{Messages: []chat.Message{{Role: "user", Content: "banana"}},
					Sampling: sampler.Defaults()}))
				return err
			},
			"prompt": func(ctx context.Context) error {
				_, err := hear(m.Generate(ctx, Request{Prompt: "banana", Sampling: sampler.Defaults()}))
				return err
			},
			"vectors": func(ctx context.Context) error {
				_, err := m.Embed(ctx, EmbedRequest{Input: []string{"banana"}})
				return err
			},
		}
		for what, f := range ask {
			if err := f(context.Background()); !errors.Is(err, ErrRequest) || !errors.Is(err, tokenizer.ErrGrows) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err := f(gone); !errors.Is(err, context.Canceled) || errors.Is(err, ErrRequest) {
				t.Errorf("%s, %s, no caller waits: %v", name, what, err)
			}
		}
	}
}
