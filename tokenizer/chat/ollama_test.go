package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/template"
)

// TestAsOllama: every template that Ollama brings prints what Ollama prints with it, as do some of
// the older kind that use what theirs do not.
func TestAsOllama(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ollama/ollama").Output()
	if err != nil {
		t.Skip("Ollama's module is not at hand")
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "template", "*.gotmpl"))
	if err != nil || len(files) < 10 {
		t.Skipf("%d templates, %v", len(files), err)
	}
	sources := []string{
		"{{ if .System }}[{{ .System }}]{{ end }}{{ .Prompt }}{{ printf \" %s \" .Prompt | len }}{{ .Response }}<end>",
		"{{ .Prompt }}{{ if .Response }}{{ .Response }}<end>{{ end }}!", "{{ with .Prompt }}<{{ . }}>{{ end }}",
		"{{ .System }}{{ .Prompt }}",
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(b))
	}
	_, list := loadTemplateGoldens(t)
	for _, src := range sources {
		ours, err := NewGo(src)
		if err != nil {
			t.Fatalf("%q: %v", src, err)
		}
		theirs, err := template.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, gc := range list {
			c := gc.conversation(t)
			values, err := goValues(c)
			if err != nil {
				continue
			}
			values.Think, values.IsThinkSet = c.Think == ThinkOn, c.Think != ThinkDefault
			var want strings.Builder
			wantErr := theirs.Execute(&want, values)
			pieces, err := ours.Render(t.Context(), c)
			if (err == nil) != (wantErr == nil) || err == nil && joined(pieces) != want.String() {
				t.Errorf("%.60q, %s: %q %v, want %q %v", src, gc.Name, joined(pieces), err, want.String(), wantErr)
			}
		}
	}
}

// goValues converts a conversation to Ollama's types. Messages of one role that follow each other
// are one, as Ollama makes them, but joined at once: it adds one to another, which takes minutes
// for very many.
func goValues(c Conversation) (template.Values, error) {
	var v template.Values
	var same []string // the contents that are v's last message
	join := func() {
		if len(same) > 1 {
			v.Messages[len(v.Messages)-1].Content = strings.Join(same, "\n\n")
		}
	}
	for i, m := range c.Messages {
		if n := len(v.Messages); n > 0 && v.Messages[n-1].Role == m.Role && m.Role != "tool" {
			same = append(same, m.Content)
			continue
		}
		join()
		same = []string{m.Content}
		a := api.Message{Role: m.Role, Content: m.Content, Thinking: m.Thinking, ToolName: m.ToolName, ToolCallID: m.ToolCallID}
		for k, call := range m.ToolCalls {
			tc := api.ToolCall{ID: call.ID, Function: api.ToolCallFunction{Index: k, Name: call.Name,
				Arguments: api.NewToolCallFunctionArguments()}}
			if len(call.Arguments) > 0 {
				if err := json.Unmarshal(call.Arguments, &tc.Function.Arguments); err != nil {
					return v, fmt.Errorf("message %d: arguments of the call of %s: %w", i, call.Name, err)
				}
			}
			a.ToolCalls = append(a.ToolCalls, tc)
		}
		v.Messages = append(v.Messages, a)
	}
	join()
	for i, tool := range c.Tools {
		raw := []byte(tool.Raw)
		if len(raw) == 0 {
			f := map[string]any{"name": tool.Name, "description": tool.Description}
			if len(tool.Parameters) > 0 {
				f["parameters"] = tool.Parameters
			}
			kind := tool.Type
			if kind == "" {
				kind = "function"
			}
			var err error
			if raw, err = json.Marshal(map[string]any{"type": kind, "function": f}); err != nil {
				return v, fmt.Errorf("tool %d: %w", i, err)
			}
		}
		var a api.Tool
		if err := json.Unmarshal(raw, &a); err != nil {
			return v, fmt.Errorf("tool %d: %w", i, err)
		}
		v.Tools = append(v.Tools, a)
	}
	return v, nil
}
