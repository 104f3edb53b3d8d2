// Command axle runs language models on Axera NPUs: a server, a client for it, a benchmark, and
// tools for looking at models and cards.
//
// Each command is a file of its own. Exit codes: 0 done, 1 failed, 2 wrong usage or a runtime that
// is too old, which no restart mends, 75 the card was lost and the service should be restarted, 130
// interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/server/mcp"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "0.2.0-dev"

// ollamaVersion is the Ollama whose API we answer, which clients gate on.
const ollamaVersion = "0.34.4"

// exitUsage is the exit code where the command line or the machine is wrong. Starting the program
// again does not help.
const exitUsage = 2

// exitInterrupted is the exit code after Ctrl-C, as shells have it.
const exitInterrupted = 130

var commands []func() *cobra.Command

// register adds a command; each command's file calls it from init.
func register(f func() *cobra.Command) { commands = append(commands, f) }

// exitError ends the program with a code of its own. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// usageError marks what is wrong with the command line itself.
func usageError(format string, a ...any) error {
	return &exitError{code: 2, err: fmt.Errorf(format, a...)}
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "axle",
		Short: "Run large language models on Axera NPUs",
		Long: `Axle runs language models, and models that hear, speak, see and draw, on an
Axera AX650N or AX8850 card. It answers the APIs of Ollama, OpenAI and
Anthropic.

A first answer takes three commands: 'axle doctor' says whether the card is
ready, 'axle pull qwen3:0.6b' downloads a small model, and 'axle run qwen3:0.6b'
talks to it. In a terminal, 'axle' alone shows a menu.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetVersionTemplate("axle version " + version + " (Ollama API " + ollamaVersion + ")\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError("%w; see '%s --help'", err, c.CommandPath())
	})
	root.SuggestionsMinimumDistance = 1
	// Help fits 80 columns: what commands say is written so, and flags are broken here.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
	}
	for _, f := range commands {
		c := f()
		c.GroupID = groupOf(c.Name())
		if args := c.Args; args != nil {
			c.Args = func(c *cobra.Command, given []string) error {
				err := args(c, given)
				if err == nil || errors.As(err, new(*exitError)) {
					return err
				}
				return usageError("%s: %w; usage: %s", c.Name(), err, c.UseLine())
			}
		}
		if work := c.RunE; work != nil {
			//rule:T14 TestPrintable printable(c, given, work) => work(c, given)
			c.RunE = func(c *cobra.Command, given []string) error { return printable(c, given, work) }
		}
		for _, one := range append(c.Commands(), c) {
			if f := completions[one.Name()]; f != nil {
				one.ValidArgsFunction = f
			}
		}
		root.AddCommand(c)
	}
	return root
}

// printable runs a command whose output is text, whatever it prints of packages, hubs and servers:
// see package plain.
func printable(c *cobra.Command, args []string, work func(*cobra.Command, []string) error) error {
	out, errw := &plain.Writer{W: c.OutOrStdout()}, &plain.Writer{W: c.ErrOrStderr()}
	c.SetOut(out)
	c.SetErr(errw)
	return errors.Join(work(c, args), out.Flush(), errw.Flush())
}

// printJSON writes v indented, for --json.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == mcp.ChildArg { // before anything that a tool's server is not to have
		os.Exit(mcp.Child())
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end; a second one finds the system's own handling back,
	// and ends the program.
	context.AfterFunc(ctx, stop)
	// Before anything can load a vendor's library, which would write between what we print.
	//rule:D17 TestJSONUnderNoise cards.OwnStdout() => &cards.Stdout{File: os.Stdout}, error(nil)
	out, err := cards.OwnStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	var w io.Writer = out
	if term.IsTerminal(int(out.File.Fd())) {
		w = out.File // whose width and colours commands ask for
	}
	exit := failure(ctx, w, args)
	if exit == nil {
		return 0
	}
	if exit.err != nil {
		complain(os.Stderr, exit.err)
	}
	return exit.code
}

// complain tells an error, which may quote what others wrote.
func complain(w io.Writer, err error) {
	text := "Error: " + plain.Text(err.Error())
	if width, ok := terminal.Screen(w); ok {
		text = terminal.Fold(text, "       ", width) // under its first word, behind "Error: "
	}
	fmt.Fprintln(w, text)
}

// failure runs a command line that prints to out, and says how it failed; nil is success.
func failure(ctx context.Context, out io.Writer, args []string) *exitError {
	root := newRootCmd()
	root.SetOut(out)
	var err error
	if asksForMenu(args, os.Stdin, out) {
		if args, err = menu(ctx, os.Stdin, out); err == nil && args == nil {
			return nil
		}
	}
	root.SetArgs(args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var exit *exitError
	switch {
	case err == nil, errors.As(err, &exit):
	case strings.HasPrefix(err.Error(), "unknown command"): // cobra's own, before any of our code runs
		exit = &exitError{code: 2, err: fmt.Errorf("%s; see 'axle --help'", strings.TrimSpace(err.Error()))}
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		exit = &exitError{code: exitInterrupted, err: errors.New("interrupted")}
	case errors.Is(err, axcl.ErrTooOld):
		exit = &exitError{code: exitUsage, err: err}
	default:
		exit = &exitError{code: 1, err: err}
	}
	return exit
}
