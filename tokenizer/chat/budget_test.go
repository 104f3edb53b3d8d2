package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestGoBudget: whatever an Ollama template loops over or doubles, its rendering ends soon, with [ErrBudget].
func TestGoBudget(t *testing.T) {
	grow := func(s string, n int) string {
		return `{{ $a := "0123456789abcdef" }}` + strings.Repeat(s, n)
	}
	var many []Message
	for i := range 1500 {
		many = append(many, Message{Role: []string{"user", "assistant"}[i%2], Content: "x"})
	}
	for name, src := range map[string]string{
		"group":      `{{ range (9223372036854775807) }}{{ end }}`,
		"printing":   `{{ range (999999999999) }}aaaa{{ end }}`,
		"variable":   `{{ $n := 999999999999 }}{{ range $n }}{{ end }}`,
		"length":     `{{ range len .Prompt }}{{ range len $.Prompt }}{{ range len $.Prompt }}{{ end }}{{ end }}{{ end }}`,
		"messages":   `{{ range .Messages }}{{ range $.Messages }}{{ range $.Messages }}{{ end }}{{ end }}{{ end }}`,
		"for ever":   `{{ $n := 999999999999 }}{{ range .Messages }}{{ range $n }}{{ end }}{{ end }}`,
		"doubling":   grow(`{{ $a = printf "%s%s%s" $a $a $a }}`, 60),
		"print":      grow(`{{ $a = print $a $a }}`, 60),
		"one action": grow(`{{ $a = print $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a }}`, 12),
		"js":         "{{ $a := `\\\\` }}" + strings.Repeat(`{{ $a = js $a }}`, 40),
		"index":      grow(`{{ $a = printf "%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s" $a }}`, 12),
		"widths":     strings.Repeat(`{{ printf "%999999d%999999d%999999d%999999d%999999d%999999d" 1 1 1 1 1 1 }}`, 20),
		"star":       `{{ printf "%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d%*d" 999999 1 999999 1 }}`,
		"comparing":  grow(strings.Repeat(`{{ $a = print $a $a }}`, 20)+`{{ $b := print $a }}{{ range 100000 }}{{ if eq $a $b }}{{ end }}{{ end }}`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			tmpl, err := NewGo(src)
			if err == nil {
				if name == "messages" {
					_, err = tmpl.Render(Conversation{Messages: many})
				} else {
					_, err = tmpl.Generate("", strings.Repeat("x", 4000), "", ThinkDefault)
				}
			}
			if !errors.Is(err, ErrBudget) {
				t.Errorf("error %v", err)
			}
			if d := time.Since(begun); d > 4*tmplMaxTime {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestGoTurns: a template that knows no messages is run once for each question, as Ollama runs it, with functions and includes too.
func TestGoTurns(t *testing.T) {
	c := Conversation{Messages: []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "a"}, {Role: "user", Content: "b"},
		{Role: "assistant", Content: "c"}, {Role: "system", Content: "t"}, {Role: "user", Content: "d"}}}
	for src, want := range map[string]string{
		"{{ .System }}|{{ .Prompt }}":                                                    "s|a\n\nbct|d",
		"{{ .System }}|{{ .Prompt }}>{{ .Response }}<":                                   "s|a\n\nb>c<t|d>",
		"{{ if .Prompt }}[{{ .Prompt }}]{{ end }}{{ .Response }}{{ len .Prompt }}":       "[a\n\nb]c4[d]",
		"{{ if .Response }}{{ .Response }}{{ else }}-{{ end }}{{ .Prompt }}":             "ca\n\nb",
		`{{ define "x" }}{{ json . }}{{ end }}{{ template "x" .Prompt }}{{ .Response }}`: `"a\n\nb"c"d"`,
		"{{ range $i, $m := .Messages }}{{ $i }}{{ $m.Content }} {{ end }}":              "0s 1a\n\nb 2c 3t 4d ",
	} {
		tmpl, err := NewGo(src)
		if err != nil {
			t.Fatal(err)
		}
		if pieces, err := tmpl.Render(c); err != nil || joined(pieces) != want {
			t.Errorf("%s: %q %v, want %q", src, joined(pieces), err, want)
		}
	}
}

// TestGoManyMessages: a very long conversation takes no longer than its length.
func TestGoManyMessages(t *testing.T) {
	tmpl, err := NewGo(goTemplateSource)
	if err != nil {
		t.Fatal(err)
	}
	var one, two Conversation
	for i := range 200_000 {
		one.Messages = append(one.Messages, Message{Role: "user", Content: fmt.Sprint(i)})
	}
	for i := range 4000 {
		two.Messages = append(two.Messages, Message{Role: []string{"user", "assistant"}[i%2], Content: fmt.Sprint(i)})
	}
	for _, c := range []Conversation{one, two} {
		begun := time.Now()
		pieces, err := tmpl.Render(c)
		if err != nil || !strings.Contains(joined(pieces), "3998") {
			t.Errorf("%v", err)
		}
		if d := time.Since(begun); d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
	}
}
