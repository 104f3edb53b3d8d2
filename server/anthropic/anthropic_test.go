package anthropic

import (
	"errors"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// No body makes a decoder panic, and whatever is refused has a status and a text.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled"}}`,
		`{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"y"}]},{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}`,
		`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(decoders)
}

// decoders gives a body to each decoder, within the limits of promise G5.
func decoders(t *testing.T, b []byte) {
	for _, d := range []func(prompt.From, []byte) (*prompt.Request, prompt.Encoder, error){decode, decodeCount} {
		fuzzguard.Check(t, len(b), func() {
			var f *body.Failure
			if body.Check(b) != nil {
				return
			}
			r, _, err := d(nil, b)
			if err != nil {
				if !errors.As(err, &f) || f.Status < 400 || f.Text == "" {
					t.Errorf("an error without a status: %v", err)
				}
				return
			}
			// Where a message's content keeps an order, it has a place for each of its pictures.
			sees := prompt.Model{Caps: chat.Capabilities{Tools: true, Thinking: true, Vision: true}}
			er, _, _, err := r.Engine(sampler.Defaults(), sees)
			for i, m := range er.Messages {
				n := 0
				for _, p := range m.Parts {
					if p.Image {
						n++
					}
				}
				if err == nil && m.Parts != nil && n != len(m.Images) {
					t.Errorf("message %d has %d pictures and %d places", i, len(m.Images), n)
				}
			}
		})
	}
}

// A mebibyte of the worst there is, and what is just allowed, stays within the limits.
func TestHostilePeak(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	const head = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":`
	for _, p := range [][3]string{{`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}`, `,{}`, `]}`},
		{head + `[{"type":"text","text":""}`, `,{"type":"text","text":"a"}`, `]}]}`},
		{head + `"`, `\u0000`, `"}]}`}, {head + `"x"}],"tools":[{"name":"f"}`, `,{"name":"f"}`, `]}`},
		{head + `[{"type":"tool_result","tool_use_id":"a","content":[{}`, `,{}`, `]}]}]}`},
		{head + `"x"}],"tools":[{"name":"f","input_schema":{"a":[0`, `,0`, `]}}]}`},
		{head + `[{"type":"image","source":{"type":"base64","data":"`, `AAAA`, `"}}]}]}`}} {
		most := 0 // how often a unit may come, by the parts that a body may hold
		if parts := strings.Count(p[1], `"`)/2 + strings.Count(p[1], "{") + strings.Count(p[1], "["); parts > 0 {
			most = (body.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			decoders(t, b)
		}
	}
}

func TestToolChoice(t *testing.T) {
	const head = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object","minProperties":1}}],"tool_choice":`
	for in, want := range map[string]string{`{"type":"any"}`: "required", `{"type":"tool","name":"f"}`: "f", `{"type":"none"}`: "none",
		`{"type":"auto","disable_parallel_tool_use":true}`: "auto", `null`: ""} {
		r, _, err := decode(nil, []byte(head+in+"}"))
		if err != nil || r.Ask.ToolChoice != want || r.Ask.SerialTools != (want == "auto") || !r.RelaxThink {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, _, err := decode(nil, []byte(head+`{"type":"maybe"}}`)); err == nil {
		t.Error("an unknown choice is taken")
	}
}
