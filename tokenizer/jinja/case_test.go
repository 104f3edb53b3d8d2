package jinja

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// TestCase: letters whose other case is no single letter, as Python has them.
func TestCase(t *testing.T) {
	prints(t, map[string]string{
		"{{ 'ŉß'.title() }}|{{ 'ŉ'.capitalize() }}|{{ 'ß'|title }}": "ʼNß|ʼN|SS",
		"{{ 'ß'|upper }}{{ 'ﬁx'|capitalize }}{{ 'ΑΣ Σ'.lower() }}":  "SSFixας σ",
		"{{ 'ǆ'.title() }}{{ 'ǆ'.upper() }}{{ 'aB-c d'|title }}":    "ǅǄAb-C D",
		"{{ 'aBß ŉǅ日ΑΣ ΑΣa aΣ İ'.swapcase() }}{{ ''.swapcase() }}":  "AbSS ʼNǅ日ας ασA Aς i̇",
		"{{ '日本語back ªb 1a ⅷx ʰa'.title() }}":                       "日本語Back ªb 1A Ⅷx ʰa",
		"{{ 'they\\'re'.title() }} {{ 'they\\'re'|title }}":         "They'Re They're",
	})
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

// TestIsNamed: whatever could be the key of a dict is the name of a filter or of a test, or is not.
func TestIsNamed(t *testing.T) {
	const src = "{{ 'd' is filter }} {{ 'odd' is test }} {{ 'odd' is filter }} {{ x is filter }} {{ x is test }} {{ 1 is test }} " +
		"{{ none is filter }} {{ (1, 'd') is filter }} {{ 'escape' is filter }}" // that one is left out
	const want = "True True False False False False False False False"
	if out, err := render(t, src, nil); err != nil || out.String() != want {
		t.Errorf("%q %v, want %q", out, err, want)
	}
	for _, src := range []string{"{{ [] is filter }}", "{{ {} is test }}"} {
		if out, err := render(t, src, nil); err == nil {
			t.Errorf("%s gives %q", src, out)
		}
	}
}

// TestAsPython: what random templates do not come upon.
func TestAsPython(t *testing.T) {
	prints(t, map[string]string{
		"{{ '{:{}}|{}'.format('a', 5, 7) }}":                                                                  "a    |7",
		"{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}":                     "21",
		"{{ 'abc'.find('', 3) }}{{ 'abc'.find('', 4) }}{{ 'abcb'.rfind('b', -1, 99) }}":                       "3-13",
		"{{ 'abc'.count('', 1, -9) }}{{ 'abc'.count('', 3) }}{{ 'abc'.find('c', -9) }}":                       "012",
		"{{ {(namespace(),): 1}[(namespace(),)] }}{{ {(1, 'a', (none, 2.5)): 1}[(true, 'a', (none, 2.5))] }}": "1",
		"{% for c in [1, 1] %}{{ loop.changed(c) }}{{ loop.cycle('a', 'b') }}{{ loop.nextitem }}{% endfor %}": "Truea1Falseb",
		"{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}":  "1221None",
		"{% set j = joiner() %}{{ j() }}{{ j() }}{{ j() }}":                                                   ", , ",
	})
	for _, src := range []string{"{{ '%d' % 1e300 }}", "{{ {[]: 1} }}",
		"{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}"} {
		if tmpl, err := Parse(src); err == nil {
			m := origin.NewMeter(t.Context(), nil)
			if out, err := tmpl.Render(m, nil, truthNow); err == nil {
				t.Errorf("%s gives %q", src, out)
			}
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
