package chat

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// BenchmarkLongest renders a conversation with tools in the ten longest templates at hand.
func BenchmarkLongest(b *testing.B) {
	files, _ := filepath.Glob(templateGoldens + "engine/*.jinja")
	own, _ := filepath.Glob("builtin/*.jinja")
	sources := make(map[string]string)
	var names []string
	for _, f := range append(files, own...) {
		src, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".jinja")
		sources[name], names = string(src), append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return len(sources[y]) - len(sources[x]) })
	_, list := loadTemplateGoldens(b)
	k := slices.IndexFunc(list, func(g goldenConversation) bool { return g.Name == "calls-two" })
	for _, name := range names[:10] {
		tmpl, err := NewJinja(sources[name], name, JinjaOptions{BOS: "<bos>", EOS: "<eos>"})
		if err != nil {
			b.Fatal(err)
		}
		c := list[k].conversation(b)
		if _, err := tmpl.Render(b.Context(), c); err != nil {
			c = list[2].conversation(b) // it takes no tools
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
