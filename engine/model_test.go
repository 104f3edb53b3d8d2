package engine

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

func TestTruncate(t *testing.T) {
	msg := func(role, text string) chat.Message { return chat.Message{Role: role, Content: text} }
	long := strings.Repeat("x", 70)
	for _, c := range []struct {
		name            string
		messages        []chat.Message
		keep            int
		truncate, shift bool
		want            string // the prompt; empty: a ContextError
		have            int
	}{
		{name: "fits", messages: []chat.Message{msg("user", "hi")}, want: "hi\n"},
		{name: "oldest first", messages: []chat.Message{msg("user", strings.Repeat("a", 30)), msg("assistant", strings.Repeat("b", 30)),
			msg("user", "last")}, truncate: true, want: strings.Repeat("b", 30) + "\nlast\n"},
		{name: "system stays", messages: []chat.Message{msg("system", "sys"), msg("user", strings.Repeat("a", 60)), msg("user", "last")},
			truncate: true, want: "sys\nlast\n"},
		{name: "the last stays and is cut", messages: []chat.Message{msg("user", "first"), msg("user", "head"+long)}, keep: 4,
			truncate: true, shift: true, want: "head" + strings.Repeat("x", 29) + "\n"},
		{name: "no shift", messages: []chat.Message{msg("user", long)}, truncate: true, have: 71},
		{name: "no truncation", messages: []chat.Message{msg("user", long), msg("user", "last")}, shift: true, have: 76},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &parrot{say: "ok"}
			m := New(p, Options{})
			_, _, err := collect(m.Chat(context.Background(), Request{Messages: c.messages, Sampling: m.Sampling(), Truncate: c.truncate,
				Shift: c.shift, NumKeep: c.keep}))
			var ce *ContextError
			switch {
			case c.want == "" && (!errors.As(err, &ce) || ce.Have != c.have || ce.Max != 64):
				t.Errorf("%v, want a ContextError of %d and 64", err, c.have)
			case c.want != "" && (err != nil || p.Text(p.got) != c.want):
				t.Errorf("%q %v, want %q", p.Text(p.got), err, c.want)
			}
		})
	}
}

// parrot is a backend whose tokens are bytes and whose answer is given, three bytes a token.
type parrot struct {
	say string
	got []int32
	job Job
}

func (p *parrot) Encode(_ context.Context, pieces []chat.Piece, first bool) (dst []int32, err error) {
	for _, x := range pieces {
		for _, b := range []byte(x.Text) {
			dst = append(dst, int32(b))
		}
	}
	return dst, nil
}

func (p *parrot) Ends() []int32 { return nil }

func (p *parrot) Text(ids []int32) string {
	var sb strings.Builder
	for _, id := range ids {
		sb.WriteByte(byte(id))
	}
	return sb.String()
}

func (p *parrot) Complete(_ context.Context, job Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		p.got, p.job = job.IDs, job
		n := 0
		for text := p.say; text != ""; n++ {
			k := min(3, len(text))
			if n == job.Limit {
				yield(Token{Final: ReasonLength}, nil)
				return
			}
			if !yield(Token{ID: int32(text[0]), Text: text[:k]}, nil) {
				return
			}
			text = text[k:]
		}
		yield(Token{Final: ReasonStop}, nil)
	}
}

func (p *parrot) Embed(context.Context, [][]int32, string) ([][]float32, error) {
	return nil, ErrUnsupported
}

func (p *parrot) Info() Info { return Info{Name: "parrot", Context: 64} }

func (p *parrot) Sampling() sampler.Params { return sampler.Defaults() }

func (p *parrot) Stats() Stats { return Stats{} }

func (p *parrot) Close() error { return nil }

func collect(seq iter.Seq2[Event, error]) (text string, done *Result, err error) {
	for e, err := range seq {
		if err != nil {
			return text, nil, err
		}
		text += e.Text
		if e.Done != nil {
			done = e.Done
		}
	}
	return text, done, nil
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name, say    string
		r            Request
		text, reason string
		stop         string
	}{
		{name: "whole", say: "hello world", text: "hello world", reason: ReasonStop},
		{name: "stop string over tokens", say: "hello STOP world", r: Request{Stop: []string{"STOP", "nope"}}, text: "hello ",
			reason: ReasonStop, stop: "STOP"},
		{name: "what only looks like one", say: "hello STO", r: Request{Stop: []string{"STOP"}}, text: "hello STO", reason: ReasonStop},
		{name: "limit", say: "hello world", r: Request{Limit: 2}, text: "hello ", reason: ReasonLength},
		{name: "the earlier of two", say: "a b c d", r: Request{Stop: []string{"c", "b"}}, text: "a ", reason: ReasonStop, stop: "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(&parrot{say: c.say}, Options{})
			c.r.Prompt, c.r.Sampling = "p", m.Sampling()
			text, done, err := collect(m.Generate(context.Background(), c.r))
			if err != nil || text != c.text || done == nil || done.Reason != c.reason || done.Stop != c.stop {
				t.Errorf("%q %+v %v, want %q, %s %q", text, done, err, c.text, c.reason, c.stop)
			}
			if done != nil && (len(done.Context) == 0 || done.Context[0] != 'p') {
				t.Errorf("context %v", done.Context)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	m := New(&parrot{say: "x"}, Options{})
	hot := m.Sampling()
	hot.Temperature = -1
	for name, r := range map[string]Request{
		"sampling":    {Prompt: "p", Sampling: hot},
		"no prompt":   {Sampling: m.Sampling()},
		"schema":      {Prompt: "p", Sampling: m.Sampling(), Format: Format{Schema: []byte(`{"type": 3}`)}},
		"grammar":     {Prompt: "p", Sampling: m.Sampling(), Format: Format{GBNF: "root ::= ("}},
		"tool choice": {Prompt: "p", Sampling: m.Sampling(), ToolChoice: "nobody"},
	} {
		if _, _, err := collect(m.Generate(context.Background(), r)); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		}
	}
	if _, _, err := collect(m.Chat(context.Background(), Request{Prompt: "for Generate"})); !errors.Is(err, ErrRequest) {
		t.Errorf("no message: %v, want ErrRequest", err)
	}
	var ce *ContextError
	if _, _, err := collect(m.Generate(context.Background(), Request{Prompt: "long", NumCtx: 1, Truncate: true, Shift: true})); !errors.As(
		err, &ce) || ce.Have != 4 || ce.Max != 1 {
		t.Errorf("a context that holds nothing: %v, want a ContextError of 4 and 1", err)
	}
}

// TestZeroRequest: what a request leaves at zero is the model's own.
func TestZeroRequest(t *testing.T) {
	p := &parrot{say: strings.Repeat("abc", 30)}
	m := New(p, Options{})
	image := []byte{1}
	text, done, err := collect(m.Chat(context.Background(),
		Request{Messages: []chat.Message{{Role: "user", Content: "p", Images: [][]byte{image}}}}))
	if err != nil || text != p.say || done == nil || done.Reason != ReasonStop {
		t.Fatalf("%q, %+v, %v", text, done, err)
	}
	if p.job.Sampling.TopK != m.Sampling().TopK || p.job.Sampling.Check() != nil {
		t.Errorf("sampled by %+v", p.job.Sampling)
	}
	if p.job.NumCtx != m.Info().Context || p.job.Limit <= len(p.say)/3 {
		t.Errorf("context %d, limit %d", p.job.NumCtx, p.job.Limit)
	}
	if len(p.job.Images) != 1 {
		t.Errorf("the backend was told of %d images, which it would have refused", len(p.job.Images))
	}
}

// quiet is a parrot whose makers switch thinking off unless it is asked for.
type quiet struct{ parrot }

func (q *quiet) Info() Info { return Info{Name: "quiet", Context: 64, Think: chat.ThinkOff} }

// TestThinkHabit: a request that does not say gets what the model's package says, and else thinking
// where the model can.
func TestThinkHabit(t *testing.T) {
	tmpl, err := chat.NewJinja("{{ messages[0].content }}{% if enable_thinking %} on{% else %} off{% endif %}", "test", chat.JinjaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	loud, calm := &parrot{say: "x"}, &quiet{parrot{say: "x"}}
	for _, c := range []struct {
		name  string
		b     Backend
		p     *parrot
		think chat.Think
		want  string
	}{
		{"can", loud, loud, chat.ThinkDefault, "q on"}, {"off", loud, loud, chat.ThinkOff, "q off"},
		{"quiet", calm, &calm.parrot, chat.ThinkDefault, "q off"}, {"quiet, asked", calm, &calm.parrot, chat.ThinkOn, "q on"},
	} {
		m := New(c.b, Options{Template: tmpl})
		_, _, err := collect(m.Chat(context.Background(), Request{Messages: []chat.Message{{Role: "user", Content: "q"}}, Think: c.think,
			Sampling: m.Sampling()}))
		if got := c.p.Text(c.p.got); err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", c.name, got, err, c.want)
		}
	}
}
