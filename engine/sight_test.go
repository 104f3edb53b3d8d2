package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/vision"
)

// TestSight: a model that sees gives the tokens of the same rows, positions and additions put in by hand; another picture, or another
// order, gives other tokens.
func TestSight(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	a, c := shot(1), shot(2)
	said := map[string]bool{}
	for i, job := range []Job{
		asks(12, 5, 6, a, 7, 8), asks(12, 5, 6, c, 7, 8), asks(12, a, 7), asks(12, 5, a, 9, c, 7), asks(12, 5, c, 9, a, 7),
		asks(12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, a, 11), // across a chunk's border
		asks(12, a, 1, a, 2, c, 3), asks(12, 5, 6, 7, 8), asks(30, 5, 6, a, 7, 8),
	} {
		want := s.byHand(t, job)
		got, last, err := run(b, job)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v (%v)", i, got, want, err)
		}
		if last.Usage.Prompt != len(job.IDs) {
			t.Errorf("%d: %d prompt tokens, want %d", i, last.Usage.Prompt, len(job.IDs))
		}
		if said[fmt.Sprint(want)] {
			t.Errorf("%d: another prompt had the same answer", i)
		}
		said[fmt.Sprint(want)] = true
	}
	if n := e.calls.Load(); n != 2 {
		t.Errorf("two pictures took %d calls", n)
	}
	if st := b.Stats(); st.Encoded != 2 {
		t.Errorf("%d calls were counted", st.Encoded)
	}
}

// A model that sees: random layers with positions in three components, and an encoder that is a function of every byte it is given.
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
	b := &cardBackend{card: card, own: true, sampling: sampler.Defaults(), info: Info{Name: "sight", Context: 96, Vocab: sightVocab,
		Hidden: sightHidden}}
	err = card.Do(context.Background(), func(dev axcl.Device) error {
		model, err := dev.Load(context.Background(), s.spec)
		if err != nil {
			return err
		}
		b.m = newLM(card, model, s.tiny, nil, nil, o)
		if err := b.m.measure(context.Background()); err != nil {
			return err
		}
		if o.Proven != nil {
			b.m.proven = *o.Proven
		} else if err := b.m.probe(context.Background()); err != nil {
			return err
		}
		b.m.gallery, err = b.m.openGallery(dev, s.v, "digest")
		card.attach(b.m)
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

// byHand gives the job's tokens without the engine: rows from the encoder's own outputs, positions and additions as the model's authors
// lay them out, chunk by chunk.
func (s *sight) byHand(t testing.TB, job Job) (out []int32) {
	t.Helper()
	dev, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	model, err := dev.Load(context.Background(), s.spec)
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

// TestEightTurns: a conversation about two pictures calls the encoder twice, and each turn costs its own tokens only; so it does again
// after a restart.
func TestEightTurns(t *testing.T) {
	s := newSight(t)
	for range 2 {
		b, e := s.open(t, OpenOptions{})
		parts := []any{1, 2, shot(1), 3, shot(2), 4}
		seen := 0
		for turn := range 8 {
			job := asks(3, parts...)
			want := s.byHand(t, job)
			got, last, err := run(b, job)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("turn %d: %v, want %v (%v)", turn, got, want, err)
			}
			if last.Usage.Cached < seen {
				t.Errorf("turn %d: %d of %d prompt tokens were cached, the turns before had %d", turn, last.Usage.Cached, len(job.IDs),
					seen)
			}
			seen = len(job.IDs) + len(got) - 1
			parts = append(parts, got, 10+turn)
		}
		if n := e.calls.Load(); n != 2 {
			t.Errorf("%d calls of the encoder", n)
		}
		b.Close()
	}
}

// TestManySee: requests with the same words about different pictures, at once and beside text, get what each gets alone.
func TestManySee(t *testing.T) {
	s := newSight(t)
	for name, o := range map[string]OpenOptions{"": {Parallel: 6}, "repeatable": {Parallel: 4, Repeatable: true},
		"apart": {Parallel: 4, Proven: &Proven{Chunk: true, Scatter: true}}, "in order": {Parallel: 4, Proven: &Proven{Chunk: true}}} {
		t.Run(name, func(t *testing.T) {
			var jobs []Job
			var want [][]int32
			for i := range 4 {
				jobs = append(jobs, asks(6, 5, 6, shot(uint64(i)), 7, 8), asks(6, 5, 6, 7+i), asks(4, 5, shot(uint64(i%2)), 7, shot(3), i))
			}
			for _, job := range jobs {
				want = append(want, s.byHand(t, job))
			}
			b, e := s.open(t, o)
			var wg sync.WaitGroup
			for i := range 2 * len(jobs) {
				wg.Go(func() {
					k := i % len(jobs)
					if got, _, err := run(b, jobs[k]); err != nil || !slices.Equal(got, want[k]) {
						t.Errorf("request %d: %v, want %v (%v)", i, got, want[k], err)
					}
				})
			}
			wg.Wait()
			if n := e.calls.Load(); n != 4 {
				t.Errorf("four pictures took %d calls", n)
			}
		})
	}
}

// TestTextOnly: text asked of a model that sees makes the passes that it makes of one that does not.
func TestTextOnly(t *testing.T) {
	s := newSight(t)
	for _, sees := range []bool{true, false} {
		b, _ := s.open(t, OpenOptions{Parallel: 1})
		worker := func(do func()) {
			if err := b.card.Do(t.Context(), func(axcl.Device) error { do(); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !sees {
			worker(func() { b.m.gallery = nil })
		}
		job := asks(20, 5, 6, 7, 8, 9)
		got, _, err := run(b, job)
		if err != nil || !slices.Equal(got, s.byHand(t, job)) {
			t.Errorf("sees %v: %v (%v)", sees, got, err)
		}
		worker(func() {
			if len(b.m.pass.Add)+len(b.m.pass.Added) > 0 {
				t.Errorf("a pass of text has %d rows to add", len(b.m.pass.Add))
			}
		})
	}
}

// TestSightRefused: what cannot be asked is one error, and the model goes on.
func TestSightRefused(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	a := shot(1)
	few, many := asks(3, 5, a, 6), asks(3, 5, a, 6)
	few.IDs = few.IDs[1:]
	few.IDs[0] = 9
	many.Images = append(many.Images, a)
	lots := asks(3, 5, 6)
	for range 300 {
		lots.Images = append(lots.Images, a)
	}
	var ce *ContextError
	var pe *PictureError
	for name, job := range map[string]Job{"a place too few": few, "a picture too many": many, "a picture last": asks(3, 5, a)} {
		if _, _, err := run(b, job); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := run(b, lots); !errors.As(err, &ce) {
		t.Errorf("300 pictures: %v", err)
	}
	bad := asks(3, 5, a, 6, a[:40], 7)
	if _, _, err := run(b, bad); !errors.As(err, &pe) || pe.Index != 1 || !errors.Is(err, ErrRequest) {
		t.Errorf("half a png: %v", err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range b.Complete(gone, asks(3, 5, a, 6)) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
	}
	job := asks(3, 5, a, 6)
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
		t.Errorf("afterwards: %v (%v)", got, err)
	}
	if len(b.m.gallery.held) != 0 || !b.m.gallery.room.TryAcquire(picturesHeld) {
		t.Error("pictures are held that nobody asks about")
	}
	if e.calls.Load() != 1 {
		t.Errorf("%d calls", e.calls.Load())
	}
}

// TestEncoderFails: a call that fails is made again; one that fails again ends who waits for it, and nobody else.
func TestEncoderFails(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	broken := errors.New("the encoder broke")
	e.fail = func(n int32) error {
		if n == 1 {
			return broken
		}
		return nil
	}
	job := asks(4, 5, shot(1), 6)
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
		t.Errorf("after one failure: %v (%v)", got, err)
	}
	b, e = s.open(t, OpenOptions{})
	e.fail = func(int32) error { return broken }
	if _, _, err := run(b, asks(4, 5, shot(2), 6)); !errors.Is(err, broken) {
		t.Errorf("after two: %v", err)
	}
	text := asks(4, 5, 6)
	if got, _, err := run(b, text); err != nil || !slices.Equal(got, s.byHand(t, text)) {
		t.Errorf("text: %v (%v)", got, err)
	}
	if _, _, err := run(b, asks(4, 5, shot(2), 6)); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("a third failure within a minute: %v", err)
	}
}

// TestPicturesGo: pictures whose rows were dropped for others' are encoded and evaluated again, and sequences that need the lowest cells
// get them.
func TestPicturesGo(t *testing.T) {
	s := newSight(t)
	b, _ := s.open(t, OpenOptions{Parallel: 5})
	b.m.gallery.kept = pictures.Keep(3 * 2 * sightRows * sightHidden * 3) // three of them
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			var parts []any
			for k := range i % 5 {
				parts = append(parts, k, shot(uint64((i+k)%6)))
			}
			job := asks(8+i, append(parts, 20+i)...)
			want := s.byHand(t, job)
			for range 2 {
				if got, _, err := run(b, job); err != nil || !slices.Equal(got, want) {
					t.Errorf("request %d: %v, want %v (%v)", i, got, want, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestPictureKeys: what is known of a picture is known within a request's key only.
func TestPictureKeys(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	for i, key := range []string{"a", "b", "a"} {
		job := asks(3, 5, shot(1), 6)
		job.Key = key
		if _, last, err := run(b, job); err != nil || (last.Usage.Cached > 0) != (i == 2) {
			t.Errorf("%d: %d cached, %v", i, last.Usage.Cached, err)
		}
	}
	if n := e.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// TestPictureNumbers: rows' numbers are never given twice while what they stand for may be kept.
func TestPictureNumbers(t *testing.T) {
	s := newSight(t)
	b, e := s.open(t, OpenOptions{Parallel: 1})
	for i := range 3 {
		job := asks(4, 5, shot(uint64(i)), 6)
		if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
			t.Fatalf("%d: %v (%v)", i, got, err)
		}
		if i == 0 {
			b.m.gallery.mu.Lock()
			b.m.gallery.last = math.MinInt32 + sightRows + 2 // one more, then none
			b.m.gallery.mu.Unlock()
		}
	}
	job := asks(4, 5, shot(0), 6) // its first numbers are the third picture's now
	if got, _, err := run(b, job); err != nil || !slices.Equal(got, s.byHand(t, job)) {
		t.Errorf("%v (%v)", got, err)
	}
	if e.calls.Load() != 3 {
		t.Errorf("%d calls", e.calls.Load())
	}
}

// TestShiftSight: a full context drops whole pictures, and goes on as on what is left.
func TestShiftSight(t *testing.T) {
	m := &lm{gallery: &gallery{sees: &models.Vision{}}}
	p, q := &picture{}, &picture{}
	for _, tt := range []struct {
		keep, cut int
		want      [2]int
		left      []int
	}{
		{0, 20, [2]int{0, 20}, []int{20}}, {0, 8, [2]int{0, 14}, []int{26}}, {6, 4, [2]int{2, 12}, []int{28}},
		{20, 21, [2]int{20, 32}, []int{2}}, {6, 40, [2]int{2, 50}, nil}, {14, 20, [2]int{14, 20}, []int{2, 20}},
	} {
		s := &seq{ids: make([]int32, 80), pictures: []pictureRows{{at: 2, n: 12, of: p}, {at: 40, n: 5, nth: 1, of: q},
			{at: 47, n: 5, from: 5, nth: 1, of: q}}}
		from, n := m.turnsOut(s, tt.keep, tt.cut)
		var at []int
		for _, l := range s.pictures {
			if l.from == 0 {
				at = append(at, l.at)
			}
		}
		if from != tt.want[0] || n != tt.want[1] || !slices.Equal(at, tt.left) {
			t.Errorf("%d and %d: [%d, +%d), pictures at %v; want %v, %v", tt.keep, tt.cut, from, n, at, tt.want, tt.left)
		}
	}
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	job := asks(60, 1, 2, shot(1), 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, shot(2), 14)
	job.NumCtx, job.Shift = 58, true
	got, _, err := run(b, job)
	if err != nil || len(got) != 60 {
		t.Fatalf("%d tokens: %v", len(got), err)
	}
	if e.calls.Load() != 2 {
		t.Errorf("%d calls", e.calls.Load())
	}
	// What it says after the shift is what a prompt of what was left says.
	n := job.NumCtx - len(job.IDs)
	left := asks(8, 19, shot(2), 14, got[:n])
	if want := s.byHand(t, left); !slices.Equal(got[n:n+8], want) {
		t.Errorf("after the shift %v, want %v", got[n:n+8], want)
	}
}

// TestShiftTurns: where the text says where turns begin, a full context drops whole turns, pictures and what is added to their rows
// included, and goes on as on what is left.
func TestShiftTurns(t *testing.T) {
	const opens = 129
	vocab := map[string]int{}
	for i := range sightVocab {
		vocab[fmt.Sprintf("<%d>", i)] = i
	}
	file, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"added_tokens": []any{map[string]any{"id": opens, "content": "<129>", "special": true}}})
	if err != nil {
		t.Fatal(err)
	}
	words, err := tokenizer.OpenFS(fstest.MapFS{"tokenizer.json": {Data: file}}, "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	s := newSight(t)
	b, e := s.open(t, OpenOptions{})
	b.m.tokenizer = words
	// The older half ends in the second turn's picture, which goes with its turn, though the third has room.
	last := []any{opens, 15, shot(3), 16, opens, 17}
	job := asks(40, append([]any{opens, 1, shot(1), 2, opens, 3, opens, 4, 5, shot(2), 6, opens, 7}, last...)...)
	job.NumCtx, job.Shift = len(job.IDs)+9, true
	got, _, err := run(b, job)
	if err != nil || len(got) != 40 {
		t.Fatalf("%d tokens: %v", len(got), err)
	}
	n := job.NumCtx - len(job.IDs)
	kept := append([]any{opens, 7}, last...)
	left := asks(8, append(kept, got[:n])...)
	if want := s.byHand(t, left); !slices.Equal(got[n:n+8], want) {
		t.Errorf("after the shift %v, want %v", got[n:n+8], want)
	}
	if e.calls.Load() != 3 {
		t.Errorf("%d calls", e.calls.Load())
	}
}
