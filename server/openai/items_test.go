package openai

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// Items of answers are kept for ten minutes, each key's apart, and no more of them than there is
// room for: the oldest go, and nothing is left over.
func TestItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s items
		put := func(key, id string, n int) {
			s.keep(key, []Item{{ID: id, JSON: bytes.Repeat([]byte("x"), n)}}, nil)
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

// A conversation is there as long as one of its answers was asked for within ten minutes and there
// is room for all of it; it is no item, and no item is one.
func TestTurns(t *testing.T) {
	lane.NoRace(t)
	synctest.Test(t, func(t *testing.T) {
		var s items
		put := func(key, id, previous string, n int) {
			s.keep(key, []Item{{ID: "item of " + id, JSON: []byte("x")}},
				&Turn{ID: id, Previous: previous, JSON: bytes.Repeat([]byte(id), n)})
		}
		said := func(key, id string) string {
			turns, ok := s.conversation(key, id)
			if !ok {
				return "nothing"
			}
			return string(bytes.Join(turns, []byte(" ")))
		}
		put("ann", "a", "", 2)
		for i, id := range []string{"b", "c", "d"} { // longer than ten minutes
			time.Sleep(9 * time.Minute)
			if before := said("ann", string(rune('a'+i))); before == "nothing" {
				t.Fatalf("before %s nothing is there", id)
			}
			put("ann", id, string(rune('a'+i)), 1)
		}
		if got := said("ann", "d"); got != "aa b c d" {
			t.Errorf("said: %q", got)
		}
		if _, ok := s.find("ann", "d"); ok || said("ann", "item of d") != "nothing" || said("bob", "d") != "nothing" {
			t.Error("a turn is an item, an item a turn, or another key's are told")
		}
		time.Sleep(10 * time.Minute)
		if said("ann", "d") != "nothing" || s.all != 0 || len(s.by) != 0 {
			t.Errorf("after ten minutes: %q, %d bytes", said("ann", "d"), s.all)
		}
		put("ann", "e", "", 1<<19)
		put("ann", "f", "e", 1<<19)
		put("ann", "g", "f", 1<<19)
		if len(said("ann", "g")) != 3<<19+2 {
			t.Errorf("three turns have %d bytes", len(said("ann", "g")))
		}
		put("ann", "h", "g", 1<<19) // 2 MiB and more: the first goes
		if said("ann", "h") != "nothing" || s.by["ann"].bytes > mostOfKey {
			t.Errorf("a conversation without its beginning: %d bytes", len(said("ann", "h")))
		}
	})
}
