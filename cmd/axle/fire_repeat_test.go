//go:build cgo && !fake && !scripted && linux

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRepeatableServed (G14): a repeatable request reuses nothing, whether it says so itself or the
// server was told to make every request one, and what it answers is the same each time. /metrics
// say whether the card needs that.
func TestRepeatableServed(t *testing.T) {
	//proves:G14
	unraced(t)
	for name, tt := range map[string]struct {
		args    []string
		options obj
		reuses  bool
	}{
		"as ever":         {nil, obj{}, true},
		"by the request":  {nil, obj{"repeatable": true}, false},
		"by the server":   {[]string{"--repeatable"}, obj{}, false},
		"said to be none": {nil, obj{"repeatable": false}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newUnit(t, append([]string{"--device", "axcl"}, tt.args...)...).start()
			tt.options["temperature"], tt.options["num_predict"] = 0, 24
			body, err := json.Marshal(obj{"model": "pocket", "prompt": "What is a watchdog for, in a sentence or two?", "stream": false,
				"options": tt.options})
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			for range 3 {
				code, answer := p.post("/api/generate", body)
				var said struct{ Response, Thinking string }
				if err := json.Unmarshal([]byte(answer), &said); code != 200 || err != nil || said.Response+said.Thinking == "" {
					t.Fatalf("%d %s", code, answer)
				}
				if first == "" {
					first = said.Thinking + said.Response
				} else if got := said.Thinking + said.Response; got != first {
					t.Errorf("another answer: %q, first %q", got, first)
				}
			}
			if n := p.metric("axle_reused_tokens_total"); n > 0 != tt.reuses {
				t.Errorf("%v tokens were reused", n)
			}
			if m := p.metrics(); !strings.Contains(m, `what="alike_ordered"} 1`) || !strings.Contains(m, `what="alike_anywhere"}`) {
				t.Errorf("nothing is said of bits in other cells:\n%s", m)
			}
			if c := p.stop(); c != 0 {
				t.Errorf("exit code %d", c)
			}
		})
	}
}
