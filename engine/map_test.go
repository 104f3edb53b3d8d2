package engine

import (
	"context"
	"testing"
	"time"
)

// A map says whose rows are whose, in a running model; and where the worker is busy for long, what
// it said last, without waiting for it.
func TestMaps(t *testing.T) {
	f := newFake()
	b := onFake(t, f, OpenOptions{CacheRAM: NewMemory(1 << 20)})
	m := New(b, Options{})
	for i, key := range []string{"anna", "bert"} {
		job := greedy([]int32{1, 2, 3, int32(4 + i)}, 8)
		job.Key = key
		for _, err := range b.Complete(context.Background(), job) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	maps := m.Maps(context.Background())
	if len(maps) != 1 || len(maps[0].Branches) != 2 || maps[0].Branches[0].Key != "bert" || maps[0].Branches[1].Key != "anna" ||
		len(maps[0].Tiers) != 2 || maps[0].Tiers[0].Name != "card" || maps[0].Tiers[1].Name != "memory" || maps[0].Tiers[1].Cells == 0 {
		t.Fatalf("%+v", maps)
	}
	if br := maps[0].Branches[0]; br.Running || br.Tokens < 4 || br.Shared != 0 {
		t.Errorf("%+v", br)
	}
	b.m.drawn.last.Load().At = time.Time{} // so that a new one is wanted
	release := hold(b)
	again := m.Maps(context.Background())
	release()
	if len(again) != 1 || !again[0].At.IsZero() {
		t.Errorf("a busy card gave %+v", again)
	}
	if fresh := m.Maps(context.Background()); len(fresh) != 1 || fresh[0].At.IsZero() {
		t.Errorf("a card that is free again gave %+v", fresh)
	}
}
