package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
	"github.com/axle-llm/axle/vision"
)

// clipAhead is how many pictures and texts are made ready at a time: while the card works on one,
// the next is decoded. A picture takes a few megabytes then.
const clipAhead = 4

// clip is a pair of nets on a card, which make vectors of pictures and of texts, one in each call.
// One of them may be missing.
type clip struct {
	*netBackend
	p             *models.CLIP
	text, picture *Net
}

func openCLIP(ctx context.Context, p *models.CLIP, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Context: p.Most(), Hidden: p.Dims, Embedding: true, Capabilities: ask.Capabilities{Vision: p.Picture != nil}}
	var files []models.NetFile
	if p.Text != nil {
		info.Vocab = p.Tokenizer().Vocab()
		files = append(files, p.Text.Net)
	}
	if p.Picture != nil {
		files = append(files, p.Picture.Net)
	}
	return openNets(ctx, p, files, info, o, func(n *netBackend) (Backend, error) {
		n.called = "encode"
		n.turns = fair.New(clipAhead, 0)
		b := &clip{netBackend: n, p: p}
		if p.Text != nil {
			b.text = n.nets[0]
		}
		if p.Picture != nil {
			b.picture = n.nets[len(n.nets)-1]
		}
		return b, nil
	})
}

// Encode returns the ids of a text, with those before it if first is set.
func (b *clip) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	if b.text == nil {
		return nil, b.lacks("text")
	}
	return encodeCLIP(ctx, b.p, pieces, first)
}

func encodeCLIP(ctx context.Context, p *models.CLIP, pieces []chat.Piece, first bool) ([]int32, error) {
	if p.Lower {
		for i := range pieces {
			pieces[i].Text = strings.ToLower(pieces[i].Text)
		}
	}
	ids, err := encodePieces(ctx, p.Tokenizer(), pieces, false)
	if first {
		ids = append(p.Begin[:len(p.Begin):len(p.Begin)], ids...)
	}
	return ids, err
}

// Ends returns the ids behind a text.
func (b *clip) Ends() []int32 { return b.p.Ends }

func (b *clip) Text(ids []int32) string {
	if b.text == nil {
		return ""
	}
	return b.p.Tokenizer().Decode(ids, true)
}

func (b *clip) lacks(what string) error {
	return fmt.Errorf("%w: %s: %s", ErrUnsupported, b.info.Name, b.p.Lacks(what))
}

// Embed returns a vector for each text, as the net gives it. Keys take turns, one text each.
func (b *clip) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	if b.text == nil {
		return nil, b.lacks("text")
	}
	for i, ids := range inputs {
		if most := b.p.Most(); len(ids) > most {
			return nil, fmt.Errorf("%w: text %d has %d tokens, %s takes %d at most", ErrRequest, i, len(ids), b.info.Name, most)
		}
	}
	return b.each(ctx, len(inputs), key, func(i int) ([]float32, error) {
		in := make([]byte, b.p.Text.Input.Size)
		for k := range b.p.Most() {
			id := b.p.Pad
			if k < len(inputs[i]) {
				id = inputs[i][k]
			}
			binary.LittleEndian.PutUint32(in[4*k:], uint32(id))
		}
		return b.vector(ctx, b.text, b.p.Text, in)
	})
}

// EmbedPictures returns a vector for each picture, as the net gives it. Keys take turns, one
// picture each. A text beside a picture is refused.
func (b *clip) EmbedPictures(ctx context.Context, pictures [][]byte, texts []string, key string) ([][]float32, error) {
	if b.picture == nil {
		return nil, b.lacks("picture")
	}
	for i, text := range texts {
		if text != "" {
			return nil, fmt.Errorf("%w: input %d has a picture and a text: %s makes a vector of one of them; ask for two", ErrRequest, i,
				b.info.Name)
		}
	}
	return b.each(ctx, len(pictures), key, func(i int) ([]float32, error) {
		// A picture that waits is not decoded yet: what is made of one is larger than its file.
		var in []byte
		err := decodePicture(ctx, key, pictures[i], func(p *vision.Picture) (err error) {
			l := b.p.Layout
			in, err = l.Append(nil, p.ResizeBy(l.Width, l.Height, b.p.Filter), b.p.Norm)
			return err
		})
		if err != nil {
			return nil, err
		}
		return b.vector(ctx, b.picture, b.p.Picture, in)
	})
}

// each makes n vectors, one in each turn of a key.
func (b *clip) each(ctx context.Context, n int, key string, vector func(i int) ([]float32, error)) ([][]float32, error) {
	leave, err := b.waiting.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([][]float32, n)
	for i := range out {
		done, err := b.turn(ctx, key)
		if err != nil {
			return nil, err
		}
		out[i], err = vector(i)
		if done(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// vector calls a net.
func (b *clip) vector(ctx context.Context, n *Net, e *models.Encoder, in []byte) ([]float32, error) {
	out := make([]byte, e.Output.Size)
	if _, err := n.run(ctx, 0, map[string][]byte{e.Input.Name: in}, map[string][]byte{e.Output.Name: out}); err != nil {
		return nil, err
	}
	b.calls.Add(1)
	return vectorOf(out, b.p.Dims, b.info.Name)
}
