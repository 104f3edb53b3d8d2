package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/cmd/internal/call"
	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/cmd/internal/sound"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newTalkCmd) }

func newTalkCmd() *cobra.Command {
	var o call.Options
	var out, say string
	cmd := &cobra.Command{
		Use:   "talk MODEL [FILE]",
		Short: "Speak with a model",
		Long: `Talk holds a spoken conversation: one model writes down what you say, MODEL
answers, and a third speaks the answer. What was heard and what is answered is
printed as it comes. Ctrl-C ends an answer, and where there is none, the
conversation.

It records with the first of arecord, parec, rec, pw-record and ffmpeg that is
here, and plays as 'axle say' does. While an answer sounds it does not listen,
for a loudspeaker that the microphone hears would interrupt every answer. With
headphones, or a microphone that cancels echoes, use --interrupt: then you stop
an answer by speaking.

With a FILE, or - for standard input, it takes the sound from there, in the
forms that 'axle transcribe' reads and as fast as it was spoken; it ends when
all is answered.`,
		Example: `  axle talk qwen3:0.6b
  axle talk qwen3:0.6b --interrupt --voice af_heart --system "Be brief."
  axle talk qwen3:0.6b question.wav -o answer.wav`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			o.Model, o.Microphone = args[0], len(args) == 1
			format, err := formatOf(out)
			if err != nil {
				return err
			}
			switch {
			case o.Microphone:
				r, err := sound.NewRecorder(call.Rate)
				if err != nil {
					return err
				}
				defer r.Close()
				o.In = r
			case args[1] == "-":
				o.In = &samples{from: c.InOrStdin(), name: "-"}
			default:
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				o.In = &samples{from: f, name: args[1]}
			}
			return with(c.Context(), false, func(conn *connection) error {
				if err := voices(c.Context(), conn, &o, say); err != nil {
					return err
				}
				// From here Ctrl-C is an answer's end first: see [call.Options].
				ctx, stop := signal.NotifyContext(context.WithoutCancel(c.Context()), syscall.SIGTERM)
				defer stop()
				stops := make(chan os.Signal, 2)
				signal.Notify(stops, os.Interrupt)
				defer signal.Stop(stops)
				o.Stop = stops
				if err := c.Context().Err(); err != nil { // it came before
					return err
				}
				text := c.OutOrStdout()
				if out == "-" {
					text = c.ErrOrStderr()
				}
				s := newScreen(text, c.ErrOrStderr(), o.Microphone)
				defer s.leave()
				o.Text = s
				if out == "" {
					l, err := sound.NewLive(call.Rate)
					if err != nil {
						return err
					}
					o.Out = l
					return call.Run(ctx, conn.Client, o)
				}
				return toFile(c, out, "a sound", func(w io.Writer, at io.WriterAt) error {
					e := &sound.Encoder{W: w, Format: format}
					o.Out = &written{e: e, played: make(chan error, 1)}
					if err := call.Run(ctx, conn.Client, o); err != nil {
						return err
					}
					return e.End(call.Rate, at)
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Hear, "hear", "", "the `model` that writes down what you say; by default the newest that hears")
	f.StringVar(&say, "say", "", "the `model` that speaks; by default that of the voice, or the newest that speaks")
	f.StringVarP(&o.Voice, "voice", "v", "", "the `voice`; 'axle say --voices' lists them")
	f.StringVarP(&o.Language, "language", "l", "", "the language you speak, as an ISO `code`: en, zh …; the model finds it otherwise")
	f.StringVarP(&o.Instructions, "system", "s", "", "a system `message`: how the model is to answer")
	f.BoolVar(&o.Interrupt, "interrupt", false, "listen while an answer sounds, and let speech end it")
	f.StringVarP(&out, "output", "o", "", "write the answers' sound to this `file`, or with - to standard output")
	return cmd
}

// voices finds who hears and who speaks, where the command line does not say.
func voices(ctx context.Context, conn *connection, o *call.Options, say string) (err error) {
	if o.Hear == "" {
		if o.Hear, err = hearer(ctx, conn); err != nil {
			return err
		}
	}
	asked := say != ""
	if !asked {
		if o.Voice != "" {
			return nil // which is its model's
		}
		if say, err = speaker(ctx, conn); err != nil {
			return err
		}
	}
	own, err := conn.Voices(ctx, say)
	if err != nil {
		return client.Error(err)
	}
	if len(own) == 0 {
		return fmt.Errorf("%s has no voice, so it does not speak", say)
	}
	o.Voice = cmp.Or(o.Voice, own[0].Name)
	named := func(v client.Voice) bool { return v.Name == o.Voice }
	at := slices.IndexFunc(own, named)
	if at < 0 {
		var names []string
		for _, v := range own {
			names = append(names, v.Name)
		}
		return usageError("%s has no voice %q: it has %s", say, o.Voice, strings.Join(names, ", "))
	}
	if !asked {
		return nil
	}
	all, err := conn.Voices(ctx, "")
	if err != nil {
		return client.Error(err)
	}
	// A session names a voice only, so the first model that has it speaks.
	if i := slices.IndexFunc(all, named); i >= 0 && all[i].Model != own[at].Model {
		return fmt.Errorf("%s would speak, which has the voice %s too: start the server with --wyoming-say-model %s", all[i].Model, o.Voice,
			say)
	}
	return nil
}

// samples reads the PCM of a sound file. What it is read from is not touched before the first Read.
type samples struct {
	name string
	from io.Reader
	file *audio.Reader // nil: its beginning was not read
	room [1 << 10]float32
}

func (s *samples) Read(p []byte) (int, error) {
	n, err := 0, error(nil)
	if s.file == nil {
		s.file, err = audio.NewReader(s.from, call.Rate, audio.Limits{})
	}
	if err == nil {
		n, err = s.file.Read(s.room[:min(len(p)/2, len(s.room))])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return len(audio.AppendPCM(p[:0], s.room[:n])), err
}

// written is a file that answers are written to. It implements [call.Out].
type written struct {
	e      *sound.Encoder
	played chan error
}

func (w *written) Add(pcm []byte) error { return w.e.Add(pcm, call.Rate) }
func (w *written) Played() <-chan error { return w.played }

func (w *written) End() {
	select {
	case w.played <- nil:
	default:
	}
}

func (w *written) Stop() time.Duration {
	select {
	case <-w.played:
	default:
	}
	return 0
}

// screen shows a conversation. It implements [call.Text].
type screen struct {
	w       io.Writer // text goes through here
	act     io.Writer // what acts on a terminal
	errw    io.Writer
	dim     bool   // it takes colours, and its owner wants them
	hint    string // how to speak; "": there is none
	bye     string // behind the ^C of a terminal
	showing rune   // h of what was heard, s of an answer, 0 of nothing
}

func newScreen(w, errw io.Writer, microphone bool) *screen {
	s := &screen{w: w, act: plain.Raw(w), errw: errw}
	if _, draws := terminal.Screen(w); draws {
		s.w = &plain.Writer{W: terminal.NewWrapper(s.act, func() int { return terminal.Columns(w) })}
		s.dim = os.Getenv("NO_COLOR") == ""
	}
	if microphone && terminal.Is(errw) {
		s.hint, s.bye = "Speak now. Ctrl-C ends an answer, and then the conversation.\n\n", "\n"
	}
	return s
}

func (s *screen) Ready() { fmt.Fprint(s.errw, s.hint) }

func (s *screen) Heard(part string) {
	if s.begin('h', part) {
		if s.dim {
			fmt.Fprint(s.act, "\x1b[90m")
		}
		fmt.Fprint(s.w, "> ")
		part = strings.TrimLeft(part, " ")
	}
	if s.showing == 'h' {
		fmt.Fprint(s.w, part)
	}
}

func (s *screen) Said(part string) {
	if s.begin('s', part) {
		part = strings.TrimLeft(part, " \n")
	}
	if s.showing == 's' {
		fmt.Fprint(s.w, part)
	}
}

// begin goes to a new line where something else is being shown.
func (s *screen) begin(what rune, part string) bool {
	if s.showing == what || strings.TrimSpace(part) == "" {
		return false
	}
	s.End(true)
	s.showing = what
	return true
}

func (s *screen) End(whole bool) {
	switch {
	case !whole && s.showing == 0: // all of its text was there
		fmt.Fprint(s.w, "…")
	case !whole:
		fmt.Fprint(s.w, " …")
	case s.showing == 0:
		return
	}
	if s.dim && s.showing == 'h' {
		fmt.Fprint(s.act, "\x1b[0m")
	}
	fmt.Fprintln(s.w)
	s.showing = 0
}

// leave ends the line that is being shown.
func (s *screen) leave() {
	s.End(true)
	fmt.Fprint(s.errw, s.bye)
}

func (s *screen) Problem(err error) {
	s.End(true)
	complain(s.errw, err)
}
