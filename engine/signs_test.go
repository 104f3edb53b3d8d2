package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestSigns: where pictures stand in a prompt: as a template prints them, or as the family writes
// them; in the order of a message's parts; and never where a user spelled the token.
func TestSigns(t *testing.T) {
	jinja := func(src string) chat.Template {
		tmpl, err := chat.NewJinja(src, "test", chat.JinjaOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	knows := jinja(`{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}` +
		`{% if p.type == 'image' %}<s><|pic|><e>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}|{% endfor %}`)
	plain := jinja(`{% for m in messages %}{{ m.content | trim }}|{% endfor %}`)
	leaves := jinja(`{% for m in messages %}{% if m.role != 'tool' %}{{ m.content }}|{% endif %}{% endfor %}`)
	sees := &models.Vision{Word: "<|pic|>", Inner: "<|pic|><|pic|>"}
	pics := [][]byte{{1}, {2}}
	parts := []chat.Part{{Text: "a "}, {Image: true}, {Text: " b "}, {Image: true}}
	one := []chat.Message{{Role: "user", Content: "what <|pic|>?", Images: pics[:1]}}
	for _, tt := range []struct {
		name string
		tmpl chat.Template
		r    Request
		want string // control text in brackets
	}{
		{"printed", knows, Request{Messages: one}, "[<s><|pic|><|pic|><e>]what <|pic|>?[|]"},
		{"in order", knows, Request{Messages: []chat.Message{{Role: "user", Content: "a  b ", Images: pics, Parts: parts}}},
			"[]a [<s><|pic|><|pic|><e>] b [<s><|pic|><|pic|><e>|]"},
		{"written", plain, Request{Messages: one}, "[<|pic|><|pic|>]what <|pic|>?[|]"},
		{"written in order", plain, Request{Messages: []chat.Message{{Role: "user", Images: pics, Parts: parts}}},
			"a [<|pic|><|pic|>] b [<|pic|><|pic|>|]"},
		{"pictures only", plain, Request{Messages: []chat.Message{{Role: "user", Null: true, Images: pics[:1]}}}, "[<|pic|><|pic|>|]"},
		{"no picture", plain, Request{Messages: []chat.Message{{Role: "user", Content: "<|pic|>"}}}, "<|pic|>[|]"},
		{"no template", nil, Request{Messages: one}, "[<|pic|><|pic|>]what <|pic|>?\n"},
		{"a bare prompt", nil, Request{Prompt: "p", Images: pics}, "[<|pic|><|pic|><|pic|><|pic|>]p"},
		{"raw, with a place", plain, Request{Prompt: "x<|pic|>y", Raw: true, Images: pics[:1]}, "[x<|pic|><|pic|>y]"},
		{"raw, without", plain, Request{Prompt: "xy", Raw: true, Images: pics[:1]}, "[<|pic|><|pic|>xy]"},
	} {
		ps, err := New(&parrot{}, Options{Template: tt.tmpl, Sees: sees}).pieces(context.Background(), &tt.r, len(tt.r.Messages) > 0)()
		var got strings.Builder
		for i, p := range ps {
			if i == 0 && p.Control || i > 0 && p.Control && !ps[i-1].Control {
				got.WriteByte('[')
			} else if i > 0 && !p.Control && ps[i-1].Control {
				got.WriteByte(']')
			}
			got.WriteString(p.Text)
		}
		if len(ps) > 0 && ps[len(ps)-1].Control {
			got.WriteByte(']')
		}
		if want := strings.ReplaceAll(tt.want, "[]", ""); err != nil || got.String() != want {
			t.Errorf("%s: %s, want %s (%v)", tt.name, got.String(), want, err)
		}
	}
	if _, err := New(&parrot{}, Options{Template: leaves, Sees: sees}).Render(context.Background(), Request{Messages: []chat.Message{
		{Role: "tool", Content: "t", Images: pics}}}); !errors.Is(err, ErrRequest) {
		t.Errorf("a template that leaves out pictures: %v", err)
	}
	if !New(&parrot{}, Options{Template: plain, Sees: sees}).Info().Capabilities.Vision {
		t.Error("a model that sees does not say so")
	}
}

// TestPicturesCut: the oldest turns go with their pictures, and no picture is cut.
func TestPicturesCut(t *testing.T) {
	p := &parrot{say: "x"}
	m := New(p, Options{Sees: &models.Vision{Word: "#", Inner: "########", Placeholder: '#'}})
	msg := func(text string, pic byte) chat.Message {
		return chat.Message{Role: "user", Content: text, Images: [][]byte{{pic}}}
	}
	r := Request{Messages: []chat.Message{msg("old", 1), msg("newer", 2), msg("new", 3)}, NumCtx: 32, Truncate: true, Shift: true}
	var cut Cut
	if _, _, err := collect(tapped(m.Chat(context.Background(), r), sawCut(&cut))); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(p.job.Images, [][]byte{{2}, {3}}, slices.Equal) || len(p.job.IDs) != 26 || cut.Kept != 26 {
		t.Errorf("pictures %v, %d ids, %+v", p.job.Images, len(p.job.IDs), cut)
	}
	r.Messages, r.NumCtx = []chat.Message{msg(strings.Repeat("long ", 20), 1)}, 32
	var ce *ContextError
	if _, _, err := collect(m.Chat(context.Background(), r)); !errors.As(err, &ce) {
		t.Errorf("a turn that does not fit: %v", err)
	}
	_, done, err := collect(m.Generate(context.Background(), Request{Prompt: "p", Images: [][]byte{{1}}}))
	if err != nil || slices.Contains(done.Context, '#') || !slices.Contains(done.Context, 'p') {
		t.Errorf("context %v, %v", done, err)
	}
}

// TestManyPictures (T7): a conversation about very many pictures goes on with the last turns that
// fit; what goes goes before it is rendered or decoded, and with its answers. What brings too much
// at once, or may not be cut, is told so.
func TestManyPictures(t *testing.T) {
	p := &counter{parrot: parrot{say: "x"}}
	m := New(p, Options{Sees: &models.Vision{Rows: 8, Word: "#", Inner: "########", Placeholder: '#'}})
	var msgs []chat.Message
	for i := range 3000 {
		msgs = append(msgs, chat.Message{Role: "user", Content: "q", Images: [][]byte{{byte(i)}}},
			chat.Message{Role: "assistant", Content: "a"})
	}
	msgs = append(msgs, chat.Message{Role: "user", Content: "so?"})
	msgs[0] = chat.Message{Role: "system", Content: "s"}
	var cut Cut
	r := Request{Messages: msgs, NumCtx: 32, Truncate: true, Shift: true}
	if _, _, err := collect(tapped(m.Chat(context.Background(), r), sawCut(&cut))); err != nil {
		t.Fatal(err)
	}
	if got := p.Text(p.got); got != "s\n########q\na\n########q\na\nso?\n" || len(p.job.Images) != 2 ||
		p.job.Images[1][0] != byte(2999%256) {
		t.Errorf("%q about %v", got, p.job.Images)
	}
	if cut != (Cut{Limit: 32, Prompt: 30 + 2997*8, Kept: 30}) || p.read > 200 {
		t.Errorf("%+v, %d tokens were looked at", cut, p.read)
	}
	var ce *ContextError
	full := Request{Messages: []chat.Message{{Role: "user", Content: "q", Images: make([][]byte, 4)}}, NumCtx: 32}
	if _, _, err := collect(m.Chat(context.Background(), full)); !errors.As(err, &ce) || ce.Have != 33 {
		t.Errorf("no room for a word beside the pictures: %v", err)
	}
	r.Truncate = false
	if _, _, err := collect(m.Chat(context.Background(), r)); !errors.As(err, &ce) || ce.Have != 2999*8 || ce.Max != 32 {
		t.Errorf("uncut: %v", err)
	}
	r.Truncate, r.Messages = true, append(slices.Clone(msgs), chat.Message{Role: "user", Content: "q", Images: make([][]byte, 4)})
	if _, _, err := collect(m.Chat(context.Background(), r)); !errors.As(err, &ce) || ce.Have != 3003*8 {
		t.Errorf("a last message of too many: %v", err)
	}

	// By their headers, ten by four thousand pixels each.
	large := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x27\x10\x00\x00\x0f\xa0\x01\x00\x00\x00\x00"),
		make([]byte, 8000)...)
	r = Request{NumCtx: 64, Truncate: true}
	m = New(p, Options{Sees: &models.Vision{Rows: 1, Word: "#", Inner: "#", Placeholder: '#'}})
	for range 17 {
		r.Messages = append(r.Messages, chat.Message{Role: "user", Images: [][]byte{large}})
	}
	if _, _, err := collect(m.Chat(context.Background(), r)); err != nil || len(p.job.Images) != 16 {
		t.Errorf("seventeen of the largest: %v, and %d stayed", err, len(p.job.Images))
	}
	r.Messages = []chat.Message{{Role: "user", Images: slices.Repeat([][]byte{large}, 17)}}
	if _, _, err := collect(m.Chat(context.Background(), r)); !errors.Is(err, ErrRequest) ||
		!strings.Contains(err.Error(), "640 megapixels") {
		t.Errorf("in one message: %v", err)
	}
}

// counter is a parrot that counts what it encodes.
type counter struct {
	parrot
	read int
}

func (c *counter) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	out, err := c.parrot.Encode(ctx, pieces, first)
	c.read += len(out)
	return out, err
}
