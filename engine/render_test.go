package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestRenderFails: a template without an end is the request's fault, one that found no room is told
// to come again, and both end with their request.
func TestRenderFails(t *testing.T) {
	for err, want := range map[error]error{chat.ErrBudget: ErrRequest, chat.ErrRoom: ErrBusy} {
		m := New(&parrot{say: "x"}, Options{Template: stubborn{err}})
		r := Request{Messages: []chat.Message{{Role: "user", Content: "q"}}}
		if _, _, got := collect(m.Chat(t.Context(), r)); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, got := m.Tokens(ctx, r); !errors.Is(got, context.Canceled) {
			t.Errorf("cancelled: %v", got)
		}
	}
}

// TestRequestTemplate: a request's template stands in for the model's, in either language; one that
// does not compile is told as such, before the backend is asked. The last few stay compiled.
func TestRequestTemplate(t *testing.T) {
	p := &parrot{say: "x"}
	m := New(p, Options{})
	r := Request{Messages: []chat.Message{{Role: "user", Content: "q"}}}
	for _, tt := range []struct {
		tmpl ask.Template
		want string
	}{
		{ask.Template{}, "q\n"},
		{ask.Template{Text: "<{{ .Prompt }}>"}, "<q>"},
		{ask.Template{Kind: ask.TemplateGo, Text: "[{{ .Prompt }}]"}, "[q]"},
		{ask.Template{Kind: ask.TemplateJinja, Text: "{{ messages[0].content }}!"}, "q!"},
	} {
		r.Template = tt.tmpl
		if got, err := m.Render(t.Context(), r); err != nil || got != tt.want {
			t.Errorf("%+v: %q %v, want %q", tt.tmpl, got, err, tt.want)
		}
		if _, _, err := collect(m.Chat(t.Context(), r)); err != nil || m.Detokenize(p.job.IDs) != tt.want {
			t.Errorf("%+v: asked %q, %v", tt.tmpl, m.Detokenize(p.job.IDs), err)
		}
	}
	for _, tmpl := range []ask.Template{{Text: "{{"}, {Kind: ask.TemplateJinja, Text: "{% if"}, {Kind: "php", Text: "x"}} {
		r.Template, p.job = tmpl, Job{}
		var te *ask.TemplateError
		if _, _, err := collect(m.Chat(t.Context(), r)); !errors.As(err, &te) || len(p.job.IDs) > 0 {
			t.Errorf("%+v: %v, asked %v", tmpl, err, p.job.IDs)
		}
		if _, err := m.Tokens(t.Context(), r); !errors.As(err, &te) {
			t.Errorf("%+v is counted: %v", tmpl, err)
		}
	}
	var c templateCache
	first, err := c.compile(ask.Template{Text: "{{ .Prompt }}0"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * mostTemplates {
		if _, err := c.compile(ask.Template{Text: fmt.Sprint("{{ .Prompt }}", i%mostTemplates)}); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := c.compile(ask.Template{Text: "{{ .Prompt }}0"}); again != first || c.order.Len() != mostTemplates {
		t.Errorf("of %d that are used in turn %d are kept, the first one still: %v", mostTemplates, c.order.Len(), again == first)
	}
	if _, err := c.compile(ask.Template{Text: "another"}); err != nil || c.order.Len() != mostTemplates || len(c.by) != mostTemplates {
		t.Errorf("%d are kept, %v", c.order.Len(), err)
	}
}

// stubborn is a template that fails as it is told, or with its context.
type stubborn struct{ err error }

func (s stubborn) Render(ctx context.Context, _ chat.Conversation) ([]chat.Piece, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("chat: %w", s.err)
}

func (s stubborn) Generate(ctx context.Context, _, _, _ string, _ chat.Think) ([]chat.Piece, error) {
	return s.Render(ctx, chat.Conversation{})
}

func (stubborn) Capabilities() chat.Capabilities { return chat.Capabilities{} }

func (stubborn) Source() string { return "" }

func (stubborn) Family() string { return "plain" }
