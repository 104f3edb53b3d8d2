package conversation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/cmd/internal/client"
)

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
  /set markdown          Show Markdown as bold, lists and tables
  /set nomarkdown        Show answers as they were written
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
  Tab                 Complete a command, a model or a picture's file
   Alt + Enter        Begin a new line
  Ctrl + g            Write the message in an editor
  Ctrl + l            Clear the screen
  Ctrl + z            Suspend
  Ctrl + c            Stop the model from responding
  Ctrl + d            Exit (/bye)
`

// command does what a line beginning with / asks for. done ends the conversation.
func (t *Talk) command(ctx context.Context, l *lineReader, line string) (done bool, err error) {
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
	say := func(format string, a ...any) { fmt.Fprintf(t.Out, format+"\n", a...) }
	switch args[0] {
	case "/bye", "/exit":
		return true, nil
	case "/clear":
		t.messages, t.session = nil, ""
		say("Cleared session context")
	case "/?", "/help":
		switch strings.TrimPrefix(arg(1), "/") {
		case "set":
			fmt.Fprint(t.Out, setText)
		case "show":
			fmt.Fprint(t.Out, showText)
		case "shortcut", "shortcuts":
			fmt.Fprint(t.Out, shortcutText)
		default:
			fmt.Fprint(t.Out, helpText)
		}
	case "/load":
		if arg(1) == "" {
			say("Usage:\n  /load <model>")
			return false, nil
		}
		old := *t
		t.Model, t.loaded, t.messages, t.system, t.session = arg(1), nil, nil, "", ""
		if err := t.load(ctx, true); err != nil {
			*t = old
			return false, err
		}
		say("Loading model '%s'", t.Model)
	case "/save":
		if arg(1) == "" {
			say("Usage:\n  /save <modelname>")
			return false, nil
		}
		// What is saved replaces the model's own turns, so they are part of it.
		req := &api.CreateRequest{Model: arg(1), From: t.Model, System: t.system, Messages: slices.Concat(t.loaded, t.messages),
			Parameters: t.options}
		if err := t.Conn.Create(ctx, req, func(string) {}); err != nil {
			return false, err
		}
		say("Created new model '%s'", arg(1))
	case "/set":
		return false, t.set(l, arg, rest, say)
	case "/show":
		r, err := t.Conn.Show(ctx, &api.ShowRequest{Model: t.Model, System: t.system, Options: t.options})
		if err != nil {
			return false, client.Error(err)
		}
		switch part := arg(1); part {
		case "info":
			return false, Show(t.Out, r, "", false)
		case "license", "modelfile", "system", "template", "parameters":
			if part == "system" && t.system != "" {
				r.System = t.system
			}
			text := map[string]string{"license": r.License, "modelfile": r.Modelfile, "system": r.System, "template": r.Template,
				"parameters": r.Parameters}[part]
			if part == "parameters" {
				text = parameterText(text, t.options)
			}
			if strings.TrimSpace(text) == "" {
				text = "No " + part + " was specified for this model."
			}
			say("%s\n", strings.TrimSpace(text))
		default:
			fmt.Fprint(t.Out, showText)
		}
	default:
		say("Unknown command '%s'. Type /? for help", args[0])
	}
	return false, nil
}

func (t *Talk) set(l *lineReader, arg func(int) string, rest func(int) string, say func(string, ...any)) error {
	switch arg(1) {
	case "history", "nohistory":
		l.history.off = arg(1) == "nohistory"
	case "wordwrap", "nowordwrap":
		t.wrap = arg(1) == "wordwrap"
		say("Set '%s' mode.", arg(1))
	case "markdown", "nomarkdown":
		t.NoMarkdown = arg(1) == "nomarkdown"
		say("Set '%s' mode.", arg(1))
	case "verbose", "quiet":
		t.Verbose = arg(1) == "verbose"
		say("Set '%s' mode.", arg(1))
	case "think", "nothink":
		t.Think = &api.ThinkValue{Value: arg(1) == "think"}
		if level := arg(2); arg(1) == "think" && level != "" {
			v, err := ParseThink(level)
			if err != nil {
				return err
			}
			t.Think = v
		}
		say("Set '%s' mode.", arg(1))
	case "format":
		f, err := ParseFormat(unquoted(rest(2)))
		if err != nil || len(f) == 0 {
			say("Invalid or missing format. For 'json' mode use '/set format json'")
			return nil
		}
		t.Format = f
		say("Set format to '%s' mode.", unquoted(rest(2)))
	case "noformat":
		t.Format = nil
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
			fmt.Fprint(t.Out, parameterHelp)
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
		fmt.Fprint(t.Out, setText)
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

// quotedWords splits s at its blanks. What stands in double quotes is one word, with Go's escapes
// in it.
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
