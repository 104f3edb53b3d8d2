package conversation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ollama/ollama/types/model"

	"github.com/axle-llm/axle/internal/plain"
)

// completionTime is the longest that Tab waits for the server's list of models.
const completionTime = 2 * time.Second

// mostEntries of a folder are looked at for completions.
const mostEntries = 10000

// words are what a command may be followed by; the empty one is the command itself.
var words = map[string][]string{
	"": {"/bye", "/clear", "/exit", "/help", "/load", "/save", "/set", "/show"},
	"/set": {"format", "history", "markdown", "noformat", "nohistory", "nomarkdown", "nothink", "nowordwrap", "parameter", "quiet",
		"system", "think", "verbose", "wordwrap"},
	"/set parameter": {"min_p", "num_ctx", "num_predict", "repeat_last_n", "repeat_penalty", "seed", "stop", "temperature", "top_k",
		"top_p"},
	"/set format": {"json"},
	"/show":       {"info", "license", "modelfile", "parameters", "system", "template"},
	"/help":       {"set", "shortcuts", "show"},
	"/?":          {"set", "shortcuts", "show"},
}

// complete is what Tab completes: commands and what follows them, models after /load, and in a
// prompt to a model that sees, the files of pictures.
func (t *Talk) complete(ctx context.Context) func(before string) (from int, list []string) {
	return func(before string) (int, []string) {
		from := lastWord(before)
		begun := before[from:]
		command := strings.Join(strings.Fields(before[:from]), " ")
		switch {
		case strings.Contains(before, "\n"):
		case command == "/load":
			return from, begins(t.names(ctx), begun)
		case (before == "" || strings.HasPrefix(before, "/")) && words[command] != nil &&
			!strings.Contains(strings.TrimPrefix(begun, "/"), "/"):
			if list := begins(words[command], begun); len(list) > 0 {
				return from, list
			}
		}
		if !slices.Contains(t.caps, model.CapabilityVision) {
			return from, nil
		}
		return from, pictures(begun)
	}
}

func begins(list []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !strings.HasPrefix(s, begun) })
}

// lastWord is where the last word begins. A blank behind a backslash is part of it.
func lastWord(s string) int {
	from := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ' ', '\n', '\t':
			from = i + 1
		}
	}
	return min(from, len(s))
}

// names are the server's models that answer.
func (t *Talk) names(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	list, err := t.Conn.List(ctx)
	if err != nil {
		return nil
	}
	for _, m := range list {
		name := strings.TrimSuffix(m.Name, ":latest")
		if slices.Contains(m.Capabilities, model.CapabilityCompletion) && plain.Line(name) == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pictures are the folders and the files of pictures that begin so, with a backslash before what a
// path keeps by it.
func pictures(begun string) (list []string) {
	path := escaped.ReplaceAllString(begun, "$1")
	folder, name := filepath.Split(path)
	at := folder
	if at == "" {
		at = "."
	}
	f, err := os.Open(at)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(mostEntries)
	for _, e := range entries {
		n := e.Name()
		if !strings.HasPrefix(n, name) || name == "" && strings.HasPrefix(n, ".") || plain.Line(n) != n {
			continue
		}
		dir := e.IsDir()
		if st, err := os.Stat(filepath.Join(at, n)); err == nil {
			dir = st.IsDir()
		}
		switch {
		case dir:
			list = append(list, kept(folder+n)+"/")
		case imagePath.FindString("./"+strings.ReplaceAll(n, " ", "_")) != "":
			list = append(list, kept(folder+n))
		}
	}
	slices.Sort(list)
	return list
}

// kept is a path with a backslash before each character that would end it.
func kept(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsSpace(r) || strings.ContainsRune(`'"\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
