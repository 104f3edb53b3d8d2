package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
)

// Net is a single network on a card: see [LoadNet]. It is safe for concurrent use. Its calls take
// turns with the models on the card. The caller closes it.
type Net struct {
	net    axcl.Net // the worker's
	card   *Card
	line   *card.Line
	kind   card.Kind // of its calls
	groups []netGroup
	took   atomic.Int64 // time.Duration: of the last call
	most   atomic.Int64 // of the longest
	once   sync.Once
}

type netGroup struct{ in, out []axcl.Tensor }

// LoadNet loads a compiled network onto a card. Errors: the card's, if the file is missing or no
// network, or memory is lacking; ctx's.
func LoadNet(ctx context.Context, c *Card, path string) (*Net, error) {
	return loadNet(ctx, c, path, func() error { return nil })
}

// loadNet is LoadNet. It first calls before on the worker, which may refuse.
func loadNet(ctx context.Context, c *Card, path string, before func() error) (*Net, error) {
	n := &Net{card: c, kind: card.Turn}
	err := c.InPieces(ctx, func(dev axcl.Device, _ func() error) error {
		if err := before(); err != nil {
			return err
		}
		if err := c.Watched(card.FileLimit, func() (err error) {
			n.net, err = dev.LoadNet(path)
			return err
		}); err != nil {
			return c.Refused(err)
		}
		for g := range n.net.Groups() {
			n.groups = append(n.groups, netGroup{n.net.Inputs(g), n.net.Outputs(g)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n.line = c.NewLine(1)
	return n, nil
}

// Groups returns how many shape groups the net has.
func (n *Net) Groups() int { return len(n.groups) }

// Tensors returns a group's inputs and outputs, or nothing if there is no such group.
func (n *Net) Tensors(group int) (in, out []axcl.Tensor) {
	if group < 0 || group >= len(n.groups) {
		return nil, nil
	}
	return n.groups[group].in, n.groups[group].out
}

// Run calls the net with all inputs of a group. It returns all outputs, and how long the call took
// by the card's clock. Errors: ErrRequest for a wrong group, input or size; as [Card.Do].
func (n *Net) Run(ctx context.Context, group int, in map[string][]byte) (out map[string][]byte, took time.Duration, err error) {
	if group < 0 || group >= len(n.groups) {
		return nil, 0, fmt.Errorf("%w: group %d of a net with %d", ErrRequest, group, len(n.groups))
	}
	out = map[string][]byte{}
	for _, t := range n.groups[group].out {
		out[t.Name] = make([]byte, t.Size)
	}
	if took, err = n.run(ctx, group, in, out); err != nil {
		return nil, 0, err
	}
	return out, took, nil
}

// run calls the net for the outputs in out.
func (n *Net) run(ctx context.Context, group int, in, out map[string][]byte) (took time.Duration, err error) {
	took, err = n.piece(ctx, func(axcl.Device) error { return n.net.Run(group, in, out) })
	if errors.Is(err, axcl.ErrPass) {
		err = fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return took, err
}

// piece runs f on the worker as one piece of the net's turns. f may call this net and others on the
// card, bind their tensors and use buffers. It should be about as long each time.
func (n *Net) piece(ctx context.Context, f func(axcl.Device) error) (took time.Duration, err error) {
	last := time.Duration(n.took.Load())
	err = n.line.Do(ctx, n.kind, last, func(dev axcl.Device) error {
		t0 := n.card.Now()
		err := n.card.Watched(20*last, func() error { return f(dev) })
		if took = n.card.Now() - t0; err == nil {
			n.took.Store(int64(took))
			n.most.Store(max(n.most.Load(), int64(took)))
		}
		if err == nil || axcl.Fatal(err) || errors.Is(err, axcl.ErrPass) {
			return err
		}
		return errors.Join(err, n.card.Strike(err))
	})
	return took, err
}

// Close ends waiting calls with ErrClosed and unloads the net. A second Close returns ErrClosed.
func (n *Net) Close() error {
	err := ErrClosed
	n.once.Do(func() {
		n.line.Close()
		err = n.card.Do(context.Background(), func(axcl.Device) error { return n.card.Unload(n.net) })
	})
	return err
}
