package engine

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// TestReadAhead: a load's files are read while the card is at those before, in its order, and how
// quick both are is told with each.
func TestReadAhead(t *testing.T) {
	dir := t.TempDir()
	shape := axmodel.Qwen3Small()
	shape.Layers, shape.Vocab = 4, 4000
	shape.LayerBytes, shape.HeadBytes = 10e6, 100e6
	if err := axmodel.WriteShape(dir, shape); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	synctest.Test(t, func(t *testing.T) {
		card, err := OpenCard(func() (axcl.Device, string, error) { return &ordered{newFake()}, "test", nil }, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var told []Progress
		err = card.InPieces(t.Context(), func(dev axcl.Device, pause func() error) error {
			_, err := card.place(t.Context(), dev, p, false, nil, nil, nil,
				OpenOptions{Progress: func(p Progress) { told = append(told, p) }}, pause)
			return err
		})
		if !errors.Is(err, axcl.ErrModel) || len(told) != 6 { // before the first file, and after each
			t.Fatalf("%v after %d files", err, len(told))
		}
		told = told[1:]
		var sum, files float64
		for _, path := range p.Layers {
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			sum, files = sum+float64(st.Size()), files+1
		}
		if r := told[0].Rates; r.Card != 0 || r.Held != "" {
			t.Errorf("after the first file, which nothing was known of: %+v", r)
		}
		if r := told[4].Rates; math.Abs(r.Card-sum/files) > 1 || r.Held != "card" {
			t.Errorf("%+v, a card that takes %.0f bytes a second", r, sum/files)
		}
		if !slices.IsSortedFunc(told, func(a, b Progress) int { return a.Done - b.Done }) {
			t.Errorf("told %+v", told)
		}
		if err := card.Close(); err != nil {
			t.Error(err)
		}
	})
}

// ordered is a device that takes the head first and a second for each file, and then refuses the
// model.
type ordered struct{ *fake }

func (o *ordered) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	order := []int{len(spec.Layers)}
	for i := range spec.Layers {
		order = append(order, i)
	}
	return axcltest.LoadSteps(order, func(_ context.Context, n int) (axcl.Model, error) {
		if n == len(order) {
			return nil, axcl.ErrModel
		}
		<-time.After(time.Second)
		return nil, nil
	}), nil
}
