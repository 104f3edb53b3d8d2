package conversation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

const (
	promptFirst = ">>> "
	promptMore  = "... "
	placeholder = "Send a message (/? for help)"
)

// converse is the conversation in the terminal.
func (t *Talk) converse(ctx context.Context, in *os.File) error {
	l := newLineReader(in, plain.Raw(t.Out), t.complete(ctx))
	defer l.restore()
	defer t.endOnSignal(in)()
	fmt.Fprintf(t.Out, "%s\n", placeholder)
	var (
		said   strings.Builder // what stands in a """ so far
		system bool            // it is the system message
		quoted bool            // inside a """
	)
	for {
		prompt := promptFirst
		if quoted {
			prompt = promptMore
		}
		text, err := l.line(prompt)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(t.Out)
			return nil
		case errors.Is(err, terminal.ErrInterrupted):
			if !quoted {
				fmt.Fprint(t.Out, "\nUse Ctrl + d or /bye to exit.\n\n")
			}
			said.Reset()
			quoted, system = false, false
			continue
		case err != nil:
			return err
		}
		// Several lines at once are a paste or come from an editor: what stands in them is said,
		// not obeyed.
		several := strings.Contains(text, "\n")
		begun := false
		if rest, ok := strings.CutPrefix(text, `"""`); ok && !quoted {
			quoted, begun, text = true, true, strings.TrimPrefix(rest, "\n")
		} else if rest, ok := systemQuote(text); ok && !quoted && !several {
			quoted, begun, system, text = true, true, true, rest
		}
		switch {
		case quoted:
			rest, closed := strings.CutSuffix(text, `"""`)
			said.WriteString(rest)
			if !closed {
				if !begun || rest != "" {
					said.WriteByte('\n')
				}
				continue
			}
			quoted = false
		case !several && strings.HasPrefix(text, "/") && !looksLikePath(text):
			done, err := t.command(ctx, l, strings.TrimSpace(text))
			if err != nil {
				fmt.Fprintln(t.Errw, "Error:", err)
			}
			if done {
				return nil
			}
			continue
		default:
			said.WriteString(text)
		}
		text = said.String()
		said.Reset()
		switch {
		case system:
			system = false
			t.system = text
			fmt.Fprintln(t.Out, "Set system message.")
		case strings.TrimSpace(text) != "":
			if err := t.answer(ctx, text); err != nil {
				fmt.Fprintln(t.Errw, "Error:", err)
			}
		}
	}
}

// systemQuote is what follows in a line that begins a system message in """.
func systemQuote(line string) (string, bool) {
	if f := strings.Fields(line); len(f) < 3 || f[0] != "/set" || f[1] != "system" || !strings.HasPrefix(f[2], `"""`) {
		return "", false
	}
	_, rest, ok := strings.Cut(line, `"""`)
	return rest, ok
}

// endOnSignal ends the program when it is told to while it waits for a line, which nothing else can
// interrupt: the terminal as it was, the server inside closed. The returned function ends the
// watch.
func (t *Talk) endOnSignal(in *os.File) func() {
	state, err := term.GetState(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	out, colour, stop := plain.Raw(t.Out), t.colour, t.Stop
	told, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-told:
			fmt.Fprint(out, terminal.PasteOff)
			if colour {
				fmt.Fprint(out, colourOff)
			}
			_ = term.Restore(int(in.Fd()), state)
			if stop != nil {
				_ = stop()
			}
			code := int(syscall.SIGTERM)
			if n, ok := s.(syscall.Signal); ok {
				code = int(n)
			}
			os.Exit(128 + code)
		case <-done:
		}
	}()
	return func() { signal.Stop(told); close(done) }
}

// looksLikePath tells /home/me/cat.png from a command.
func looksLikePath(line string) bool {
	first, _, _ := strings.Cut(line, " ")
	return strings.Count(first, "/") > 1
}
