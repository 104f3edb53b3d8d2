package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/cmd/internal/conversation"
)

func init() { register(newRunCmd) }

func newRunCmd() *cobra.Command {
	var keep, format, think string
	var verbose, hide, nowrap, nomarks bool
	cmd := &cobra.Command{
		Use:   "run MODEL [PROMPT]",
		Short: "Talk to a model",
		Long: `Run talks to a model. With a PROMPT, or something piped in, it prints one
answer. Without, it holds a conversation in the terminal; /? lists the commands
there, and Tab completes them. If the model sees pictures, name their files in
the prompt. A terminal shows Markdown as bold text, lists and tables; in a pipe
an answer is as the model wrote it.

Run talks to the server that AXLE_HOST names. If that is this machine and no
server answers, run starts one, which ends with it.`,
		Example: `  axle run qwen3:0.6b
  axle run qwen3:0.6b "Why is the sky blue?"
  axle run qwen3:0.6b "Sum this up:" < notes.txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t := &conversation.Talk{Model: args[0], Out: c.OutOrStdout(), Errw: c.ErrOrStderr(), Verbose: verbose, HideThink: hide,
				NoMarkdown: nomarks}
			var err error
			if t.Format, err = conversation.ParseFormat(format); err != nil {
				return usageError("%w", err)
			}
			if c.Flags().Changed("think") {
				if t.Think, err = conversation.ParseThink(think); err != nil {
					return usageError("%w", err)
				}
			}
			if keep != "" {
				if t.KeepAlive, err = conversation.ParseKeep(keep); err != nil {
					return usageError("%w", err)
				}
			}
			prompt := strings.Join(args[1:], " ")
			in, isFile := c.InOrStdin().(*os.File)
			if !isFile || !term.IsTerminal(int(in.Fd())) {
				in = nil
				b, err := readAll(c.Context(), c.InOrStdin())
				if err != nil {
					return err
				}
				prompt = strings.TrimSpace(strings.Join(slices.DeleteFunc([]string{string(b), prompt},
					func(s string) bool { return s == "" }), "\n"))
			}
			// Ctrl-C stops an answer, never the program: the terminal's conversation is not under
			// the program's own signals.
			ctx := context.WithoutCancel(c.Context())
			return with(ctx, false, func(conn *connection) error {
				t.Conn, t.Stop = conn.Client, conn.stop
				err := t.Run(ctx, prompt, in, !nowrap)
				if errors.Is(err, conversation.ErrInterrupted) {
					return &exitError{code: exitInterrupted}
				}
				return err
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&keep, "keepalive", "", "`duration` for which the model stays loaded afterwards, such as 5m; -1: for ever")
	fl.StringVar(&format, "format", "", "`form` of the answer: json, or a JSON schema")
	fl.StringVar(&think, "think", "", "whether or `how much` to think first: true, false, low, medium, high or max")
	fl.Lookup("think").NoOptDefVal = "true"
	fl.BoolVar(&hide, "hidethinking", false, "do not show the thinking")
	fl.BoolVar(&verbose, "verbose", false, "show timings after each answer")
	fl.BoolVar(&nowrap, "nowordwrap", false, "do not wrap lines between words")
	fl.BoolVar(&nomarks, "nomarkdown", false, "show answers as they were written, in a terminal too")
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
