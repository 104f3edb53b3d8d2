package monitor

import (
	"testing"

	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/catalog"
)

// A first model is named by the card's memory, and only where there is none but the built-in ones.
func TestFirst(t *testing.T) {
	built := &catalog.Entry{Model: &store.Model{Builtin: true}}
	fetched := &catalog.Entry{Model: &store.Model{}}
	for _, c := range []struct {
		list   []*catalog.Entry
		memory int64
		want   string
	}{
		{nil, 7040 << 20, "qwen3:1.7b"},
		{[]*catalog.Entry{built}, 7040 << 20, "qwen3:1.7b"},
		{[]*catalog.Entry{built}, 2944 << 20, "qwen3:0.6b"},
		{[]*catalog.Entry{built}, 100 << 20, ""},
		{[]*catalog.Entry{built}, 0, ""},
		{[]*catalog.Entry{built, fetched}, 7040 << 20, ""},
	} {
		if got := first(c.list, c.memory); got != c.want {
			t.Errorf("%d models, %d bytes: %q, want %q", len(c.list), c.memory, got, c.want)
		}
	}
}
