package engine

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/tokenizer/chat"
	"github.com/axle-llm/axle/vision"
)

// TestSightPackage: packages compiled of random checkpoints that see answer about pictures as their
// weights say, computed in float64 from the pixels on.
func TestSightPackage(t *testing.T) {
	//proves:G19
	lane.NoRace(t)
	testSightPackage(t, openSoft)
}

func testSightPackage(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, a := range axmodeltest.SightArchs() {
		t.Run(a.Name, func(t *testing.T) {
			dir, c := sightPackage(t, a)
			m, b := load(t, dir, open, OpenOptions{})
			if !m.Info().Capabilities.Vision {
				t.Fatalf("it does not see: %v", b.m.pictures.blind)
			}
			random := rand.New(rand.NewPCG(7, 7))
			var looks [][]byte
			photo := func() []byte {
				p := axmodeltest.RandomPicture(c, random)
				each := []*vision.Picture{p}
				if n := m.o.Sees.Tiles; n > 0 {
					each = p.Tiles(n, n, p.Width, p.Height)
				}
				for _, l := range each {
					looks = append(looks, l.Pix)
				}
				return filed(t, p)
			}
			msg := chat.Message{Role: "user", Content: "is it", Images: [][]byte{photo()}}
			if a.Sight.Qwen {
				msg.Images = append(msg.Images, photo())
				msg.Parts = []chat.Part{{Text: "is "}, {Image: true}, {Text: "like "}, {Image: true}, {Text: "it"}}
			}
			r := Request{Messages: []chat.Message{msg}, Sampling: m.Sampling(), NumCtx: m.Info().Context, Limit: 5}
			r.Sampling.Temperature = 0
			ids, _, images, err := m.prompt(context.Background(), &r, true, new(Cut))
			if err != nil || len(images) != len(msg.Images) {
				t.Fatal(len(images), err)
			}
			job := Job{IDs: ids, Images: images, Sampling: r.Sampling, Limit: 5, IgnoreStop: true}
			got, last, err := run(b, job)
			if err != nil || last.Usage.Prompt != len(ids) {
				t.Fatal(last.Usage.Prompt, len(ids), err)
			}
			if want := int(b.Stats().Encoded); want != len(looks) {
				t.Errorf("%d calls of the encoder, want %d", want, len(looks))
			}
			judged(t, c, ids, m.o.Sees.Placeholder, looks, got)
			// The same question again costs its last token, or what lies behind the last snapshot,
			// and no call.
			least := len(ids) - 1
			if a.Interval > 0 {
				least = lastOf(ids, m.o.Sees.Placeholder) + 1
			}
			if again, last, err := run(b, job); err != nil || !slices.Equal(again, got) || last.Usage.Cached < least ||
				int(b.Stats().Encoded) != len(looks) {
				t.Errorf("again: %v, %d cached of %d, %d calls (%v)", again, last.Usage.Cached, len(ids), b.Stats().Encoded, err)
			}
			if text, done, err := collect(m.Chat(context.Background(), r)); err != nil || done.Usage.Prompt != len(ids) {
				t.Errorf("%q, %+v, %v", text, done, err)
			}
		})
	}
}

// TestSightStates: a model whose layers have a state goes on behind a picture from a snapshot, of
// its own picture only: the words around two pictures are the same here.
func TestSightStates(t *testing.T) {
	//proves:G19
	lane.NoRace(t)
	testSightStates(t, openSoft)
}

func testSightStates(t *testing.T, open func() (axcl.Device, string, error)) {
	a, _ := axmodeltest.Find("qwen3_5_vl")
	dir, c := sightPackage(t, a)
	m, b := load(t, dir, open, OpenOptions{})
	random := rand.New(rand.NewPCG(8, 8))
	place := m.o.Sees.Placeholder
	type talk struct {
		pix  []byte
		msgs []chat.Message
	}
	talks := make([]talk, 2)
	for i := range talks {
		p := axmodeltest.RandomPicture(c, random)
		talks[i] = talk{p.Pix, []chat.Message{{Role: "user", Content: "is it like that or is it not", Images: [][]byte{filed(t, p)}}}}
	}
	// Each picture, each again, and each talk's next question.
	for n, i := range []int{0, 1, 0, 1, 0, 1} {
		r := Request{Messages: talks[i].msgs, Sampling: m.Sampling(), NumCtx: m.Info().Context, Limit: 5}
		ids, _, images, err := m.prompt(t.Context(), &r, true, new(Cut))
		if err != nil || len(images) != 1 {
			t.Fatal(len(images), err)
		}
		job := Job{IDs: ids, Images: images, Sampling: r.Sampling, Limit: 5, IgnoreStop: true}
		job.Sampling.Temperature = 0
		got, last, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		judged(t, c, ids, place, [][]byte{talks[i].pix}, got)
		first, behind := slices.Index(ids, place), lastOf(ids, place)+1
		switch cached := last.Usage.Cached; {
		case n < 2 && cached > first:
			t.Errorf("question %d: %d rows were known, its picture begins at %d", n, cached, first)
		case n >= 2 && cached < behind:
			t.Errorf("question %d: %d rows were known, its picture ends at %d", n, cached, behind)
		}
		if calls := int(b.Stats().Encoded); calls != min(n+1, 2) {
			t.Errorf("question %d: %d calls of the encoder", n, calls)
		}
		if n >= 2 {
			talks[i].msgs = append(talks[i].msgs, chat.Message{Role: "assistant", Content: "it is"}, chat.Message{Role: "user",
				Content: fmt.Sprintf("and the %d", n)})
		}
	}
}

// lastOf is the index of the last such id.
func lastOf(ids []int32, id int32) int {
	for i := len(ids) - 1; i >= 0; i-- {
		if ids[i] == id {
			return i
		}
	}
	return -1
}

// filed is a picture as a PNG.
func filed(t *testing.T, p *vision.Picture) []byte {
	t.Helper()
	to := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(to.Pix[4*i:], append(slices.Clone(p.Pix[3*i:3*i+3]), 255))
	}
	var file bytes.Buffer
	if err := png.Encode(&file, to); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// sightPackage compiles a random checkpoint that sees.
func sightPackage(t *testing.T, a axmodeltest.Arch) (string, *axmodeltest.Checkpoint) {
	t.Helper()
	dir := t.TempDir()
	c, err := axmodeltest.WriteCheckpoint(dir, a, 5)
	if err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 255, Chunk: 16, History: []int{0, 16, 64, 239}, Name: "m"}
	if a.Sight.Qwen {
		o.Width, o.Height = c.PictureSize()
	}
	p, err := compile.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p.Dir, c
}

// judged holds tokens against the oracle's: each is the likeliest of what the weights make of the
// rows before it, or as good as that.
func judged(t *testing.T, c *axmodeltest.Checkpoint, ids []int32, place int32, looks [][]byte, got []int32) {
	t.Helper()
	var seen []*axmodeltest.Seen
	for _, l := range looks {
		rows, deep := c.Look(l)
		for i, row := range rows {
			s := &axmodeltest.Seen{Row: row}
			for k := range deep {
				s.Deep = append(s.Deep, deep[k][i])
			}
			seen = append(seen, s)
		}
	}
	across, down := c.Sight.Across/c.Sight.Merge, c.Sight.Down/c.Sight.Merge
	judgedRows(t, c, ids, place, across, down, seen, got)
}

// judgedRows is judged for rows of pictures that the oracle has computed, of across × down each.
func judgedRows(t *testing.T, c *axmodeltest.Checkpoint, ids []int32, place int32, across, down int, seen []*axmodeltest.Seen,
	got []int32,
) {
	t.Helper()
	rows := pictureRowsOf(t, append(slices.Clone(ids), got...), place, across, down, c.Section != nil, seen)
	logits := c.Oracle(rows)
	for i, id := range got {
		at := logits[len(ids)+i-1]
		if best := slices.Max(at); best-at[id] > 0.05*best-0.05*slices.Min(at) {
			t.Errorf("token %d is %d, with %s; the oracle's best has %.3f", i, id, fmt.Sprintf("%.3f", at[id]), best)
		}
	}
}

// pictureRowsOf are the oracle's rows of ids in which each place is a picture's row. grid says that
// those of a picture have positions on a grid of across × down.
func pictureRowsOf(t *testing.T, ids []int32, place int32, across, down int, grid bool, seen []*axmodeltest.Seen) (
	rows []axmodeltest.Row,
) {
	t.Helper()
	next, put := 0, 0
	add := func(r axmodeltest.Row) {
		for j := range rows {
			r.See = append(r.See, j)
		}
		rows = append(rows, r)
	}
	for _, id := range ids {
		if id != place || put == len(seen) {
			add(axmodeltest.Row{Token: int(id), Pos: next})
			next++
			continue
		}
		r := axmodeltest.Row{Pos: next, Seen: seen[put]}
		if k := put % (across * down); grid {
			r.At = []int{next, next + k/across, next + k%across}
			if k == across*down-1 {
				next += max(across, down)
			}
		} else {
			next++
		}
		add(r)
		put++
	}
	if put != len(seen) {
		t.Fatalf("%d places for %d rows", put, len(seen))
	}
	return rows
}
