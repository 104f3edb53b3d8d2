package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
)

// TestCLIP: vectors of texts and of pictures of several forms are those of the nets, computed in
// float64, in each family, alone and mixed in one request.
func TestCLIP(t *testing.T) {
	lane.NoRace(t)
	testCLIP(t, softCard)
}

func testCLIP(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, c := range []struct {
		e      modelstest.CLIP
		filter vision.Filter
		texts  []string
		ids    [][]int32 // with what stands around a text
		pad    int32
	}{
		{modelstest.CLIP{Seed: 1, Layout: "CLIP"}, vision.Bilinear, []string{"A  Cat", "do", ""},
			[][]int32{{515, 320, 513, 516}, {515, 67, 334, 516}, {515, 516}}, 0},
		{modelstest.CLIP{Seed: 2, Layout: "CN-CLIP", Bytes: true}, vision.Bilinear, []string{"一只猫", "A cats", ""},
			[][]int32{{101, 105, 106, 107, 102}, {101, 112, 110, 111, 102}, {101, 102}}, 0},
		{modelstest.CLIP{Seed: 3, Layout: "jina", Side: 48}, vision.Lanczos, []string{"a cat", "dogs", ""},
			[][]int32{{0, 4, 5, 2}, {0, 6, 7, 2}, {0, 2}}, 1},
		{modelstest.CLIP{Seed: 4, Layout: "SigLIP2"}, vision.Bilinear, []string{"A cat", "Do", ""},
			[][]int32{{5, 4, 7, 5, 24, 1}, {8, 19, 1}, {1}}, 0},
	} {
		t.Run(c.e.Layout, func(t *testing.T) {
			m, _, _ := onCard(t, c.e.Write, open, OpenOptions{})
			if i := m.Info(); !i.Embedding || !i.Capabilities.Vision || i.Hidden != 24 || i.Context != c.e.Length() ||
				i.CardBytes <= 0 {
				t.Errorf("%+v", i)
			}
			r := EmbedRequest{Truncate: true}
			var want [][]float64
			for i, text := range c.texts {
				r.Input, r.Pictures = append(r.Input, text), append(r.Pictures, nil)
				want = append(want, c.e.OracleText(filled(c.ids[i], c.e.Length(), c.pad)))
			}
			r.Input, r.Pictures = append(r.Input, strings.Repeat("cat ", 400)), append(r.Pictures, nil)
			want = append(want, nil) // cut; its vector is another
			for i, size := range [][2]int{{max(c.e.Side, 32), max(c.e.Side, 32)}, {300, 100}, {20, 71}} {
				file := scene(uint64(i), size[0], size[1])
				r.Input, r.Pictures = append(r.Input, ""), append(r.Pictures, file)
				want = append(want, c.e.OraclePicture(stretched(t, file, max(c.e.Side, 32), c.filter)))
			}
			got, err := m.Embed(t.Context(), r)
			if err != nil || len(got.Vectors) != len(want) || len(got.Cuts) != 1 || got.Cuts[0].Kept != c.e.Length() {
				t.Fatalf("%d vectors, cuts %+v: %v", len(got.Vectors), got.Cuts, err)
			}
			raw := r
			raw.Raw, raw.Dimensions = true, 10
			long, err := m.Embed(t.Context(), raw)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range want {
				if w == nil {
					continue
				}
				if cos, n := cosine64(got.Vectors[i], w), length64(got.Vectors[i]); !(cos > 0.9999) || math.Abs(n-1) > 1e-5 {
					t.Errorf("input %d: cosine %.6f, length %g", i, cos, n)
				}
				if cos, n := cosine64(long.Vectors[i], w[:10]), length64(long.Vectors[i]); len(long.Vectors[i]) != 10 || !(cos > 0.9999) ||
					math.Abs(n/math.Sqrt(dot64(w[:10], w[:10]))-1) > 0.02 {
					t.Errorf("input %d, not normalised: cosine %.6f, length %g", i, cos, n)
				}
			}
			if cos := cosine64(got.Vectors[0], want[5]); cos > 0.99 {
				t.Errorf("a text's vector is a picture's: %.4f", cos)
			}
			if n := m.Stats().Passes["encode"]; n != uint64(2*len(want)) {
				t.Errorf("%d calls", n)
			}
			last := len(r.Input) - 1
			turned, err := m.Embed(t.Context(), EmbedRequest{Input: []string{"", r.Input[0]}, Pictures: [][]byte{r.Pictures[last], nil}})
			if err != nil || !slices.Equal(turned.Vectors[0], got.Vectors[last]) || !slices.Equal(turned.Vectors[1], got.Vectors[0]) {
				t.Errorf("a picture before a text: %v", err)
			}
		})
	}
}

// TestCLIPRefused: what cannot be done is said, and loses nothing.
func TestCLIPRefused(t *testing.T) {
	t.Parallel()
	var d *nonsense
	m, c, _ := onCard(t, modelstest.CLIP{Seed: 1, Layout: "CLIP"}.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d = &nonsense{Device: soft}
		return d, why, err
	}, OpenOptions{})
	only := func(part string) *Model {
		e := modelstest.CLIP{Seed: 1, Layout: "Immich", Only: part, Side: 192, Dims: 512}
		m, _, _ := onCard(t, e.Write, softCard, OpenOptions{})
		return m
	}
	words, eyes := only("text"), only("picture")
	texts, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	good := scene(1, 32, 32)
	show := func(files ...[]byte) EmbedRequest {
		return EmbedRequest{Input: make([]string, len(files)), Pictures: files}
	}
	say := func(text string) EmbedRequest { return EmbedRequest{Input: []string{text}} }
	failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
	var long *ContextError
	for _, tt := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    EmbedRequest
		fail error
		put  float64
		want error
		says string
	}{
		{"both", t.Context(), m, EmbedRequest{Input: []string{"cat"}, Pictures: [][]byte{good}}, nil, 0, ErrRequest,
			"a picture and a text"},
		{"no picture", t.Context(), m, show([]byte("x")), nil, 0, ErrRequest, "the picture cannot be read: no picture"},
		{"an empty file", t.Context(), m, show([]byte{}), nil, 0, ErrRequest, "the picture cannot be read"},
		{"half a picture", t.Context(), m, show(good[:len(good)/2]), nil, 0, ErrRequest, "the picture cannot be read"},
		{"too few pictures", t.Context(), m, EmbedRequest{Input: []string{"", ""}, Pictures: [][]byte{good}}, nil, 0, ErrRequest,
			"1 pictures for 2"},
		{"dimensions", t.Context(), m, EmbedRequest{Input: []string{""}, Pictures: [][]byte{good}, Dimensions: 25}, nil, 0, ErrRequest,
			"0 and 24"},
		{"a picture for texts", t.Context(), words, show(good), nil, 0, ErrUnsupported, "its package has no encoder of a picture"},
		{"a text for pictures", t.Context(), eyes, say("cat"), nil, 0, ErrUnsupported, "its package has no encoder of a text"},
		{"a text beside one", t.Context(), eyes, EmbedRequest{Input: []string{"", "x"}, Pictures: [][]byte{good, nil}}, nil, 0,
			ErrUnsupported,
			"no encoder of a text"},
		{"a model of texts", t.Context(), texts, show(good), nil, 0, ErrUnsupported, "gives no vectors of pictures"},
		{"a caller that left", ended, m, show(good), nil, 0, context.Canceled, ""},
		{"a call that fails", t.Context(), m, show(good), failed, 0, failed, ""},
		{"a text's call that fails", t.Context(), m, say("cat"), failed, 0, failed, ""},
		{"NaN", t.Context(), m, show(good), nil, math.NaN(), ErrNonsense, ""},
		{"an infinity", t.Context(), m, say("cat"), nil, math.Inf(1), ErrNonsense, ""},
	} {
		if d.put.Store(math.Float32bits(float32(tt.put))); tt.fail != nil {
			fail := func() error { return tt.fail }
			d.fail.Store(&fail)
		}
		_, err := tt.m.Embed(tt.ctx, tt.r)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		d.fail.Store(nil)
	}
	d.put.Store(0)
	if _, err := m.Embed(t.Context(), say(strings.Repeat("cat ", 100))); !errors.As(err, &long) || long.Max != 77 {
		t.Errorf("too long, and not to be cut: %v", err)
	}
	for _, part := range []*Model{words, eyes, m} {
		if _, _, err := collect(part.Generate(t.Context(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
			t.Errorf("it writes: %v", err)
		}
	}
	if eyes.Info().Context != 0 || words.Info().Capabilities.Vision || !eyes.Info().Capabilities.Vision {
		t.Errorf("%+v, %+v", eyes.Info(), words.Info())
	}
	for _, r := range []struct {
		m *Model
		r EmbedRequest
	}{{m, show(good)}, {m, say("cat")}, {words, say("cat")}, {eyes, show(good, good)}} {
		if _, err := r.m.Embed(t.Context(), r.r); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	gone := func() error { return fmt.Errorf("%w: the link is down", axcl.ErrLost) }
	d.fail.Store(&gone)
	if _, err := m.Embed(t.Context(), show(good)); !errors.Is(err, axcl.ErrLost) || c.Err() == nil {
		t.Errorf("a lost card: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Log(err) // the lost card's
	}
	if _, err := m.Embed(t.Context(), show(good)); err == nil {
		t.Error("it answers, closed")
	}
}

// TestCLIPTogether: 64 pictures of several keys at once have the vectors that each has alone, and
// beside the few that are made ready none is decoded.
func TestCLIPTogether(t *testing.T) {
	t.Parallel()
	lane.NoRace(t)
	e := modelstest.CLIP{Seed: 1, Layout: "CLIP"}
	m, c, _ := onCard(t, e.Write, softCard, OpenOptions{MaxQueue: 64})
	hold, held := make(chan struct{}), make(chan struct{})
	go func() { // nothing has a turn while this runs
		_ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
	}()
	<-held
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			file := scene(uint64(i), 40, 30)
			got, err := m.Embed(context.Background(), EmbedRequest{Input: []string{""}, Pictures: [][]byte{file}, Key: fmt.Sprint(i % 5)})
			if err != nil || !(cosine64(got.Vectors[0], e.OraclePicture(stretched(t, file, 32, vision.Bilinear))) > 0.9999) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	b := m.b.(*clip)
	for b.waiting.Load() < 64 || b.picture.line.Waiting() < clipAhead || b.turns.Waiting() < 64-clipAhead {
		runtime.Gosched()
	}
	if n := b.picture.line.Waiting(); n > clipAhead {
		t.Errorf("%d pictures are decoded", n)
	}
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: []string{"x"}}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	close(hold)
	all.Wait()
}

// TestReplicasPictures: several cards share pictures, and one takes over for a lost one.
func TestReplicasPictures(t *testing.T) {
	gone := fmt.Errorf("%w: the link is down", axcl.ErrLost)
	for _, c := range []struct {
		name          string
		first, second looker
		err           error
	}{
		{"both", looker{}, looker{}, nil},
		{"the first is lost", looker{err: gone}, looker{}, nil},
		{"a mistake of the request", looker{err: ErrRequest}, looker{}, ErrRequest},
		{"both are lost", looker{err: gone}, looker{err: gone}, axcl.ErrLost},
	} {
		m := New(Replicate(&c.first, &c.second), Options{Name: "eyes"})
		got, err := m.Embed(t.Context(), EmbedRequest{Input: make([]string, 5), Pictures: [][]byte{{1}, {2}, {3}, {4}, {5}}, Raw: true})
		var seen []float32
		for _, v := range got.Vectors {
			seen = append(seen, v...)
		}
		if !errors.Is(err, c.err) || err == nil && !slices.Equal(seen, []float32{1, 2, 3, 4, 5}) {
			t.Errorf("%s: %v, %v", c.name, seen, err)
		}
	}
}

// looker is a backend whose vectors are the pictures' first bytes, or that fails.
type looker struct {
	named
	err error
}

func (e *looker) EmbedPictures(_ context.Context, pictures [][]byte, _ []string, _ string) (all [][]float32, err error) {
	for _, p := range pictures {
		all = append(all, []float32{float32(p[0])})
	}
	return all, e.err
}

// filled is ids, filled up to n.
func filled(ids []int32, n int, pad int32) []int32 {
	return append(slices.Clone(ids), slices.Repeat([]int32{pad}, n-len(ids))...)
}

// stretched is the pixels of a picture as a square.
func stretched(t *testing.T, file []byte, side int, by vision.Filter) []byte {
	t.Helper()
	p, err := vision.Decode(file, vision.Limits{})
	if err != nil {
		t.Error(err)
		return make([]byte, 3*side*side)
	}
	return p.ResizeBy(side, side, by).Pix
}

func dot64(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func wide(v []float32) (w []float64) {
	for _, x := range v {
		w = append(w, float64(x))
	}
	return w
}

func length64(v []float32) float64 { return math.Sqrt(dot64(wide(v), wide(v))) }

func cosine64(v []float32, w []float64) float64 {
	return dot64(wide(v), w) / length64(v) / math.Sqrt(dot64(w, w))
}
