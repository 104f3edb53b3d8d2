package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/cmd/internal/launch"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/server/programs"
)

func init() { register(newLaunchCmd) }

// launching is a command line of 'axle launch'.
type launching struct {
	program            *programs.Program
	model, host        string
	write, undo, print bool
	args               []string // for the program
}

func newLaunchCmd() *cobra.Command {
	var l launching
	cmd := &cobra.Command{
		Use:   "launch [NAME] [-- ARGUMENTS]",
		Short: "Start another program with a model of this server",
		Long: `Launch starts a program that is set up for this server: by variables and flags,
so that its own files stay as they are. Without a NAME it lists the programs
that it knows, and how many tokens of a model's context their first prompt
takes. What stands behind -- goes to the program.

The server has to run: AXLE_HOST or --host names it, and AXLE_KEY is the key
where it wants one. Before the start, launch looks whether the model is there,
whether it knows tools, and whether its context has room for the program.

With --write the program's own configuration names this server from then on.
What it was before is kept beside it, and --undo puts it back. The key is not
written: set AXLE_KEY where you start the program.`,
		Example: `  axle launch
  axle launch claude --model qwen3:4b-16k
  axle launch opencode --print
  axle launch codex --write
  axle launch codex -- exec "Explain this folder."`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			var names []string
			for _, p := range programs.Table {
				if p.Launch != nil {
					names = append(names, p.ID+"\t"+p.Name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); n >= 0 {
				args, l.args = args[:n], args[n:]
			}
			switch {
			case len(args) > 1:
				return usageError("launch: what is for the program stands behind --: axle launch %s -- %s", args[0],
					strings.Join(args[1:], " "))
			case len(args) == 0 && (l.write || l.undo || l.print):
				return usageError("launch: name the program; 'axle launch' lists them")
			case len(args) == 0:
				return listPrograms(c.OutOrStdout())
			}
			if l.program = programs.Find(args[0]); l.program == nil {
				return usageError("launch: %q is not known; 'axle launch' lists the programs", clip(args[0]))
			}
			if l.program.Launch == nil {
				return usageError("launch: %s is not started from here: what to set in it is on the server's page, under Connect, and in "+
					"docs/integrations.md", l.program.Name)
			}
			if l.write && (l.undo || l.print) || l.undo && l.print {
				return usageError("launch: only one of --write, --undo and --print")
			}
			return l.run(c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&l.model, "model", "", "the `model`; by default the loaded one, or else the largest context that knows tools")
	f.StringVar(&l.host, "host", "", "the server's `address`, instead of AXLE_HOST's")
	f.BoolVar(&l.print, "print", false, "show what would be set, and start nothing")
	f.BoolVar(&l.write, "write", false, "write it to the program's own configuration, and start nothing")
	f.BoolVar(&l.undo, "undo", false, "make the program's configuration what it was before --write")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels(0))
	return cmd
}

// listPrograms lists what launch knows.
func listPrograms(w io.Writer) error {
	t := terminal.TabsFor(w)
	fmt.Fprint(t, "NAME\tPROGRAM\tTOKENS\tMEASURED WITH\tINSTALLED\t\n") // of a first prompt
	for _, p := range programs.Table {
		if p.Launch == nil {
			continue
		}
		installed := "no"
		if _, err := launch.Look(&p); err == nil {
			installed = "yes"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t\n", p.ID, p.Name, p.Needs.First, p.Needs.Version, installed)
	}
	return t.Flush()
}

// run does what the command line asks for.
func (l *launching) run(c *cobra.Command) error {
	s := l.program.Launch
	if l.undo {
		path, err := l.config()
		if err == nil {
			err = launch.Undo(path)
		}
		if err == nil {
			fmt.Fprintf(c.ErrOrStderr(), "%s is what it was before.\n", path)
		}
		return err
	}
	var path string
	var err error
	switch {
	case l.write:
		if path, err = l.config(); err != nil {
			return err
		}
	case !l.print:
		if path, err = launch.Look(l.program); err != nil {
			return err
		}
	}
	v := programs.Values{Key: os.Getenv("AXLE_KEY")}
	if l.host != "" {
		if err := os.Setenv("AXLE_HOST", l.host); err != nil { // for what reads it, here and in the program
			return err
		}
	}
	err = with(c.Context(), true, func(conn *connection) error {
		v.URL = strings.TrimSuffix(conn.URL.String(), "/")
		v.Model, v.Context, err = l.check(c.Context(), conn, c.ErrOrStderr())
		return err
	})
	if err != nil {
		return err
	}
	if l.write {
		return l.keep(c, path, v)
	}
	set, err := launch.For(s, v, l.args)
	if err != nil {
		return err
	}
	if l.print {
		fmt.Fprint(c.OutOrStdout(), set.Text(s.Command))
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s with %s at %s\n", l.program.Name, v.Model, v.URL)
	return start(c, path, set)
}

// config is the file that --write changes.
func (l *launching) config() (string, error) {
	if l.program.Launch.File == nil {
		return "", usageError("launch: %s has no file for this, only variables: put what --print shows into your shell's profile",
			l.program.Name)
	}
	return launch.Where(l.program.Launch.File, os.Getenv)
}

// keep writes the program's configuration.
func (l *launching) keep(c *cobra.Command, path string, v programs.Values) error {
	kept, err := launch.Write(path, l.program.Launch.File.TOML, launch.Entries(l.program.Launch, v))
	if err != nil {
		return err
	}
	w := c.ErrOrStderr()
	if kept == "" {
		fmt.Fprintf(w, "%s says all of it already.\n", path)
		return nil
	}
	fmt.Fprintf(w, "%s now names %s and %s.\nWhat it was before is in %s;\n'axle launch %s --undo' puts it back.\n", path, v.URL,
		v.Model, kept, l.program.ID)
	if v.Key != "" {
		fmt.Fprintln(w, "The key is not in it: set AXLE_KEY where you start the program.")
	}
	return nil
}

// check chooses the model where none is named, and says what will not work with it. length is that
// of its context; 0: the program is not told of it.
func (l *launching) check(ctx context.Context, conn *connection, w io.Writer) (name string, length int, err error) {
	running, err := conn.ListRunning(ctx)
	if err != nil {
		return "", 0, client.Error(err)
	}
	loaded := func(name string) int {
		for _, m := range running.Models {
			if m.Name == name || m.Model == name || m.Name == name+":latest" {
				return m.ContextLength
			}
		}
		return 0
	}
	name = l.model
	if name == "" {
		list, err := conn.List(ctx)
		if err != nil {
			return "", 0, client.Error(err)
		}
		if name = choose(list, loaded); name == "" {
			return "", 0, errors.New("the server has no model that answers: 'axle pull' lists some to choose from")
		}
	}
	info, err := conn.Show(ctx, &api.ShowRequest{Model: name})
	if client.StatusIs(err, http.StatusNotFound) {
		return "", 0, fmt.Errorf("launch: the server has no model %s: 'axle pull %s' fetches it, 'axle list' lists those that are there",
			name, name)
	}
	if err != nil {
		return "", 0, client.Error(err)
	}
	if !slices.Contains(info.Capabilities, model.CapabilityCompletion) {
		return "", 0, fmt.Errorf("launch: %s does not answer text; 'axle list' lists the models that are there", name)
	}
	if !slices.Contains(info.Capabilities, model.CapabilityTools) {
		fmt.Fprintf(w, "Warning: %s knows no tools, and %s works with them.\n", name, l.program.Name)
	}
	if length = loaded(name); length == 0 {
		arch, _ := info.ModelInfo["general.architecture"].(string)
		n, _ := info.ModelInfo[arch+".context_length"].(float64)
		length = int(n)
	}
	n := l.program.Needs
	how := fmt.Sprintf("measured with %s", n.Version)
	if n.By == programs.Documented {
		how = "as its makers say"
	}
	switch n.Fit(length) {
	case programs.TooMany:
		fmt.Fprintf(w, "Warning: %s begins with about %d tokens (%s), and the context of %s is %d: the model will\n"+
			"not see the whole of it. Use a package that was compiled for a longer context.\n", l.program.Name, n.First, how, name, length)
		length = 0 // a program that is told of it shortens its prompt again and again, and asks nothing
	case programs.Little:
		fmt.Fprintf(w, "Warning: %s begins with about %d tokens (%s), and the context of %s is %d: little is left\nfor its work.\n",
			l.program.Name, n.First, how, name, length)
	}
	return strings.TrimSuffix(name, ":latest"), length, nil
}

// choose finds the model for a program that works with tools: one that is loaded before others, one
// that knows tools before others, and then the longest context.
func choose(list []client.Listed, loaded func(string) int) string {
	rank := func(m client.Listed) [3]int {
		var r [3]int
		if slices.Contains(m.Capabilities, model.CapabilityTools) {
			r[0] = 1
		}
		if loaded(m.Name) > 0 {
			r[1] = 1
		}
		r[2] = m.Details.ContextLength
		return r
	}
	list = slices.DeleteFunc(slices.Clone(list), func(m client.Listed) bool {
		return m.Says != "" || !slices.Contains(m.Capabilities, model.CapabilityCompletion)
	})
	if len(list) == 0 {
		return ""
	}
	return slices.MaxFunc(list, func(a, b client.Listed) int {
		x, y := rank(a), rank(b)
		return cmp.Or(slices.Compare(x[:], y[:]), strings.Compare(b.Name, a.Name))
	}).Name
}

// start runs the program in this one's place: its screen and its keys are the program's, and so is
// the exit code.
func start(c *cobra.Command, path string, set launch.Set) error {
	cmd := exec.Command(path, set.Args...)
	cmd.Env = set.Environ(os.Environ())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.InOrStdin(), own(c.OutOrStdout()), own(c.ErrOrStderr())
	// Ctrl-C goes to both: what it means, the program decides.
	told := make(chan os.Signal, 4)
	signal.Notify(told, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(told)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-told:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				_ = cmd.Process.Signal(s)
			}
		case err := <-done:
			ended := new(exec.ExitError)
			if !errors.As(err, &ended) {
				return err
			}
			code := ended.ExitCode()
			if st, ok := ended.Sys().(syscall.WaitStatus); ok && st.Signaled() {
				code = 128 + int(st.Signal())
			}
			return &exitError{code: code}
		}
	}
}

// own is the file below a writer, which a child takes as its own; a writer without one stays.
func own(w io.Writer) io.Writer {
	switch f := plain.Raw(w).(type) {
	case *cards.Stdout:
		return f.File
	default:
		return f
	}
}
