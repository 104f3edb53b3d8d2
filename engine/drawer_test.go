package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/diffusion"
)

// TestDraw: in each packing a picture is what the definitions draw in float64, within one step of
// 255, from noise and from a picture.
func TestDraw(t *testing.T) {
	lane.NoRace(t)
	testDraw(t, softCard)
}

func testDraw(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, tt := range []struct {
		e    modelstest.Diffusion
		asks []DrawRequest
	}{
		{modelstest.Diffusion{Seed: 1, Layout: "LCM"}, []DrawRequest{
			{Prompt: "A red CAT", Seed: 42},
			{Prompt: "dog", Steps: 2, Seed: 7, Width: 64, Height: 48},
			{Prompt: "", Steps: 1, Seed: 1 << 31},
			{Prompt: "red dog", Seed: 3, Picture: scene(1, 100, 48), Strength: 0.7},
			{Prompt: "red dog", Seed: 3, Picture: scene(1, 30, 48)},
		}},
		{modelstest.Diffusion{Seed: 2, Layout: "DPM++", Blind: true, Width: 48, Height: 80, Given: axcl.BF16, States: axcl.BF16},
			[]DrawRequest{{Prompt: "cat", Negative: "dog", Seed: 5}}},
		{modelstest.Diffusion{Seed: 3, Layout: "Euler", Width: 32, Height: 32, States: axcl.FP16}, []DrawRequest{
			{Prompt: "cat", Negative: "red", Steps: 6, Guidance: 3, Seed: 9},
			{Prompt: "cat", Steps: 7, Seed: 9, Picture: scene(2, 32, 32), Strength: 0.5},
			{Prompt: "cat", Steps: 3, Seed: 9, Guidance: 1},
		}},
	} {
		t.Run(tt.e.Layout, func(t *testing.T) {
			m, _, _ := onCard(t, tt.e.Write, open, OpenOptions{})
			i := m.Info()
			if d := i.Draws; !i.Capabilities.Drawing || i.CardBytes <= 0 || d.Pictures == tt.e.Blind || d.Guided != (tt.e.Layout != "LCM") {
				t.Errorf("%+v", i)
			}
			var seen [][]byte
			for _, r := range tt.asks {
				events, err := drawEvents(t.Context(), m, r)
				if err != nil {
					t.Fatal(err)
				}
				last := events[len(events)-1]
				want, steps := wantedPicture(t, tt.e, m, r)
				if !last.Done || last.Width != i.Draws.Width || last.Height != i.Draws.Height || len(events) != steps+1 ||
					last.Steps != steps {
					t.Fatalf("%d events, the last of %d steps, %d×%d", len(events), last.Steps, last.Width, last.Height)
				}
				far, low, high := apart(last.Pixels, want)
				if far > 1 || high-low < 100 {
					t.Errorf("%q: %d of 255 from the oracle's, whose pixels are %d to %d", r.Prompt, far, low, high)
				}
				if slices.ContainsFunc(seen, func(p []byte) bool { return bytes.Equal(p, last.Pixels) }) {
					t.Errorf("%q: the picture is there already", r.Prompt)
				}
				seen = append(seen, last.Pixels)
			}
		})
	}
}

// TestDrawPartial: pictures on the way are what a step sees, and change nothing: the first step of
// LCM sees what a drawing in one step draws.
func TestDrawPartial(t *testing.T) {
	m, _, _ := onCard(t, modelstest.Diffusion{Seed: 1, Layout: "LCM"}.Write, softCard, OpenOptions{})
	r := DrawRequest{Prompt: "cat", Seed: 11}
	plain, err := drawEvents(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Steps = 1
	one, err := drawEvents(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Steps = 4
	for partial, shown := range [][]bool{{false, false, false, false}, {false, true, false, false}, {true, true, false, false},
		{true, true, true, false}} {
		r.Partial = partial
		all, err := drawEvents(t.Context(), m, r)
		if err != nil || len(all) != 5 {
			t.Fatal(len(all), err)
		}
		for i, d := range all[:4] {
			if (d.Pixels != nil) != shown[i] || d.Done || d.Step != i+1 || d.Steps != 4 || shown[i] && (d.Width != 64 || d.Height != 48) {
				t.Errorf("%d on the way: event %d: step %d of %d, %d bytes of %d×%d", partial, i, d.Step, d.Steps, len(d.Pixels), d.Width,
					d.Height)
			}
		}
		if !all[4].Done || !bytes.Equal(all[4].Pixels, plain[4].Pixels) {
			t.Errorf("%d on the way: another picture", partial)
		}
		if far, _, _ := apart(all[0].Pixels, one[1].Pixels); shown[0] && far > 1 {
			t.Errorf("the first step sees something that is %d from what one step draws", far)
		}
	}
}

// TestDrawRefused: what cannot be done is said, and loses nothing.
func TestDrawRefused(t *testing.T) {
	d := &nonsense{}
	m, c, _ := onCard(t, modelstest.Diffusion{Seed: 1, Layout: "LCM"}.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d.Device = soft
		return d, why, err
	}, OpenOptions{})
	blind, _, _ := onCard(t, modelstest.Diffusion{Seed: 2, Layout: "DPM++", Blind: true}.Write, softCard, OpenOptions{})
	euler, _, _ := onCard(t, modelstest.Diffusion{Seed: 3, Layout: "Euler"}.Write, softCard, OpenOptions{})
	text, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	good := scene(1, 64, 48)
	failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    DrawRequest
		fail error
		put  float64
		want error
		says string
	}{
		{"another size", nil, m, DrawRequest{Width: 512, Height: 48}, nil, 0, ErrRequest, "draws pictures of 64×48 pixels, not of 512×48"},
		{"a negative prompt", nil, m, DrawRequest{Negative: "x"}, nil, 0, ErrUnsupported, "takes no negative prompt and no guidance"},
		{"a guidance", nil, m, DrawRequest{Guidance: 2}, nil, 0, ErrUnsupported, "takes no negative prompt and no guidance"},
		{"a guidance of 51", nil, euler, DrawRequest{Guidance: 51}, nil, 0, ErrRequest, "between 0 and 50, not 51"},
		{"no guidance", nil, euler, DrawRequest{Guidance: math.NaN()}, nil, 0, ErrRequest, "between 0 and 50, not NaN"},
		{"eight steps", nil, m, DrawRequest{Steps: 8}, nil, 0, ErrRequest, "draws in 1, 2 or 4 steps, not in 8"},
		{"ten steps", nil, blind, DrawRequest{Steps: 10}, nil, 0, ErrRequest, "draws in 20 steps, not in 10"},
		{"too many steps", nil, euler, DrawRequest{Steps: 151}, nil, 0, ErrRequest, "draws in 1 to 150 steps, not in 151"},
		{"less than one", nil, euler, DrawRequest{Steps: -1}, nil, 0, ErrRequest, "draws in 1 to 150 steps, not in -1"},
		{"a picture", nil, blind, DrawRequest{Picture: good}, nil, 0, ErrUnsupported, "has no encoder of pictures"},
		{"no picture", nil, m, DrawRequest{Picture: []byte("x")}, nil, 0, ErrRequest, "the picture cannot be read: no picture"},
		{"half a picture", nil, m, DrawRequest{Picture: good[:len(good)/2]}, nil, 0, ErrRequest, "the picture cannot be read"},
		{"a strength of 2", nil, m, DrawRequest{Picture: good, Strength: 2}, nil, 0, ErrRequest, "between 0 and 1, not 2"},
		{"four on the way", nil, m, DrawRequest{Partial: 4}, nil, 0, ErrRequest, "0 to 3 can be had"},
		{"a book", nil, m, DrawRequest{Prompt: strings.Repeat("a", 300_000)}, nil, 0, ErrRequest, "a prompt of 300000 bytes"},
		{"a model of texts", nil, text, DrawRequest{}, nil, 0, ErrUnsupported, "does not draw"},
		{"a caller that left", ended, m, DrawRequest{}, nil, 0, context.Canceled, ""},
		{"a call that fails", nil, m, DrawRequest{}, failed, 0, failed, ""},
		{"NaN", nil, m, DrawRequest{}, nil, math.NaN(), ErrNonsense, "step 1"},
		{"NaN of a picture", nil, m, DrawRequest{Picture: good}, nil, math.Inf(1), ErrNonsense, "the picture to begin with"},
	} {
		if d.put.Store(math.Float32bits(float32(tt.put))); tt.fail != nil {
			fail := func() error { return tt.fail }
			d.fail.Store(&fail)
		}
		if tt.ctx == nil {
			tt.ctx = t.Context()
		}
		all, err := drawEvents(tt.ctx, tt.m, tt.r)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) || len(all) > 0 {
			t.Errorf("%s: %d events, %v, want %v", tt.name, len(all), err, tt.want)
		}
		d.fail.Store(nil)
	}
	d.put.Store(0)
	if _, _, err := collect(m.Generate(t.Context(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a model that draws writes: %v", err)
	}
	fits := DrawRequest{Prompt: strings.Repeat("cat ", 75)}
	if all, err := drawEvents(t.Context(), m, fits); err != nil || all[0].Cuts != nil || c.Err() != nil {
		t.Errorf("afterwards, of a prompt that fits: %d events, %v, %v", len(all), err, c.Err())
	}
	cut := []Cut{{Limit: 75, Prompt: 1000, Kept: 75}, {Limit: 75, Prompt: 76, Kept: 75}}
	long := DrawRequest{Prompt: strings.Repeat("cat ", 1000), Negative: strings.Repeat("dog ", 76), Steps: 2}
	if all, err := drawEvents(t.Context(), euler, long); err != nil || !slices.Equal(all[0].Cuts, cut) || all[1].Cuts != nil {
		t.Errorf("of prompts that are cut: %d events, %v", len(all), err)
	}
	gone := func() error { return fmt.Errorf("%w: the link is down", axcl.ErrLost) }
	d.fail.Store(&gone)
	if _, err := drawEvents(t.Context(), m, DrawRequest{}); !errors.Is(err, axcl.ErrLost) || c.Err() == nil {
		t.Errorf("a lost card: %v", err)
	}
	d.fail.Store(nil)
	if _, err := drawEvents(t.Context(), m, DrawRequest{}); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("on a lost card: %v", err)
	}
}

// TestDrawEnds: a drawing whose ctx ends, or whose model is closed, ends with the call that the
// card is at, whatever call that is; then others have the card.
func TestDrawEnds(t *testing.T) {
	good := scene(1, 64, 48)
	for _, closes := range []bool{false, true} {
		for last := 1; last <= 6; last++ { // the encoder, the prompt, two steps, one on the way, the decoder
			if lane.Race && last != 3 {
				continue
			}
			d := &calling{}
			m, c, _ := onCard(t, modelstest.Diffusion{Seed: 1, Layout: "LCM"}.Write, d.open, OpenOptions{})
			ctx, cancel := context.WithCancel(t.Context())
			closed := make(chan error, 1)
			d.before = func(call int) {
				if call != last {
					return
				}
				if !closes {
					cancel()
					return
				}
				go func() { closed <- m.Close() }()
				for m.Stats().State != "closed" {
					runtime.Gosched()
				}
			}
			_, err := drawEvents(ctx, m, DrawRequest{Picture: good, Partial: 1})
			cancel()
			want := context.Canceled
			if closes {
				want = ErrClosed
			}
			if n := d.calls.Load(); n != int64(last) || last < 6 && !errors.Is(err, want) {
				t.Errorf("closed %v in call %d: %d calls, %v", closes, last, n, err)
			}
			d.before = nil
			if closes {
				err = <-closed
			} else {
				_, err = drawEvents(t.Context(), m, DrawRequest{})
			}
			if err = errors.Join(err, c.Err()); err != nil {
				t.Errorf("closed %v in call %d, and then: %v", closes, last, err)
			}
		}
	}
}

// TestDrawLeft: a drawing whose loop is left is not drawn to its end.
func TestDrawLeft(t *testing.T) {
	d := &calling{}
	m, _, _ := onCard(t, modelstest.Diffusion{Seed: 3, Layout: "Euler", Width: 16, Height: 16}.Write, d.open, OpenOptions{})
	left := make(chan struct{})
	d.before = func(call int) {
		if call == 6 { // of the second step
			<-left
		}
	}
	for range m.Draw(t.Context(), DrawRequest{Steps: 100}) {
		close(left)
		break
	}
	if n := d.calls.Load(); n >= 2+2*100+1 {
		t.Errorf("%d calls", n)
	}
}

// TestDrawBytes: a prompt's states stay on the card, and a latent crosses the link once in a step
// in which the denoiser is asked twice.
func TestDrawBytes(t *testing.T) {
	const (
		latent  = 4 * 4 * 6 * 8
		ids     = 4 * 77
		picture = 4 * 3 * 64 * 48
	)
	for _, tt := range []struct {
		layout   string
		steps    int
		guidance float64
		want     int64
	}{
		{"LCM", 4, 0, ids + 4*(latent+4*24+latent) + latent + picture},
		{"Euler", 5, 0, 2*ids + 5*(latent+2*(4+latent)) + latent + picture},
		{"Euler", 5, 1, ids + 5*(latent+4+latent) + latent + picture},
		{"DPM++", 20, 0, 2*ids + 19*(latent+2*(4*24+latent)) + latent + picture}, // the last step changes nothing
	} {
		d := &calling{}
		m, _, _ := onCard(t, modelstest.Diffusion{Seed: 1, Layout: tt.layout}.Write, d.open, OpenOptions{})
		d.bytes.Store(0)
		if _, err := drawEvents(t.Context(), m, DrawRequest{Steps: tt.steps, Guidance: tt.guidance}); err != nil {
			t.Fatal(err)
		}
		if got := d.bytes.Load(); got != tt.want {
			t.Errorf("%s: %d bytes crossed the link, want %d", tt.layout, got, tt.want)
		}
	}
}

// TestDrawBelieves: where the card takes half the bytes that the file says, its numbers are half
// floats.
func TestDrawBelieves(t *testing.T) {
	e := modelstest.Diffusion{Seed: 1, Layout: "LCM"}
	m, _, _ := onCard(t, e.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		return halving{soft}, why, err
	}, OpenOptions{})
	r := DrawRequest{Prompt: "cat", Seed: 11, Steps: 2}
	all, err := drawEvents(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	e.States = axcl.FP16
	want, _ := wantedPicture(t, e, m, r)
	if far, _, _ := apart(all[2].Pixels, want); far > 1 {
		t.Errorf("%d of 255 from the oracle's", far)
	}
}

// halving is a card whose denoiser takes a prompt's states as half floats and calls them fp32.
type halving struct{ axcl.Device }

func (d halving) LoadNet(path string) (axcl.Net, error) {
	n, err := d.Device.LoadNet(path)
	return halvingNet{n}, err
}

type halvingNet struct{ axcl.Net }

const halved = "encoder_hidden_states"

func (n halvingNet) Inputs(group int) []axcl.Tensor {
	all := slices.Clone(n.Net.Inputs(group))
	for i := range all {
		if all[i].Name == halved {
			all[i].Size /= 2
		}
	}
	return all
}

func (n halvingNet) Run(group int, in, out map[string][]byte) error {
	if half := in[halved]; half != nil {
		var b []byte
		for i := 0; i < len(half); i += 2 {
			v := float16.Frombits(binary.LittleEndian.Uint16(half[i:])).Float32()
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		in = maps.Clone(in)
		in[halved] = b
	}
	return n.Net.Run(group, in, out)
}

// TestDrawPlanes: the encoder takes black as −1 and white as 1, in planes of red, green and blue.
func TestDrawPlanes(t *testing.T) {
	one := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	one.SetNRGBA(0, 0, color.NRGBA{255, 0, 128, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, one); err != nil {
		t.Fatal(err)
	}
	g := drawing{drawer: &drawer{p: &models.Diffusion{Width: 4, Height: 2}}, r: DrawRequest{Picture: file.Bytes()}}
	got, err := g.planes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, -1, 128/127.5 - 1} {
		for _, v := range got[8*i : 8*(i+1)] {
			if v != float32(want) {
				t.Fatalf("plane %d has %v, want %v", i, v, want)
			}
		}
	}
}

// TestDrawTogether: keys take turns, a picture each; sixty-four pictures to begin with wait without
// being decoded; and no more wait than may.
func TestDrawTogether(t *testing.T) {
	most := 63
	if lane.Race {
		most = 7
	}
	d := &calling{}
	m, c, _ := onCard(t, modelstest.Diffusion{Seed: 1, Layout: "LCM", Width: 32, Height: 16}.Write, d.open, OpenOptions{MaxQueue: most + 2})
	b := m.b.(*drawer)
	hold, held := make(chan struct{}), make(chan struct{})
	go func() { // nothing has a turn while this runs
		_ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
	}()
	<-held
	var all sync.WaitGroup
	var mu sync.Mutex
	var order []string
	picture, before := scene(3, 300, 200), decoding().line.Left()
	begin := func(key string, r DrawRequest, want error) {
		was := b.waiting.Load()
		all.Go(func() {
			r.Key, r.Steps = key, 1
			_, err := drawEvents(context.Background(), m, r)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", key, err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, key)
		})
		for b.waiting.Load() == was || int64(b.turns.Waiting()) < was {
			runtime.Gosched()
		}
	}
	for range most {
		begin("a", DrawRequest{Picture: picture}, nil)
	}
	begin("b", DrawRequest{Picture: picture}, nil)
	begin("c", DrawRequest{Picture: []byte("no picture")}, ErrRequest) // is not looked at before its turn
	if _, err := drawEvents(t.Context(), m, DrawRequest{}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	h, err := vision.Look(picture, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if left := decoding().line.Left(); left < before-h.Memory { // one picture, whose turn it is
		t.Errorf("%d bytes for pictures are left, and %d before", left, before)
	}
	close(hold)
	all.Wait()
	if at := slices.Index(order, "b"); at < 0 || at > 4 || len(order) != most+2 {
		t.Errorf("the second key's picture is number %d of %d", at, len(order))
	}
}

// TestReplicasDraw: on two cards a picture is drawn by one that can, and not by another once it has
// begun.
func TestReplicasDraw(t *testing.T) {
	gone := fmt.Errorf("%w: the link is down", axcl.ErrLost)
	for _, c := range []struct {
		name          string
		first, second painter
		want          int
		err           error
	}{
		{"the first is lost", painter{err: gone}, painter{steps: 2}, 2, nil},
		{"the first is lost on the way", painter{steps: 1, err: gone}, painter{steps: 2}, 1, nil},
		{"a mistake of the request", painter{err: ErrRequest}, painter{steps: 2}, 0, ErrRequest},
		{"both are lost", painter{err: gone}, painter{err: gone}, 0, axcl.ErrLost},
	} {
		all, err := drawEvents(t.Context(), New(Replicate(&c.first, &c.second), Options{Name: "hands"}), DrawRequest{})
		fewer := errors.As(err, new(*ask.FewerError))
		if len(all) != c.want || !fewer && !errors.Is(err, c.err) || fewer != (c.first.steps > 0) {
			t.Errorf("%s: %d events, %v", c.name, len(all), err)
		}
	}
}

// painter is a backend that draws in so many steps, and then fails.
type painter struct {
	named
	steps int
	err   error
}

func (p *painter) Draw(context.Context, DrawRequest) iter.Seq2[Drawing, error] {
	return func(yield func(Drawing, error) bool) {
		for i := range p.steps {
			if !yield(Drawing{Step: i + 1}, nil) {
				return
			}
		}
		if p.err != nil {
			yield(Drawing{}, p.err)
		}
	}
}

// calling is a card that counts the calls of nets, and the bytes that cross the link.
type calling struct {
	axcl.Device
	before       func(call int) // on the card's goroutine
	calls, bytes atomic.Int64
}

func (d *calling) open() (axcl.Device, string, error) {
	soft, why, err := softCard()
	d.Device = soft
	return d, why, err
}

func (d *calling) LoadNet(path string) (axcl.Net, error) {
	n, err := d.Device.LoadNet(path)
	return callingNet{n, d}, err
}

func (d *calling) NewBuffer(size int) (axcl.Buffer, error) {
	b, err := d.Device.NewBuffer(size)
	return callingBuffer{b, d}, err
}

type callingBuffer struct {
	axcl.Buffer
	d *calling
}

func (b callingBuffer) Write(at int, from []byte) error {
	b.d.bytes.Add(int64(len(from)))
	return b.Buffer.Write(at, from)
}

func (b callingBuffer) Read(at int, to []byte) error {
	b.d.bytes.Add(int64(len(to)))
	return b.Buffer.Read(at, to)
}

type callingNet struct {
	axcl.Net
	d *calling
}

func (n callingNet) Bind(group int, tensor string, b axcl.Buffer) error {
	if own, ok := b.(callingBuffer); ok {
		b = own.Buffer
	}
	return n.Net.Bind(group, tensor, b)
}

func (n callingNet) Run(group int, in, out map[string][]byte) error {
	call := n.d.calls.Add(1)
	if n.d.before != nil {
		n.d.before(int(call))
	}
	for _, side := range []map[string][]byte{in, out} {
		for _, b := range side {
			n.d.bytes.Add(int64(len(b)))
		}
	}
	return n.Net.Run(group, in, out)
}

// drawEvents is all events of a drawing.
func drawEvents(ctx context.Context, m *Model, r DrawRequest) (all []Drawing, err error) {
	for d, err := range m.Draw(ctx, r) {
		if err != nil {
			return all, err
		}
		all = append(all, d)
	}
	return all, nil
}

// apart is how far two pictures are from each other at the most, and the second's range.
func apart(got, want []byte) (far, low, high int) {
	if len(got) != len(want) {
		return 256, 0, 255
	}
	for i, v := range want {
		far = max(far, int(v)-int(got[i]), int(got[i])-int(v))
	}
	return far, int(slices.Min(want)), int(slices.Max(want))
}

// wantedPicture is what the oracle draws, and in how many steps.
func wantedPicture(t *testing.T, e modelstest.Diffusion, m *Model, r DrawRequest) (pix []byte, steps int) {
	t.Helper()
	p := m.b.(*drawer).p
	ids := func(text string) []int32 {
		ids, _, err := p.Tokenizer.Window(t.Context(), text, 77, p.Tokenizer.Suffix()[0])
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	noise := diffusion.NewNoise(r.Seed)
	d := modelstest.Drawn{Prompt: ids(r.Prompt), Negative: ids(r.Negative), Guidance: r.Guidance, Steps: r.Steps}
	d.Noise = func() []float32 {
		v := make([]float32, p.Width*p.Height/16)
		noise.Fill(v)
		return v
	}
	if d.Guidance == 0 {
		d.Guidance = map[string]float64{"DPM++": 7, "Euler": 7.5}[e.Layout]
	}
	if d.Steps == 0 {
		d.Steps = map[string]int{"LCM": 4, "DPM++": 20, "Euler": 30}[e.Layout]
	}
	steps = d.Steps
	if r.Picture != nil {
		whole, err := vision.Decode(r.Picture, vision.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		d.Picture = whole.Fill(p.Width, p.Height).Pix
		d.Tail = map[string]int{"LCM 0.7": 3, "LCM 0": 2, "Euler 0.5": 3}[fmt.Sprint(e.Layout, " ", r.Strength)]
		steps = d.Tail
	}
	return e.Oracle(d), steps
}
