package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// jina is jina-embeddings-v5-omni on a card. Every row of a text sees every other, so a text goes
// through all layers in one piece of work, and its rows stay on the card between them.
type jina struct {
	*netBackend
	p       *models.Jina
	ends    []int32
	rows    [2]axcl.Buffer // hidden rows: what a layer reads, and what it gives to the next
	mask    axcl.Buffer
	zeros   axcl.Buffer
	adapted [][][]axcl.Buffer // by adapter and layer: its inputs, in the order of Shape.Adapter
	bound   int               // the adapter that the layers are bound to, counted from 1; 0: none, −1: not known
}

// maskHidden is −65536 in bf16: what a row does not see.
const maskHidden = 0xc780

func openJina(ctx context.Context, p *models.Jina, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Context: p.Rows, Vocab: p.Text.Vocab, Hidden: p.Text.Hidden, Embedding: true}
	ends, err := p.Text.Ends()
	if err != nil {
		return nil, err
	}
	return openNetsWith(ctx, p, p.Nets, info, o, Options{Prompts: p.Prompts}, func(n *netBackend) (Backend, error) {
		n.called = "encode"
		b := &jina{netBackend: n, p: p, ends: ends, bound: -1}
		return b, b.keep(ctx, b.bind)
	})
}

// bind makes what stays on the card, and binds the layers to it.
func (b *jina) bind(dev axcl.Device) error {
	var made []axcl.Buffer
	for _, size := range b.p.Buffers() {
		x, err := b.buffer(dev, size)
		if err != nil {
			return err
		}
		made = append(made, x)
	}
	b.rows, b.mask, b.zeros = [2]axcl.Buffer{made[0], made[1]}, made[2], made[5]
	places := make([]byte, b.p.Buffers()[3])
	for i := range len(places) / 4 { // where a row has three, they are alike
		binary.LittleEndian.PutUint32(places[4*i:], uint32(i%b.p.Rows))
	}
	if err := made[3].Write(0, places); err != nil {
		return err
	}
	for i, n := range b.layers() {
		for _, t := range []struct {
			name string
			to   axcl.Buffer
		}{{"input", b.rows[i%2]}, {"output", b.rows[(i+1)%2]}, {"mask", b.mask}, {"indices", made[3]}, {"K_cache", made[4]},
			{"V_cache", made[4]}} {
			if err := n.net.Bind(b.p.Group, t.name, t.to); err != nil {
				return fmt.Errorf("engine: %w: %s: layer %d: %w", axcl.ErrModel, b.info.Name, i, err)
			}
		}
	}
	for _, a := range b.p.Text.Adapters {
		var layers [][]axcl.Buffer
		for i := range b.layers() {
			all, err := a.Layer(i)
			if err != nil {
				return err
			}
			var inputs []axcl.Buffer
			for _, t := range b.p.Text.Shape.Adapter {
				x, err := b.buffer(dev, t.Size)
				if err != nil {
					return err
				}
				if err := x.Write(0, all[:t.Size]); err != nil {
					return err
				}
				inputs, all = append(inputs, x), all[t.Size:]
			}
			layers = append(layers, inputs)
		}
		b.adapted = append(b.adapted, layers)
	}
	return nil
}

// layers are the nets but the last, which normalises a row.
func (b *jina) layers() []*Net { return b.nets[:len(b.nets)-1] }

// choose binds the layers to an adapter's inputs, or to zeros.
func (b *jina) choose(adapter int) error {
	if adapter == b.bound {
		return nil
	}
	b.bound = -1
	for i, n := range b.layers() {
		for k, t := range b.p.Text.Shape.Adapter {
			to := b.zeros
			if adapter > 0 {
				to = b.adapted[adapter-1][i][k]
			}
			if err := n.net.Bind(b.p.Group, t.Name, to); err != nil {
				return err
			}
		}
	}
	b.bound = adapter
	return nil
}

// Encode returns the ids of a text, with the tokenizer's prefix if first is set. What the tokenizer
// puts behind a text is left out where the text has it: it stands there once.
func (b *jina) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	tok, err := b.p.Text.Tokenizer()
	if err != nil {
		return nil, err
	}
	ids, err := encodePieces(ctx, tok, pieces, first)
	if n := len(ids) - len(b.ends); err == nil && first && len(b.ends) > 0 && n >= 0 && slices.Equal(ids[n:], b.ends) {
		ids = ids[:n]
	}
	return ids, err
}

// Ends returns what the tokenizer puts behind a text.
func (b *jina) Ends() []int32 { return b.ends }

func (b *jina) Text(ids []int32) string {
	tok, err := b.p.Text.Tokenizer()
	if err != nil {
		return ""
	}
	return tok.Decode(ids, true)
}

func (b *jina) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		yield(Token{}, fmt.Errorf("%w: %s gives embeddings, no text", ErrUnsupported, b.info.Name))
	}
}

// Embed returns a vector for each text, as the model gives it. Keys take turns, one text each.
func (b *jina) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	client, name, adapted := strings.Cut(key, adapterMark)
	adapter := 0
	if adapted {
		adapter = 1 + slices.IndexFunc(b.p.Text.Adapters, func(a *models.Adapter) bool { return a.Name == name })
		if adapter == 0 {
			return nil, fmt.Errorf("%w: the model has no adapter %.100q", ErrRequest, name)
		}
	}
	return b.encodeTexts(ctx, inputs, b.p.Rows, client, func(ctx context.Context, ids []int32) ([]float32, error) {
		return b.encode(ctx, ids, adapter)
	})
}

// encode returns a text's vector: its last row, normalised.
func (b *jina) encode(ctx context.Context, ids []int32, adapter int) ([]float32, error) {
	n, hidden := b.p.Rows, b.p.Text.Hidden
	rows, mask, room := make([]byte, 2*n*hidden), make([]byte, 2*n*n), make([]uint16, hidden)
	for i := range n * n {
		if i/n >= len(ids) || i%n >= len(ids) {
			binary.LittleEndian.PutUint16(mask[2*i:], maskHidden)
		}
	}
	for i, id := range ids {
		if err := b.p.Text.Embed.Row(room, id); err != nil {
			return nil, err
		}
		for k, v := range room {
			binary.LittleEndian.PutUint16(rows[2*(i*hidden+k):], v)
		}
	}
	in, out, typ := b.p.Norm()
	width := 4
	if typ == axcl.BF16 {
		width = 2
	}
	last, vector := make([]byte, 2*hidden), make([]byte, width*hidden)
	err := b.step(ctx, func(called func(error) error) error {
		return called(b.through(adapter, mask, rows, func(at int) error {
			if err := b.rows[at].Read(2*hidden*(len(ids)-1), last); err != nil {
				return err
			}
			return b.nets[len(b.nets)-1].net.Run(0, map[string][]byte{in: last}, map[string][]byte{out: vector})
		}))
	})
	if err != nil {
		return nil, err
	}
	if width == 2 {
		wide := make([]byte, 4*hidden)
		for i := range hidden {
			binary.LittleEndian.PutUint32(wide[4*i:], math.Float32bits(axcl.Float32(binary.LittleEndian.Uint16(vector[2*i:]))))
		}
		vector = wide
	}
	return vectorOf(vector, hidden, b.info.Name)
}

// through calls the layers, and then end with the number of the rows that the last one gave.
func (b *jina) through(adapter int, mask, rows []byte, end func(at int) error) error {
	if err := b.choose(adapter); err != nil {
		return err
	}
	if err := b.mask.Write(0, mask); err != nil {
		return err
	}
	if err := b.rows[0].Write(0, rows); err != nil {
		return err
	}
	for _, l := range b.layers() {
		if err := l.net.Run(b.p.Group, nil, nil); err != nil {
			return err
		}
	}
	return end(len(b.layers()) % 2)
}
