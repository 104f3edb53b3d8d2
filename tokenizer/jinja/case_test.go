package jinja

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// TestAsPython: what random templates do not come upon.
func TestAsPython(t *testing.T) {
	prints(t, map[string]string{
		"{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}":   "21",
		"{{ 'they\\'re aB-c d'.title() }} {{ 'they\\'re aB-c d'|title }} {{ 'ǆ'.title() }}": "They'Re Ab-C D They're Ab-C D ǅ",
		"{% for c in [1, 1] %}{{ loop.nextitem }}{{ loop.previtem }}{% endfor %}":           "11",
		"{{ ' a  b '.split(none, 1) }}{{ 'a-b-c'.rsplit('-', 1) }}{{ ' '.split() }}":        "['a', 'b ']['a-b', 'c'][]",
	})
	for _, src := range []string{"{{ {[]: 1} }}",
		"{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}"} {
		if tmpl, err := Parse(src); err == nil {
			m := origin.NewMeter(t.Context(), nil)
			if out, err := tmpl.Render(m, nil, truthNow); err == nil {
				t.Errorf("%s gives %q", src, out)
			}
		}
	}
}

// TestUnsupported: what Python knows and no template in use needs is refused, and the error says
// so.
func TestUnsupported(t *testing.T) {
	for _, src := range []string{"{{ 'a'|center(9) }}", "{{ 1 is divisibleby 3 }}", "{{ ['a']|map('wordcount')|list }}", "{{ '%s' % 1 }}",
		"{{ '{}'.format(1) }}", "{{ 'ab'.partition('a') }}", "{% with x = 1 %}{{ x }}{% endwith %}",
		"{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}",
		"{% for x in [] recursive %}{% endfor %}", "{% for x in [1] %}{{ loop.cycle(1) }}{% endfor %}", "{{ cycler(1) }}", "{{ 0x1f }}",
		"{{ 1_000 }}", "{{ '\\0' }}", "{{ {(1, 2): 3} }}", "{{ [1][0, 1] }}", "{{ 'a'|replace('', 'b') }}",
		"{{ [{}]|sort(attribute='a,b') }}",
		"{{ 2 ** 3 }}", "{{ range(**{}) }}", "{{ dict([[1, 2]]) }}", "{{ namespace({}) }}",
		"{{ strftime_now('%U') }}", "{% macro m() %}{% endmacro %}{{ m }}"} {
		tmpl, err := Parse(src)
		if err == nil {
			m := origin.NewMeter(t.Context(), nil)
			_, err = tmpl.Render(m, nil, truthNow)
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "not supported") {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// TestAllCompared: every filter and every test comes in the templates that are compared with
// Python's jinja2.
func TestAllCompared(t *testing.T) {
	not := map[string]string{
		"safe": "what Python makes of it escapes what is added to it, for web pages",
	}
	seen := map[string]bool{}
	name := regexp.MustCompile(`(\| *|is |is not |filter |map\('|(?:se|re)ject(?:attr)?\((?:'\w+', ?)?')(\w+)`)
	for k := range uint64(1500) {
		g := &generator{r: rand.New(rand.NewPCG(1, k))}
		for _, m := range name.FindAllStringSubmatch(g.template(), -1) {
			seen[m[2]] = true
		}
	}
	for _, known := range []map[string]*builtin{filters, tests} {
		for n := range known {
			if word := n[0] >= 'a'; word && !seen[n] && not[n] == "" {
				t.Errorf("the generator never uses %s", n)
			}
		}
	}
}

// prints holds what templates print without a variable against what is wanted of each.
func prints(t *testing.T, wanted map[string]string) {
	t.Helper()
	for src, want := range wanted {
		if out, err := render(t, src, nil); err != nil || out.String() != want {
			t.Errorf("%s: %q %v, want %q", src, out, err, want)
		}
	}
}
