package vendor

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// What failed, was undone or said nothing is not part of the conversation.
func TestFailedTurns(t *testing.T) {
	//proves:T7
	var s Session
	begin(t, &s, "one")
	s.End("first", nil)
	begin(t, &s, "two")
	s.End("sec", errors.New("cut"))
	begin(t, &s, "three")
	s.Undo()
	begin(t, &s, "four")
	s.End("", nil)
	if got := strings.Join(begin(t, &s, "five"), ", "); got != "user one, assistant first, user five" {
		t.Errorf("asked with %s", got)
	}
	s.End("", nil)
}

func begin(t *testing.T, s *Session, prompt string) []string {
	t.Helper()
	_, req, err := s.Begin(context.Background(), &Request{Prompt: &prompt}, false)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range req.Ask.Messages {
		out = append(out, m.Role+" "+m.Content)
	}
	return out
}

// A conversation is bounded in turns and in text: the oldest go, and it begins with a question.
func TestTurnsBounded(t *testing.T) {
	//proves:T7
	for size, rounds := range map[int]int{1: maxTurns, 100_000: 12, maxKept: 3} {
		var s Session
		last, text := 0, strings.Repeat("x", size)
		for range rounds {
			asked := begin(t, &s, text)
			last = len(asked)
			if asked[0][:5] != "user " || len(asked) > maxTurns+1 || (len(asked)-1)*size > maxKept {
				t.Fatalf("%d turns of %d bytes, first %.20q", len(asked), size, asked[0])
			}
			s.End(text, nil)
		}
		if want := min(maxTurns, maxKept/size/2*2) + 1; last != want {
			t.Errorf("of turns of %d bytes %d are asked with, want %d", size, last, want)
		}
	}
}
