package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

// TestGoBudget: whatever an Ollama template loops over or doubles, its rendering ends soon, with
// [ErrBudget].
func TestGoBudget(t *testing.T) {
	//proves:T7
	lane.Slow(t)
	lane.NoRace(t)
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
		"comparing": grow(strings.Repeat(`{{ $a = print $a $a }}`, 20)+
			`{{ $b := print $a }}{{ range 100000 }}{{ if eq $a $b }}{{ end }}{{ end }}`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			run := func() {
				var tmpl Template
				if tmpl, err = NewGo(src); err != nil {
					return
				}
				if name == "messages" {
					_, err = tmpl.Render(t.Context(), Conversation{Messages: many})
				} else {
					_, err = tmpl.Generate(t.Context(), "", strings.Repeat("x", 4000), "", ThinkDefault)
				}
			}
			d := fuzzguard.Busy(run)
			for errors.Is(err, ErrRoom) { // the others have it all
				d = fuzzguard.Busy(run)
			}
			if !errors.Is(err, ErrBudget) {
				t.Errorf("error %v", err)
			}
			if d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestGoTurns: a template that knows no messages is run once for each question, as Ollama runs it,
// with functions and includes too.
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
		if pieces, err := tmpl.Render(t.Context(), c); err != nil || joined(pieces) != want {
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
		var pieces []Piece
		var err error
		d := fuzzguard.Busy(func() { pieces, err = tmpl.Render(t.Context(), c) })
		if err != nil || !strings.Contains(joined(pieces), "3998") {
			t.Errorf("%v", err)
		}
		if d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
	}
}

// TestJinjaBudget: what makes much of little, or holds itself, is refused, most of it when the
// package is opened; memory stays bounded.
func TestJinjaBudget(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	const big = `{% set n = 100000000000 %}{% set a = 'a' * 8000000 %}`
	doubled := `{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}`
	self := `{% set ns = namespace(l=[]) %}{% set ns.l = [ns] %}`
	for name, src := range map[string]string{
		"factor":       big + `{{ 'a' * n }}`,
		"group":        `{{ 'a'*(100000000000) }}`,
		"reversed":     big + `{{ n * 'a' }}`,
		"attribute":    `{% set ns = namespace(n=100000000000) %}{{ 'a' * ns.n }}`,
		"twice":        `{{ 'a' * 65536 * 65536 }}`,
		"product":      `{{ 'a' * (65536 * 65536 * 2) }}`,
		"sum":          big + `{{ a` + strings.Repeat(" + a", 2000) + ` }}`,
		"joined":       big + `{{ a` + strings.Repeat(" ~ a", 2000) + ` }}`,
		"in brackets":  big + `{% if (a + a + a)[0] == 'x' %}{% endif %}`,
		"keyword name": `{% set in = 'a' * 4000000 %}{{ in + in + in + in + in }}`,
		"keyword attr": `{% set ns = namespace(is='a' * 4000000) %}{{ ns.is + ns.is + ns.is + ns.is + ns.is }}`,
		"indent":       `{{ 'a\nb'|indent(100000000000) }}`,
		"indents":      `{{ ('\n' * 1000000)|indent(1000) }}`,
		"width":        `{{ 'a'|indent(width=100000000000) }}`,
		"replace":      big + `{{ a|replace('a', a) }}`,
		"the method":   big + `{{ a.replace('a', a) }}`,
		"of a filter":  big + `{{ (a|trim).replace('a', a) }}`,
		"join":         big + `{{ range(1000)|list|join(a) }}`,
		"as a method":  big + `{{ a.join(range(1000)|map('string')) }}`,
		"range":        `{% for i in range(1000000000) %}x{% endfor %}`,
		"powers":       `{% set n = 10000 * 100000 %}{% for i in range(n|int) %}x{% endfor %}`,
		"text":         `{% for i in range(1000000) %}` + strings.Repeat("x", 10_000) + `{% endfor %}`,
		"macro text":   `{% macro m() %}` + strings.Repeat("x", 100_000) + `{% endmacro %}{% for i in range(9000) %}{{ m() }}{% endfor %}`,
		"doubling":     `{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`,
		"lists":        `{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
		"for ever":     `{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`,
		"recursion":    `{% macro m(s) %}{% if s %}{{ m(s + s) }}{% endif %}{% endmacro %}{{ m('ab') }}`,
		"split":        big + `{% for i in range(1000) %}{% set l = a.split('a') %}{% endfor %}`,
		"comparing":    big + `{% set b = 'a' * 8000000 %}{% for i in range(1000000) %}{% if a == b %}{% endif %}{% endfor %}`,
		"nested":       doubled + `{{ ns.a == ns.b }}`,
		"searched":     doubled + `{{ ns.a in [ns.b] }}`,
		"tested":       doubled + `{{ ns.a is eq(ns.b) }}`,
		"selected":     doubled + `{{ [ns]|selectattr('a', 'eq', ns.b)|list }}`,
		"titled":       doubled + `{{ ns.a|title }}`,
		"raised":       self + `{{ raise_exception(ns) }}`,
		"itself":       self + `{{ ns }}`,
		"through two":  `{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}`,
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			d := fuzzguard.Busy(func() {
				var tmpl Template
				if tmpl, err = NewJinja(src, name, JinjaOptions{}); err == nil {
					_, err = tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}})
				}
			})
			if !errors.Is(err, ErrBudget) {
				t.Errorf("error %v", err)
			}
			if d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
	// What the engine would read in another way than we do is refused.
	for name, src := range map[string]string{
		"set":      `{% set x '= a * n ~ ' %}`,
		"computed": `{% macro m(a='x' * 100000000000) %}{% endmacro %}{{ m() }}`,
		"call":     `{% call(') a * n ~ ') %}{% endcall %}`,
		"if":       `{% if1 * a %}{% endif %}`,
		"star":     `{{ * a }}`,
	} {
		if _, err := NewJinja(src, name, JinjaOptions{}); err == nil {
			t.Errorf("%s: %s was accepted", name, src)
		}
	}
}

// TestJinjaOperators: the operators that are ours bind and compute as Python's.
func TestJinjaOperators(t *testing.T) {
	for src, want := range map[string]string{
		`{{ 1 + 2 * 3 - 4 }}`:                                                              "3",
		`{{ 2 * 3 + 4 * 5 }}`:                                                              "26",
		`{{ -2 * 3 }}{{ 2 * -3 }}`:                                                         "-6-6",
		`{{ 7 // 2 * 2 }}{{ 2 * 7 // 2 }}{{ 2 * 7 % 4 }}`:                                  "672",
		`{{ 'a' + 'b' * 2 + 'c' }}`:                                                        "abbc",
		`{{ 2 * 'ab' }}{{ [1] * 2 + [3] }}`:                                                "abab[1, 1, 3]",
		`{{ 1 ~ 2 * 3 }}`:                                                                  "16",
		`{{ 'a' ~ none ~ 1.5 ~ true }}`:                                                    "aNone1.5True",
		`{{ 'x' + ('a' if 1 == 1 else 'b') + 'y' }}`:                                       "xay",
		`{{ 'a' in 'b' + 'a' and not 'c' in 'a' ~ 'b' }}`:                                  "True",
		`{{ 'c' not in 'a' + 'b' }}{{ 1 + 1 == 2 }}`:                                       "TrueTrue",
		`{{ x is defined and x + 'a' or 'b' }}`:                                            "b",
		`{{ 'abcdef'[1:4] + 'abcdef'[::-1] + 'é日本'[-2:] }}`:                                "bcdfedcba日本",
		`{{ 'é'[-9000000000000000000:] }}{{ [1, 2][-9000000000000000000::2] }}`:            "é[1]",
		`{{ [1, 2, 3, 4][::2] }}{{ [1, 2, 3][:-1] }}{{ 'abc'[9:] }}{{ [1, 2, 3][1::-1] }}`: "[1, 3][1, 2][2, 1]",
		`{{ 'a,b'.split(',')[0] + 'c'.upper()[0:1] }}`:                                     "aC",
		`{{ 'a-b-c'.replace('-', '+', 1) }}{{ 'aa'|replace('a', 'bc') }}`:                  "a+b-cbcbc",
		`{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(1, true) }}|`:                        "a\n  b\n\n  c| a\n b|",
		`{% set l = [] %}{% set l = l + ['x' ~ 1] %}{{ l }}{{ l.append is defined }}`:      "['x1']False",
		`{% set d = {'a' ~ 1: 2} %}{{ d['a' + '1'] }}{{ d.get('a' ~ 1) + 1 }}`:             "23",
		`{% set i = 1 %}{{ ['a', 'b'][i - 1] }}{{ [['a', 'b']][0][i] }}`:                   "ab",
		`{% macro m(a, b='c') %}{{ a + b }}{% endmacro %}{{ m('x') ~ m('y', b='z') }}`:     "xcyz",
		`{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{% endcall %}`:        "<x>",
		`{{ 'a,b, c d'.rsplit(',', 1) }}{{ 'a b'.split() }}`:                               "['a,b', ' c d']['a', 'b']",
	} {
		tmpl, err := NewJinja(src, "s", JinjaOptions{})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if pieces, err := tmpl.Render(t.Context(), Conversation{}); err != nil || joined(pieces) != want {
			t.Errorf("%s: %q %v, want %q", src, joined(pieces), err, want)
		}
	}
}
