package axmodeltest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/vision"
)

// Seen is a row of a picture: what the oracle makes of it, and what a card did. Deep and Added are
// for the first decoder layers.
type Seen struct {
	Row   []float64
	Deep  [][]float64
	Given []uint16
	Added [][]uint16
}

// AgainstPicture compiles a random checkpoint that sees, in dir, has the card compute a random
// picture, and holds every row against the oracle's: eyes has the lowest cosine of the rows and of
// those to add. Then the rows go through the layers, between text, in passes whose borders cut the
// picture, and rep judges the logits as [AgainstArch] does, whose part the oracle computes
// from the picture too.
func AgainstPicture(d axcl.Device, dir string, a Arch, seed uint64, o compile.Options) (eyes float64, rep Report, err error) {
	c, err := WriteCheckpoint(dir, a, seed)
	if err != nil {
		return 0, rep, err
	}
	o.From, o.Out, o.Context, o.Chunk, o.History, o.Name = dir, filepath.Join(dir, "package"), 95, 16, []int{0, 16, 64}, "m"
	if a.Sight.Qwen {
		o.Width, o.Height = c.PictureSize()
	}
	r, err := compile.Run(context.Background(), o)
	if err != nil {
		return 0, rep, err
	}
	random := rand.New(rand.NewPCG(seed, 5))
	picture := RandomPicture(c, random)
	got, err := Encode(d, filepath.Join(r.Dir, "m_vision.axmodel"), picture)
	if err != nil {
		return 0, rep, err
	}
	rows, deep := c.Look(picture.Pix)
	seen := make([]*Seen, len(rows))
	eyes = 1
	for i, row := range rows {
		s := &Seen{Row: row, Given: narrow(got[0][i*c.Hidden:][:c.Hidden])}
		eyes = min(eyes, cosine(got[0][i*c.Hidden:][:c.Hidden], row))
		for k := range deep {
			added := got[1+k][i*c.Hidden:][:c.Hidden]
			s.Deep, s.Added = append(s.Deep, deep[k][i]), append(s.Added, narrow(added))
			eyes = min(eyes, cosine(added, deep[k][i]))
		}
		seen[i] = s
	}
	layers, head := axmodel.Files(r.Dir, o.Name, o.Chunk, r.Layers)
	m, err := axcl.Load(context.Background(), d, axcl.LoadSpec{Layers: layers, Head: head})
	if err != nil {
		return eyes, rep, err
	}
	defer m.Close()
	w := &walk{c: c, m: m, shape: m.Shape(), rand: random}
	cells := w.cells()
	all := c.rowsAround(seen, random)
	for at := 0; at < len(all); {
		n := min(10, len(all)-at) // a border within the picture
		// A row of the picture alone, whose column is far from where the picture begins; and text
		// row by row.
		if at == 10 || at > 10+len(seen) {
			n = 1
		}
		for _, row := range all[at : at+n] {
			w.rows = append(w.rows, row)
		}
		if w.to = 1; at > 0 {
			w.from = 1
		}
		if err := w.pass(at, cells[at:at+n]); err != nil {
			return eyes, rep, err
		}
		at += n
	}
	rep.judge(c, w.rows, w.logits, w.argmax)
	return eyes, rep, nil
}

// rowsAround are the rows of some text, a picture, and text again.
func (c *Checkpoint) rowsAround(seen []*Seen, random *rand.Rand) (all []Row) {
	next := 0
	add := func(r Row) {
		for j := range all {
			r.See = append(r.See, j)
		}
		all = append(all, r)
	}
	text := func(n int) {
		for range n {
			add(Row{Token: random.IntN(c.Vocab), Pos: next})
			next++
		}
	}
	text(8)
	across := c.Sight.Across / c.Sight.Merge
	for i, s := range seen {
		r := Row{Pos: next + i, Seen: s}
		if c.Section != nil {
			r.Pos, r.At = next, []int{next, next + i/across, next + i%across}
		}
		add(r)
	}
	if c.Section != nil {
		next += max(across, len(seen)/across)
	} else {
		next += len(seen)
	}
	text(12)
	return all
}

// RandomPicture is a picture of the size that the checkpoint's encoder takes: spots on a slope of
// colour.
func RandomPicture(c *Checkpoint, random *rand.Rand) *vision.Picture {
	p := &vision.Picture{}
	p.Width, p.Height = c.PictureSize()
	slope := [3]int{random.IntN(256), random.IntN(256), random.IntN(256)}
	for i := range p.Width * p.Height {
		for k := range 3 {
			p.Pix = append(p.Pix, byte((slope[k]*(i%p.Width)/p.Width+slope[(k+1)%3]*(i/p.Width)/p.Height+random.IntN(120))&255))
		}
	}
	return p
}

// Encode has a card compute a picture with the encoder at path, which is asked for its layout as
// models asks: what each output gives.
func Encode(d axcl.Device, path string, p *vision.Picture) (out [][]float32, err error) {
	n, err := d.LoadNet(path)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	if n.Groups() != 1 || len(n.Inputs(0)) != 1 {
		return nil, fmt.Errorf("axmodeltest: an encoder of %d groups and %d inputs", n.Groups(), len(n.Inputs(0)))
	}
	in, outputs := n.Inputs(0)[0], n.Outputs(0)
	rows := 1
	for _, side := range outputs[0].Shape[:len(outputs[0].Shape)-1] {
		rows *= side
	}
	l, err := vision.ReadLayout(in.Shape, vision.U8, vision.Hints{Rows: rows, Width: p.Width, Height: p.Height})
	if err != nil {
		return nil, err
	}
	pixels, err := l.Append(nil, p, vision.Own)
	if err != nil {
		return nil, err
	}
	to := map[string][]byte{}
	for i, t := range outputs {
		if t.Type != axcl.FP32 || i > 0 && !strings.HasPrefix(t.Name, "deepstack_feature_") {
			return nil, fmt.Errorf("axmodeltest: an encoder's output %q of %v", t.Name, t.Type)
		}
		to[t.Name] = make([]byte, t.Size)
	}
	if err := n.Run(0, map[string][]byte{in.Name: pixels}, to); err != nil {
		return nil, err
	}
	for _, t := range outputs {
		out = append(out, float32s(to[t.Name]))
	}
	return out, nil
}

func float32s(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func narrow(x []float32) (out []uint16) {
	for _, v := range x {
		out = append(out, axcl.BFloat16(v))
	}
	return out
}
