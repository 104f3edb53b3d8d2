package engine

import "testing"

// What a slow reader left in its box is told as one: each token says whether another, or the end,
// is there already.
func TestMailboxMore(t *testing.T) {
	b := &mailbox{wake: make(chan struct{}, 1)}
	put := func(ids ...int32) {
		for _, id := range ids {
			b.put(Token{ID: id})
		}
	}
	want := func(what string, more ...bool) {
		t.Helper()
		tokens, _, _ := b.take(nil)
		if len(tokens) != len(more) {
			t.Fatalf("%s: %d tokens", what, len(tokens))
		}
		for i, tok := range tokens {
			if tok.More != more[i] {
				t.Errorf("%s: token %d says more: %v", what, i, tok.More)
			}
		}
	}
	put(1)
	want("one", false)
	put(2, 3, 4)
	want("three", true, true, false)
	put(5)
	b.put(Token{Final: ReasonStop})
	want("the last, with the end", true, true)

	b = &mailbox{wake: make(chan struct{}, 1)}
	put(6)
	b.fail(ErrClosed)
	want("the last, with an error", true)
}
