package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer"
)

// TestShiftSight: a full context drops whole pictures, and goes on as on what is left.
func TestShiftSight(t *testing.T) {
	m := &pictureInputs{core: &core{}, encoder: &encoderCache{sees: &models.Vision{}}}
	p, q := &picture{}, &picture{}
	for _, tt := range []struct {
		keep, cut int
		want      [2]int
		left      []int
	}{
		{0, 20, [2]int{0, 20}, []int{20}}, {0, 8, [2]int{0, 14}, []int{26}}, {6, 4, [2]int{2, 12}, []int{28}},
		{20, 21, [2]int{20, 32}, []int{2}}, {6, 40, [2]int{2, 50}, nil}, {14, 20, [2]int{14, 20}, []int{2, 20}},
	} {
		s := &seq{ids: make([]int32, 80), seen: seen{pictures: []pictureRows{{at: 2, n: 12, of: p}, {at: 40, n: 5, nth: 1, of: q},
			{at: 47, n: 5, from: 5, nth: 1, of: q}}}}
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

// TestShiftTurns: where the text says where turns begin, a full context drops whole turns, pictures
// and what is added to their rows included, and goes on as on what is left.
func TestShiftTurns(t *testing.T) {
	//proves:G19 whole turns go
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
	// The older half ends in the second turn's picture, which goes with its turn, though the third
	// has room.
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
