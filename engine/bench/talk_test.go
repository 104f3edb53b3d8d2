//go:build cgo && !fake && linux

package bench

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/rows"
)

// TestTalks: conversations that do not fit on the card together find their rows in memory where
// that keeps them, and on disk after the model was loaded anew; each prompt token is accounted for
// once; on the virtual clock the figures repeat exactly.
func TestTalks(t *testing.T) {
	lane.NoRace(t)
	load := Talk{Conversations: 3, Prompt: 900, Turns: 1, New: 32, Output: 4}
	if n := load.Longest(); n != 900+4+36 {
		t.Errorf("the longest has %d tokens", n)
	}
	rec := &Recorder{}
	card, _, now := onSim(t, "virtual", rec.Add)
	// with does something with a model whose rows are kept where keep says.
	with := func(keep engine.OpenOptions, do func(*Meter) error) error {
		b, err := engine.OpenShape(t.Context(), card, t.TempDir(), few(1), keep)
		if err != nil {
			t.Fatal(err)
		}
		err = do(&Meter{Backend: b, Clock: now, Recorder: rec, Virtual: true})
		return errors.Join(err, b.Close())
	}
	turns := func(keep engine.OpenOptions) (w TalkWay) {
		var g *Talking
		err := with(keep, func(r *Meter) (err error) {
			if g, err = r.Begin(load); err == nil {
				err = r.Rounds(t.Context(), g, 1, nil)
			}
			if err == nil {
				err = r.Rounds(t.Context(), g, load.Turns, &w)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := uint64(3 * 936); w.Asked != n || len(w.First.Values) != 3 || w.Card+w.Memory+w.Disk+w.Evaluated() != n {
			t.Errorf("of %d prompt tokens: %+v", n, w)
		}
		return w
	}
	alone := turns(engine.OpenOptions{})
	if alone.Memory+alone.Disk+alone.In+alone.Out != 0 || alone.Saved != 0 || alone.Room != 0 {
		t.Errorf("nothing is kept but on the card: %+v", alone)
	}
	memory := turns(engine.OpenOptions{CacheRAM: engine.NewMemory(1 << 30)})
	if memory.Memory < memory.Asked/2 || memory.In == 0 || memory.Saved <= 0 || memory.Room == 0 {
		t.Errorf("memory keeps rows: %+v", memory)
	}
	if n := alone.Sooner(&memory); n < 1.5 {
		t.Errorf("the first token comes %.2f times as soon with memory: %v, %v without", n, memory.First, alone.First)
	}
	if again := turns(engine.OpenOptions{CacheRAM: engine.NewMemory(1 << 30)}); !reflect.DeepEqual(memory, again) {
		t.Errorf("the same again:\n%+v\n%+v", memory, again)
	}
	// Of what is longer a disk gives more than it costs.
	var said *Talking
	if err := with(engine.OpenOptions{}, func(r *Meter) (err error) {
		if said, err = r.Begin(Talk{Conversations: 2, Prompt: 1600, New: 32, Output: 4}); err != nil {
			return err
		}
		return r.Rounds(t.Context(), said, 1, nil)
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	onDisk := func(do func(*Meter) error) {
		d, err := rows.Open(rows.Options{Dir: dir, Size: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(with(engine.OpenOptions{Rows: d}, do), d.Close()); err != nil {
			t.Error(err)
		}
	}
	onDisk(func(r *Meter) error { return r.Repeat(t.Context(), said) })
	var disk TalkWay
	onDisk(func(r *Meter) error { return r.Rounds(t.Context(), said.Clone(), 1, &disk) })
	if disk.Disk < disk.Asked/2 || disk.Memory != 0 || len(disk.First.Values) != 2 {
		t.Errorf("the disk keeps rows: %+v", disk)
	}
	full := said.Clone()
	full.Output = 2047
	err := with(engine.OpenOptions{}, func(r *Meter) error { return r.Rounds(t.Context(), full, 1, nil) })
	if err == nil || !strings.Contains(err.Error(), "context is full") {
		t.Errorf("answers longer than the context: %v", err)
	}
}
