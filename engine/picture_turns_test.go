package engine

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/vision"
)

// TestPictureTurns (T16): a key that has sent many large pictures keeps another key's small one
// waiting for the picture under way alone, and one's own small picture goes before one's large
// ones. What was decoded before is told by the numbers that pictures' rows get.
func TestPictureTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSight(t)
		enc, err := pictures.Open(&eyed{nil, &eye{v: s.v}}, s.v, "digest")
		if err != nil {
			t.Fatal(err)
		}
		const most = 32 << 20
		r := &reading{line: fair.New(1, most), most: most}
		g := newEncoderCache(s.v, enc, sightHidden, r)
		ctx := t.Context()
		if err := r.line.Take(ctx, "busy", 1, 1); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		first := map[string]int32{}
		work := map[string]int64{}
		var wg sync.WaitGroup
		ask := func(key string, names ...string) {
			var files [][]byte
			for i, name := range names {
				size := 16
				if name[:5] == "large" {
					size = 160
				}
				p := image.NewNRGBA(image.Rect(0, 0, size+len(first)%7, size))
				copy(p.Pix, fmt.Sprint(key, name, i))
				var b bytes.Buffer
				if err := png.Encode(&b, p); err != nil {
					t.Fatal(err)
				}
				h, err := vision.Look(b.Bytes(), vision.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				work[key+" "+name] = h.Work
				files = append(files, b.Bytes())
			}
			wg.Go(func() {
				ps, let, err := g.hold(ctx, key, files)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, name := range names {
					first[key+" "+name] = ps[i].first
				}
				mu.Unlock()
				let()
			})
			synctest.Wait()
		}
		for i := range 8 {
			ask("much", fmt.Sprint("large ", i), fmt.Sprint("large ", i+100))
		}
		ask("other", "small", "small too", "large")
		ask("much", "small")
		r.line.Done("busy", 1, 1)
		r.line.Free(1)
		wg.Wait()
		before := func(name string) (n int64) {
			for other, number := range first {
				if other[:4] == "much" && number > first[name] {
					n += work[other]
				}
			}
			return n
		}
		if len(first) != 20 {
			t.Fatal(first)
		}
		piece := int64(0)
		for _, n := range work {
			piece = max(piece, n)
		}
		own := int64(0)
		for _, name := range []string{"other small", "other small too", "other large"} {
			own += work[name]
			if n := before(name); n > own+piece {
				t.Errorf("%d of work was done for a key before another's picture %q: its own is %d, and a piece %d", n, name, own, piece)
			}
		}
		if n := before("much small"); n > piece {
			t.Errorf("%d of work was done before a small picture of the same key, a large one has %d", n, piece)
		}
	})
}
