package pictures

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
)

// Sound is a loaded encoder of sound: two nets, and between them a buffer of the card's, so that
// what the first gives does not cross the link. What a Picture is to an [Encoder], it is to a
// Sound.
type Sound struct {
	hears   *models.Hearing
	digest  string
	nets    [2]axcl.Net
	between axcl.Buffer
	one     []byte // 1 in the mask's type
	out     map[string][]byte
}

// OpenSound loads the encoder that hears tells of. digest is the package's, which tells encoders
// apart. It fails as [axcl.Device.LoadNet] does, and with ErrModel where the card says other
// tensors than the files did.
func OpenSound(d axcl.Device, hears *models.Hearing, digest string) (*Sound, error) {
	s := &Sound{hears: hears, digest: digest, one: models.One(hears.Mask.Type), out: map[string][]byte{}}
	err := s.open(d)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sound) open(d axcl.Device) (err error) {
	for i, f := range []models.NetFile{s.hears.Front, s.hears.Encoder} {
		if s.nets[i], err = d.LoadNet(f.Path); err != nil {
			return err
		}
		if ins, outs := s.nets[i].Inputs(0), s.nets[i].Outputs(0); !same(ins, f.In) || !same(outs, f.Out) {
			return fmt.Errorf("pictures: %w: %s: the card says %v and %v of its tensors, the file %v and %v", axcl.ErrModel, f.Path, ins,
				outs, f.In, f.Out)
		}
	}
	h := s.hears
	s.out[h.Output.Name] = make([]byte, count(h.Output.Shape)*size(h.Output.Type))
	if s.between, err = d.NewBuffer(4 * count(h.Between.To.Shape)); err != nil {
		return err
	}
	if err = s.nets[0].Bind(0, h.Between.From.Name, s.between); err != nil {
		return err
	}
	return s.nets[1].Bind(0, h.Between.To.Name, s.between)
}

// same says whether the card's tensors are the file's.
func same(got, want []axcl.Tensor) bool {
	return len(got) == len(want) && !slices.ContainsFunc(want, func(w axcl.Tensor) bool {
		return !slices.ContainsFunc(got, func(t axcl.Tensor) bool {
			return t.Name == w.Name && t.Type == w.Type && slices.Equal(t.Shape, w.Shape)
		})
	})
}

// Close unloads the nets. A second Close gives ErrClosed.
func (s *Sound) Close() error {
	var errs []error
	for _, n := range s.nets {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	if s.between != nil {
		errs = append(errs, s.between.Close())
	}
	return errors.Join(errs...)
}

// Name is the id of the rows of a piece of sound.
func (s *Sound) Name(samples []byte) ID {
	h := sha256.New()
	sound := sha256.Sum256(samples)
	fmt.Fprintf(h, "%x\x00%s\x00%s", sound, s.digest, s.hears.Encoder.Path)
	return ID(h.Sum(nil))
}

// Prepare makes what the first net reads of a piece of sound: samples as float32, least byte first,
// at least 201 of them and at most half a minute. Other lengths are errors.
func (s *Sound) Prepare(samples []byte) (*Picture, error) {
	heard := make([]float32, len(samples)/4)
	for i := range heard {
		heard[i] = math.Float32frombits(binary.LittleEndian.Uint32(samples[4*i:]))
	}
	h := s.hears
	mel, err := features.NewMel(features.MelOptions{Mels: h.Mel.Shape[2], FramesFirst: true, Tail: features.Mirror})
	if err != nil {
		return nil, err
	}
	values := make([]float32, count(h.Mel.Shape))
	frames, err := mel.Compute(values, heard)
	if err != nil {
		return nil, err
	}
	in := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(in[4*i:], math.Float32bits(v))
	}
	p := &Picture{id: s.Name(samples), inputs: [][]byte{in}, rows: &Rows{N: models.SoundRows(frames)}}
	p.rows.ID = p.id
	return p, nil
}

// Step calls both nets for a piece of sound, or does nothing where they were called for it. Errors
// are as [Encoder.Step]'s.
func (s *Sound) Step(p *Picture) error {
	if len(p.inputs) == 0 {
		return nil
	}
	h := s.hears
	if err := s.nets[0].Run(0, map[string][]byte{h.Mel.Name: p.inputs[0]}, nil); err != nil {
		return err
	}
	mask := make([]byte, h.Rows*len(s.one))
	copy(mask, slices.Repeat(s.one, p.rows.N))
	if err := s.nets[1].Run(0, map[string][]byte{h.Mask.Name: mask}, s.out); err != nil {
		return err
	}
	all := s.out[h.Output.Name]
	rows, err := take(all[:len(all)/h.Rows*p.rows.N], h.Output.Type)
	if err != nil {
		return err
	}
	p.rows.Hidden, p.inputs = rows, nil
	return nil
}
