package soft

import (
	"context"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// loader is a model on its way to the card.
type loader struct {
	m       *Model
	spec    axcl.LoadSpec
	order   []int
	done    int // files
	weights int64
	all     axmodel.Layers        // so far
	whole   *axmodel.DecoderShape // the same, where the files are a whole decoder's
	over    bool
}

// Order implements axcl.Loader.
func (l *loader) Order() []int { return l.order }

// Next implements axcl.Loader.
func (l *loader) Next(ctx context.Context) (done bool, err error) {
	if l.over || l.m.closed {
		return false, axcl.ErrClosed
	}
	if err = ctx.Err(); err == nil {
		err = l.m.device.state()
	}
	if err == nil {
		if done = l.done == len(l.order); done {
			err = l.finish()
		} else {
			err = l.file(l.done)
			l.done++
		}
	}
	if err != nil {
		l.over = true
		_ = l.m.Close()
		return false, err
	}
	l.over = done
	return done, nil
}

// Model implements axcl.Loader.
func (l *loader) Model() axcl.Model {
	if l.done < len(l.order) || !l.over || l.m.closed {
		return nil
	}
	return l.m
}

// Close implements axcl.Loader.
func (l *loader) Close() error {
	if l.over || l.m.closed {
		return axcl.ErrClosed
	}
	l.over = true
	return l.m.Close()
}

// file reads one.
func (l *loader) file(i int) error {
	if i == len(l.spec.Layers) {
		return l.head()
	}
	f, err := open(l.spec.Layers[i])
	switch {
	case err != nil && l.whole != nil:
		return fmt.Errorf("axcl: software card, file %d: %w", i, err)
	case err != nil:
		return fmt.Errorf("axcl: software card, layer %d: %w", i, err)
	case l.whole != nil || i == 0 && f.meta.IsDecoder():
		return l.decoder(i, f)
	}
	return l.layer(i, f)
}

func (l *loader) layer(i int, f *file) error {
	l.m.layers = append(l.m.layers, &layer{file: f}) // so that release finds it
	if f.Kind == axmodel.Net {                       // whatever its tensors are called
		return fmt.Errorf("axcl: software card, layer %d: %w", i, &axmodel.Error{Path: l.spec.Layers[i], What: "is a net, not a layer"})
	}
	if err := l.all.AddOf(f.meta, l.spec.Source); err != nil {
		return fmt.Errorf("axcl: software card, layer %d: %w", i, &axmodel.Error{Path: l.spec.Layers[i], What: err.Error()})
	}
	l.weights += f.meta.WeightBytes
	one := newLayer(f)
	l.m.layers[i] = one
	l.m.share(one)
	if i < len(l.spec.Layers)-1 {
		return nil
	}
	var err error
	l.m.shape, err = shapeOf(&l.all, l.spec)
	return err
}

func (l *loader) head() error {
	m := l.m
	if l.whole != nil {
		return bad(l.spec.Head, "is a head, and the model a whole decoder, which has its own")
	}
	f, err := open(l.spec.Head)
	if err != nil {
		return fmt.Errorf("axcl: software card, head: %w", err)
	}
	m.head = newHead(f, m.device.pool, m.device.set)
	if f.Kind != axmodel.Head && f.Kind != axmodel.EmbeddingHead || f.Hidden != m.shape.Hidden {
		return fmt.Errorf("axcl: software card, head: %w",
			&axmodel.Error{Path: l.spec.Head, What: fmt.Sprintf("is a %v of hidden %d, the layers' hidden is %d", f.Kind, f.Hidden,
				m.shape.Hidden)})
	}
	m.shape.Out, m.shape.Argmax = m.head.out(), f.Kind == axmodel.Head
	l.weights += f.meta.WeightBytes
	return nil
}

// finish makes room for what the model keeps.
func (l *loader) finish() error {
	m := l.m
	if l.whole != nil {
		if err := l.decoders(); err != nil {
			return err
		}
		return m.takeRoom(l.weights, 0)
	}
	m.source = l.spec.Source
	m.shape.Place = true
	if err := l.adapters(); err != nil {
		return err
	}
	if slices.Contains(l.spec.Local, true) {
		if len(l.spec.Local) != len(l.spec.Layers) {
			return fmt.Errorf("axcl: software card: %w: %d layers, %d of them said to be local or not", axcl.ErrModel, len(l.spec.Layers),
				len(l.spec.Local))
		}
		m.shape.Local, m.local = true, slices.Clone(l.spec.Local)
	}
	return m.takeRoom(l.weights, l.all.State.K.Size)
}
