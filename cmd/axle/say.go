package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/cmd/internal/sound"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newSayCmd) }

const (
	maxSaid = 4096     // characters of one request, as the server takes them
	maxText = 16 << 20 // bytes from standard input
)

func newSayCmd() *cobra.Command {
	var t client.Text
	var out, format string
	var voices bool
	cmd := &cobra.Command{
		Use:   "say [TEXT…]",
		Short: "Speak a text",
		Long: `Say speaks a text, or without one what it reads from standard input. A
sentence is played while the next one is computed, by the first of aplay,
pw-play, paplay, afplay and ffplay that is here. With -o it writes a file
instead, and with -o - to a pipe. Without --model it takes the newest installed
model that speaks, and without --voice that model's first voice.`,
		Example: `  axle say "Dinner is ready."
  axle say -o hello.flac --voice af_heart Hello
  axle say --voices
  axle run qwen3:0.6b "Tell me a joke" | axle say`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			switch {
			case t.Speed < 0.25 || t.Speed > 4:
				return usageError("--speed must be between 0.25 and 4, got %v", t.Speed)
			case format != "" && !slices.Contains(sound.Formats, format):
				return usageError("--format must be one of %s, got %q", strings.Join(sound.Formats, ", "), format)
			case format != "" && out == "":
				return usageError("--format is that of a file: name one with -o")
			case voices && len(args) > 0:
				return usageError("--voices lists voices, and takes no text")
			case voices:
				return with(c.Context(), false, func(conn *connection) error { return listVoices(c, conn, t.Model) })
			}
			if format == "" {
				if format, err = formatOf(out); err != nil {
					return err
				}
			}
			text, err := toSay(c.InOrStdin(), args)
			if err != nil {
				return err
			}
			return with(c.Context(), false, func(conn *connection) error {
				if t.Model == "" {
					if t.Model, err = speaker(c.Context(), conn); err != nil {
						return err
					}
				}
				return say(c, conn, t, text, out, format)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&t.Model, "model", "m", "", "the `model` that speaks")
	f.StringVarP(&t.Voice, "voice", "v", "", "the `voice`; --voices lists them")
	f.Float64VarP(&t.Speed, "speed", "s", 1, "how fast: a `factor` from 0.25 to 4")
	f.StringVarP(&out, "output", "o", "", "write the sound to this `file`, or with - to standard output")
	f.StringVarP(&format, "format", "f", "", "the `form` of the file: "+strings.Join(sound.Formats, ", ")+"; by default its name's, or wav")
	f.BoolVar(&voices, "voices", false, "list the voices of the models here, or of --model")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(sound.Formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// formatOf is the format that a file's name says.
func formatOf(name string) (string, error) {
	switch end := strings.ToLower(filepath.Ext(name)); end {
	case ".wav", ".wave", ".":
		return "wav", nil
	case ".flac":
		return "flac", nil
	case ".pcm", ".raw":
		return "pcm", nil
	case ".mp3", ".ogg", ".oga", ".opus", ".aac", ".m4a", ".webm":
		return "", usageError("-o %s: axle writes wav, flac and pcm; for another, use '-o - | ffmpeg -i - %s'", name, filepath.Base(name))
	}
	return "wav", nil
}

// toSay is the text of the command line, or of standard input.
func toSay(in io.Reader, args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 0 {
		if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return "", usageError("say what? give a text, or pipe one in")
		}
		b, err := io.ReadAll(io.LimitReader(in, maxText+1))
		if err != nil {
			return "", err
		}
		if len(b) > maxText {
			return "", fmt.Errorf("the text has more than %d MiB", maxText>>20)
		}
		text = string(b)
	}
	switch {
	case !utf8.ValidString(text):
		return "", usageError("what is to be said is no text in UTF-8")
	case strings.TrimSpace(text) == "":
		return "", usageError("there is no text to say")
	}
	return text, nil
}

// speaker finds a model that speaks: the newest.
func speaker(ctx context.Context, conn *connection) (string, error) {
	all, err := conn.List(ctx)
	if err != nil {
		return "", client.Error(err)
	}
	for _, m := range all {
		if m.Says == "" && slices.Contains(m.Capabilities, "speech") {
			return m.Name, nil
		}
	}
	return "", errors.New("no installed model speaks: 'axle pull' without a name lists models")
}

func listVoices(c *cobra.Command, conn *connection, model string) error {
	all, err := conn.Voices(c.Context(), model)
	if err != nil {
		return client.Error(err)
	}
	rows := [][]string{{"VOICE", "LANGUAGE", "MODEL"}}
	for _, v := range all {
		rows = append(rows, []string{v.Name, v.Language, v.Model})
	}
	return terminal.Rows(c.OutOrStdout(), "", rows)
}

// say plays or writes a text.
func say(c *cobra.Command, conn *connection, t client.Text, text, out, format string) error {
	ctx := c.Context()
	if out == "" {
		p, err := sound.NewPlayer()
		if err != nil {
			return err
		}
		err = speak(ctx, conn, t, text, func(pcm []byte, rate int) error { return p.Add(ctx, pcm, rate) })
		if played := p.Close(ctx); played != nil { // which is then why it took no more
			return played
		}
		return err
	}
	return toFile(c, out, "a sound", func(w io.Writer, at io.WriterAt) error {
		return write(ctx, conn, t, text, &sound.Encoder{W: w, Format: format}, at)
	})
}

// toFile opens where -o says that a sound or a picture goes: to a file that is there only when work
// has not failed, to a device or a pipe, or with - to standard output. at is nil where it cannot be
// written at.
func toFile(c *cobra.Command, out, what string, work func(w io.Writer, at io.WriterAt) error) error {
	if out == "-" {
		w := plain.Raw(c.OutOrStdout()) // which is no text
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return usageError("%s is not for a terminal: pipe it, or name a file with -o", what)
		}
		return work(w, nil)
	}
	if i, err := os.Stat(out); err == nil && !i.Mode().IsRegular() {
		f, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(work(f, nil), f.Close())
	}
	return regular.Replace(out, 0o644, nil, func(f *os.File) error { return work(f, f) })
}

// write writes a text's sound.
func write(ctx context.Context, conn *connection, t client.Text, text string, e *sound.Encoder, at io.WriterAt) error {
	last := 0
	err := speak(ctx, conn, t, text, func(pcm []byte, rate int) error {
		last = rate
		return e.Add(pcm, rate)
	})
	if err == nil && last == 0 {
		err = errors.New("the model says nothing to this text")
	}
	if err == nil {
		err = e.End(last, at)
	}
	return err
}

// speak asks for a text's sound, a part of the text after the other.
func speak(ctx context.Context, conn *connection, t client.Text, text string, play func([]byte, int) error) error {
	for part := range parts(text) {
		t.Text = part
		if err := conn.Say(ctx, t, play); err != nil {
			return client.Error(err)
		}
	}
	return nil
}

// parts cuts a text into what one request may have: behind a sentence's end, else between words.
func parts(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for strings.TrimSpace(text) != "" {
			n, count, space, end := len(text), 0, 0, 0
			for i, r := range text {
				if count++; count > maxSaid {
					n = i
					break
				}
				if strings.ContainsRune(" \n\t", r) {
					if space = i + 1; r == '\n' || i > 0 && strings.ContainsRune(".!?", rune(text[i-1])) {
						end = space
					}
				}
			}
			if n < len(text) {
				switch {
				case end > 0:
					n = end
				case space > 0:
					n = space
				}
			}
			if part := text[:n]; strings.TrimSpace(part) != "" && !yield(part) {
				return
			}
			text = text[n:]
		}
	}
}
