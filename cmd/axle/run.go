package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newRunCmd) }

// talk is what a conversation in the terminal is made of.
type talk struct {
	conn      *connection
	model     string
	caps      []model.Capability
	system    string
	loaded    []api.Message // the model's own turns: the server puts them before every conversation
	messages  []api.Message // this conversation's
	options   map[string]any
	format    json.RawMessage
	keepAlive *api.Duration
	think     *api.ThinkValue
	hideThink bool
	verbose   bool
	out, errw io.Writer
	tty       bool // out is a terminal
	colour    bool // one that takes colours, and whose owner wants them (NO_COLOR)
	wrap      bool // words are not cut at its edge
}

func newRunCmd() *cobra.Command {
	var keep, format, think string
	var verbose, hide, nowrap bool
	cmd := &cobra.Command{
		Use:   "run MODEL [PROMPT]",
		Short: "Talk to a model",
		Long: "Talk to a model: one answer when there is a PROMPT or something piped in, else a conversation in the terminal.\n" +
			"Images are given by path, in the prompt, where the model sees. Talks to the server at AXLE_HOST, or starts one of its own.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t := &talk{model: args[0], out: c.OutOrStdout(), errw: c.ErrOrStderr(), verbose: verbose, hideThink: hide, options: map[string]any{}}
			if f, ok := plain.Raw(t.out).(*os.File); ok {
				t.tty = term.IsTerminal(int(f.Fd()))
				t.colour = t.tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
				t.wrap = t.tty && !nowrap && os.Getenv("TERM") != "dumb"
			}
			if !t.tty {
				t.out = plain.Raw(t.out) // what takes it has the answer as the model gave it
			}
			var err error
			if t.format, err = parseFormat(format); err != nil {
				return err
			}
			if c.Flags().Changed("think") {
				if t.think, err = parseThink(think); err != nil {
					return err
				}
			}
			if keep != "" {
				if t.keepAlive, err = parseKeep(keep); err != nil {
					return err
				}
			}
			prompt := strings.Join(args[1:], " ")
			in, isFile := c.InOrStdin().(*os.File)
			interactive := isFile && term.IsTerminal(int(in.Fd()))
			if !interactive {
				b, err := readAll(c.Context(), c.InOrStdin())
				if err != nil {
					return err
				}
				prompt = strings.TrimSpace(strings.Join(slices.DeleteFunc([]string{string(b), prompt}, func(s string) bool { return s == "" }), "\n"))
			}
			// Ctrl-C stops an answer, never the program: the terminal's conversation is not under the program's own signals.
			ctx := context.WithoutCancel(c.Context())
			return with(ctx, false, func(conn *connection) error {
				t.conn = conn
				if err := t.load(ctx, interactive && prompt == ""); err != nil {
					return err
				}
				switch {
				case slices.Contains(t.caps, model.CapabilityEmbedding):
					return t.vector(ctx, prompt)
				case prompt != "" || !interactive:
					return t.once(ctx, prompt)
				}
				return t.converse(ctx, in)
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&keep, "keepalive", "", "how long the model stays loaded afterwards (5m; -1: for ever)")
	fl.StringVar(&format, "format", "", "form of the answer: json, or a JSON schema")
	fl.StringVar(&think, "think", "", "think before answering: true, false, low, medium, high or max")
	fl.Lookup("think").NoOptDefVal = "true"
	fl.BoolVar(&hide, "hidethinking", false, "do not show the thinking")
	fl.BoolVar(&verbose, "verbose", false, "show timings after each answer")
	fl.BoolVar(&nowrap, "nowordwrap", false, "leave it to the terminal where a line ends, in the middle of a word too")
	fl.Bool("insecure", false, "accepted for Ollama's sake; has no effect")
	return cmd
}

// readAll reads what is piped in, until its end or an interrupt.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	var b []byte
	done := make(chan error, 1)
	go func() {
		var err error
		b, err = io.ReadAll(r)
		done <- err
	}()
	select {
	case err := <-done:
		return b, err
	case <-ctx.Done():
		return nil, &exitError{code: exitInterrupted}
	}
}

func parseFormat(s string) (json.RawMessage, error) {
	switch {
	case s == "":
		return nil, nil
	case s == "json":
		return json.RawMessage(`"json"`), nil
	case json.Valid([]byte(s)):
		return json.RawMessage(s), nil
	}
	return nil, usageError("--format is neither json nor a JSON schema")
}

func parseThink(s string) (*api.ThinkValue, error) {
	switch strings.ToLower(s) {
	case "", "true":
		return &api.ThinkValue{Value: true}, nil
	case "false":
		return &api.ThinkValue{Value: false}, nil
	}
	t := &api.ThinkValue{Value: strings.ToLower(s)}
	if err := api.ValidateLegacyThinking(t); err != nil {
		return nil, usageError("--think: %w", err)
	}
	return t, nil
}

func parseKeep(s string) (*api.Duration, error) {
	b, err := json.Marshal(s)
	var d api.Duration
	if err == nil {
		if err = json.Unmarshal(b, &d); err != nil {
			err = json.Unmarshal([]byte(s), &d)
		}
	}
	if err != nil {
		return nil, usageError("--keepalive: %q is not a duration such as 5m, nor a number of seconds", s)
	}
	return &d, nil
}

// load asks what the model is, pulling it where it is not here, and loads it when a conversation will follow. An interrupt ends it.
func (t *talk) load(ctx context.Context, warm bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := t.prepare(ctx, warm)
	if ctx.Err() != nil {
		return &exitError{code: exitInterrupted}
	}
	return err
}

func (t *talk) prepare(ctx context.Context, warm bool) error {
	show := func() (*api.ShowResponse, error) { return t.conn.Show(ctx, &api.ShowRequest{Model: t.model}) }
	info, err := show()
	if statusIs(err, http.StatusNotFound) {
		view := newPullView(t.errw)
		perr := t.conn.pull(ctx, t.model, view.update)
		view.end()
		if perr != nil {
			return fmt.Errorf("%w (%w)", apiError(err), perr)
		}
		info, err = show()
	}
	if err != nil {
		return apiError(err)
	}
	t.caps = info.Capabilities
	t.loaded = info.Messages
	if !warm || slices.Contains(t.caps, model.CapabilityEmbedding) {
		return nil
	}
	stream := false
	return apiError(t.conn.Generate(ctx, &api.GenerateRequest{Model: t.model, KeepAlive: t.keepAlive, Stream: &stream}, func(api.GenerateResponse) error { return nil }))
}

func (t *talk) vector(ctx context.Context, text string) error {
	if text == "" {
		return errors.New("embedding models need something to embed: give a prompt or pipe text in")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := t.conn.Embed(ctx, &api.EmbedRequest{Model: t.model, Input: text, KeepAlive: t.keepAlive})
	switch {
	case ctx.Err() != nil:
		return &exitError{code: exitInterrupted}
	case err != nil:
		return apiError(err)
	case len(r.Embeddings) == 0:
		return errBrokeOff
	}
	return json.NewEncoder(t.out).Encode(r.Embeddings[0])
}

// imagePath finds what looks like the path of an image in a prompt.
var imagePath = regexp.MustCompile(`(?:[a-zA-Z]:)?(?:\./|/|\\)?[^\s"']*?[^\s"'/\\]\.(?i:jpg|jpeg|png|webp)\b`)

// images takes the images out of a prompt, where the model sees.
func (t *talk) images(prompt string) (string, []api.ImageData, error) {
	if !slices.Contains(t.caps, model.CapabilityVision) {
		return prompt, nil, nil
	}
	var out []api.ImageData
	for _, path := range imagePath.FindAllString(prompt, -1) {
		b, err := regular.ReadPath(path, 32<<20) // no request may be larger
		if errors.Is(err, os.ErrNotExist) {
			continue // a word, not a file
		}
		if err != nil {
			return prompt, nil, err
		}
		if ct := http.DetectContentType(b); !strings.HasPrefix(ct, "image/") {
			return prompt, nil, fmt.Errorf("%s is no image that can be read (%s)", path, ct)
		}
		fmt.Fprintf(t.errw, "Added image '%s'\n", path)
		prompt = strings.Replace(prompt, path, "", 1)
		out = append(out, b)
	}
	return strings.TrimSpace(prompt), out, nil
}

// once prints one answer.
func (t *talk) once(ctx context.Context, prompt string) error {
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
	err = t.conn.Generate(ctx, &api.GenerateRequest{Model: t.model, Prompt: text, Images: images, Format: t.format, KeepAlive: t.keepAlive, Think: t.think,
		Options: t.options, System: t.system}, func(r api.GenerateResponse) error {
		p.thinking(r.Thinking)
		p.text(r.Response)
		if r.Done {
			p.end(r.Metrics)
		}
		return nil
	})
	if ctx.Err() != nil {
		p.plain()
		fmt.Fprintln(t.out)
		return &exitError{code: exitInterrupted}
	}
	if err == nil && !p.ended {
		err = errBrokeOff
	}
	if err != nil {
		p.broken()
	}
	return apiError(err)
}

// errBrokeOff is what Ollama's client does not tell: the stream ended, and its last word did not come.
var errBrokeOff = errors.New("the answer broke off: the server ended, or what stands between")

// answer adds a message and prints the model's answer to it. An interrupt ends the answer and keeps what came; where nothing came, and after
// an error, the message is not kept either.
func (t *talk) answer(ctx context.Context, prompt string) error {
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
	err = t.conn.Chat(ctx, &api.ChatRequest{Model: t.model, Messages: append(slices.Clone(msgs), ask), Format: t.format, KeepAlive: t.keepAlive, Think: t.think,
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
		fmt.Fprint(t.out, "\n\n")
		if p.said.Len() == 0 {
			return nil
		}
	case err != nil:
		p.broken()
		return apiError(err)
	case !p.ended:
		p.broken()
		return errBrokeOff
	}
	t.messages = append(t.messages, ask, api.Message{Role: "assistant", Content: p.said.String()})
	return nil
}

// colourOff ends a colour.
const colourOff = "\x1b[0m"

// printer shows an answer as it comes. After its last word comes end, or broken.
type printer struct {
	t       *talk
	out     io.Writer // where words wrap
	said    strings.Builder
	thought bool // inside the thinking
	begun   bool // something was shown
	ended   bool
}

func (t *talk) printer() *printer {
	p := &printer{t: t, out: terminal.NewWrapper(plain.Raw(t.out), t.columns)}
	if t.tty { // quoted before it is wrapped, which moves words about
		p.out = &plain.Writer{W: p.out}
	}
	return p
}

// columns is how wide the screen is, 0 where words are not to be wrapped.
func (t *talk) columns() int {
	f, ok := plain.Raw(t.out).(*os.File)
	if !ok || !t.wrap {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

func (p *printer) thinking(s string) {
	if s == "" || p.t.hideThink {
		return
	}
	p.begun = true
	if !p.thought {
		p.thought = true
		fmt.Fprint(p.out, "Thinking...\n")
		if p.t.colour {
			fmt.Fprint(plain.Raw(p.t.out), "\x1b[90m")
		}
	}
	fmt.Fprint(p.out, s)
}

func (p *printer) text(s string) {
	if s == "" {
		return
	}
	p.begun = true
	if p.thought {
		p.plain()
		fmt.Fprint(p.out, "\n...done thinking.\n\n")
	}
	p.said.WriteString(s)
	fmt.Fprint(p.out, s)
}

func (p *printer) end(m api.Metrics) {
	p.ended = true
	p.plain()
	fmt.Fprint(p.t.out, "\n")
	if p.t.tty {
		fmt.Fprint(p.t.out, "\n")
	}
	if p.t.verbose {
		timings(p.t.errw, m)
	}
}

// broken leaves the line and the colour of an answer that did not come to its end.
func (p *printer) broken() {
	p.plain()
	if p.begun && !p.ended {
		fmt.Fprint(p.t.out, "\n")
	}
}

// plain ends the thinking and its colour.
func (p *printer) plain() {
	if p.thought && p.t.colour {
		fmt.Fprint(plain.Raw(p.t.out), colourOff)
	}
	p.thought = false
}

// timings are Ollama's, in its form.
func timings(w io.Writer, m api.Metrics) {
	line := func(name, value string) { fmt.Fprintf(w, "%-21s %s\n", name+":", value) }
	rate := func(n int, d time.Duration) string {
		return fmt.Sprintf("%.2f tokens/s", float64(n)/max(d.Seconds(), 1e-9))
	}
	line("total duration", m.TotalDuration.String())
	line("load duration", m.LoadDuration.String())
	line("prompt eval count", fmt.Sprintf("%d token(s)", m.PromptEvalCount))
	cached := 0
	if m.PromptEvalCachedCount != nil {
		cached = *m.PromptEvalCachedCount
	}
	if cached > 0 {
		line("prompt eval cached", fmt.Sprintf("%d token(s)", cached))
	}
	line("prompt eval duration", m.PromptEvalDuration.String())
	line("prompt eval rate", rate(max(0, m.PromptEvalCount-cached), m.PromptEvalDuration))
	line("eval count", fmt.Sprintf("%d token(s)", m.EvalCount))
	line("eval duration", m.EvalDuration.String())
	line("eval rate", rate(m.EvalCount, m.EvalDuration))
}
