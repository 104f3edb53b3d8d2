package answer

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/server/openai"
)

// Items of answers are kept for ten minutes, each key's apart, and no more of them than there is room for: the oldest go, and nothing is
// left over.
func TestItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s items
		put := func(key, id string, n int) {
			s.keep(key, []openai.Item{{ID: id, JSON: bytes.Repeat([]byte("x"), n)}})
		}
		has := func(key, id string) bool { _, ok := s.find(key, id); return ok }
		put("ann", "a", 10)
		time.Sleep(9 * time.Minute)
		put("ann", "b", 10)
		if !has("ann", "a") || !has("ann", "b") || has("bob", "a") || has("", "a") {
			t.Error("after nine minutes, or of another key")
		}
		time.Sleep(time.Minute)
		if has("ann", "a") || !has("ann", "b") {
			t.Error("after ten minutes")
		}
		put("ann", "large", tooMuchItem)
		if has("ann", "large") {
			t.Error("an item that is too large is kept")
		}
		for i := range 10 { // 5 MB of one key
			put("bob", fmt.Sprint(i), 1<<19)
		}
		if has("bob", "6") || !has("bob", "7") || !has("ann", "b") || s.by["bob"].bytes > mostOfKey {
			t.Errorf("bob has %d bytes", s.by["bob"].bytes)
		}
		for i := range 100 {
			put(fmt.Sprint("key", i), "x", 1<<19)
			time.Sleep(time.Second)
		}
		if s.all > mostOfAll || has("ann", "b") || has("key0", "x") || !has("key99", "x") {
			t.Errorf("all have %d bytes", s.all)
		}
		time.Sleep(keepItems)
		if has("key99", "x") || s.all != 0 || len(s.by) != 0 {
			t.Errorf("%d bytes of %d keys are left over", s.all, len(s.by))
		}
	})
}
