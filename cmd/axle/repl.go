package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ollama/ollama/api"
	"golang.org/x/term"
)

const (
	promptFirst = ">>> "
	promptMore  = "... "
	placeholder = "Send a message (/? for help)"
)

// lineReader reads lines in a terminal, with history and editing. Ctrl-C empties the line instead of ending the program, Ctrl-D ends it.
type lineReader struct {
	in          *os.File
	t           *term.Terminal
	interrupted bool
}

func newLineReader(in *os.File, out io.Writer) *lineReader {
	l := &lineReader{in: in}
	l.t = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{l, out}, promptFirst)
	l.t.History = openHistory()
	if w, h, err := term.GetSize(int(in.Fd())); err == nil && w > 0 {
		_ = l.t.SetSize(w, h)
	}
	return l
}

// Read gives the terminal's bytes, with Ctrl-C turned into: empty this line and end it.
func (l *lineReader) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return l.in.Read(p)
	}
	n, err := l.in.Read(p[:len(p)/2])
	if i := slices.Index(p[:n], 3); i >= 0 {
		l.interrupted = true
		return copy(p, append(slices.Clone(p[:i]), 21, '\r')), err
	}
	return n, err
}

// line reads one line in raw mode, and leaves the terminal as it was.
func (l *lineReader) line(prompt string) (string, error) {
	state, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(l.in.Fd()), state) }()
	l.t.SetBracketedPasteMode(true)
	defer l.t.SetBracketedPasteMode(false)
	l.t.SetPrompt(prompt)
	s, err := l.t.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return s, err
}

// history is what was typed, kept in a file.
type history struct {
	lines []string
	file  string
	off   bool
}

const maxHistory = 500

func openHistory() *history {
	h := &history{}
	home, err := os.UserHomeDir()
	if err != nil {
		return h
	}
	h.file = filepath.Join(home, ".axle", "history")
	if f, err := os.Open(h.file); err == nil {
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			h.lines = append(h.lines, sc.Text())
		}
		h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	}
	return h
}

// Add, Len and At make it a term.History.
func (h *history) Add(s string) {
	if strings.TrimSpace(s) == "" || h.off || len(h.lines) > 0 && h.lines[len(h.lines)-1] == s {
		return
	}
	h.lines = append(h.lines, s)
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	if h.file == "" || os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	_ = os.WriteFile(h.file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
}

// Len is how many lines there are.
func (h *history) Len() int { return len(h.lines) }

// At is a line, the newest first.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// converse is the conversation in the terminal.
func (t *talk) converse(ctx context.Context, in *os.File) error {
	l := newLineReader(in, t.out)
	defer t.endOnSignal(in)()
	fmt.Fprintf(t.out, "%s\n", placeholder)
	var many *strings.Builder // the lines of a """ so far
	for {
		prompt := promptFirst
		if many != nil {
			prompt = promptMore
		}
		line, err := l.line(prompt)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(t.out)
			return nil
		case err != nil:
			return err
		case l.interrupted:
			l.interrupted = false
			if many == nil && line == "" {
				fmt.Fprint(t.out, "\nUse Ctrl + d or /bye to exit.\n\n")
			}
			many = nil
			continue
		}
		switch {
		case many != nil:
			rest, closed := strings.CutSuffix(line, `"""`)
			many.WriteString(rest)
			if !closed {
				many.WriteByte('\n')
				continue
			}
			line, many = many.String(), nil
		case strings.HasPrefix(line, `"""`):
			rest := line[3:]
			if whole, closed := strings.CutSuffix(rest, `"""`); closed {
				line = whole
				break
			}
			many = &strings.Builder{}
			if rest != "" {
				many.WriteString(rest + "\n")
			}
			continue
		case strings.HasPrefix(line, "/") && !looksLikePath(line):
			done, err := t.command(ctx, l, strings.TrimSpace(line))
			if err != nil {
				fmt.Fprintln(t.errw, "Error:", err)
			}
			if done {
				return nil
			}
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := t.answer(ctx, line); err != nil {
			fmt.Fprintln(t.errw, "Error:", err)
		}
	}
}

// endOnSignal ends the program when it is told to while it waits for a line, which nothing else can interrupt: the terminal as it was, the
// server inside closed. The returned function ends the watch.
func (t *talk) endOnSignal(in *os.File) func() {
	state, err := term.GetState(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	told, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case <-told:
			_ = term.Restore(int(in.Fd()), state)
			_ = t.conn.stop()
			os.Exit(128 + int(syscall.SIGTERM))
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

const helpText = `Available Commands:
  /set            Set session variables
  /show           Show model information
  /load <model>   Load a session or model
  /save <model>   Save your current session
  /clear          Clear session context
  /bye            Exit
  /?, /help       Help for a command
  /? shortcuts    Help for keyboard shortcuts

Use """ to begin a multi-line message.
`

const setText = `Available Commands:
  /set parameter ...     Set a parameter
  /set system <string>   Set system message
  /set history           Enable history
  /set nohistory         Disable history
  /set format json       Enable JSON mode
  /set noformat          Disable formatting
  /set verbose           Show LLM stats
  /set quiet             Disable LLM stats
  /set think             Enable thinking
  /set nothink           Disable thinking
`

const showText = `Available Commands:
  /show info         Show details for this model
  /show license      Show model license
  /show modelfile    Show Modelfile for this model
  /show parameters   Show parameters for this model
  /show system       Show system message
  /show template     Show prompt template
`

const shortcutText = `Available keyboard shortcuts:
  Ctrl + a            Move to the beginning of the line (Home)
  Ctrl + e            Move to the end of the line (End)
  Ctrl + k            Delete the rest of the line
  Ctrl + u            Delete the line up to here
  Ctrl + w            Delete the word before the cursor
  Up, Down            History
  Ctrl + c            Stop the model from responding
  Ctrl + d            Exit (/bye)
`

// command does what a line beginning with / asks for. done ends the conversation.
func (t *talk) command(ctx context.Context, l *lineReader, line string) (done bool, err error) {
	args := strings.Fields(line)
	rest := func(n int) string { // the line after its first n words, quotes taken off
		s := line
		for range n {
			_, s, _ = strings.Cut(strings.TrimLeft(s, " "), " ")
		}
		return strings.Trim(strings.TrimSpace(s), `"`)
	}
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	say := func(format string, a ...any) { fmt.Fprintf(t.out, format+"\n", a...) }
	switch args[0] {
	case "/bye", "/exit":
		return true, nil
	case "/clear":
		t.messages = nil
		say("Cleared session context")
	case "/?", "/help":
		switch strings.TrimPrefix(arg(1), "/") {
		case "set":
			fmt.Fprint(t.out, setText)
		case "show":
			fmt.Fprint(t.out, showText)
		case "shortcut", "shortcuts":
			fmt.Fprint(t.out, shortcutText)
		default:
			fmt.Fprint(t.out, helpText)
		}
	case "/load":
		if arg(1) == "" {
			say("Usage:\n  /load <model>")
			return false, nil
		}
		old := *t
		t.model, t.loaded, t.messages, t.system = arg(1), nil, nil, ""
		if err := t.load(ctx, true); err != nil {
			*t = old
			return false, err
		}
		say("Loading model '%s'", t.model)
	case "/save":
		if arg(1) == "" {
			say("Usage:\n  /save <modelname>")
			return false, nil
		}
		// What is saved replaces the model's own turns, so they are part of it.
		req := &api.CreateRequest{Model: arg(1), From: t.model, System: t.system, Messages: slices.Concat(t.loaded, t.messages), Parameters: t.options}
		if err := t.conn.Create(ctx, req, func(api.ProgressResponse) error { return nil }); err != nil {
			return false, apiError(err)
		}
		say("Created new model '%s'", arg(1))
	case "/set":
		return false, t.set(l, arg, rest, say)
	case "/show":
		r, err := t.conn.Show(ctx, &api.ShowRequest{Model: t.model, System: t.system, Options: t.options})
		if err != nil {
			return false, apiError(err)
		}
		switch part := arg(1); part {
		case "info":
			return false, showPart(t.out, r, "", false)
		case "license", "modelfile", "system", "template", "parameters":
			if part == "system" && t.system != "" {
				r.System = t.system
			}
			text := map[string]string{"license": r.License, "modelfile": r.Modelfile, "system": r.System, "template": r.Template, "parameters": r.Parameters}[part]
			if part == "parameters" && len(t.options) > 0 {
				b, err := json.Marshal(t.options)
				if err != nil {
					return false, err
				}
				text += "\nUser defined parameters:\n  " + string(b)
			}
			if strings.TrimSpace(text) == "" {
				text = "No " + part + " was specified for this model."
			}
			say("%s\n", strings.TrimSpace(text))
		default:
			fmt.Fprint(t.out, showText)
		}
	default:
		say("Unknown command '%s'. Type /? for help", args[0])
	}
	return false, nil
}

func (t *talk) set(l *lineReader, arg func(int) string, rest func(int) string, say func(string, ...any)) error {
	switch arg(1) {
	case "history", "nohistory":
		if h, ok := l.t.History.(*history); ok {
			h.off = arg(1) == "nohistory"
		}
	case "wordwrap", "nowordwrap":
		say("The terminal wraps words itself.")
	case "verbose":
		t.verbose = true
		say("Set 'verbose' mode.")
	case "quiet":
		t.verbose = false
		say("Set 'quiet' mode.")
	case "think", "nothink":
		t.think = &api.ThinkValue{Value: arg(1) == "think"}
		if level := arg(2); arg(1) == "think" && level != "" {
			v, err := parseThink(level)
			if err != nil {
				return err
			}
			t.think = v
		}
		say("Set '%s' mode.", arg(1))
	case "format":
		f, err := parseFormat(rest(2))
		if err != nil || len(f) == 0 {
			say("Invalid or missing format. For 'json' mode use '/set format json'")
			return nil
		}
		t.format = f
		say("Set format to '%s' mode.", rest(2))
	case "noformat":
		t.format = nil
		say("Disabled format.")
	case "system":
		if t.system = rest(2); t.system == "" {
			say("Usage:\n  /set system <message>")
			return nil
		}
		say("Set system message.")
	case "parameter":
		if arg(3) == "" {
			say("Usage:\n  /set parameter <name> <value>…")
			return nil
		}
		values := strings.Fields(rest(3))
		if unquoted, err := strconv.Unquote(rest(3)); err == nil {
			values = []string{unquoted}
		}
		p, err := api.FormatParams(map[string][]string{arg(2): values})
		if err != nil {
			return fmt.Errorf("couldn't set parameter: %w", err)
		}
		t.options[arg(2)] = p[arg(2)]
		say("Set parameter '%s' to '%s'", arg(2), strings.Join(values, ", "))
	default:
		fmt.Fprint(t.out, setText)
	}
	return nil
}
