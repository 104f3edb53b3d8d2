package manage

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// No body of the routes that manage models makes them panic, and whatever is refused has a status
// and a text.
func FuzzManage(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"model":"m","input":["a",""],"truncate":false,"dimensions":3,"options":{"num_ctx":5},"keep_alive":"5m"}`,
		`{"model":"m","prompt":"x"}`,
		`{"model":"mine","from":"m:latest","system":"s","template":"{{ .Prompt }}{{ range .Messages }}{{ .Content }}{{ end }}","parameters":{"stop":["<END>"],"temperature":0.5},"messages":[{"role":"user","content":"q"}],"license":["a","b"]}`,
		`{"model":"mine","files":{"a.axmodel":"sha256:` + strings.Repeat("0", 64) + `"},"license":"x"}`,
		`{"name":"x","from":"../y","license":[5]}`, `{"model":"x:cloud","verbose":true}`,
		`{"source":"a","destination":"b/c:d"}`, `{"model":"registry/x:7b","insecure":true,"stream":false}`,
		`{"from":"x","parameters":{"num_ctx":1e400}}`, `[[[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() { manage(t, b) })
	})
}

// manage does with a body what the handlers do before they ask the store or the host.
func manage(t *testing.T, b []byte) {
	check := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		if code, text := request.Status(err); code < 400 || code >= 500 || text == "" {
			t.Errorf("%d %q: %v", code, text, err)
		}
	}
	if err := body.Check(b); err != nil {
		check(err)
		return
	}
	var create api.CreateRequest
	if err := body.Decode(b, &create); err == nil {
		r, err := createRequest(create)
		check(err)
		if err == nil && r.Template != nil {
			_, _ = chat.NewGo(*r.Template)
		}
	} else {
		check(err)
	}
	var embed api.EmbedRequest
	if err := body.Decode(b, &embed); err == nil {
		_, err := prompt.Inputs(embed.Input)
		check(err)
		check(prompt.CheckOptions(nil, embed.Options))
	} else {
		check(err)
	}
	var old api.EmbeddingRequest
	check(body.Decode(b, &old))
	var show api.ShowRequest
	check(body.Decode(b, &show))
	var copied api.CopyRequest
	check(body.Decode(b, &copied))
	var pull api.PullRequest
	if err := body.Decode(b, &pull); err == nil {
		invalid := body.Fail(http.StatusBadRequest, "invalid model name")
		_, err := prompt.ParseRef(pull.Model, invalid, invalid)
		check(err)
	} else {
		check(err)
	}
}

// A mebibyte of the worst there is, and what is just allowed, stays within the limits (promise G5).
func TestHostilePeak(t *testing.T) {
	//proves:T7
	//proves:G5 a mebibyte of hostile bytes each
	lane.Slow(t)
	lane.NoRace(t)
	for _, p := range [][3]string{{`{"input":[""`, `,""`, `]}`}, {`{"messages":[{}`, `,{}`, `]}`}, {`{"license":[""`, `,""`, `]}`},
		{`{"input":"`, `\u0000`, `"}`}, {`{"parameters":{"stop":["a"`, `,"a"`, `]}}`}, {`{"options":{"a":[0`, `,0`, `]}}`}} {
		most := 0 // how often a unit may come, by the parts that a body may hold
		if parts := strings.Count(p[1], `"`)/2 + strings.Count(p[1], "{") + strings.Count(p[1], "["); parts > 0 {
			most = (body.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) +
			p[2])} {
			fuzzguard.Check(t, len(b), func() { manage(t, b) })
		}
	}
}
