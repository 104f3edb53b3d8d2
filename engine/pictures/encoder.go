package pictures

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
)

// ErrNonsense is an encoder's answer that is no numbers: none of it may be used.
var ErrNonsense = errors.New("pictures: the encoder gave no numbers")

// ID is which picture through which encoder: equal ids have equal rows.
type ID [sha256.Size]byte

// Encoder is a loaded encoder of pictures.
type Encoder struct {
	sees   *models.Vision
	net    axcl.Net
	digest string
	hidden int
	in     map[string][]byte
	out    map[string][]byte
}

// Open loads the encoder that sees tells of. digest is the package's, which tells encoders apart.
// It fails as [axcl.Device.LoadNet] does, and with ErrModel where the card says other tensors than
// the file did.
func Open(d axcl.Device, sees *models.Vision, digest string) (*Encoder, error) {
	n, err := d.LoadNet(sees.Path)
	if err != nil {
		return nil, err
	}
	e := &Encoder{sees: sees, net: n, digest: digest, in: map[string][]byte{}, out: map[string][]byte{}}
	if err := e.agree(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return e, nil
}

// agree holds what the card says of its tensors against what the file did, and makes room for what
// comes out.
func (e *Encoder) agree() error {
	v := e.sees
	differs := func(what string, got, want any) error {
		return fmt.Errorf("pictures: %w: %s: the card says %v of %s, the file %v", axcl.ErrModel, v.File, got, what, want)
	}
	ins, outs := e.net.Inputs(0), e.net.Outputs(0)
	if len(ins) != 1 || ins[0].Size != v.Layout.Bytes() {
		return differs("its input", ins, v.Input)
	}
	rows := append([]axcl.Tensor{v.Output}, v.Deep...)
	for _, want := range rows {
		found := false
		for _, t := range outs {
			if t.Name == want.Name {
				if t.Type != want.Type || t.Size != count(want.Shape)*size(want.Type) {
					return differs("its output "+t.Name, t, want)
				}
				e.out[t.Name] = make([]byte, t.Size)
				found = true
			}
		}
		if !found {
			return differs("its output "+want.Name, outs, want)
		}
	}
	e.hidden = v.Output.Shape[len(v.Output.Shape)-1]
	return nil
}

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func size(t axcl.Type) int {
	if t == axcl.BF16 {
		return 2
	}
	return 4
}

// Close unloads the encoder. A second Close gives ErrClosed.
func (e *Encoder) Close() error { return e.net.Close() }

// Tensors are what the card says of the encoder's inputs and outputs.
func (e *Encoder) Tensors() (in, out []axcl.Tensor) { return e.net.Inputs(0), e.net.Outputs(0) }

// Reopen loads a closed encoder once more. It fails as [Open] does, and leaves the encoder closed
// then.
func (e *Encoder) Reopen(d axcl.Device) error {
	again, err := Open(d, e.sees, e.digest)
	if err == nil {
		e.net = again.net
	}
	return err
}

// Name is the id of a picture's rows.
func (e *Encoder) Name(data []byte) ID {
	h := sha256.New()
	picture := sha256.Sum256(data)
	fmt.Fprintf(h, "%x\x00%s\x00%s", picture, e.digest, e.sees.File)
	return ID(h.Sum(nil))
}

// Picture is one on its way through an encoder.
type Picture struct {
	id     ID
	inputs [][]byte // of the calls that are still to be made
	rows   *Rows
}

// Rows are what an encoder made of a picture: in Hidden the rows, N × hidden in bf16, and in Deep,
// as long each, what is added to them after layer 0, 1, 2 …
type Rows struct {
	ID     ID
	N      int
	Hidden []uint16
	Deep   [][]uint16

	Across, Down int // the grid they lie on, 0 where their positions count on
}

// Bytes is what the rows take.
func (r *Rows) Bytes() int64 { return 2 * int64(len(r.Hidden)) * int64(1+len(r.Deep)) }

// Prepare reads a picture and makes what the encoder reads of it, for all its calls. Errors are
// those of [vision.Decode].
func (e *Encoder) Prepare(data []byte, limits vision.Limits) (*Picture, error) {
	p, err := vision.Decode(data, limits)
	if err != nil {
		return nil, err
	}
	v, l := e.sees, e.sees.Layout
	looks := []*vision.Picture{p}
	switch {
	case v.Tiles > 0:
		looks = p.Tiles(v.Tiles, v.Tiles, l.Width, l.Height)
	case v.Square:
		looks[0], _ = p.Letterbox(l.Width, l.Height, 0)
	}
	made := &Picture{id: e.Name(data), rows: &Rows{N: v.Rows, Across: v.Across, Down: v.Down, Deep: make([][]uint16, len(v.Deep))}}
	for _, look := range looks {
		in, err := l.Append(nil, look, v.Norm)
		if err != nil {
			return nil, err
		}
		made.inputs = append(made.inputs, in)
	}
	made.rows.ID = made.id
	return made, nil
}

// Blank is a grey picture on its way, of one call: what the encoder takes is tried on it.
func (e *Encoder) Blank() (*Picture, error) {
	l := e.sees.Layout
	grey := &vision.Picture{Width: l.Width, Height: l.Height, Pix: bytes.Repeat([]byte{128}, 3*l.Width*l.Height)}
	in, err := l.Append(nil, grey, e.sees.Norm)
	if err != nil {
		return nil, err
	}
	return &Picture{inputs: [][]byte{in}, rows: &Rows{N: e.sees.PerCall, Deep: make([][]uint16, len(e.sees.Deep))}}, nil
}

// N is how many rows the picture becomes.
func (p *Picture) N() int { return p.rows.N }

// Rows are what the picture has become; nil before its last step.
func (p *Picture) Rows() *Rows {
	if len(p.inputs) > 0 {
		return nil
	}
	return p.rows
}

// Step makes the picture's next call of the encoder; it does nothing where there is none. Errors
// are those of [axcl.Net], after which the picture is as before the step, and [ErrNonsense].
func (e *Encoder) Step(p *Picture) error {
	if len(p.inputs) == 0 {
		return nil
	}
	clear(e.in)
	e.in[e.net.Inputs(0)[0].Name] = p.inputs[0]
	if err := e.net.Run(0, e.in, e.out); err != nil {
		return err
	}
	rows, err := take(e.out[e.sees.Output.Name], e.sees.Output.Type)
	if err != nil {
		return err
	}
	deep := make([][]uint16, len(e.sees.Deep))
	for i, t := range e.sees.Deep {
		if deep[i], err = take(e.out[t.Name], t.Type); err != nil {
			return err
		}
	}
	p.rows.Hidden = append(p.rows.Hidden, rows...)
	for i, d := range deep {
		p.rows.Deep[i] = append(p.rows.Deep[i], d...)
	}
	p.inputs = p.inputs[1:]
	return nil
}

// take makes rows of an output's bytes: bf16 as they are, float32 rounded to the nearest.
func take(b []byte, t axcl.Type) ([]uint16, error) {
	out := make([]uint16, len(b)/size(t))
	for i := range out {
		if t == axcl.BF16 {
			out[i] = binary.LittleEndian.Uint16(b[2*i:])
		} else {
			out[i] = axcl.BFloat16(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
		if out[i]&0x7f80 == 0x7f80 {
			return nil, ErrNonsense
		}
	}
	return out, nil
}
