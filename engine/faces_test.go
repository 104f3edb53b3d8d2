package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/detect"
)

// TestFaces: the faces in pictures of several forms, with their points and vectors, are what the
// nets' outputs say, computed in float64, in both layouts, and with blue first.
func TestFaces(t *testing.T) { testFaces(t, softCard) }

func testFaces(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, c := range []struct {
		modelstest.Faces
		first string // colour
	}{{modelstest.Faces{Seed: 1, Layout: "rows"}, "rgb"}, {modelstest.Faces{Seed: 2, Layout: "maps", Width: 192}, "bgr"}} {
		e := c.Faces
		t.Run(e.Layout, func(t *testing.T) {
			m, _, _ := onCard(t, func(dir string) error {
				said := []byte(`{"input_pixel_format":"` + c.first + `"}`)
				return errors.Join(e.Write(dir), os.WriteFile(filepath.Join(dir, "config.json"), said, 0o644))
			}, open, OpenOptions{})
			if i := m.Info(); !i.Capabilities.Faces || i.CardBytes <= 0 {
				t.Errorf("%+v", i)
			}
			all := 0
			for i, size := range [][2]int{{max(e.Width, 160), 160}, {300, 100}, {70, 200}} {
				picture := scene(uint64(i), size[0], size[1])
				got, err := m.Faces(t.Context(), FaceRequest{Picture: picture, Least: 0.6})
				want := wantedFaces(t, e, c.first == "bgr", picture, 0.6)
				if all += len(want); err != nil || !slices.EqualFunc(got, want, sameFace) {
					t.Errorf("%v: %v: %d faces, want %d\n got %.600v\nwant %.600v", size, err, len(got), len(want), fmt.Sprint(got),
						fmt.Sprint(want))
				}
			}
			if all < 4 {
				t.Errorf("only %d faces in all pictures", all)
			}
			if n := m.Stats().Passes["faces"]; int(n) != 3+all {
				t.Errorf("%d calls for %d faces in 3 pictures", n, all)
			}
		})
	}
}

// sameFace reports whether two faces are equal but for rounding: a byte of the upright face may
// differ by one level.
func sameFace(a, b Face) bool {
	near := func(x, y, off float64) bool { return math.Abs(x-y) < off }
	if !near(a.Score, b.Score, 1e-3) || !near(a.X0, b.X0, 0.1) || !near(a.Y0, b.Y0, 0.1) || !near(a.X1, b.X1, 0.1) ||
		!near(a.Y1, b.Y1, 0.1) {
		return false
	}
	for i := range a.Points {
		if !near(a.Points[i][0], b.Points[i][0], 0.1) || !near(a.Points[i][1], b.Points[i][1], 0.1) {
			return false
		}
	}
	var ab, aa, bb float64
	for i := range a.Vector {
		x, y := float64(a.Vector[i]), float64(b.Vector[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return len(a.Vector) == 512 && len(b.Vector) == 512 && ab/math.Sqrt(aa*bb) > 0.9999
}

// TestFacesRefused: what cannot be done is said, and loses nothing.
func TestFacesRefused(t *testing.T) {
	e := modelstest.Faces{Seed: 1, Layout: "rows"}
	var d *nonsense
	m, c, _ := onCard(t, e.Write, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d = &nonsense{Device: soft}
		return d, why, err
	}, OpenOptions{MaxQueue: 1})
	text, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	good := scene(1, 160, 160)
	failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    FaceRequest
		fail func() error
		put  float64
		want error
		says string
	}{
		{"no picture", t.Context(), m, FaceRequest{Picture: []byte("x")}, nil, 0, ErrRequest, "the picture cannot be read: no picture"},
		{"half a picture", t.Context(), m, FaceRequest{Picture: good[:len(good)/2]}, nil, 0, ErrRequest, "the picture cannot be read"},
		{"a score of 2", t.Context(), m, FaceRequest{Picture: good, Least: 2}, nil, 0, ErrRequest, "between 0 and 1, not 2"},
		{"a model of texts", t.Context(), text, FaceRequest{Picture: good}, nil, 0, ErrUnsupported, "does not find faces"},
		{"a caller that left", ended, m, FaceRequest{Picture: good}, nil, 0, context.Canceled, ""},
		{"a call that fails", t.Context(), m, FaceRequest{Picture: good}, func() error { return failed }, 0, failed, ""},
		{"a later call that fails", t.Context(), m, FaceRequest{Picture: good, Least: 0.6}, after(1, failed), 0, failed, ""},
		{"NaN", t.Context(), m, FaceRequest{Picture: good}, nil, math.NaN(), detect.ErrNonsense, ""},
	} {
		if d.put.Store(math.Float32bits(float32(tt.put))); tt.fail != nil {
			d.fail.Store(&tt.fail)
		}
		if _, err := tt.m.Faces(tt.ctx, tt.r); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		d.fail.Store(nil)
	}
	d.put.Store(0)
	b := m.b.(*faces)
	leave, err := b.waiting.enter()
	if err != nil {
		t.Fatalf("a request that failed counts as one that waits: %v", err)
	}
	if _, err := m.Faces(t.Context(), FaceRequest{Picture: good}); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	leave()
	if got, err := m.Faces(t.Context(), FaceRequest{Picture: good, Least: 0.6}); err != nil || len(got) == 0 {
		t.Errorf("afterwards: %d faces, %v", len(got), err)
	}
	// With 0 every anchor is a face, and the surest 128 are told.
	if got, err := m.Faces(t.Context(), FaceRequest{Picture: scene(5, 160, 160)}); err != nil || len(got) != 128 {
		t.Errorf("%d faces of all anchors, %v", len(got), err)
	}
	if _, err := m.Detect(t.Context(), DetectRequest{Picture: good}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("things: %v", err)
	}
	gone := after(1, fmt.Errorf("%w: the link is down", axcl.ErrLost))
	d.fail.Store(&gone)
	if _, err := m.Faces(t.Context(), FaceRequest{Picture: good, Least: 0.6}); !errors.Is(err, axcl.ErrLost) || c.Err() == nil {
		t.Errorf("a card that is lost between two calls: %v", err)
	}
	d.fail.Store(nil)
	if _, err := m.Faces(t.Context(), FaceRequest{Picture: []byte("no picture")}); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("on a lost card: %v", err)
	}
}

// after fails each call but the first n.
func after(n int64, err error) func() error {
	var calls atomic.Int64
	return func() error {
		if calls.Add(1) > n {
			return err
		}
		return nil
	}
}

// TestReplicasFaces: on two cards a picture is looked at by one that can.
func TestReplicasFaces(t *testing.T) {
	first, second := watcher{err: fmt.Errorf("%w: gone", axcl.ErrLost)}, watcher{says: "x"}
	got, err := New(Replicate(&first, &second), Options{Name: "faces"}).Faces(t.Context(), FaceRequest{})
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	first.err, second.err = ErrRequest, nil
	if _, err := New(Replicate(&first, &second), Options{Name: "faces"}).Faces(t.Context(), FaceRequest{}); !errors.Is(err, ErrRequest) {
		t.Errorf("a mistake of the request: %v", err)
	}
}

func (e *watcher) Faces(context.Context, FaceRequest) ([]Face, error) {
	return []Face{{Score: float64(len(e.says))}}, e.err
}

// wantedFaces is what faces are in a picture, by what the nets give in float64.
func wantedFaces(t *testing.T, e modelstest.Faces, blueFirst bool, picture []byte, least float64) (want []Face) {
	t.Helper()
	p, err := vision.Decode(picture, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	width, height := max(e.Width, 160), max(e.Height, 160)
	boxed, _ := p.Letterbox(width, height, 0)
	scale := min(float64(width)/float64(p.Width), float64(height)/float64(p.Height))
	w, h := math.Round(float64(p.Width)*scale), math.Round(float64(p.Height)*scale)
	left, top := math.Floor((float64(width)-w)/2), math.Floor((float64(height)-h)/2)
	var found []Face
	given := func(p *vision.Picture) []byte { // to a net
		pix := slices.Clone(p.Pix)
		for i := 0; blueFirst && i < len(pix); i += 3 {
			pix[i], pix[i+2] = pix[i+2], pix[i]
		}
		return pix
	}
	for _, a := range e.Found(given(boxed)) {
		if a.Score < least {
			continue
		}
		s := float64(a.Stride)
		x, y := float64(a.Column)*s, float64(a.Row)*s
		f := Face{Score: a.Score, X0: x - s*a.Far[0], Y0: y - s*a.Far[1], X1: x + s*a.Far[2], Y1: y + s*a.Far[3]}
		for i, q := range a.Points {
			f.Points[i] = [2]float64{x + s*q[0], y + s*q[1]}
		}
		if f.X1 > f.X0 && f.Y1 > f.Y0 {
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Face) int { return cmp.Compare(b.Score, a.Score) })
	var kept []Face
	for _, f := range found {
		if slices.ContainsFunc(kept, func(k Face) bool {
			both := max(min(f.X1, k.X1)-max(f.X0, k.X0), 0) * max(min(f.Y1, k.Y1)-max(f.Y0, k.Y0), 0)
			return both > 0.4*((f.X1-f.X0)*(f.Y1-f.Y0)+(k.X1-k.X0)*(k.Y1-k.Y0)-both)
		}) {
			continue
		}
		kept = append(kept, f)
		for i := range f.Points {
			f.Points[i][0] = (f.Points[i][0] - left) * float64(p.Width) / w
			f.Points[i][1] = (f.Points[i][1] - top) * float64(p.Height) / h
		}
		into := func(v, off, of, by float64) float64 { return min(max((v-off)*of/by, 0), of) }
		pw, ph := float64(p.Width), float64(p.Height)
		f.X0, f.X1 = into(f.X0, left, pw, w), into(f.X1, left, pw, w)
		f.Y0, f.Y1 = into(f.Y0, top, ph, h), into(f.Y1, top, ph, h)
		if f.X1 <= f.X0 || f.Y1 <= f.Y0 {
			continue
		}
		turn, ok := vision.Align(f.Points[:], [][2]float64{{38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366},
			{41.5493, 92.3655}, {70.7299, 92.2041}})
		if !ok {
			t.Fatal(f.Points)
		}
		for _, v := range e.Vector(given(p.Aligned(turn, 112, 112))) {
			f.Vector = append(f.Vector, float32(v))
		}
		want = append(want, f)
	}
	return want
}
