package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// TestQuit: what is left of a sequence that gives up its cells, on the card, among those that run
// and in the queue.
func TestQuit(t *testing.T) {
	for _, tt := range []struct {
		name    string
		exit    exit
		rows    int // that stay as a cache
		running bool
		vector  int // rows that its vector has of the first run
		queued  int
	}{
		{"ended", exitEnded, 4, false, 4, 0},
		{"failed", exitFailed, 0, false, 4, 0},
		{"retried", exitRetried, 0, true, 0, 0},
		{"preempted", exitPreempted, 4, false, 0, 1},
		{"aside", exitAside, 4, true, 4, 0},
		{"recalled", exitRecalled, 4, true, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := onFake(t, newFake(), OpenOptions{})
			if err := b.card.Do(context.Background(), func(axcl.Device) error {
				m := b.m
				s := &seq{Seq: cache.NewSeq("k", m.shape.Cells, m.shape.Local), ids: []int32{1, 2, 3, 4, 5},
					embed: &embedding{pooling: "mean", sum: make([]float64, 2), n: 4}}
				cells, ok := m.cells.Take(nil, 4, 0, false)
				if !ok {
					t.Fatal("no cells")
				}
				for i, c := range cells {
					m.cells.Commit(&s.Seq, c, s.ids[i])
				}
				m.running = append(m.running, s)
				m.quit(s, tt.exit)
				if n := len(m.cells.Peek("k", s.ids)); n != tt.rows || len(s.Path) != 0 {
					t.Errorf("%d rows are cached, want %d; the sequence stands on %d", n, tt.rows, len(s.Path))
				}
				if running := slices.Contains(m.running, s); running != tt.running {
					t.Errorf("running: %v", running)
				}
				if s.embed.n != tt.vector {
					t.Errorf("its vector has %d rows, want %d", s.embed.n, tt.vector)
				}
				if n := m.queue.len(); n != tt.queued {
					t.Errorf("%d in the queue, want %d", n, tt.queued)
				}
				m.running = nil
				m.queue.reap(func(*seq) bool { return true })
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
