package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/detect"
)

// TestDetector: what is found in pictures of several forms is what the net's outputs say, computed
// in float64, in each layout.
func TestDetector(t *testing.T) { testDetector(t, softCard) }

func testDetector(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, e := range []modelstest.Detector{{Seed: 1, Layout: "heads"}, {Seed: 2, Layout: "numbers", Width: 192, Classes: 5},
		{Seed: 5, Layout: "boxes", Height: 224, Classes: 3, Floats: true}} {
		t.Run(e.Layout, func(t *testing.T) {
			m, _, _ := onCard(t, e.Write, open, OpenOptions{})
			if i := m.Info(); !i.Capabilities.Detection || i.CardBytes <= 0 {
				t.Errorf("%+v", i)
			}
			all := 0
			for i, size := range [][2]int{{max(e.Width, 160), max(e.Height, 160)}, {300, 100}, {70, 200}} {
				picture := scene(uint64(i), size[0], size[1])
				got, err := m.Detect(t.Context(), DetectRequest{Picture: picture, Least: 0.3})
				want := wantedBoxes(t, e, m.b.(*detector).p.Labels, picture, 0.3)
				if all += len(want); err != nil || !slices.EqualFunc(got, want, func(a, b Detection) bool {
					return a.Label == b.Label && math.Abs(a.Confidence-b.Confidence) < 1e-3 && math.Abs(a.X0-b.X0) < 0.1 &&
						math.Abs(a.Y0-b.Y0) < 0.1 && math.Abs(a.X1-b.X1) < 0.1 && math.Abs(a.Y1-b.Y1) < 0.1
				}) {
					t.Errorf("%v: %v\n got %.1000v\nwant %.1000v", size, err, fmt.Sprint(got), fmt.Sprint(want))
				}
				for _, d := range got {
					if d.X0 < 0 || d.Y0 < 0 || d.X1 > float64(size[0]) || d.Y1 > float64(size[1]) {
						t.Errorf("%+v is beside the picture of %v", d, size)
					}
				}
			}
			if all < 10 {
				t.Errorf("only %d things in all pictures", all)
			}
			if n := m.Stats().Passes["detect"]; n != 3 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestDetectRefused: what cannot be done is said, and loses nothing.
func TestDetectRefused(t *testing.T) {
	var d *nonsense
	m, c, _ := onCard(t, modelstest.Detector{Seed: 1, Layout: "heads"}.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d = &nonsense{Device: soft}
		return d, why, err
	}, OpenOptions{})
	text, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	good := scene(1, 160, 160)
	failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    DetectRequest
		fail error
		put  float64
		want error
		says string
	}{
		{"no picture", t.Context(), m, DetectRequest{Picture: []byte("x")}, nil, 0, ErrRequest, "the picture cannot be read: no picture"},
		{"half a picture", t.Context(), m, DetectRequest{Picture: good[:len(good)/2]}, nil, 0, ErrRequest, "the picture cannot be read"},
		{"a confidence of 2", t.Context(), m, DetectRequest{Picture: good, Least: 2}, nil, 0, ErrRequest, "between 0 and 1, not 2"},
		{"none", t.Context(), m, DetectRequest{Picture: good, Least: math.NaN()}, nil, 0, ErrRequest, "between 0 and 1, not NaN"},
		{"a model of texts", t.Context(), text, DetectRequest{Picture: good}, nil, 0, ErrUnsupported, "does not find things"},
		{"a caller that left", ended, m, DetectRequest{Picture: good}, nil, 0, context.Canceled, ""},
		{"a call that fails", t.Context(), m, DetectRequest{Picture: good}, failed, 0, failed, ""},
		{"NaN", t.Context(), m, DetectRequest{Picture: good}, nil, math.NaN(), detect.ErrNonsense, ""},
	} {
		if d.put.Store(math.Float32bits(float32(tt.put))); tt.fail != nil {
			fail := func() error { return tt.fail }
			d.fail.Store(&fail)
		}
		_, err := tt.m.Detect(tt.ctx, tt.r)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		d.fail.Store(nil)
	}
	d.put.Store(0)
	if _, _, err := collect(m.Generate(t.Context(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a detector writes: %v", err)
	}
	if _, err := m.Detect(t.Context(), DetectRequest{Picture: good}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	gone := func() error { return fmt.Errorf("%w: the link is down", axcl.ErrLost) }
	d.fail.Store(&gone)
	if _, err := m.Detect(t.Context(), DetectRequest{Picture: good}); !errors.Is(err, axcl.ErrLost) || c.Err() == nil {
		t.Errorf("a lost card: %v", err)
	}
	d.fail.Store(nil)
	if _, err := m.Detect(t.Context(), DetectRequest{Picture: []byte("no picture")}); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("a picture is read for a card that is lost: %v", err)
	}
	if n := m.b.(*detector).waiting.Load(); n != 0 {
		t.Errorf("%d requests that were answered count as waiting", n)
	}
}

// TestDetectTogether: pictures of several keys at once are looked at as each alone, and no more
// wait than may.
func TestDetectTogether(t *testing.T) {
	e := modelstest.Detector{Seed: 1, Layout: "heads"}
	m, c, _ := onCard(t, e.Write, softCard, OpenOptions{MaxQueue: 12})
	hold, held := make(chan struct{}), make(chan struct{})
	go func() { // nothing has a turn while this runs
		_ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
	}()
	<-held
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			picture := scene(uint64(i), 160, 160)
			got, err := m.Detect(context.Background(), DetectRequest{Picture: picture, Least: 0.3, Key: fmt.Sprint(i % 3)})
			if want := wantedBoxes(t, e, m.b.(*detector).p.Labels, picture, 0.3); err != nil || len(got) != len(want) {
				t.Errorf("%d: %d things, %v; want %d", i, len(got), err, len(want))
			}
		})
	}
	for b := m.b.(*detector); b.waiting.Load() < 12; {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Detect(t.Context(), DetectRequest{Picture: scene(0, 160, 160)}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	close(hold)
	all.Wait()
}

// TestDetectMemory: beside those that wait for the card no picture is read.
func TestDetectMemory(t *testing.T) {
	m, c, _ := onCard(t, modelstest.Detector{Seed: 1, Layout: "heads"}.Write, softCard, OpenOptions{})
	hold, held := make(chan struct{}), make(chan struct{})
	go func() { _ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil }) }()
	<-held
	var all sync.WaitGroup
	b := m.b.(*detector)
	for range detectAhead {
		all.Go(func() {
			if _, err := m.Detect(context.Background(), DetectRequest{Picture: scene(1, 160, 160)}); err != nil {
				t.Error(err)
			}
		})
	}
	for b.nets[0].line.Waiting() < detectAhead {
		runtime.Gosched()
	}
	refused := make(chan error, 1)
	go func() {
		_, err := m.Detect(context.Background(), DetectRequest{Picture: []byte("no picture")})
		refused <- err
	}()
	for b.turns.Waiting() == 0 && len(refused) == 0 {
		runtime.Gosched()
	}
	if len(refused) > 0 {
		t.Error("it was read")
	}
	close(hold)
	all.Wait()
	if err := <-refused; !errors.Is(err, ErrRequest) {
		t.Errorf("in its turn: %v", err)
	}
}

// TestReplicasDetect: on two cards a picture is looked at by one that can.
func TestReplicasDetect(t *testing.T) {
	gone := fmt.Errorf("%w: the link is down", axcl.ErrLost)
	for _, c := range []struct {
		name          string
		first, second watcher
		want          string
		err           error
	}{
		{"both", watcher{says: "cat"}, watcher{says: "dog"}, "cat", nil},
		{"the first is lost", watcher{err: gone}, watcher{says: "dog"}, "dog", nil},
		{"the first is full", watcher{err: ErrBusy}, watcher{says: "dog"}, "dog", nil},
		{"a mistake of the request", watcher{err: ErrRequest}, watcher{says: "dog"}, "", ErrRequest},
		{"both are lost", watcher{err: gone}, watcher{err: gone}, "", axcl.ErrLost},
	} {
		got, err := New(Replicate(&c.first, &c.second), Options{Name: "eyes"}).Detect(t.Context(), DetectRequest{})
		said := ""
		for _, d := range got {
			said += d.Label
		}
		if said != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, said, err)
		}
	}
}

// watcher is a backend that sees one thing, or fails.
type watcher struct {
	named
	says string
	err  error
}

func (e *watcher) Detect(context.Context, DetectRequest) ([]Detection, error) {
	return []Detection{{Label: e.says}}, e.err
}

// scene is a picture of flat rectangles and noise, as a png.
func scene(seed uint64, width, height int) []byte {
	rng := rand.New(rand.NewPCG(seed, 37))
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for range 12 {
		x, y := rng.IntN(width), rng.IntN(height)
		r, g, b := byte(rng.IntN(256)), byte(rng.IntN(256)), byte(rng.IntN(256))
		for dy := range 1 + rng.IntN(height-y) {
			for dx := range 1 + rng.IntN(width-x) {
				m.SetNRGBA(x+dx, y+dy, color.NRGBA{r ^ byte(rng.IntN(16)), g, b ^ byte(rng.IntN(64)), 255})
			}
		}
	}
	var out bytes.Buffer
	_ = png.Encode(&out, m)
	return out.Bytes()
}

// wantedBoxes is what is in a picture, by the outputs that the oracle gives.
func wantedBoxes(t *testing.T, e modelstest.Detector, labels []string, picture []byte, least float64) (want []Detection) {
	t.Helper()
	p, err := vision.Decode(picture, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	width, height, classes := max(e.Width, 160), max(e.Height, 160), cmp.Or(e.Classes, 80)
	boxed, _ := p.Letterbox(width, height, 114)
	pix := bytes.Clone(boxed.Pix)
	for i := 0; i < len(pix); i += 3 { // blue first
		pix[i], pix[i+2] = pix[i+2], pix[i]
	}
	e.Layout = "boxes"
	table := e.Oracle(pix)[0]
	type box struct {
		Detection
		class int
	}
	var all []box
	for i := 0; i < len(table); i += 4 + classes {
		row := table[i : i+4+classes]
		b := box{Detection{Confidence: slices.Max(row[4:]), X0: row[0] - row[2]/2, Y0: row[1] - row[3]/2, X1: row[0] + row[2]/2,
			Y1: row[1] + row[3]/2}, 0}
		if b.class = slices.Index(row[4:], b.Confidence); b.Confidence >= least {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b box) int { return cmp.Compare(b.Confidence, a.Confidence) })
	scale := min(float64(width)/float64(p.Width), float64(height)/float64(p.Height))
	left, top := math.Floor((float64(width)-math.Round(float64(p.Width)*scale))/2), math.Floor((float64(height)-
		math.Round(float64(p.Height)*scale))/2)
	var kept []box
	for _, b := range all {
		if slices.ContainsFunc(kept, func(k box) bool {
			w, h := min(k.X1, b.X1)-max(k.X0, b.X0), min(k.Y1, b.Y1)-max(k.Y0, b.Y0)
			both := max(w, 0) * max(h, 0)
			return k.class == b.class && both > 0.45*((k.X1-k.X0)*(k.Y1-k.Y0)+(b.X1-b.X0)*(b.Y1-b.Y0)-both)
		}) {
			continue
		}
		kept = append(kept, b)
		d := b.Detection
		d.Label = labels[b.class]
		for _, v := range []struct {
			at         *float64
			off, scale float64
			most       int
		}{{&d.X0, left, math.Round(float64(p.Width)*scale) / float64(p.Width), p.Width},
			{&d.X1, left, math.Round(float64(p.Width)*scale) / float64(p.Width), p.Width},
			{&d.Y0, top, math.Round(float64(p.Height)*scale) / float64(p.Height), p.Height},
			{&d.Y1, top, math.Round(float64(p.Height)*scale) / float64(p.Height), p.Height}} {
			*v.at = min(max((*v.at-v.off)/v.scale, 0), float64(v.most))
		}
		if d.X1 > d.X0 && d.Y1 > d.Y0 {
			want = append(want, d)
		}
	}
	return want
}
