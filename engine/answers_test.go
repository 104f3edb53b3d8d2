package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
)

// TestFirstLoadWrong (D6): a card that is wrong at its first load of a package is not trusted for
// good, and a sound one is not refused for it: once two loads have said the same, that counts. What
// two loads of a card have said is not outvoted.
func TestFirstLoadWrong(t *testing.T) {
	dir := compiled(t, "qwen3")
	var lies atomic.Int32
	open := func() (axcl.Device, string, error) {
		d, why, err := openSoft()
		return &lying{d, &lies}, why, err
	}
	for _, tt := range []struct {
		name  string
		lies  []int32    // at each load, what the card's answers are off by
		wants []Compared // "": it is refused
	}{
		{"sound", []int32{0, 0, 0}, []Compared{ComparedNever, ComparedEarlier, ComparedEarlier}},
		{"wrong at first", []int32{1, 0, 0, 0, 1}, []Compared{ComparedNever, "", ComparedEarlier, ComparedEarlier, ""}},
		{"wrong later", []int32{0, 0, 1, 1, 1, 0}, []Compared{ComparedNever, ComparedEarlier, "", "", "", ComparedEarlier}},
		{"otherwise each time", []int32{1, 2, 3, 4}, []Compared{ComparedNever, "", "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept := t.TempDir()
			for i, by := range tt.lies {
				lies.Store(by)
				card, err := OpenCard(open, CardOptions{})
				if err != nil {
					t.Fatal(err)
				}
				m, err := Open(context.Background(), dir, OpenOptions{Card: card, Remember: kept})
				switch {
				case err == nil && m.Stats().Compared != tt.wants[i]:
					t.Errorf("load %d: compared with %q, want %q", i+1, m.Stats().Compared, tt.wants[i])
				case (err != nil) != (tt.wants[i] == ""), err != nil && !errors.Is(err, ErrWrong),
					err != nil && !strings.Contains(err.Error(), kept):
					t.Errorf("load %d: %v, want %q", i+1, err, tt.wants[i])
				}
				if err == nil {
					err = m.Close()
				} else {
					err = nil
				}
				if err := errors.Join(err, card.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	// Whatever lies there in place of a record is no answer.
	kept := t.TempDir()
	lies.Store(0)
	_, b := load(t, dir, open, OpenOptions{Remember: kept})
	files, _ := filepath.Glob(filepath.Join(kept, "said-*"))
	if len(files) != 1 || b.Stats().Compared != ComparedNever {
		t.Fatal(files)
	}
	for _, junk := range []string{"", "{", `{"Said":[{"Tokens":[1],"Loads":9}]}`, `{"Said":null}`, strings.Repeat("x", maxRecord+1)} {
		if err := os.WriteFile(files[0], []byte(junk), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, b := load(t, dir, open, OpenOptions{Remember: kept}); b.m.canary.sample == nil {
			t.Errorf("%.40q", junk)
		}
	}
}

// TestManyWrongLoads (D6): however many different answers a card gives, what two loads of it have
// said goes on to count.
func TestManyWrongLoads(t *testing.T) {
	says := func(n int32) (ids []int32) {
		for i := range int32(sampleLen) {
			ids = append(ids, n*sampleLen+i)
		}
		return ids
	}
	r := &record{on: "a card"}
	r.note(says(0))
	r.note(says(0))
	for i := range int32(3 * maxSaid) {
		if _, ok := r.note(says(1 + i)); ok {
			t.Fatalf("wrong answer %d is believed", i+1)
		}
	}
	if _, ok := r.note(says(3 * maxSaid)); ok {
		t.Error("a wrong answer is believed when it comes again")
	}
	if with, ok := r.note(says(0)); !ok || with != ComparedEarlier || len(r.Said) > maxSaid {
		t.Errorf("what counted is compared with %q, believed %v, beside %d answers", with, ok, len(r.Said))
	}
}

// lying is a card whose largest logits are others than they should be, by so much.
type lying struct {
	axcl.Device
	by *atomic.Int32
}

func (d *lying) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := d.Device.Loader(spec)
	return axcltest.LoadAs(l, err, func(m axcl.Model) axcl.Model { return &lyingModel{m, d.by} })
}

type lyingModel struct {
	axcl.Model
	by *atomic.Int32
}

func (m *lyingModel) Run(p *axcl.Pass) error {
	err := m.Model.Run(p)
	for i := range p.Argmax {
		p.Argmax[i] += m.by.Load()
	}
	return err
}
