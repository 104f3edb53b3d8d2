package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ollama/ollama/api"
	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/server"
)

const (
	promptFirst = ">>> "
	promptMore  = "... "
	placeholder = "Send a message (/? for help)"
)

// lineReader reads what a person types in a terminal, which is raw while they type and else as it was.
type lineReader struct {
	in      *os.File
	out     io.Writer
	raw     *term.State // what the terminal was before; nil while it is that
	editor  *terminal.Editor
	history *history
}

func newLineReader(in *os.File, out io.Writer) *lineReader {
	l := &lineReader{in: in, out: out, history: openHistory()}
	l.editor = terminal.NewEditor(terminal.Options{In: in, Out: out, Size: l.size, History: l.history, Edit: l.inEditor, Suspend: l.suspend})
	return l
}

func (l *lineReader) size() (columns, rows int) {
	columns, rows, _ = term.GetSize(int(l.in.Fd()))
	return columns, rows
}

// line reads one text, and leaves the terminal as it was.
func (l *lineReader) line(prompt string) (string, error) {
	if err := l.makeRaw(); err != nil {
		return "", err
	}
	defer l.restore()
	return l.editor.Line(prompt, promptMore)
}

func (l *lineReader) makeRaw() error {
	state, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return err
	}
	l.raw = state
	fmt.Fprint(l.out, terminal.PasteOn)
	return nil
}

// restore leaves the terminal as it was. It may be called at any time.
func (l *lineReader) restore() {
	if l.raw != nil {
		fmt.Fprint(l.out, terminal.PasteOff)
		_ = term.Restore(int(l.in.Fd()), l.raw)
		l.raw = nil
	}
}

// inEditor gives the text to the editor that the person has chosen, and reads what it became.
func (l *lineReader) inEditor(text string) (string, error) {
	name := server.Setting(os.Getenv, "EDITOR")
	for _, other := range []string{os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"} {
		if strings.TrimSpace(name) == "" {
			name = other
		}
	}
	words := strings.Fields(name)
	if _, err := exec.LookPath(words[0]); err != nil {
		return "", fmt.Errorf("the editor %q is not there: set AXLE_EDITOR or EDITOR to one that is", words[0])
	}
	f, err := os.CreateTemp("", "axle-*.txt")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	l.restore()
	cmd := exec.Command(words[0], append(words[1:], f.Name())...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.in, l.out, l.out
	err = cmd.Run()
	if raw := l.makeRaw(); raw != nil {
		return "", raw
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w; the text is as it was", words[0], err)
	}
	b, err := os.ReadFile(f.Name())
	return strings.TrimRight(string(b), "\r\n"), err
}

// suspend stops the program, as Ctrl-Z does anywhere, and comes back when it is told to go on.
func (l *lineReader) suspend() {
	l.restore()
	_ = syscall.Kill(0, syscall.SIGTSTP)
	_ = l.makeRaw()
}

// history is what was typed, kept in a file.
type history struct {
	lines []string
	file  string
	off   bool
}

const maxHistory = 500

func openHistory() *history {
	h := &history{off: server.Yes(os.Getenv, "NOHISTORY")}
	home, err := os.UserHomeDir()
	if err != nil {
		return h
	}
	h.file = filepath.Join(home, ".axle", "history")
	if b, err := os.ReadFile(h.file); err == nil && len(b) > 0 {
		h.lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
		for i, line := range h.lines {
			h.lines[i] = fromHistory(line)
		}
	}
	return h
}

// toHistory writes a text of several lines as one, in quotes as Go has them, and so every text that could be taken for one of those.
func toHistory(s string) string {
	if strings.Contains(s, "\n") || s != fromHistory(s) {
		return strconv.Quote(s)
	}
	return s
}

func fromHistory(line string) string {
	if strings.HasPrefix(line, `"`) {
		if s, err := strconv.Unquote(line); err == nil && (strings.Contains(s, "\n") || s != fromHistory(s)) {
			return s
		}
	}
	return line
}

// Add, Len and At make it a terminal.History.
func (h *history) Add(s string) {
	if strings.TrimSpace(s) == "" || h.off || len(h.lines) > 0 && h.lines[len(h.lines)-1] == s {
		return
	}
	h.lines = append(h.lines, s)
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	if h.file == "" || os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	var sb strings.Builder
	for _, line := range h.lines {
		sb.WriteString(toHistory(line) + "\n")
	}
	_ = os.WriteFile(h.file, []byte(sb.String()), 0o600)
}

// Len is how many lines there are.
func (h *history) Len() int { return len(h.lines) }

// At is a line, the newest first.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// converse is the conversation in the terminal.
func (t *talk) converse(ctx context.Context, in *os.File) error {
	l := newLineReader(in, plain.Raw(t.out))
	defer l.restore()
	defer t.endOnSignal(in)()
	fmt.Fprintf(t.out, "%s\n", placeholder)
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
			fmt.Fprintln(t.out)
			return nil
		case errors.Is(err, terminal.ErrInterrupted):
			if !quoted {
				fmt.Fprint(t.out, "\nUse Ctrl + d or /bye to exit.\n\n")
			}
			said.Reset()
			quoted, system = false, false
			continue
		case err != nil:
			return err
		}
		// Several lines at once are a paste or come from an editor: what stands in them is said, not obeyed.
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
				fmt.Fprintln(t.errw, "Error:", err)
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
			fmt.Fprintln(t.out, "Set system message.")
		case strings.TrimSpace(text) != "":
			if err := t.answer(ctx, text); err != nil {
				fmt.Fprintln(t.errw, "Error:", err)
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

// endOnSignal ends the program when it is told to while it waits for a line, which nothing else can interrupt: the terminal as it was, the
// server inside closed. The returned function ends the watch.
func (t *talk) endOnSignal(in *os.File) func() {
	state, err := term.GetState(int(in.Fd()))
	if err != nil {
		return func() {}
	}
	out, colour, stop := plain.Raw(t.out), t.colour, t.conn.stop
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
			_ = stop()
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
  /set wordwrap          Enable word wrap
  /set nowordwrap        Disable word wrap
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

const parameterHelp = `Available Parameters:
  /set parameter seed <int>             Random number seed
  /set parameter num_predict <int>      Max number of tokens to predict
  /set parameter top_k <int>            Pick from top k num of tokens
  /set parameter top_p <float>          Pick token based on sum of probabilities
  /set parameter min_p <float>          Least share of the best token's odds
  /set parameter num_ctx <int>          Set the context size
  /set parameter temperature <float>    Set creativity level
  /set parameter repeat_penalty <float> How strongly to penalize repetitions
  /set parameter repeat_last_n <int>    Set how far back to look for repetitions
  /set parameter stop <string> <string> ...   Set the stop parameters
`

// parameterText is what the model sets, and what was set here, a line a value.
func parameterText(model string, set map[string]any) string {
	var sb strings.Builder
	if model = strings.TrimSpace(model); model != "" {
		sb.WriteString("Model defined parameters:\n")
		for line := range strings.Lines(model) {
			sb.WriteString("  " + strings.TrimSpace(line) + "\n")
		}
	}
	if len(set) > 0 {
		if sb.Len() > 0 {
			sb.WriteByte('\n')
		}
		sb.WriteString("User defined parameters:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		values := []any{set[name]}
		if list, ok := set[name].([]string); ok {
			values = values[:0]
			for _, v := range list {
				values = append(values, strconv.Quote(v))
			}
		}
		for _, v := range values {
			fmt.Fprintf(&sb, "  %-30s %v\n", name, v)
		}
	}
	return sb.String()
}

const shortcutText = `Available keyboard shortcuts:
  Ctrl + a            Move to the beginning of the line (Home)
  Ctrl + e            Move to the end of the line (End)
   Alt + b            Move back (left) one word
   Alt + f            Move forward (right) one word
  Ctrl + k            Delete the rest of the line
  Ctrl + u            Delete the line up to here
  Ctrl + w            Delete the word before the cursor
   Alt + d            Delete the word after it
  Ctrl + y            Put back what was deleted last
  Ctrl + r            Search the history
  Up, Down            History
   Alt + Enter        Begin a new line
  Ctrl + g            Write the message in an editor
  Ctrl + l            Clear the screen
  Ctrl + z            Suspend
  Ctrl + c            Stop the model from responding
  Ctrl + d            Exit (/bye)
`

// command does what a line beginning with / asks for. done ends the conversation.
func (t *talk) command(ctx context.Context, l *lineReader, line string) (done bool, err error) {
	args := strings.Fields(line)
	rest := func(n int) string { // the line after its first n words
		s := line
		for range n {
			_, s, _ = strings.Cut(strings.TrimLeft(s, " "), " ")
		}
		return strings.TrimSpace(s)
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
		if err := t.conn.create(ctx, req, func(string) {}); err != nil {
			return false, err
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
			if part == "parameters" {
				text = parameterText(text, t.options)
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
		l.history.off = arg(1) == "nohistory"
	case "wordwrap", "nowordwrap":
		t.wrap = arg(1) == "wordwrap"
		say("Set '%s' mode.", arg(1))
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
		f, err := parseFormat(unquoted(rest(2)))
		if err != nil || len(f) == 0 {
			say("Invalid or missing format. For 'json' mode use '/set format json'")
			return nil
		}
		t.format = f
		say("Set format to '%s' mode.", unquoted(rest(2)))
	case "noformat":
		t.format = nil
		say("Disabled format.")
	case "system":
		text := unquoted(rest(2))
		if text == "" {
			say("Usage:\n  /set system <message>")
			return nil
		}
		t.system = text
		say("Set system message.")
	case "parameter":
		if arg(3) == "" {
			fmt.Fprint(t.out, parameterHelp)
			return nil
		}
		values := quotedWords(rest(3))
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

// unquoted takes off the quotes that stand around the whole of s, and no others.
func unquoted(s string) string {
	if in, ok := strings.CutPrefix(s, `"`); ok {
		if in, ok = strings.CutSuffix(in, `"`); ok && !strings.Contains(in, `"`) {
			return in
		}
	}
	return s
}

// quotedWords splits s at its blanks. What stands in double quotes is one word, with Go's escapes in it.
func quotedWords(s string) []string {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		word, _, _ := strings.Cut(s, " ")
		if q, err := strconv.QuotedPrefix(s); err == nil && s[0] == '"' && (len(q) == len(s) || s[len(q)] == ' ') {
			if in, err := strconv.Unquote(q); err == nil {
				out, s = append(out, in), s[len(q):]
				continue
			}
		}
		out, s = append(out, word), s[len(word):]
	}
	return out
}
