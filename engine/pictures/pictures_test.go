package pictures

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
)

// TestEncode: a picture goes through the encoder in as many calls as its family wants, in that
// order, and comes back as rows of bf16.
func TestEncode(t *testing.T) {
	data := drawn(t, 20, 12, 3)
	p, err := vision.Decode(data, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	deep := func(typ axcl.Type, names ...string) (all []axcl.Tensor) {
		for _, n := range names {
			all = append(all, axcl.Tensor{Name: n, Type: typ, Shape: []int{4, hidden}, Size: 4 * hidden * size(typ)})
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		change func(v *models.Vision)
		looks  []*vision.Picture
	}{
		{"whole", nil, []*vision.Picture{p.Resize(8, 8)}},
		{"in parts", func(v *models.Vision) { v.Tiles, v.Rows = 2, 20 }, p.Tiles(2, 2, 8, 8)},
		{"with rows to add", func(v *models.Vision) { v.Deep = deep(axcl.FP32, "d0", "d1") }, []*vision.Picture{p.Resize(8, 8)}},
		{"in bf16", func(v *models.Vision) {
			v.Output.Type, v.Output.Size = axcl.BF16, 2*4*hidden
			v.Deep = deep(axcl.BF16, "d0")
		}, []*vision.Picture{p.Resize(8, 8)}},
		{"normed by the host", func(v *models.Vision) {
			v.Layout.Kind, v.Layout.Type, v.Norm = vision.Planes, vision.F32, vision.Unit
		}, []*vision.Picture{p.Resize(8, 8)}},
	} {
		e, n := encoder(t, tt.change)
		r := encode(t, e, data)
		if len(n.calls) != len(tt.looks) || r.N != e.sees.Rows || len(r.Hidden) != r.N*hidden || len(r.Deep) != len(e.sees.Deep) {
			t.Fatalf("%s: %d calls, %d rows of %d values", tt.name, len(n.calls), r.N, len(r.Hidden))
		}
		for c, look := range tt.looks {
			in, err := e.sees.Layout.Append(nil, look, e.sees.Norm)
			if err != nil || !bytes.Equal(n.calls[c], in) {
				t.Errorf("%s: call %d was given something else (%v)", tt.name, c, err)
			}
			for o, all := range append([][]uint16{r.Hidden}, r.Deep...) {
				for i, got := range all[c*4*hidden : (c+1)*4*hidden] {
					if want := axcl.BFloat16(value(in, o, i)); got != want {
						t.Fatalf("%s: output %d of call %d is %04x at %d, not %04x", tt.name, o, c, got, i, want)
					}
				}
			}
		}
		if r.Bytes() != int64(2*hidden*r.N*(1+len(r.Deep))) || r.ID != e.Name(data) {
			t.Errorf("%s: %d bytes", tt.name, r.Bytes())
		}
	}
}

const hidden = 4

// net is an encoder that gives, for each row, sums of what it was given, so that another order or
// norm gives other rows.
type net struct {
	in    axcl.Tensor
	outs  []axcl.Tensor
	calls [][]byte
	err   error
	nan   bool
}

func (n *net) Groups() int { return 1 }

func (n *net) Inputs(int) []axcl.Tensor { return []axcl.Tensor{n.in} }

func (n *net) Outputs(int) []axcl.Tensor { return n.outs }

func (n *net) Close() error { return nil }

// value is what is given in output o at i for such an input.
func value(in []byte, o, i int) float32 {
	s := float32(100*o + i)
	for at, b := range in {
		s += float32(int(b)*(at%7)) / 1000
	}
	return s
}

func (n *net) Run(_ int, in, out map[string][]byte) error {
	if n.err != nil {
		return n.err
	}
	data := in[n.in.Name]
	if len(in) != 1 || len(data) != n.in.Size {
		return axcl.ErrPass
	}
	n.calls = append(n.calls, slices.Clone(data))
	for o, t := range n.outs {
		b := out[t.Name]
		for i := range len(b) / size(t.Type) {
			f := value(data, o, i)
			if n.nan && o == len(n.outs)-1 {
				f = float32(math.NaN())
			}
			if t.Type == axcl.BF16 {
				binary.LittleEndian.PutUint16(b[2*i:], axcl.BFloat16(f))
			} else {
				binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f))
			}
		}
	}
	return nil
}

func (*net) Bind(int, string, axcl.Buffer) error { return axcl.ErrPass }

type device struct {
	axcl.Device
	net *net
	err error
}

func (d *device) LoadNet(string) (axcl.Net, error) { return d.net, d.err }

// encoder is one of 8 × 8 pixels and rows rows a call, with deep further outputs.
func encoder(t *testing.T, change func(v *models.Vision)) (*Encoder, *net) {
	t.Helper()
	out := func(name string) axcl.Tensor {
		return axcl.Tensor{Name: name, Type: axcl.FP32, Shape: []int{4, hidden}, Size: 4 * hidden * 4}
	}
	v := &models.Vision{File: "vit.axmodel", Input: axcl.Tensor{Name: "image", Type: axcl.Uint8, Shape: []int{1, 8, 8, 3}},
		Output: out("rows"), Layout: vision.Layout{Kind: vision.Rows, Type: vision.U8, Width: 8, Height: 8}, PerCall: 4, Rows: 4}
	if change != nil {
		change(v)
	}
	n := &net{in: v.Input, outs: append([]axcl.Tensor{v.Output}, v.Deep...)}
	n.in.Size = v.Layout.Bytes()
	e, err := Open(&device{net: n}, v, "digest")
	if err != nil {
		t.Fatal(err)
	}
	return e, n
}

// drawn is a png of this many pixels, no two alike.
func drawn(t *testing.T, width, height int, seed uint8) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.Set(x, y, color.RGBA{uint8(x*29) + seed, uint8(y*31) + 1, uint8(x*y) + 7, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encode(t *testing.T, e *Encoder, data []byte) *Rows {
	t.Helper()
	p, err := e.Prepare(data, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for len(p.inputs) > 0 {
		if p.Rows() != nil {
			t.Error("a picture has rows before its last call")
		}
		if err := e.Step(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Step(p); err != nil {
		t.Errorf("a step too many: %v", err)
	}
	return p.Rows()
}

// TestRefused: what an encoder cannot take or does not give is an error, and leaves the picture as
// it was.
func TestRefused(t *testing.T) {
	e, n := encoder(t, nil)
	if _, err := e.Prepare([]byte("no picture"), vision.Limits{}); err == nil {
		t.Error("no picture was read as one")
	}
	p, err := e.Prepare(drawn(t, 9, 9, 0), vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	n.err = axcl.ErrTimeout
	if err := e.Step(p); !errors.Is(err, axcl.ErrTimeout) || len(p.inputs) != 1 || p.Rows() != nil {
		t.Errorf("%v, %d calls to make", err, len(p.inputs))
	}
	n.err, n.nan = nil, true
	if err := e.Step(p); !errors.Is(err, ErrNonsense) || len(p.inputs) != 1 || len(p.rows.Hidden) != 0 {
		t.Errorf("%v, %d calls to make", err, len(p.inputs))
	}
	n.nan = false
	if err := e.Step(p); err != nil || p.Rows() == nil {
		t.Errorf("after two failures: %v", err)
	}
	v := *e.sees
	for what, spoil := range map[string]func(n *net){
		"input":  func(n *net) { n.in.Size++ },
		"output": func(n *net) { n.outs[0].Size += 4 },
		"type":   func(n *net) { n.outs[0].Type = axcl.BF16 },
		"name":   func(n *net) { n.outs[0].Name = "other" },
	} {
		bad := &net{in: n.in, outs: slices.Clone(n.outs)}
		spoil(bad)
		if _, err := Open(&device{net: bad}, &v, "d"); !errors.Is(err, axcl.ErrModel) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	if _, err := Open(&device{err: axcl.ErrMemory}, &v, "d"); !errors.Is(err, axcl.ErrMemory) {
		t.Errorf("no room: %v", err)
	}
}

// TestName: rows belong to a picture's bytes and to an encoder, and to nothing else.
func TestName(t *testing.T) {
	e, _ := encoder(t, nil)
	other, _ := encoder(t, func(v *models.Vision) { v.File = "other.axmodel" })
	again, _ := encoder(t, nil)
	a, b := drawn(t, 9, 9, 0), drawn(t, 9, 9, 1)
	if e.Name(a) == e.Name(b) || e.Name(a) == other.Name(a) || e.Name(a) != again.Name(slices.Clone(a)) {
		t.Error("names do not tell pictures or encoders apart, or tell the same ones apart")
	}
	if again.digest = "retrained"; again.Name(a) == e.Name(a) {
		t.Error("names do not tell packages apart")
	}
}

// TestCache: what was asked for last stays, within the room; what is larger than it is not kept.
func TestCache(t *testing.T) {
	rows := func(id byte, n int) *Rows { return &Rows{ID: ID{id}, N: n, Hidden: make([]uint16, n*hidden)} }
	k := NewCache(NewRoom(2 * hidden * 10))
	k.Put(rows(1, 4))
	k.Put(rows(2, 4))
	k.Put(rows(2, 4))
	if bytes, n := k.bytes, k.order.Len(); bytes != 2*hidden*8 || n != 2 {
		t.Errorf("%d bytes of %d pictures", bytes, n)
	}
	if k.Get(ID{1}) == nil { // asked for: 2 is older now
		t.Error("1 is gone")
	}
	k.Put(rows(3, 5))
	if k.Get(ID{2}) != nil || k.Get(ID{1}) == nil || k.Get(ID{3}) == nil {
		t.Error("not the oldest went")
	}
	k.Put(rows(4, 11))
	if bytes, n := k.bytes, k.order.Len(); k.Get(ID{4}) != nil || bytes != 2*hidden*9 || n != 2 {
		t.Errorf("what has no room drove others out: %d bytes of %d", bytes, n)
	}
	k.Put(rows(5, 10))
	if bytes, n := k.bytes, k.order.Len(); bytes != 2*hidden*10 || n != 1 || k.Get(ID{5}) == nil {
		t.Errorf("%d bytes of %d pictures", bytes, n)
	}
	none := &Cache{}
	none.Put(rows(1, 1))
	if none.Get(ID{1}) != nil {
		t.Error("the zero value keeps something")
	}
}

// TestCachesShareRoom: several in one room keep no more than it has; each makes room of its own
// only, and lets nothing go in vain.
func TestCachesShareRoom(t *testing.T) {
	rows := func(id byte, n int) *Rows { return &Rows{ID: ID{id}, N: n, Hidden: make([]uint16, n*hidden)} }
	room := NewRoom(2 * hidden * 10)
	a, b := NewCache(room), NewCache(room)
	a.Put(rows(1, 4))
	b.Put(rows(2, 3))
	b.Put(rows(3, 7))
	if a.Get(ID{1}) == nil || b.Get(ID{2}) == nil || b.Get(ID{3}) != nil {
		t.Error("what has no room beside the other's was kept, or drove others out")
	}
	b.Put(rows(4, 6))
	if a.Get(ID{1}) == nil || b.Get(ID{2}) != nil || b.Get(ID{4}) == nil {
		t.Error("its own did not go for what has room then")
	}
	a.Clear()
	b.Put(rows(5, 4))
	if n := room.taken.Load(); n != 2*hidden*10 || b.Get(ID{4}) == nil || b.Get(ID{5}) == nil {
		t.Errorf("%d bytes are taken, %d are there", n, 2*hidden*10)
	}
}

// TestPositions: the worked examples of M-RoPE, plain positions, several pictures, and what cannot
// be laid out.
func TestPositions(t *testing.T) {
	grid := func(at, across, down int) Span { return Span{at, &Rows{N: across * down, Across: across, Down: down}} }
	column := func(pos []uint32, of, k int) (all []uint32) {
		for i := k; i < len(pos); i += of {
			all = append(all, pos[i])
		}
		return all
	}
	pos, next, err := Positions(13, 0, []Span{grid(3, 3, 2)}, 3)
	if err != nil || next != 10 {
		t.Errorf("next %d, %v", next, err)
	}
	for k, want := range [][]uint32{{0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 8, 9}, {0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7, 8, 9},
		{0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9}} {
		if got := column(pos, 3, k); !slices.Equal(got, want) {
			t.Errorf("component %d: %d, want %d", k, got, want)
		}
	}
	for _, tt := range []struct {
		n     int
		start uint32
		spans []Span
		of    int
		next  uint32
	}{
		{291, 0, []Span{grid(15, 16, 16)}, 3, 51},
		{171, 0, []Span{grid(15, 12, 12)}, 3, 39},
		{171, 100, []Span{grid(15, 12, 12)}, 3, 139},
		{20, 7, nil, 3, 27}, {20, 7, nil, 1, 27}, {0, 7, nil, 1, 7},
		{80, 0, []Span{{3, &Rows{N: 64}}}, 1, 80},
		{80, 0, []Span{{3, &Rows{N: 64}}}, 3, 80},
		{30, 0, []Span{grid(2, 3, 2), grid(8, 2, 4), grid(20, 5, 2)}, 3, 2 + 3 + 4 + 4 + 5},
	} {
		pos, next, err := Positions(tt.n, tt.start, tt.spans, tt.of)
		if err != nil || next != tt.next || len(pos) != tt.n*tt.of {
			t.Errorf("%d rows from %d: next %d, want %d; %d positions, %v", tt.n, tt.start, next, tt.next, len(pos), err)
		}
		if tt.n > 0 && slices.Max(pos)+1 != next {
			t.Errorf("%d rows from %d: the highest is %d, next %d", tt.n, tt.start, slices.Max(pos), next)
		}
	}
	for i, tt := range []struct {
		n     int
		spans []Span
		of    int
	}{{10, []Span{grid(5, 3, 2)}, 3}, {20, []Span{grid(5, 3, 2), grid(8, 2, 2)}, 3}, {20, []Span{grid(-1, 3, 2)}, 3},
		{20, []Span{grid(5, 3, 2)}, 1}, {20, nil, 2}, {20, []Span{{3, &Rows{N: 7, Across: 3, Down: 2}}}, 3},
		{20, []Span{grid(9, 2, 2), grid(1, 2, 2)}, 3}} {
		if pos, _, err := Positions(tt.n, 0, tt.spans, tt.of); err == nil {
			t.Errorf("%d was laid out: %d", i, pos)
		}
	}
}

// TestPlace: pictures' rows stand in the pass in place of embeddings, and what is added to them is
// listed as a pass wants it.
func TestPlace(t *testing.T) {
	s := axcl.Shape{Layers: 3, Hidden: hidden, KV: 2, Cells: 64, Pos: 1, Groups: []axcl.Group{{Rows: 1, Cells: 64}, {Rows: 8, Cells: 0}}}
	of := func(base uint16, n, deep int) *Rows {
		r := &Rows{N: n}
		for d := range deep + 1 {
			var v []uint16
			for i := range n * hidden {
				v = append(v, base+uint16(100*d+i))
			}
			if d == 0 {
				r.Hidden = v
			} else {
				r.Deep = append(r.Deep, v)
			}
		}
		return r
	}
	a, b := of(1000, 4, 2), of(2000, 3, 3)
	p := &axcl.Pass{Hidden: make([]uint16, 6*hidden), Pos: make([]uint32, 6), SeeCells: make([]uint64, 6), SeeRows: make([]uint64, 6),
		Cell: []uint32{0, 1, 2, 3, 4, 5}}
	Place(p, hidden, []Placed{{1, a, 2}, {2, a, 3}, {4, b, 0}})
	if err := p.Check(s); err != nil {
		t.Fatal(err)
	}
	want := []axcl.Addition{{Layer: 0, Row: 1}, {Layer: 0, Row: 2}, {Layer: 0, Row: 4}, {Layer: 1, Row: 1}, {Layer: 1, Row: 2},
		{Layer: 1, Row: 4}, {Layer: 2, Row: 4}}
	if !slices.Equal(p.Add, want) {
		t.Errorf("%v, want %v", p.Add, want)
	}
	for i, base := range []uint16{1100 + 2*hidden, 1100 + 3*hidden, 2100, 1200 + 2*hidden, 1200 + 3*hidden, 2200, 2300} {
		if got := p.Added[i*hidden]; got != base {
			t.Errorf("addition %d begins with %d, want %d", i, got, base)
		}
	}
	for r, first := range []uint16{0, 1000 + 2*hidden, 1000 + 3*hidden, 0, 2000, 0} {
		if got := p.Hidden[r*hidden]; got != first {
			t.Errorf("row %d begins with %d, want %d", r, got, first)
		}
	}
	Place(p, hidden, nil)
	if len(p.Add) != 0 || len(p.Added) != 0 || p.Check(s) != nil {
		t.Errorf("a pass without pictures has %v to add", p.Add)
	}
}
