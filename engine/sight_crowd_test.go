package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/internal/fuzzguard"
)

// TestCrowdSees: thirty-two clients ask about eight pictures in the same words, at once: each gets
// what its own picture gives alone, and each picture is encoded once.
func TestCrowdSees(t *testing.T) {
	//proves:G19 32 clients, 8 pictures, the same words
	s := newSight(t)
	b, e := s.open(t, OpenOptions{Parallel: 8})
	var jobs []Job
	var want [][]int32
	given := map[string]int{}
	for i := range 8 {
		job := asks(8, 5, 6, shot(uint64(20+i)), 7, 8)
		jobs, want = append(jobs, job), append(want, s.byHand(t, job))
		said := fmt.Sprint(want[i])
		if k, ok := given[said]; ok {
			t.Fatalf("pictures %d and %d give one answer: a mix-up would not show", k, i)
		}
		given[said] = i
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			k := i % len(jobs)
			if got, _, err := run(b, jobs[k]); err != nil || !slices.Equal(got, want[k]) {
				t.Errorf("client %d: %v, want %v (%v)", i, got, want[k], err)
			}
		})
	}
	wg.Wait()
	if n := e.calls.Load(); n != 8 {
		t.Errorf("eight pictures took %d calls of the encoder", n)
	}
}

// TestPicturesRead (T7): however many come at once, pictures are decoded only as far as the memory
// goes that all may take together.
func TestPicturesRead(t *testing.T) {
	//proves:T7 all that are decoded at once
	const most = 32 << 20
	s := newSight(t)
	enc, err := pictures.Open(&eyed{nil, &eye{v: s.v}}, s.v, "digest")
	if err != nil {
		t.Fatal(err)
	}
	// As many may decode at once as there are pictures, however few processors there are.
	g := newEncoderCache(s.v, enc, sightHidden, &reading{line: fair.New(6, most), most: most})
	var file bytes.Buffer
	pen := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := pen.Encode(&file, image.NewNRGBA64(image.Rect(0, 0, 1300, 1000))); err != nil { // 11 MiB to decode
		t.Fatal(err)
	}
	got := make([]error, 6)
	peak := fuzzguard.Peak(func() {
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				_, let, err := g.hold(context.Background(), fmt.Sprint("key ", i), [][]byte{file.Bytes()}) // none knows another's
				if got[i] = err; err == nil {
					let()
				}
			})
		}
		wg.Wait()
	})
	if err := errors.Join(got...); err != nil {
		t.Error(err)
	}
	t.Logf("six pictures took %d MiB", peak>>20)
	if peak > most+12<<20 { // six at once take over 80 MiB
		t.Errorf("six pictures at once took %d MiB, all may take %d", peak>>20, most>>20)
	}

	// A request that is cancelled while it waits is gone, and takes nothing.
	g.reading.collect(0)
	if g.reading.line.Left() != most {
		t.Fatal("something is still being read")
	}
	if err := g.reading.line.Take(context.Background(), "", most, 1); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	leave()
	if _, _, err := g.hold(ctx, "", [][]byte{shot(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	g.reading.line.Done("", 1, 1)
	g.reading.line.Free(most)
	if _, let, err := g.hold(context.Background(), "", [][]byte{shot(1)}); err != nil {
		t.Error(err)
	} else {
		let()
	}
	if len(g.held) != 0 || g.room.Left() != g.most {
		t.Error("pictures are held that no request asks about")
	}
}

// TestPictureRoom (T7): a picture has its room once, however many answers are about it, and only
// its rows' once it has been encoded.
func TestPictureRoom(t *testing.T) {
	//proves:T7 of a picture, for several answers and once it has been encoded
	s := newSight(t)
	enc, err := pictures.Open(&eyed{nil, &eye{v: s.v}}, s.v, "digest")
	if err != nil {
		t.Fatal(err)
	}
	g := newEncoderCache(s.v, enc, sightHidden, decoding())
	g.most = 20 * g.each
	g.room = fair.New(0, g.most)
	if g.rows <= 0 || g.rows >= g.each {
		t.Fatalf("a picture takes %d bytes, and then %d", g.each, g.rows)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // where room is not given back, the next one waits
	defer stop()
	var lets []func()
	hold := func(data ...[]byte) []*picture {
		t.Helper()
		ps, let, err := g.hold(ctx, "key", data)
		if err != nil {
			t.Fatal(err)
		}
		lets = append(lets, let)
		return ps
	}
	taken := func(when string, want int64) {
		t.Helper()
		if got := g.most - g.room.Left(); got != want {
			t.Errorf("%s: %d bytes are taken, want %d", when, got, want)
		}
	}
	var p *picture
	for range 8 {
		p = hold(shot(1), shot(1))[0]
	}
	taken("eight answers about one picture, named twice", g.each)
	for p.rows == nil {
		if err := enc.Step(p.made); err != nil {
			t.Fatal(err)
		}
		if rows := p.made.Rows(); rows != nil {
			g.done(p, rows)
		}
	}
	taken("it has been encoded", g.rows)
	hold(shot(1), shot(2))
	taken("another one beside it", g.rows+g.each)
	for _, let := range lets {
		let()
	}
	taken("no request is left", 0)
	lets = nil
	hold(shot(1))
	taken("one that is kept", g.rows)
	if _, _, err := g.hold(ctx, "key", [][]byte{shot(3), []byte("no picture")}); err == nil {
		t.Error("no picture is held")
	}
	taken("a request that failed", g.rows)
	many := make([][]byte, g.most/g.each+1)
	for i := range many {
		many[i] = shot(4)
	}
	lets[0]()
	hold(many...) // more than there is room for
	taken("one picture, named too often", g.each)
	lets[1]()
	taken("no request is left again", 0)
}

// TestPictureCosts: what a pass costs is not learned from one that stops between layers to add a
// picture's rows.
func TestPictureCosts(t *testing.T) {
	s := newSight(t)
	b, _ := s.open(t, OpenOptions{Parallel: 1})
	learned := func() (said string) {
		if err := b.card.Do(t.Context(), func(axcl.Device) error { said = fmt.Sprintf("%+v", b.m.costs); return nil }); err != nil {
			t.Fatal(err)
		}
		return said
	}
	before := learned()
	for try := range uint64(3) { // one pass, which adds; or, on a machine that measured oddly, rows alone before it
		before = learned()
		if _, _, err := run(b, asks(1, 5, shot(1+try), 6)); err != nil {
			t.Fatal(err)
		}
		if now := learned(); now == before {
			break
		} else if try == 2 {
			t.Errorf("a picture's pass was learned from: %s, before %s", now, before)
		}
	}
	if _, _, err := run(b, asks(1, 9, 8, 7)); err != nil {
		t.Fatal(err)
	}
	if learned() == before {
		t.Error("nothing is learned from a pass of text")
	}
}
