//go:build cgo && !fake && !scripted && linux

package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestNonsense (D6): under sixteen streams one execute gives NaN. No answer ends as if it were well
// that is not right, and none said anything else before it failed; the server goes on, and its next
// answers are right. (All executes giving NaN, or values all alike, lose the card:
// TestCardLostRestarts.)
func TestNonsense(t *testing.T) {
	//proves:D6 under streams
	unraced(t)
	t.Parallel()
	const why = "logits are NaN, infinite or all equal"
	u := newUnit(t)
	u.remember()
	p := u.start()
	right := goldens(t, p)
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p = u.start("AXSIM_FAULT=Execute:1500:nan")
	stop := make(chan struct{})
	all := make(chan []outcome, 1)
	go func() { all <- streams(p, nil, stop) }()
	p.until("meets the fault", func() bool { return !u.faulted(p).IsZero() })
	again := goldens(t, p)
	close(stop)
	for _, o := range <-all {
		is := false // an answer is to one of the prompts
		for _, want := range right {
			is = is || o.end == endWhole && o.text == want || o.end == endFailed && strings.HasPrefix(want, o.text)
			is = is || o.end == endRefused && o.code == http.StatusInternalServerError // it had a token, and nothing of it was sent
		}
		if !is || o.end != endWhole && !strings.Contains(o.detail, why) {
			t.Errorf("%+v", o)
		}
	}
	for prompt, want := range right {
		if again[prompt] != want {
			t.Errorf("%q: afterwards %q, want %q", prompt, again[prompt], want)
		}
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}
