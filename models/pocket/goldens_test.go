package pocket_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models/pocket/pockettest"
	"github.com/axle-llm/axle/tokenizer/chat"
)

var update = flag.Bool("update", false, "write pockettest/goldens.json anew from the weights in the tree")

// leastTaught is the share of the goldens that are what the corpus teaches. They are asked as the
// corpus asks, so it is near one where training was long enough; it rises when better weights are
// put in.
const leastTaught = 0.9

// TestGoldens asks the engine every golden question, greedily. The answers are what the end-to-end
// tests of the dialects compare with.
func TestGoldens(t *testing.T) {
	all, err := pockettest.All()
	if err != nil {
		t.Fatal(err)
	}
	m := open(t)
	taught := 0
	for i := range all {
		c := &all[i]
		got := answer(t, m, *c)
		if *update {
			c.Want = got
		}
		if diff := cmp.Diff(c.Want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", c.Name, diff)
		}
		if got.Same(c.Taught) {
			taught++
		} else {
			t.Logf("%s: taught %s, says %s", c.Name, brief(c.Taught), brief(got))
		}
	}
	t.Logf("%d of %d are as taught", taught, len(all))
	if float64(taught) < leastTaught*float64(len(all)) {
		t.Errorf("%d of %d goldens are as taught, want %.0f %%", taught, len(all), 100*leastTaught)
	}
	if *update {
		b, err := pockettest.Encode(all)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("pockettest/goldens.json", b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// brief is an answer on a line.
func brief(a pockettest.Answer) string {
	s := strconv.Quote(a.Text)
	for _, c := range a.Calls {
		s += " " + c.Name + string(c.Arguments)
	}
	return s
}

// answer asks the engine directly.
func answer(t *testing.T, m *engine.Model, c pockettest.Case) (a pockettest.Answer) {
	t.Helper()
	r := engine.Request{Sampling: m.Sampling(), Limit: 160}
	r.Sampling.Temperature = 0
	if c.Think != nil {
		r.Think = map[bool]chat.Think{true: chat.ThinkOn, false: chat.ThinkOff}[*c.Think]
	}
	switch {
	case bytes.Equal(c.Format, []byte(`"json"`)):
		r.Format.JSON = true
	case c.Format != nil:
		r.Format.Schema = c.Format
	}
	for _, x := range c.Tools {
		raw, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		r.Tools = append(r.Tools, chat.Tool{Type: x.Type, Name: x.Function.Name, Description: x.Function.Description,
			Parameters: x.Function.Parameters, Raw: raw})
	}
	for _, x := range c.Messages {
		msg := chat.Message{Role: x.Role, Content: x.Content, ToolName: x.Tool}
		for _, call := range x.Calls {
			msg.ToolCalls = append(msg.ToolCalls, chat.ToolCall{Name: call.Name, Arguments: call.Arguments})
		}
		r.Messages = append(r.Messages, msg)
	}
	for e, err := range m.Chat(t.Context(), r) {
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		a.Text += e.Text
		a.Thinking += e.Thinking
		if e.ToolCall != nil {
			var b bytes.Buffer
			if err := json.Compact(&b, e.ToolCall.Arguments); err != nil {
				t.Fatalf("%s: arguments %s: %v", c.Name, e.ToolCall.Arguments, err)
			}
			a.Calls = append(a.Calls, pockettest.Call{Name: e.ToolCall.Name, Arguments: b.Bytes()})
		}
		if e.Done != nil {
			a.In, a.Out = e.Done.Usage.Prompt, e.Done.Usage.Output
			if e.Done.Reason == "length" {
				t.Errorf("%s: no end after %d tokens: %q", c.Name, a.Out, a.Text)
			}
		}
	}
	return a
}
