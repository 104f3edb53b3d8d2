package vendor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server/body"
)

// No body makes the decoder panic; whatever is refused has a status and a text, and what is taken
// can be asked of a model, its numbers in range.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"prompt":"x","temperature":0.8,"top-k":40,"top-p":2,"repetition_penalty":1.1,"model":"m"}`,
		`{"messages":[{"role":"user","content":"x","images":["AAAA"]},{"role":"assistant","tool_calls":[{"function":{"arguments":{"a":1}}}]}]}`,
		`{"system_prompt":"be brief","file_path":{"a":[1]}}`, `{"prompt":null,"top-k":1e308}`, `{"temperature":-0,"top-p":1e-300}`, `[[[[`,
		`{"prompt":"x"} trailing`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() { decode(t, b) })
	})
}

func decode(t *testing.T, b []byte) {
	r, err := Decode(b)
	if err != nil {
		wantStatus(t, err)
		return
	}
	for _, isChat := range []bool{false, true} {
		var s Session
		if err := s.Reset(r); err != nil {
			t.Errorf("a new conversation: %v", err)
		}
		ctx, req, err := s.Begin(context.Background(), r, isChat)
		if err != nil {
			wantStatus(t, err)
			continue
		}
		if o := req.Options; len(req.Ask.Messages) == 0 || o["top_p"] != nil && !(o["top_p"].(float64) > 0 && o["top_p"].(float64) <= 1) ||
			o["temperature"] != nil && !(o["temperature"].(float64) > 0) {
			t.Errorf("%+v of %s", req, b)
		}
		if _, _, err := s.Begin(ctx, r, isChat); err == nil {
			t.Error("two answers at once")
		}
		s.End("said", nil)
		if ctx.Err() == nil {
			t.Error("the answer's context goes on")
		}
	}
}

func wantStatus(t *testing.T, err error) {
	t.Helper()
	var se *body.Failure
	if !errors.As(err, &se) || se.Status < 400 || se.Text == "" {
		t.Errorf("an error without a status: %v", err)
	}
}

// A mebibyte of the worst there is, and what is just allowed, stays within the limits.
func TestHostilePeak(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for _, p := range [][3]string{{`{"messages":[{}`, `,{}`, `]}`}, {`{"prompt":"`, `\u0000`, `"}`},
		{`{"messages":[{"images":[""`, `,""`, `]}]}`},
		{`{"messages":[{"tool_calls":[{"function":{"arguments":{"a":[0`, `,0`, `]}}}]}]}`}, {`{"file_path":[1`, `,1`, `]}`}} {
		most := 0 // how often a unit may come, by the parts that a body may hold
		if parts := strings.Count(p[1], `"`)/2 + strings.Count(p[1], "{") + strings.Count(p[1], "["); parts > 0 {
			most = (body.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			fuzzguard.Check(t, len(b), func() { decode(t, b) })
		}
	}
}
