package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Prompts opens a package for its prompts alone. The model renders and encodes requests as the
// loaded one does, and takes no card: what needs one fails with ErrUnsupported. The package may be
// closed once Prompts has returned. An empty name means the package's own. Errors: models' for a
// bad package, ErrUnsupported for a kind that reads no text.
func Prompts(p models.Opened, name string) (*Model, error) {
	b := &promptBackend{sampling: sampler.Defaults()}
	o := Options{Name: cmp.Or(name, p.Info().Name)}
	switch p := p.(type) {
	case *models.Package:
		var err error
		if b.tokenizer, err = p.Tokenizer(); err != nil {
			return nil, err
		}
		if o.Template, err = p.Template(); err != nil {
			return nil, err
		}
		if b.sampling, err = mergeSampling(p.Sampling); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		o.Sees, _ = p.Vision() // text can be read without it
		b.info = Info{Family: p.Family, Context: p.Context, Vocab: b.tokenizer.Vocab(), Hidden: p.Hidden, Layers: p.Depth(),
			Embedding: p.Embedding, Think: p.Thinking()}
	case *models.TextEncoder:
		b.tokenizer = p.Tokenizer()
		b.info = Info{Context: p.Most(), Vocab: b.tokenizer.Vocab(), Hidden: p.Dims, Embedding: true}
	case *models.CLIP:
		if p.Text == nil {
			return nil, fmt.Errorf("%w: %s: %s", ErrUnsupported, o.Name, p.Lacks("text"))
		}
		b.tokenizer, b.clip = p.Tokenizer(), p
		b.info = Info{Context: p.Most(), Vocab: b.tokenizer.Vocab(), Hidden: p.Dims, Embedding: true}
	default:
		return nil, fmt.Errorf("%w: %s reads no text", ErrUnsupported, o.Name)
	}
	b.info.Name = o.Name
	return New(b, o), nil
}

// promptBackend is a model's tokenizer, without a card.
type promptBackend struct {
	tokenizer *tokenizer.Tokenizer
	clip      *models.CLIP // nil, or says what stands around its texts
	info      Info
	sampling  sampler.Params
}

func (b *promptBackend) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	if b.clip != nil {
		return encodeCLIP(ctx, b.clip, pieces, first)
	}
	return encodePieces(ctx, b.tokenizer, pieces, first)
}

func (b *promptBackend) Ends() []int32 {
	if b.clip != nil {
		return b.clip.Ends
	}
	return b.tokenizer.Suffix()
}

func (b *promptBackend) Text(ids []int32) string  { return b.tokenizer.Decode(ids, true) }
func (b *promptBackend) Info() Info               { return b.info }
func (b *promptBackend) Sampling() sampler.Params { return b.sampling }
func (b *promptBackend) Stats() Stats             { return Stats{State: "ready"} }
func (b *promptBackend) Close() error             { return nil }
func (b *promptBackend) noCard() error {
	return fmt.Errorf("%w: %s was opened for its prompts alone, without a card", ErrUnsupported, b.info.Name)
}

func (b *promptBackend) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) { yield(Token{}, b.noCard()) }
}

func (b *promptBackend) Embed(context.Context, [][]int32, string) ([][]float32, error) {
	return nil, b.noCard()
}
