package prompt_test

import (
	"fmt"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// The server reads a body with a dialect's route, asks a model what comes of it, and writes what
// the encoder makes of the answer's parts.
func ExampleDialect() {
	d := plainText()
	r, enc, err := d.Routes[0].Read(nil, []byte("how are you?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Ask.Messages[0].Content)
	a := prompt.Answer{Model: r.Model, Start: time.Now()}
	for _, word := range []string{"very ", "well"} {
		b, err := enc.Chunk(a.Part(ask.Event{Text: word}, time.Now()))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s", b)
	}
	// Output:
	// how are you?
	// very well
}

// A dialect with one route: a line of text asks, lines of text answer.
func plainText() prompt.Dialect {
	return prompt.Dialect{
		Under: "/plain/", ErrorType: "text/plain",
		Error: func(_ error, _ int, text string) []byte { return []byte(text + "\n") },
		Routes: []prompt.Route{{Path: "/plain/chat", Role: access.Ask, Small: true,
			Read: func(_ prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
				if len(b) == 0 {
					return nil, nil, body.Fail(400, "there is no question")
				}
				r := &prompt.Request{Model: "pocket", Unnamed: prompt.ErrUnnamed, Chat: true}
				r.Ask.Messages = []ask.Message{{Role: "user", Content: string(b)}}
				return r, lines{}, nil
			}}},
	}
}

type lines struct{}

func (lines) Streams() bool                             { return true }
func (lines) Type() string                              { return "text/plain" }
func (lines) Chunk(p prompt.Part) ([]byte, error)       { return []byte(p.Text), nil }
func (lines) Whole(p prompt.Part) ([]byte, error)       { return []byte(p.Text), nil }
func (lines) WholeType() string                         { return "text/plain" }
func (lines) ErrorBody(_ int, text string) []byte       { return []byte(text + "\n") }
func (l lines) ErrorEnd(status int, text string) []byte { return l.ErrorBody(status, text) }
