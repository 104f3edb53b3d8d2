package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/terminal"
)

// wrapHelp has the help of all commands fit the terminal it is read in. What reads it through a
// pipe has it as it is written.
func wrapHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		width, ok := terminal.Screen(out)
		if !ok {
			help(c, args)
			return
		}
		var b bytes.Buffer
		c.SetOut(&b)
		help(c, args)
		c.SetOut(out)
		_, _ = io.WriteString(out, fitHelp(b.String(), width))
	})
}

// described is a line of a list: a flag or a command, blanks, and what it is.
var described = regexp.MustCompile(`^\s+\S.*?\s{2,}`)

// fitHelp breaks lines that are wider than columns, each further one under the first one's text. A
// paragraph that was written in lines is folded anew, so that no short line stands between long
// ones.
func fitHelp(text string, columns int) string {
	var out strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		prose := line != "" && line[0] != ' ' && line[0] != '\t'
		for prose && i+1 < len(lines) && lines[i+1] != "" && lines[i+1][0] != ' ' && !strings.HasSuffix(line, ":") &&
			terminal.Width(lines[i])+1+terminal.Width(firstWord(lines[i+1])) > columns {
			i++
			line += " " + lines[i]
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if head := described.FindString(line); head != "" && terminal.Width(head) <= columns-16 {
			indent = strings.Repeat(" ", terminal.Width(head))
		}
		out.WriteString(terminal.Fold(line, indent, columns))
		if i+1 < len(lines) {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func firstWord(s string) string { w, _, _ := strings.Cut(s, " "); return w }

// fitError breaks an error where words end, for the terminal that it is read in.
func fitError(w io.Writer, text string) string {
	if width, ok := terminal.Screen(w); ok {
		return terminal.Fold(text, "       ", width) // under its first word, behind "Error: "
	}
	return text
}
