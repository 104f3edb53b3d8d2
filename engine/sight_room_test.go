//go:build cgo && !fake && linux

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
)

// TestRoomToSee (D3): a model is loaded with its encoder or, for the time being, not at all where
// the card has room for both once others have gone; text alone where it never has. A request
// with a picture then fails with both numbers.
func TestRoomToSee(t *testing.T) {
	//proves:D3 the encoder of pictures
	dir := t.TempDir()
	s := axmodel.Shape{Name: "qwen3", Layers: 4, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16, Intermediate: 96, Vocab: 1000,
		Context: 127, Chunk: 16, History: []int{0, 32}, LayerBytes: 4 << 20, HeadBytes: 4 << 20, Sight: &axmodel.ShapeEncoder{Width: 32,
			Blocks: 2, Heads: 2, Intermediate: 48, Patch: 4, Merge: 2, Down: 4, Across: 4, Bytes: 20 << 20}}
	if err := axmodel.WriteShape(dir, s); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, all := p.TextMemory(), p.Memory()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	mib := func(n int64) int { return int((n + 1<<20 - 1) >> 20) }
	const idle = 18 // MiB that a card has in use itself
	for _, tt := range []struct {
		name         string
		cmm          int
		beside       bool // another model is there
		loaded, sees bool
	}{
		{"room for both", idle + mib(all.Load), false, true, true},
		{"room for text", idle + mib(all.Load) - 1, false, true, false},
		{"room for nothing", idle + mib(text.Load) - 1, false, false, false},
		{"room for both once the other has gone", idle + mib(all.Load) + 1, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open, _ := onSim(t, fmt.Sprintf("hazards=default\ncmm=%d", tt.cmm))
			card, err := OpenCard(open, CardOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer card.Close()
			if tt.beside {
				small := s
				small.Sight, small.Layers = nil, 1
				other := t.TempDir()
				if err := axmodel.WriteShape(other, small); err != nil {
					t.Fatal(err)
				}
				m, err := Open(t.Context(), other, OpenOptions{Card: card})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
			}
			m, err := Open(t.Context(), dir, OpenOptions{Card: card})
			var me *MemoryError
			if (err == nil) != tt.loaded || err != nil && !errors.As(err, &me) {
				t.Fatalf("loaded: %v", err)
			}
			if err != nil {
				if want := all.Load; tt.beside && me.Need != want {
					t.Errorf("%d bytes are said to be needed, not %d", me.Need, want)
				}
				return
			}
			defer m.Close()
			i := m.Info()
			want := text
			if tt.sees {
				want = all
			}
			if i.Capabilities.Vision != tt.sees || i.Memory != want || i.CardBytes != want.Card {
				t.Errorf("it sees: %v; %+v, want %+v", i.Capabilities.Vision, i.Memory, want)
			}
			job := greedy([]int32{5, s.Placeholder(), s.Placeholder(), s.Placeholder(), s.Placeholder(), 6}, 2)
			job.Images = [][]byte{shot(1)}
			_, _, err = run(m.b, job)
			if tt.sees && err != nil || !tt.sees && (!errors.Is(err, ErrUnsupported) || !errors.As(err, &me) || me.Need != all.Load) {
				t.Errorf("asked about a picture: %v", err)
			}
			if _, _, err := run(m.b, greedy([]int32{5, 6, 7}, 2)); err != nil {
				t.Errorf("asked in text: %v", err)
			}
		})
	}
}

// TestTextAsAlone: text asked of a package that sees makes the runtime calls that it makes of the
// package's text part alone, and gives the same logits, bit for bit.
func TestTextAsAlone(t *testing.T) {
	//proves:G19 the same runtime calls and logits as of the text part alone
	for _, a := range axmodeltest.SightArchs() {
		t.Run(a.Name, func(t *testing.T) {
			dir, _ := sightPackage(t, a)
			var logits [2][][]float32
			var calls [2][]string
			for i, part := range []string{"all of it", "text alone"} {
				t.Run(part, func(t *testing.T) {
					if i == 1 {
						makeBlind(t, dir)
					}
					trace := filepath.Join(t.TempDir(), "trace")
					open, sim := onSim(t, "hazards=strict\nclock=virtual\nprofile=pi5\ntrace="+trace)
					o := still
					o.Clock = clockOf(sim)
					m, b := load(t, dir, open, OpenOptions{Parallel: 1, CardOptions: o})
					if m.Info().Capabilities.Vision != (i == 0) {
						t.Fatalf("%d: it sees: %v", i, i == 1)
					}
					made := func() []string {
						if err := b.card.Do(t.Context(), func(axcl.Device) error { return nil }); err != nil {
							t.Fatal(err)
						}
						return callsIn(t, trace)
					}
					before := len(made())
					for _, ids := range [][]int32{{5, 6, 7}, slices.Repeat([]int32{5, 6, 7, 8, 9}, 4), {5, 6, 30}, {9}} {
						all := make([]int32, b.m.shape.Out)
						for k := range all {
							all[k] = int32(k)
						}
						got, _, err := b.Scores(t.Context(), 1, func(int) ([]int32, error) { return ids, nil }, all, "")
						if err != nil {
							t.Fatal(err)
						}
						logits[i] = append(logits[i], got...)
						if _, _, err := run(b, greedy(ids, 12)); err != nil {
							t.Fatal(err)
						}
					}
					calls[i] = made()[before:]
				})
			}
			for k := range logits[0] {
				if !slices.Equal(logits[0][k], logits[1][k]) {
					t.Errorf("prompt %d has other logits beside an encoder", k)
				}
			}
			if len(calls[0]) < 100 || !slices.Equal(calls[0], calls[1]) {
				k := 0
				for k < min(len(calls[0]), len(calls[1])) && calls[0][k] == calls[1][k] {
					k++
				}
				t.Errorf("%d calls beside an encoder, %d alone; other ones from number %d on", len(calls[0]), len(calls[1]), k)
			}
		})
	}
}

// makeBlind leaves of a package that sees its text part alone.
func makeBlind(t *testing.T, dir string) {
	t.Helper()
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.Vision()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), os.Remove(v.Path)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var about map[string]any
	if err := json.Unmarshal(b, &about); err != nil {
		t.Fatal(err)
	}
	delete(about, "filename_image_encoder_axmodel")
	delete(about, "vlm_type")
	if b, err = json.Marshal(about); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// callsIn are the calls in a trace but those that only ask how the card is, each with what it
// copied.
func callsIn(t *testing.T, file string) (calls []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" || strings.Contains(f[3], "GetDevice") || strings.Contains(f[3], "Properties") {
			continue
		}
		name, first, _ := strings.Cut(f[3], "(")
		call := name
		for _, w := range append([]string{first}, f[4:]...) {
			switch what, _, _ := strings.Cut(w, "="); what {
			case "size", "bytes", "group", "kind":
				call += " " + strings.TrimRight(w, ")")
			}
		}
		calls = append(calls, call)
	}
	return calls
}
