// Package conversation lets a person talk to a model in a terminal: one answer, or a conversation
// with a line editor, a history and commands such as /set and /show. It asks a server through
// package client, wherever that server runs. A Talk belongs to one goroutine; the caller closes the
// connection after Run. Ctrl-C ends an answer, never the conversation.
package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/internal/terminal"
)

// ErrInterrupted is that the person ended the work. Nothing more is to be said.
var ErrInterrupted = errors.New("interrupted")

// Talk is what a conversation in the terminal is made of. Conn, Model, Out and Errw must be set.
type Talk struct {
	Conn       *client.Client
	Stop       func() error // ends the connection when a signal ends the program at the prompt; nil: there is nothing to end
	Model      string
	Format     json.RawMessage // of answers: nil, "json" in quotes, or a schema
	KeepAlive  *api.Duration
	Think      *api.ThinkValue
	HideThink  bool
	Verbose    bool // timings after each answer
	NoMarkdown bool // show answers as they were written, in a terminal too
	Out, Errw  io.Writer

	session  string // this conversation's id; "": the next request begins one
	caps     []model.Capability
	system   string
	loaded   []api.Message // the model's own turns: the server puts them before every conversation
	messages []api.Message // this conversation's
	options  map[string]any
	tty      bool // Out is a terminal
	colour   bool // one that takes colours, and whose owner wants them (NO_COLOR)
	wrap     bool // words are not cut at its edge
}

// Run gives one answer to prompt, or where in is a terminal and prompt is empty, holds a
// conversation in it. in is nil where there is no terminal to type in. wrap keeps words whole at
// the edge of a terminal. Errors: ErrInterrupted, client.ErrBrokeOff, and what the server says.
func (t *Talk) Run(ctx context.Context, prompt string, in *os.File, wrap bool) error {
	t.options = map[string]any{}
	t.tty = terminal.Is(t.Out)
	_, draws := terminal.Screen(t.Out)
	t.colour, t.wrap = draws && os.Getenv("NO_COLOR") == "", draws && wrap
	t.NoMarkdown = t.NoMarkdown || !draws
	if !t.tty {
		t.Out = plain.Raw(t.Out) // what takes it has the answer as the model gave it
	}
	if err := t.load(ctx, in != nil && prompt == ""); err != nil {
		return err
	}
	switch {
	case slices.Contains(t.caps, model.CapabilityImage):
		return fmt.Errorf("%s draws pictures: 'axle draw' writes one to a file", t.Model)
	case slices.Contains(t.caps, model.CapabilityEmbedding):
		return t.vector(ctx, prompt)
	case prompt != "" || in == nil:
		return t.once(ctx, prompt)
	}
	return t.converse(ctx, in)
}

// ParseFormat reads json or a JSON schema; empty is neither.
func ParseFormat(s string) (json.RawMessage, error) {
	switch {
	case s == "":
		return nil, nil
	case s == "json":
		return json.RawMessage(`"json"`), nil
	case json.Valid([]byte(s)):
		return json.RawMessage(s), nil
	}
	return nil, fmt.Errorf("--format is neither json nor a JSON schema")
}

// ParseThink reads how a model is to think.
func ParseThink(s string) (*api.ThinkValue, error) {
	switch strings.ToLower(s) {
	case "", "true":
		return &api.ThinkValue{Value: true}, nil
	case "false":
		return &api.ThinkValue{Value: false}, nil
	}
	t := &api.ThinkValue{Value: strings.ToLower(s)}
	if err := api.ValidateLegacyThinking(t); err != nil {
		return nil, fmt.Errorf("--think: %w", err)
	}
	return t, nil
}

// ParseKeep reads a duration, or a number of seconds.
func ParseKeep(s string) (*api.Duration, error) {
	b, err := json.Marshal(s)
	var d api.Duration
	if err == nil {
		if err = json.Unmarshal(b, &d); err != nil {
			err = json.Unmarshal([]byte(s), &d)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--keepalive: %q is not a duration such as 5m, nor a number of seconds", s)
	}
	return &d, nil
}

// load asks what the model is, pulling it where it is not here, and loads it when a conversation
// will follow. An interrupt ends it.
func (t *Talk) load(ctx context.Context, warm bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := t.prepare(ctx, warm)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

func (t *Talk) prepare(ctx context.Context, warm bool) error {
	show := func() (*api.ShowResponse, error) { return t.Conn.Show(ctx, &api.ShowRequest{Model: t.Model}) }
	info, err := show()
	if client.StatusIs(err, http.StatusNotFound) {
		view := client.NewPullView(t.Errw)
		perr := t.Conn.Pull(ctx, t.Model, view.Update)
		view.End()
		if perr != nil {
			return fmt.Errorf("%w (%w)", client.Error(err), perr)
		}
		info, err = show()
	}
	if err != nil {
		return client.Error(err)
	}
	t.caps = info.Capabilities
	t.loaded = info.Messages
	if !warm || slices.Contains(t.caps, model.CapabilityEmbedding) || slices.Contains(t.caps, model.CapabilityImage) {
		return nil
	}
	return client.Error(t.Conn.Generate(t.turn(ctx), &api.GenerateRequest{Model: t.Model, KeepAlive: t.KeepAlive, Stream: new(false)},
		func(api.GenerateResponse) error { return nil }))
}

// turn is ctx for a request of this conversation. The request that loads the model is one too:
// behind a proxy the model has to be loaded on the server that will answer.
func (t *Talk) turn(ctx context.Context) context.Context {
	if t.session == "" {
		t.session = client.NewSession()
	}
	return client.WithSession(ctx, t.session)
}

func (t *Talk) vector(ctx context.Context, text string) error {
	if text == "" {
		return errors.New("embedding models need something to embed: give a prompt or pipe text in")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := t.Conn.Embed(ctx, &api.EmbedRequest{Model: t.Model, Input: text, KeepAlive: t.KeepAlive})
	switch {
	case ctx.Err() != nil:
		return ErrInterrupted
	case err != nil:
		return client.Error(err)
	case len(r.Embeddings) == 0:
		return client.ErrBrokeOff
	}
	return json.NewEncoder(t.Out).Encode(r.Embeddings[0])
}

// imagePath finds what looks like the path of an image in a prompt: in quotes, or with a backslash
// before what is no letter, as terminals write a file that is dropped on them, or as it is. In
// single quotes shells write an apostrophe as a quote, a backslash and two quotes.
var imagePath = func() *regexp.Regexp {
	const ends = `\.(?i:jpg|jpeg|png|webp|gif|bmp|heic|avif)` // the last two are refused by name, not taken for words
	return regexp.MustCompile(`'((?:[^'\n]|'\\'')+` + ends + `)'|"([^"\n]+` + ends + `)"|((?:\\.|[^\s"'\\])+?` + ends + `\b)`)
}()

// escaped is what a backslash stands before in a path.
var escaped = regexp.MustCompile(`\\(.)`)

// images takes the images out of a prompt, where the model sees.
func (t *Talk) images(prompt string) (string, []api.ImageData, error) {
	if !slices.Contains(t.caps, model.CapabilityVision) {
		return prompt, nil, nil
	}
	var out []api.ImageData
	for _, found := range imagePath.FindAllStringSubmatch(prompt, -1) {
		written, path, b, err := readImage(found)
		if errors.Is(err, os.ErrNotExist) { // a word, not a file
			if strings.Contains(path, "/") && !strings.Contains(path, "://") {
				fmt.Fprintf(t.Errw, "There is no file '%s': the model reads its name only\n", path)
			}
			continue
		}
		if err != nil {
			return prompt, nil, err
		}
		if ct := http.DetectContentType(b); !strings.HasPrefix(ct, "image/") {
			return prompt, nil, fmt.Errorf("%s is no image that can be read (%s): save it as jpeg or png", path, ct)
		}
		fmt.Fprintf(t.Errw, "Added image '%s'\n", path)
		prompt = strings.Replace(prompt, written, "", 1)
		out = append(out, b)
	}
	return strings.TrimSpace(prompt), out, nil
}

// readImage reads the file that is meant by what was found in a prompt, the first of those that it
// may mean which is there: as it is written, with its escapes undone, as a file's address, behind a
// bracket. written is what stands for it in the prompt, path what it is.
func readImage(found []string) (written, path string, b []byte, err error) {
	bare := strings.TrimLeft(found[3], "([{<:=,")
	address, _ := url.PathUnescape(strings.TrimPrefix(bare, "file://"))
	for i, way := range [][2]string{
		{found[0], strings.ReplaceAll(found[1], `'\''`, "'") + found[2] + found[3]},
		{found[0], escaped.ReplaceAllString(found[3], "$1")}, {bare, bare}, {bare, escaped.ReplaceAllString(bare, "$1")},
		{bare, address},
	} {
		if i > 0 && (way[1] == "" || way[1] == path) {
			continue
		}
		got, gotErr := regular.ReadPath(way[1], 32<<20) // no request may be larger
		if i == 0 || !errors.Is(gotErr, os.ErrNotExist) {
			written, path, b, err = way[0], way[1], got, gotErr
		}
		if !errors.Is(gotErr, os.ErrNotExist) {
			break
		}
	}
	return written, path, b, err
}

// once prints one answer.
func (t *Talk) once(ctx context.Context, prompt string) error {
	text, images, err := t.images(prompt)
	if err != nil {
		return err
	}
	if text == "" && len(images) == 0 {
		return t.load(ctx, true)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := t.printer()
	err = t.Conn.Generate(t.turn(ctx), &api.GenerateRequest{Model: t.Model, Prompt: text, Images: images, Format: t.Format,
		KeepAlive: t.KeepAlive, Think: t.Think, Options: t.options, System: t.system}, func(r api.GenerateResponse) error {
		p.thinking(r.Thinking)
		p.text(r.Response)
		if r.Done {
			p.end(r.Metrics)
		}
		return nil
	})
	if ctx.Err() != nil {
		p.plain()
		fmt.Fprintln(t.Out)
		return ErrInterrupted
	}
	if err == nil && !p.ended {
		err = client.ErrBrokeOff
	}
	if err != nil {
		p.broken()
	}
	return client.Error(err)
}

// answer adds a message and prints the model's answer to it. An interrupt ends the answer and keeps
// what came; where nothing came, and after an error, the message is not kept either.
func (t *Talk) answer(ctx context.Context, prompt string) error {
	text, images, err := t.images(prompt)
	if err != nil {
		return err
	}
	msgs := t.messages
	if t.system != "" {
		msgs = append([]api.Message{{Role: "system", Content: t.system}}, msgs...)
	}
	ask := api.Message{Role: "user", Content: text, Images: images}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	p := t.printer()
	err = t.Conn.Chat(t.turn(ctx), &api.ChatRequest{Model: t.Model, Messages: append(slices.Clone(msgs), ask), Format: t.Format,
		KeepAlive: t.KeepAlive, Think: t.Think,
		Options: t.options}, func(r api.ChatResponse) error {
		p.thinking(r.Message.Thinking)
		p.text(r.Message.Content)
		if r.Done {
			p.end(r.Metrics)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && !p.ended:
		p.plain()
		fmt.Fprint(t.Out, "\n\n")
		if p.said.Len() == 0 {
			return nil
		}
	case err != nil:
		p.broken()
		return client.Error(err)
	case !p.ended:
		p.broken()
		return client.ErrBrokeOff
	}
	t.messages = append(t.messages, ask, api.Message{Role: "assistant", Content: p.said.String()})
	return nil
}
