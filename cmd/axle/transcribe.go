package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
)

func init() { register(newTranscribeCmd) }

func newTranscribeCmd() *cobra.Command {
	var s client.Speech
	formats := []string{"text", "json", "srt", "vtt", "verbose_json"}
	cmd := &cobra.Command{
		Use:   "transcribe FILE…",
		Short: "Write down what is said in sound files",
		Long: `Transcribe writes down what is said in sound files: WAV, FLAC, MP3, Ogg
Vorbis or Ogg Opus. The text appears while the file is being read. With - for
the file it reads standard input, also from a microphone. Without --model it
takes the first installed model that hears.`,
		Example: `  axle transcribe talk.mp3
  axle transcribe --format srt talk.flac >talk.srt
  arecord -q -f S16_LE -r 16000 -c 1 | axle transcribe -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case !slices.Contains(formats, s.Format):
				return usageError("--format must be one of %s, got %q", strings.Join(formats, ", "), s.Format)
			case s.Format == "text":
				s.Format = "" // as it comes
			}
			return with(c.Context(), false, func(conn *connection) (err error) {
				if s.Model == "" {
					if s.Model, err = hearing(c.Context(), conn); err != nil {
						return err
					}
				}
				for _, name := range args {
					if err := transcribeFile(c, conn, s, name, len(args) > 1); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&s.Model, "model", "m", "", "the `model` that hears")
	f.StringVarP(&s.Language, "language", "l", "", "the language that is spoken, as an ISO `code`: en, zh …; the model finds it otherwise")
	f.StringVarP(&s.Format, "format", "f", "text", "the `form` of the result: "+strings.Join(formats, ", "))
	return cmd
}

// hearing finds a model that hears.
func hearing(ctx context.Context, conn *connection) (string, error) {
	all, err := conn.List(ctx)
	if err != nil {
		return "", client.Error(err)
	}
	for _, m := range all {
		if m.Says != "" {
			continue
		}
		r, err := conn.Show(ctx, &api.ShowRequest{Model: m.Name})
		if err == nil && slices.ContainsFunc(r.Capabilities, func(c model.Capability) bool { return c == model.CapabilityAudio }) {
			return m.Name, nil
		}
	}
	return "", errors.New("no installed model hears: 'axle pull' without a name lists models")
}

// transcribeFile prints what is said in a file; named: under its name.
func transcribeFile(c *cobra.Command, conn *connection, s client.Speech, name string, named bool) error {
	w := c.OutOrStdout()
	s.Name, s.Sound = filepath.Base(name), c.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		s.Sound = f
	}
	if named {
		fmt.Fprintf(w, "%s:\n", name)
	}
	last := &lastByte{w: w}
	err := conn.Transcribe(c.Context(), s, last)
	if last.b != '\n' && last.b != 0 {
		fmt.Fprintln(w)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, client.Error(err))
	}
	return nil
}

// lastByte knows the last byte that was written through it.
type lastByte struct {
	w io.Writer
	b byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.b = p[len(p)-1]
	}
	return l.w.Write(p)
}
