package main

import (
	"bytes"
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

	"github.com/axle-llm/axle/server"
)

const (
	promptFirst = ">>> "
	promptMore  = "... "
	placeholder = "Send a message (/? for help)"
)

// What a terminal puts around a paste, and what turns that on and off.
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
)

// lineReader reads lines in a terminal, with history and editing. Ctrl-C empties the line instead of ending the program, Ctrl-D ends it.
type lineReader struct {
	in          *os.File
	out         io.Writer
	t           *term.Terminal
	raw         *term.State // what the terminal was before; nil while it is that
	ahead       []byte      // read and not yet given to t
	tail        string      // the end of what t was given: a mark may come in parts
	pasting     bool        // the last line ended inside a paste: more of it follows
	halved      bool        // what t was given last ends with a \r inside a paste: a \n that follows belongs to it
	interrupted bool
}

func newLineReader(in *os.File, out io.Writer) *lineReader {
	l := &lineReader{in: in, out: out}
	l.t = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{l, out}, promptFirst)
	l.t.History = openHistory()
	return l
}

// Read gives the terminal's bytes, no further than to the end of a line, so that pasting is known at each; and Ctrl-C turned into: end a
// paste, empty this line and end it.
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.ahead) == 0 {
		b := make([]byte, 1024)
		n, err := l.in.Read(b)
		if n == 0 {
			return 0, err
		}
		if l.ahead = b[:n]; l.halved && b[0] == '\n' {
			l.ahead = b[1:n]
		}
		l.halved = false
	}
	n := bytes.IndexAny(l.ahead, "\r\n\x03") + 1
	switch {
	case n == 0:
		n = len(l.ahead)
	case l.ahead[n-1] == 3:
		l.interrupted = true
		l.ahead = append(slices.Clone(l.ahead[:n-1]), pasteEnd+"\x15\r"...)
		n = len(l.ahead)
	case l.ahead[n-1] == '\r' && n < len(l.ahead) && l.ahead[n] == '\n':
		n++
	}
	n = copy(p, l.ahead[:n])
	l.ahead = l.ahead[n:]
	seen := l.tail + string(p[:n])
	if start, end := strings.LastIndex(seen, pasteStart), strings.LastIndex(seen, pasteEnd); start != end {
		l.pasting = start > end
	}
	l.tail = seen[max(0, len(seen)-len(pasteEnd)+1):]
	l.halved = l.pasting && len(l.ahead) == 0 && p[n-1] == '\r'
	return n, nil
}

// line reads one line in raw mode, and leaves the terminal as it was, unless more of a paste follows: that would be shown twice.
func (l *lineReader) line(prompt string) (string, error) {
	if l.raw == nil {
		state, err := term.MakeRaw(int(l.in.Fd()))
		if err != nil {
			return "", err
		}
		l.raw = state
		if w, h, err := term.GetSize(int(l.in.Fd())); err == nil && w > 0 {
			_ = l.t.SetSize(w, h)
		}
		fmt.Fprint(l.out, pasteOn)
	}
	l.t.SetPrompt(prompt)
	s, err := l.t.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil // pasting says more: a paste may begin within a line
	}
	if err != nil || !l.pasting {
		l.restore()
	}
	return s, err
}

// restore leaves the terminal as it was. It may be called at any time.
func (l *lineReader) restore() {
	if l.raw != nil {
		fmt.Fprint(l.out, pasteOff)
		_ = term.Restore(int(l.in.Fd()), l.raw)
		l.raw = nil
	}
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
	defer l.restore()
	defer t.endOnSignal(in)()
	fmt.Fprintf(t.out, "%s\n", placeholder)
	var (
		said   strings.Builder // the lines of a paste or of a """ so far
		system bool            // what is in the """ is the system message
		quoted bool            // inside a """
	)
	for {
		prompt := promptFirst
		if quoted || l.pasting || said.Len() > 0 {
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
			if !quoted && line == "" {
				fmt.Fprint(t.out, "\nUse Ctrl + d or /bye to exit.\n\n")
			}
			said.Reset()
			quoted, system = false, false
			continue
		}
		begun := false
		if rest, ok := strings.CutPrefix(line, `"""`); ok && !quoted {
			quoted, begun, line = true, true, rest
		} else if rest, ok := systemQuote(line); ok && !quoted && !l.pasting && said.Len() == 0 {
			quoted, begun, system, line = true, true, true, rest
		}
		switch {
		case quoted:
			rest, closed := strings.CutSuffix(line, `"""`)
			said.WriteString(rest)
			if !closed {
				if !begun || rest != "" {
					said.WriteByte('\n')
				}
				continue
			}
			quoted = false
		case l.pasting:
			said.WriteString(line + "\n")
			continue
		case said.Len() == 0 && strings.HasPrefix(line, "/") && !looksLikePath(line):
			done, err := t.command(ctx, l, strings.TrimSpace(line))
			if err != nil {
				fmt.Fprintln(t.errw, "Error:", err)
			}
			if done {
				return nil
			}
			continue
		default:
			said.WriteString(line)
		}
		text := said.String()
		said.Reset()
		l.restore()
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
	out, colour, stop := t.out, t.colour, t.conn.stop
	told, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-told:
			fmt.Fprint(out, pasteOff)
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
			say("Usage:\n  /set parameter <name> <value>…")
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
