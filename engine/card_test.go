package engine

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
)

// How old a card's state may get, and while it works.
const infoEvery, infoWorking = 10 * time.Second, time.Minute

// TestAsksSeldom: what the card has to run commands for is asked for every ten seconds while it is
// idle or warm, and once a minute while it works.
func TestAsksSeldom(t *testing.T) {
	//proves:D18
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var asked, degrees atomic.Int64
		degrees.Store(50)
		f.heat = func() float64 { asked.Add(1); return float64(degrees.Load()) }
		b := onFake(t, f, OpenOptions{})
		f.run = func(int) error { <-time.After(50 * time.Millisecond); return nil }
		in5 := func(what string, least, most int64) {
			t.Helper()
			before := asked.Load()
			<-time.After(5 * time.Minute)
			if n := asked.Load() - before; n < least || n > most {
				t.Errorf("%s: asked %d times in five minutes, want %d to %d", what, n, least, most)
			}
		}
		in5("idle", 28, 31) // either end of the five minutes may be a moment at which the card is asked
		ctx, cancel := context.WithCancel(context.Background())
		endless := greedy([]int32{1, 2, 3}, -1)
		endless.Shift, endless.NumCtx = true, 24
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, err := range b.Complete(ctx, endless) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
		in5("at work", 4, 6)
		degrees.Store(80)
		<-time.After(infoWorking)
		in5("at work and warm", 29, 31)
		cancel()
		wg.Wait()
		_ = b.Close()
	})
}

// lateDevice is a fake that sometimes does not tell its state in time.
type lateDevice struct {
	*fake
	late atomic.Int64 // how many times more
}

func (l *lateDevice) Info() (axcl.Info, error) {
	i, err := l.fake.Info()
	if l.late.Add(-1) >= 0 {
		return axcl.Info{ID: i.ID}, axcl.ErrLate
	}
	return i, err
}

// TestLateState: a card that does not tell its state in time goes on, from its opening on; the
// third time in a minute it is lost.
func TestLateState(t *testing.T) {
	//proves:D4
	for _, tt := range []struct {
		name          string
		opened, later int64 // how often it is late as it is opened, and then
		lost          bool
	}{{"as it is opened", 1, 0, false}, {"twice", 0, 2, false}, {"three times", 0, 3, true}, {"once and twice", 1, 2, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lateDevice{fake: newFake()}
				l.late.Store(tt.opened)
				card, err := OpenCard(func() (axcl.Device, string, error) { return l, "test", nil }, CardOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if id := card.Info().ID; id != "fake" {
					t.Errorf("the card is called %q", id)
				}
				l.late.Store(tt.later)
				<-time.After(4 * infoEvery)
				if err := card.Err(); errors.Is(err, axcl.ErrLost) != tt.lost || (err != nil) != tt.lost {
					t.Errorf("%v", err)
				}
				_ = card.Close()
			})
		})
	}
}

// TestRefusedLoads (D4): the third load within a minute that the card refuses loses it, whatever
// runs beside; too little memory and bad files are no fault of the card's. A runtime that is too
// old ends it at once.
func TestRefusedLoads(t *testing.T) {
	//proves:D4
	dir := compiled(t, "qwen3")
	for _, tt := range []struct {
		name  string
		err   error
		after int // loads that fail until the card is lost; 0: it is not
	}{
		{"a failed call", &axcl.Error{Op: "axclrtEngineLoadFromFile", Code: 0x80300701}, 3},
		{"no memory", &axcl.Error{Op: "axclrtEngineLoadFromFile", Code: 0x80300707}, 0},
		{"no memory, by the call", &axcl.Error{Op: "axclrtMalloc", Code: 0x80300701, Kind: axcl.ErrMemory}, 0},
		{"a bad file", &axcl.Error{Op: "axclrtEngineLoadFromFile", Code: 0x80300704, Kind: axcl.ErrModel}, 0},
		{"no file", fs.ErrNotExist, 0},
		{"given up", context.Canceled, 0},
		{"offline", &axcl.Error{Op: "axclrtEngineLoadFromFile", Code: 0x8030040c}, 1},
		{"too old", &axcl.Error{Op: "axclrtEngineExecuteAsync", Code: 4, Kind: axcl.ErrTooOld}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lost atomic.Bool
			told := make(chan error, 1)
			card, err := OpenCard(func() (axcl.Device, string, error) {
				d, err := soft.Open(soft.Options{Threads: 1})
				if err != nil {
					return nil, "", err
				}
				return axcltest.NewFaulty(d, axcltest.Fault{Op: axcltest.OpLoad, Sticky: true, Err: tt.err}), "test", nil
			}, CardOptions{Clock: still.Clock, Lost: func(err error) { lost.Store(true); told <- err }})
			if err != nil {
				t.Fatal(err)
			}
			defer card.Close()
			for n := 1; n <= 5; n++ {
				_, err := Open(context.Background(), dir, OpenOptions{Card: card})
				if !errors.Is(err, tt.err) && card.Err() == nil {
					t.Fatalf("load %d gave %v", n, err)
				}
				if is := tt.after > 0 && n >= tt.after; (card.Err() != nil) != is {
					t.Fatalf("after %d loads: %v", n, card.Err())
				}
			}
			if tt.after > 0 {
				if err := <-told; !errors.Is(err, axcl.ErrLost) || !errors.Is(err, tt.err) {
					t.Errorf("lost to %v", err)
				}
			} else if lost.Load() {
				t.Error("the card was lost")
			}
		})
	}
}
