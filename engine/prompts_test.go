package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestPrompts: a package that is opened for its prompts alone makes the same tokens of every
// request as the one that is loaded, also of one that has to be cut, and needs neither a card nor
// the open package.
func TestPrompts(t *testing.T) {
	t.Parallel()
	dir := compiled(t, "qwen3")
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Prompts(p, "mine")
	if err != nil || p.Close() != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), dir, OpenOptions{Device: "soft"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got, want := bare.Info(), m.Info(); got.Name != "mine" || got.Context != want.Context || got.Vocab != want.Vocab ||
		got.Capabilities != want.Capabilities || bare.Stats().State != "ready" {
		t.Errorf("%+v, loaded %+v", got, want)
	}
	many := []chat.Message{{Role: "system", Content: "be brief"}}
	for range 60 {
		many = append(many, chat.Message{Role: "user", Content: "the cat sat on the mat"}, chat.Message{Role: "assistant", Content: "so"})
	}
	many = append(many, chat.Message{Role: "user", Content: "the end"})
	for i, r := range []Request{
		{Prompt: "the cat", Raw: true}, {Prompt: "the cat"}, {Messages: many[:2]}, {Messages: many},
		{Messages: many, Truncate: true, Shift: true},
		{Messages: many, Truncate: true, Shift: true, NumCtx: 40}, {Prompt: "the cat", Raw: true, Context: []int32{3}},
	} {
		got, err := bare.Tokens(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := m.Tokens(t.Context(), r); err != nil || !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("request %d: %d tokens, loaded %d, %v", i, len(got), len(want), err)
		}
		if !r.Truncate && len(r.Messages) > 9 && len(got) <= m.Info().Context || r.Truncate && len(got) >= max(m.Info().Context, r.NumCtx) {
			t.Errorf("request %d: %d tokens", i, len(got))
		}
		r.Limit = 1
		for e, err := range m.Chat(t.Context(), r) {
			if len(r.Messages) == 0 || !r.Truncate && len(r.Messages) > 9 {
				break // Chat does not ask these
			}
			if err != nil {
				t.Fatal(err)
			}
			if e.Done != nil && e.Done.Usage.Prompt != len(got) {
				t.Errorf("request %d: %d tokens, evaluated %d", i, len(got), e.Done.Usage.Prompt)
			}
		}
	}
	if _, _, err := collect(bare.Chat(t.Context(), Request{Messages: many[:2]})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a card: %v", err)
	}
	if _, err := bare.Embed(t.Context(), EmbedRequest{Input: []string{"x"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a card: %v", err)
	}
	if _, err := Prompts(&models.Kokoro{}, "speaker"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a model that speaks: %v", err)
	}
}

// TestPromptsCLIP: a text of a pair of encoders has the tokens of the loaded pair, and an encoder
// of pictures alone says what it lacks.
func TestPromptsCLIP(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"CLIP", "SigLIP2"} {
		e := modelstest.CLIP{Seed: 1, Layout: family}
		m, _, _ := onCard(t, e.Write, softCard, OpenOptions{})
		bare := promptsOf(t, e)
		r := Request{Prompt: "A cat", Raw: true}
		got, err := bare.Tokens(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := m.Tokens(t.Context(), r); err != nil || !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s: %v, loaded %v, %v", family, got, want, err)
		}
		if !slices.Equal(bare.b.Ends(), m.b.Ends()) || bare.Info().Context != m.Info().Context || !bare.Info().Embedding {
			t.Errorf("%s: %v, %+v", family, bare.b.Ends(), bare.Info())
		}
	}
	eyes, err := openWritten(t.TempDir(), modelstest.CLIP{Seed: 1, Layout: "Immich", Only: "picture", Side: 192, Dims: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer eyes.Close()
	if _, err := Prompts(eyes, ""); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "no encoder of a text") {
		t.Errorf("pictures alone: %v", err)
	}
}

func promptsOf(t *testing.T, e modelstest.CLIP) *Model {
	t.Helper()
	p, err := openWritten(t.TempDir(), e)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Prompts(p, "")
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	return bare
}

func openWritten(dir string, e modelstest.CLIP) (models.Opened, error) {
	if err := e.Write(dir); err != nil {
		return nil, err
	}
	return models.OpenAny(dir)
}
