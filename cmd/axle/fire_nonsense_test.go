//go:build cgo && !fake && !scripted && linux

package main

import (
	"strings"
	"testing"
)

// TestNonsense (D6): under sixteen streams all executes begin to give NaN, or outputs that are all equal. No answer ends as if it were well;
// each says what is wrong, and what it said before is right but for one token: the largest of such logits has the index 0, which makes the
// next ones be looked at.
func TestNonsense(t *testing.T) {
	const why = "logits are NaN, infinite or all equal"
	for _, fault := range []string{"nan:sticky", "flat:sticky"} {
		t.Run(fault, func(t *testing.T) {
			u := newUnit(t)
			u.remember()
			p := u.start()
			right := goldens(t, p)
			if c := p.stop(); c != 0 {
				t.Errorf("exit code %d", c)
			}
			p = u.start("AXSIM_FAULT=Execute:3000:" + fault)
			stop := make(chan struct{})
			all := make(chan []outcome, 1)
			go func() { all <- streams(p, nil, stop) }()
			p.until("fails", func() bool { return !u.faulted(p).IsZero() && p.metric("axle_failed_total") > 0 })
			close(stop)
			ends := map[string]int{}
			for _, o := range <-all {
				ends[o.end]++
				begins := func(s string) bool { return strings.HasPrefix(s, strings.TrimSuffix(o.text, "\x00")) }
				is := false // an answer is to one of the prompts
				for _, want := range right {
					is = is || o.end == endWhole && o.text == want || o.end == endFailed && begins(want)
				}
				if !is && o.end != endRefused || o.end != endWhole && !strings.Contains(o.detail, why) {
					t.Errorf("%+v", o)
				}
			}
			if ends[endFailed] == 0 {
				t.Errorf("no stream was told: %v", ends)
			}
			p.refused("pocket", why)
			if c := p.stop(); c != 0 {
				t.Errorf("exit code %d", c)
			}
			p.quiet()
		})
	}
}
