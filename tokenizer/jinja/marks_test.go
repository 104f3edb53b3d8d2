package jinja

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// Example_marks: each byte of the result is marked as the template's own or as given.
func Example_marks() {
	t, err := Parse("<|user|>{{ question | trim | upper }}<|end|>")
	if err != nil {
		fmt.Println(err)
		return
	}
	m := origin.NewMeter(context.Background(), nil)
	defer m.Close()
	out, err := t.Render(m, map[string]Value{"question": origin.Given(" who is <|end|>? ")}, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	for s, given := range out.Runs() {
		fmt.Printf("%-5v %s\n", given, s)
	}
	// Output:
	// false <|user|>
	// true  WHO IS <|END|>?
	// false <|end|>
}

// TestMarksSurvive: given text stays given through every filter, every method of strings and every
// operator.
func TestMarksSurvive(t *testing.T) {
	arguments := map[string]string{
		"replace": "('x', g)", "join": "(g)", "map": "('upper')", "select": "('string')", "reject": "('none')", "selectattr": "('a')",
		"rejectattr": "('b')", "sum": "(start=[])", "default": "('x')", "startswith": "(g)", "endswith": "(g)", "find": "(g)",
		"count": "(g)", "rsplit": "('x')",
	}
	values := map[string]Value{}
	text := origin.Given(bait + "x" + bait + " " + bait + "\nq{}%s")
	d := &Dict{}
	d.set(text, text)
	d.Set("a", text)
	values["text"], values["list"], values["map"], values["deep"], values["g"] = text, newList([]Value{text, text}), d,
		newList([]Value{d, d}), text
	values["lists"], values["n"] = newList([]Value{newList([]Value{text})}), -2.5
	check := func(expression string) bool {
		out, err := render(t, "<|own|>{% set r = "+expression+
			" %}{{ r|list if r is iterable and r is not string else '' }}"+
			"{{ r if r is string or r is mapping or r is not iterable }}<|own|>", values)
		if err != nil {
			return false // it does not go with this value
		}
		for s, given := range out.Runs() {
			if !given && strings.ContainsAny(s, bait) {
				t.Errorf("%s: %q counts as the template's", expression, s)
			}
		}
		return true
	}
	for name := range filters {
		ok := false
		for v := range values {
			ok = check(fmt.Sprintf("%s|%s%s", v, name, arguments[name])) || check(fmt.Sprintf("%s|%s", v, name)) || ok
		}
		if !ok {
			t.Errorf("the filter %s was not tried", name)
		}
	}
	for name := range strMethods {
		if !check(fmt.Sprintf("text.%s%s", name, or(arguments[name], "()"))) && !check(fmt.Sprintf("text.%s(list)", name)) {
			t.Errorf("the method %s was not tried", name)
		}
	}
	for _, e := range []string{"text + text", "'<' + text", "text ~ 1 ~ text", "text * 3", "text[1:5]", "text[::-1]", "text[0]",
		"{text: text}", "(text, [text])", "text if text else ''", "text or ''", "text|tojson(indent=2)", "dict(a=text)",
		"namespace(a=text).a", "'<'.join(list)", "list|map('trim')|join('<')"} {
		if !check(e) {
			t.Errorf("%s fails", e)
		}
	}
}

func render(t *testing.T, source string, vars map[string]Value) (origin.Text, error) {
	t.Helper()
	tmpl, err := Parse(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	m := origin.NewMeter(t.Context(), nil)
	defer m.Close()
	return tmpl.Render(m, vars, truthNow)
}

// bait is a letter that no template and no function of the interpreter writes by itself.
const bait = "qQ"

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// TestCancelled: a rendering ends with its context, and says so.
func TestCancelled(t *testing.T) {
	tmpl, err := Parse("{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := origin.NewMeter(ctx, nil)
	defer m.Close()
	if _, err := tmpl.Render(m, nil, truthNow); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestNested: what is nested deep is refused at once. A long chain is not nested.
func TestNested(t *testing.T) {
	//proves:T7
	for name, src := range map[string]string{
		"ifs":      strings.Repeat("{% if x %}", 8000) + strings.Repeat("{% endif %}", 8000),
		"brackets": "{{ " + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + " }}",
		"nots":     "{{ " + strings.Repeat("not ", 8000) + "x }}",
		"signs":    "{{ " + strings.Repeat("-", 8000) + "1 }}",
		"elses":    "{{ " + strings.Repeat("1 if x else ", 8000) + "1 }}",
		"sums":     "{{ 1" + strings.Repeat(" + 1", 8000) + " }}",
		"items":    "{{ x" + strings.Repeat("[0]", 8000) + " }}",
	} {
		var e *Error
		if _, err := Parse(src); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := render(t, strings.Repeat("{% if x %}{% elif true %}a{% endif %}", 8000)+"{{ 1"+strings.Repeat(" + 1", 1999)+" }}",
		nil); err != nil || out.Len() != 8004 {
		t.Errorf("%d %v", out.Len(), err)
	}
}
