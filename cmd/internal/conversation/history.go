package conversation

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/server"
)

// History is what was typed, kept in a file.
type History struct {
	lines []string
	file  string
	off   bool
}

const maxHistory = 500

// OpenHistory reads it, unless AXLE_NOHISTORY or OLLAMA_NOHISTORY says not to.
func OpenHistory() *History {
	h := &History{off: server.Yes(os.Getenv, "NOHISTORY")}
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

// toHistory writes a text of several lines as one line, quoted as in Go. A text that looks like
// such a line is quoted too.
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
func (h *History) Add(s string) {
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
func (h *History) Len() int { return len(h.lines) }

// At is a line, the newest first.
func (h *History) At(i int) string { return h.lines[len(h.lines)-1-i] }
