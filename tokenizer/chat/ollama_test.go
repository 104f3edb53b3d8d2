package chat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ollama/ollama/template"
)

// TestAsOllama: every template that Ollama brings prints what Ollama prints with it, as do some of the older kind that use what theirs do not.
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
		"{{ .Prompt }}{{ if .Response }}{{ .Response }}<end>{{ end }}!", "{{ with .Prompt }}<{{ . }}>{{ end }}", "{{ .System }}{{ .Prompt }}",
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
			pieces, err := ours.Render(c)
			if (err == nil) != (wantErr == nil) || err == nil && joined(pieces) != want.String() {
				t.Errorf("%.60q, %s: %q %v, want %q %v", src, gc.Name, joined(pieces), err, want.String(), wantErr)
			}
		}
	}
}
