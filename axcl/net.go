package axcl

import "fmt"

// Net is a single loaded model, called by tensor name. A picture's encoder is one: its input takes
// the picture, each of its outputs gives the rows for the hidden states or for Pass.Added; Run
// holds the card as long as it takes, as a pass does.
type Net interface {
	// Groups is the number of shape groups, at least one.
	Groups() int
	// Inputs and Outputs list the tensors of a group; the slices are the Net's own, not to be
	// changed, and nil for a group there is not.
	Inputs(group int) []Tensor
	Outputs(group int) []Tensor
	// Bind says that a group's input is read from a buffer, or its output is written to one,
	// instead of going over the link in every call: Run takes and gives that tensor no more. The
	// tensor is the buffer's first Tensor.Size bytes. One buffer may be bound to several tensors,
	// of other nets too, and so be one's output and another's input. A nil buffer gives the tensor
	// its own memory again, which holds nothing in particular. Where an input and an output have
	// the same name, it is the input's. Bind is cheap and asks the card nothing; the next Run does.
	// Errors: ErrPass (no such tensor, a buffer that is too small, closed, or another device's),
	// ErrClosed.
	Bind(group int, tensor string, b Buffer) error
	// Run executes one group. Every input that is not bound must be there with exactly Tensor.Size
	// bytes; every output named in out is filled, others are dropped. A missing, unknown, bound or
	// wrongly sized tensor is ErrPass, before the card is touched, and so is a buffer that was
	// closed or that an input and an output of the call share: a net may write before it has read.
	Run(group int, in, out map[string][]byte) error
	Close() error
}

// Buffer is card memory that stays between calls: see [Net.Bind] and [Device.NewBuffer]. What a net
// keeps from call to call (a cache, a latent, states) lies in buffers; two that take turns as its
// input and its output are swapped by two calls of Bind.
type Buffer interface {
	// Size is the buffer's bytes.
	Size() int
	// Write copies bytes of the host to the buffer, from byte at on; Read copies them back. Both
	// block until the bytes are there. Errors: ErrPass (they do not fit), ErrClosed, ErrLost,
	// ErrTimeout, or an *Error of a call that failed; after one that is not ErrPass the bytes are
	// undefined.
	Write(at int, from []byte) error
	Read(at int, to []byte) error
	// Close gives the memory back. A net that it is still bound to does not run until that tensor
	// is bound anew.
	Close() error
}

// Tensor describes one input or output of a Net in one shape group.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int
	Size  int // bytes
}

// CheckBuffer says whether bytes from at on lie in a buffer of that size. The error wraps ErrPass.
func CheckBuffer(size, at, bytes int) error {
	if at < 0 || at > size || bytes > size-at {
		return fmt.Errorf("%w: %d bytes from %d on, of a buffer of %d", ErrPass, bytes, at, size)
	}
	return nil
}

// Bindings are a net's bound tensors, for who implements Net. The zero value has none.
type Bindings[B comparable] struct {
	groups map[int]*bound[B]
}

// bound are the buffers of a group's inputs and outputs; the zero B is none.
type bound[B comparable] struct{ in, out []B }

// find is where a tensor's buffer is noted.
func (b *Bindings[B]) find(n Net, group int, tensor string) (*B, *Tensor) {
	g := b.groups[group]
	if g == nil {
		g = &bound[B]{make([]B, len(n.Inputs(group))), make([]B, len(n.Outputs(group)))}
		if b.groups == nil {
			b.groups = map[int]*bound[B]{}
		}
		b.groups[group] = g
	}
	for _, side := range []struct {
		tensors []Tensor
		buffers []B
	}{{n.Inputs(group), g.in}, {n.Outputs(group), g.out}} {
		for i := range side.tensors {
			if side.tensors[i].Name == tensor {
				return &side.buffers[i], &side.tensors[i]
			}
		}
	}
	return nil, nil
}

// Bind notes that a tensor is bound to a buffer of a size, or with the zero B to none. The error is
// ErrPass.
func (b *Bindings[B]) Bind(n Net, group int, tensor string, to B, size int) error {
	if n.Inputs(group) == nil && n.Outputs(group) == nil {
		return fmt.Errorf("%w: group %d of %d", ErrPass, group, n.Groups())
	}
	at, t := b.find(n, group, tensor)
	var none B
	switch {
	case at == nil:
		return fmt.Errorf("%w: no tensor is called %q", ErrPass, tensor)
	case to != none && size < t.Size:
		return fmt.Errorf("%w: %q takes %d bytes, the buffer has %d", ErrPass, tensor, t.Size, size)
	}
	*at = to
	return nil
}

// Of are the buffers of a group's inputs and outputs, in the order of the net's lists; nil where
// none was ever bound.
func (b *Bindings[B]) Of(group int) (in, out []B) {
	if g := b.groups[group]; g != nil {
		return g.in, g.out
	}
	return nil, nil
}

// Check says what [Net.Run] does not allow. closed asks whether a buffer is.
func (b *Bindings[B]) Check(n Net, group int, in, out map[string][]byte, closed func(B) bool) error {
	if group < 0 || group >= n.Groups() {
		return fmt.Errorf("%w: group %d of %d", ErrPass, group, n.Groups())
	}
	ins, outs := b.Of(group)
	if err := checkSide("input", n.Inputs(group), ins, in, true, closed); err != nil {
		return err
	}
	if err := checkSide("output", n.Outputs(group), outs, out, false, closed); err != nil {
		return err
	}
	var none B
	for i, x := range ins {
		for k, y := range outs {
			if x != none && x == y {
				return fmt.Errorf("%w: input %q and output %q are bound to the same buffer", ErrPass, n.Inputs(group)[i].Name,
					n.Outputs(group)[k].Name)
			}
		}
	}
	return nil
}

func checkSide[B comparable](side string, ts []Tensor, bound []B, given map[string][]byte, all bool, closed func(B) bool) error {
	var none B
	known := 0
	for i, t := range ts {
		b, there := given[t.Name]
		if there {
			known++
		}
		switch held := bound != nil && bound[i] != none; {
		case held && closed(bound[i]):
			return fmt.Errorf("%w: the buffer that %s %q is bound to is closed", ErrPass, side, t.Name)
		case held && there:
			return fmt.Errorf("%w: %s %q is bound to a buffer", ErrPass, side, t.Name)
		case !there && !held && all:
			return fmt.Errorf("%w: %s %q is missing", ErrPass, side, t.Name)
		case there && len(b) != t.Size:
			return fmt.Errorf("%w: %s %q has %d bytes, not %d", ErrPass, side, t.Name, len(b), t.Size)
		}
	}
	if known < len(given) {
		for name := range given {
			found := false
			for _, t := range ts {
				found = found || t.Name == name
			}
			if !found {
				return fmt.Errorf("%w: no %s is called %q", ErrPass, side, name)
			}
		}
	}
	return nil
}
