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

	"github.com/ollama/ollama/types/model"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/models/hearing"
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
takes the newest installed model that hears. The one inside the program,
pocket-hearing, knows the digits and twelve commands in English.`,
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
					if s.Model, err = hearer(c.Context(), conn); err != nil {
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

// hearer finds a model that hears: the newest, and the one that ships inside the program only if
// there is no other, since it knows few words.
func hearer(ctx context.Context, conn *connection) (name string, err error) {
	all, err := conn.List(ctx)
	if err != nil {
		return "", client.Error(err)
	}
	for _, m := range all {
		switch {
		case m.Says != "" || !slices.Contains(m.Capabilities, model.CapabilityAudio):
		case m.Name == hearing.Name+":latest":
			name = m.Name
		default:
			return m.Name, nil
		}
	}
	if name == "" {
		return "", errors.New("no installed model hears: 'axle pull' without a name lists models")
	}
	return name, nil
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
