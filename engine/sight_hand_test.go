package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/vision"
)

// A model that sees: random layers with positions in three components, and an encoder that is a
// function of every byte it is given.
const (
	sightHidden, sightVocab, sightPlace = 64, 131, 130
	sightAcross, sightDown              = 4, 3
	sightRows                           = sightAcross * sightDown
)

// eye is that encoder.
type eye struct {
	v     *models.Vision
	calls atomic.Int32
	fail  func(call int32) error
}

func (e *eye) Groups() int { return 1 }

func (e *eye) Inputs(int) []axcl.Tensor { return []axcl.Tensor{e.v.Input} }

func (e *eye) Outputs(int) []axcl.Tensor { return append([]axcl.Tensor{e.v.Output}, e.v.Deep...) }

func (e *eye) Close() error { return nil }

func (e *eye) Run(_ int, in, out map[string][]byte) error {
	if n := e.calls.Add(1); e.fail != nil {
		if err := e.fail(n); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(in[e.v.Input.Name])
	for i, t := range e.Outputs(0) {
		rng := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), uint64(i)))
		for k := range sightRows * sightHidden {
			v := float32(rng.NormFloat64())
			if i > 0 {
				v *= 3 // what is added between layers is to matter
			}
			binary.LittleEndian.PutUint32(out[t.Name][4*k:], math.Float32bits(v))
		}
	}
	return nil
}

// Bind implements axcl.Net: pictures are given with each call.
func (*eye) Bind(int, string, axcl.Buffer) error { return axcl.ErrPass }

type eyed struct {
	axcl.Device
	eye *eye
}

func (d *eyed) LoadNet(string) (axcl.Net, error) { return d.eye, nil }

type sight struct {
	spec axcl.LoadSpec
	tiny *tiny
	v    *models.Vision
}

func newSight(t testing.TB) *sight {
	t.Helper()
	y := axcltest.DefaultTiny()
	y.Layers, y.Pos, y.Vocab, y.Hidden = 3, 3, sightVocab, sightHidden
	spec, err := y.Write(t.TempDir(), "sight")
	if err != nil {
		t.Fatal(err)
	}
	out := func(name string) axcl.Tensor {
		return axcl.Tensor{Name: name, Type: axcl.FP32, Shape: []int{sightRows, sightHidden}, Size: 4 * sightRows * sightHidden}
	}
	s := &sight{spec: spec, tiny: &tiny{hidden: sightHidden}}
	s.v = &models.Vision{File: "vision.axmodel", Input: axcl.Tensor{Name: "image", Type: axcl.Uint8, Shape: []int{1, 6, 8, 3}, Size: 144},
		Output: out("rows"), Deep: []axcl.Tensor{out("deep0"), out("deep1")},
		Layout:  vision.Layout{Kind: vision.Rows, Type: vision.U8, Width: 8, Height: 6},
		PerCall: sightRows, Rows: sightRows, MRope: true, Across: sightAcross, Down: sightDown, Placeholder: sightPlace}
	for i := range sightVocab {
		s.tiny.rows = append(s.tiny.rows, axcltest.Rows(uint64(100+i), 1, sightHidden))
	}
	return s
}

// open puts it on a soft card.
func (s *sight) open(t testing.TB, o OpenOptions) (*cardBackend, *eye) {
	t.Helper()
	e := &eye{v: s.v}
	card, err := OpenCard(func() (axcl.Device, string, error) {
		d, err := soft.Open(soft.Options{Threads: 1})
		return &eyed{d, e}, "test", err
	}, o.CardOptions)
	if err != nil {
		t.Fatal(err)
	}
	b := &cardBackend{card: card, closer: card.Close, sampling: sampler.Defaults(),
		info: Info{Name: "sight", Context: 96, Vocab: sightVocab,
			Hidden: sightHidden}}
	err = card.Do(context.Background(), func(dev axcl.Device) error {
		model, err := axcl.Load(context.Background(), dev, s.spec)
		if err != nil {
			return err
		}
		b.m = newLM(card, model, s.tiny, nil, nil, o)
		if err := b.m.prover.measure(context.Background()); err != nil {
			return err
		}
		if o.Proven != nil {
			b.m.proven = *o.Proven
		} else if err := probe(b.m); err != nil {
			return err
		}
		b.m.pictures.encoder, err = b.m.pictures.openEncoder(dev, s.v, "digest")
		card.Attach(b.m, 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, axcl.ErrLost) {
			t.Error(err)
		}
	})
	e.calls.Store(0)
	return b, e
}

// shot is a picture of noise.
func shot(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 9))
	m := image.NewRGBA(image.Rect(0, 0, 11, 7))
	for i := range m.Pix {
		m.Pix[i] = byte(rng.IntN(256))
	}
	for y := range 7 {
		for x := range 11 {
			c := m.RGBAAt(x, y)
			m.SetRGBA(x, y, color.RGBA{c.R, c.G, c.B, 255})
		}
	}
	var b bytes.Buffer
	_ = png.Encode(&b, m)
	return b.Bytes()
}

// asks is a prompt: numbers are tokens, pictures are pictures.
func asks(n int, parts ...any) Job {
	job := greedy(nil, n)
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			job.IDs = append(job.IDs, slices.Repeat([]int32{sightPlace}, sightRows)...)
			job.Images = append(job.Images, p)
		case int:
			job.IDs = append(job.IDs, int32(p))
		case []int32:
			job.IDs = append(job.IDs, p...)
		}
	}
	return job
}

// byHand gives the job's tokens without the engine: rows from the encoder's own outputs, positions
// and additions as the model's authors lay them out, chunk by chunk.
func (s *sight) byHand(t testing.TB, job Job) (out []int32) {
	t.Helper()
	dev, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	model, err := axcl.Load(context.Background(), dev, s.spec)
	if err != nil {
		t.Fatal(err)
	}
	shape := model.Shape()
	type row struct {
		hidden []uint16
		deep   [][]uint16
		pos    [3]uint32
	}
	var rows []row
	next, image := uint32(0), 0
	for i := 0; i < len(job.IDs); i++ {
		if job.IDs[i] != sightPlace {
			rows = append(rows, row{hidden: s.tiny.rows[job.IDs[i]], pos: [3]uint32{next, next, next}})
			next++
			continue
		}
		p, err := vision.Decode(job.Images[image], vision.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.v.Layout.Append(nil, p, s.v.Norm)
		if err != nil {
			t.Fatal(err)
		}
		outs := map[string][]byte{}
		e := &eye{v: s.v}
		for _, o := range e.Outputs(0) {
			outs[o.Name] = make([]byte, o.Size)
		}
		_ = e.Run(0, map[string][]byte{"image": in}, outs)
		value := func(name string, r int) (v []uint16) {
			for k := range sightHidden {
				v = append(v, axcl.BFloat16(math.Float32frombits(binary.LittleEndian.Uint32(outs[name][4*(r*sightHidden+k):]))))
			}
			return v
		}
		for r := range sightRows {
			rows = append(rows, row{value("rows", r), [][]uint16{value("deep0", r), value("deep1", r)},
				[3]uint32{next, next + uint32(r/sightAcross), next + uint32(r%sightAcross)}})
		}
		next += max(sightAcross, sightDown)
		i += sightRows - 1
		image++
	}
	for done := 0; len(out) < job.Limit; {
		n := min(len(rows)-done, 16)
		p := &axcl.Pass{SeeCells: make([]uint64, n*axcl.Words(shape.Cells)), SeeRows: make([]uint64, n), Want: []int{n - 1},
			Argmax: make([]int32, 1)}
		for layer := range 2 {
			for i := range n {
				if d := rows[done+i].deep; d != nil {
					p.Add = append(p.Add, axcl.Addition{Layer: uint32(layer), Row: uint32(i)})
					p.Added = append(p.Added, d[layer]...)
				}
			}
		}
		for i := range n {
			r := rows[done+i]
			p.Hidden, p.Pos, p.Cell = append(p.Hidden, r.hidden...), append(p.Pos, r.pos[:]...), append(p.Cell, uint32(done+i))
			for c := range done {
				p.SeeCells[i*axcl.Words(shape.Cells)+c/64] |= 1 << (c % 64)
			}
			p.SeeRows[i] = 1<<i - 1
		}
		if err := model.Run(p); err != nil {
			t.Fatal(err)
		}
		if done += n; done == len(rows) {
			out = append(out, p.Argmax[0])
			rows = append(rows, row{hidden: s.tiny.rows[p.Argmax[0]], pos: [3]uint32{next, next, next}})
			next++
		}
	}
	return out
}
