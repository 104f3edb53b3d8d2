package gotmpl

import (
	"fmt"
	"strings"
	"testing"
	"text/template"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// TestAsTextTemplate: what a template prints, and whether it can be read and run, is what
// text/template says.
func TestAsTextTemplate(t *testing.T) {
	type inner struct{ Name string }
	data := map[string]any{
		"Empty": "", "Text": "a<b", "Other": "b", "Yes": true, "No": false, "Zero": 0, "One": 1, "Neg": int8(-3), "Half": 0.5,
		"Small": float32(0.25), "Nil": nil, "Words": []string{"x", "y", "z"},
		"Any": []any{1, "a", nil, 2.5}, "None": []int{}, "Map": map[string]any{"b": 2, "a": "x"},
		"Numbers": map[int]string{2: "two", -1: "less"}, "Struct": inner{"n"},
		"Pointer": &inner{"p"}, "Nothing": (*inner)(nil), "Bytes": []byte("hi"),
	}
	sources := []string{
		"{{ eq .One 2 3 1 }}", "{{ eq .One }}", "{{ .Text | printf `%s-%s` .Other | len }}", "{{ print }}{{ printf }}",
		"{{ $x := 1 }}{{ if .Yes }}{{ $x = 2 }}{{ $y := 3 }}{{ end }}{{ $x }}", "{{ $x = 1 }}", "{{ $x := 1 }}{{ $x }}{{ end }}",
		"{{ range $i, $w := .Words }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ $w }}{{ if eq $i 2 }}{{ break }}{{ end }}{{ end }}",
		"{{ $k := 1 }}{{ range $k, $v = .Map }}{{ end }}", "{{ $k := 1 }}{{ $v := 1 }}{{ range $k, $v = .Map }}{{ end }}{{ $k }}{{ $v }}",
		"{{ define `t` }}<{{ . }}>{{ end }}{{ template `t` .Text }}{{ template `t` }}{{ block `u` .One }}{{ . }}{{ end }}",
		"a {{- /* c */ -}} b {{ `x` }}{{ 'x' }}{{ 1.5 }}{{ true }}", "{{ nil }}", "{{ nil | print }}", "{{ print nil }}{{ 1 | print nil }}",
		"{{ 0x10 }}{{ 1e3 }}{{ -4 }}{{ 18446744073709551615 }}{{ (len .Words) }}{{ (.Pointer).Name }}{{ (index .Any 1) }}", "{{ 1 | 2 }}",
		"{{ range 3 }}{{ . }}{{ end }}", "{{ range $i, $x := 3 }}{{ end }}", "{{ with $w := .Map }}{{ $w.a }}{{ $.Text }}{{ .b }}{{ end }}",
		"{{ printf `%s%s%%` .Text .Other }}", "{{ printf `%s|%d|%v` .Text .Neg .Half }}", "{{ printf `` }}{{ printf `%%%d%%` .One }}",
		"{{ if and .Yes (gt .One 0) (not .No) }}y{{ else if .No }}n{{ end }}", "{{ .Missing }}{{ .Map.missing }}{{ index .Map `missing` }}",
		"{{ with .Map }}{{ with .a }}{{ . }}{{ end }}{{ end }}", "{{ or .Empty .Nil .Zero }}{{ and .Text .One .Empty .Missing.Deeper }}",
		"{{ and }}", "{{ 1 | and }}{{ 0 | or .Empty }}", "{{ define `x` }}{{ end }}", "{{ not 1 2 }}", "{{ index .Map `a` 1 }}", "",
	}
	for x := range data {
		for _, f := range []string{"{{ X }}", "{{ if X }}y{{ else }}n{{ end }}", "{{ with X }}{{ . }}{{ else }}n{{ end }}", "{{ not X }}",
			"{{ len X }}", "{{ range X }}<{{ . }}>{{ else }}n{{ end }}",
			"{{ range $i, $x := X }}{{ $i }}={{ $x }};{{ end }}",
			"{{ range $x := X }}{{ $x }}{{ end }}", "{{ X.Name }}", "{{ X.b }}", "{{ index X 1 }}", "{{ index X `a` }}", "{{ index X 9 }}",
			"{{ index X }}", "{{ slice X 1 }}", "{{ slice X 1 2 }}", "{{ slice X 2 1 }}", "{{ printf `%v` X }}",
			"{{ X | print 1 }}"} {
			sources = append(sources, strings.ReplaceAll(f, "X", "."+x))
		}
		for y := range data {
			for _, f := range []string{"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "print"} {
				sources = append(sources, fmt.Sprintf("{{ %s .%s .%s }}", f, x, y))
			}
		}
	}
	for _, src := range sources {
		theirs, theirErr := template.New("").Parse(src)
		ours, err := Parse(src)
		if (err == nil) != (theirErr == nil) {
			t.Errorf("%s: reading says %v, want %v", src, err, theirErr)
		}
		if err != nil || theirErr != nil {
			continue
		}
		var want strings.Builder
		var got origin.Builder
		theirErr = theirs.Execute(&want, data)
		m := origin.NewMeter(t.Context(), nil)
		err = ours.Render(m, &got, data)
		m.Close()
		if (err == nil) != (theirErr == nil) || err == nil && got.Text().String() != want.String() {
			t.Errorf("%s: %q %v, want %q %v", src, got.Text(), err, want.String(), theirErr)
		}
	}
}

// TestPrintf: what printf does not know is an error.
func TestPrintf(t *testing.T) {
	for _, src := range []string{"{{ printf `%5s` `a` }}", "{{ printf `%d` `a` }}", "{{ printf `%s` }}", "{{ printf `x` 1 }}",
		"{{ printf `%` 1 }}"} {
		tmpl, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		m := origin.NewMeter(t.Context(), nil)
		if err := tmpl.Render(m, &origin.Builder{}, nil); err == nil || !strings.Contains(err.Error(), "printf") {
			t.Errorf("%s: %v", src, err)
		}
		m.Close()
	}
}
