package prompt

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/sampler"
)

func TestParseRef(t *testing.T) {
	required, invalid := errors.New("required"), errors.New("invalid")
	for _, tt := range []struct {
		in, name string
		cloud    bool
		err      string
	}{
		{"llama3.2", "llama3.2:latest", false, ""},
		{" a/b:c ", "a/b:c", false, ""},
		{"x:local", "x:latest", false, ""},
		{"x:7b:local", "x:7b", false, ""},
		{"gpt-oss:120b-cloud", "gpt-oss:120b", true, ""},
		{"gpt-oss:cloud", "gpt-oss:latest", true, ""},
		{"host.example:5000/ns/m", "host.example:5000/ns/m:latest", false, ""},
		{"", "", false, "required"},
		{"  ", "", false, "required"},
		{"a b", "", false, "invalid"},
		{"../x", "", false, "invalid"},
		{"x:", "", false, "invalid"},
		{"x:local:cloud", "", false, `use either :local or :cloud, not both: "x:local:cloud"`},
	} {
		r, err := ParseRef(tt.in, required, invalid)
		if got := ""; err != nil {
			got = err.Error()
			if got != tt.err {
				t.Errorf("%q: %v", tt.in, err)
			}
			continue
		}
		if tt.err != "" || r.Name.String() != tt.name || r.Cloud != tt.cloud {
			t.Errorf("%q: %+v %s", tt.in, r, r.Name)
		}
	}
}

// TestOwnOptions: docs/api.md names each option that Ollama does not have.
func TestOwnOptions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.Options]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		theirs[name] = true
	}
	if !theirs["top_k"] || !theirs["num_batch"] {
		t.Fatalf("Ollama's options are %v", theirs)
	}
	for _, name := range append(slices.Collect(maps.Keys(intLimits)), "speculate", "repeatable") {
		if !theirs[name] && !strings.Contains(string(doc), "`options."+name+"`") {
			t.Errorf("docs/api.md does not name options.%s", name)
		}
	}
}

func TestInputs(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want []string
		ok   bool
	}{{nil, nil, true}, {"", nil, true}, {"a", []string{"a"}, true}, {[]any{"a", ""}, []string{"a", ""}, true}, {[]any{}, []string{}, true},
		{5.0, nil, false}, {[]any{"a", 1.0}, nil, false}} {
		got, err := Inputs(tt.in)
		if (err == nil) != tt.ok || tt.ok && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v: %v %v", tt.in, got, err)
		}
	}
}

// TestDefaults: what no request and no Modelfile sets is as with Ollama.
func TestDefaults(t *testing.T) {
	theirs, ours := api.DefaultOptions(), DefaultOptions(sampler.Defaults())
	if ours.NumPredict != theirs.NumPredict || ours.NumKeep != theirs.NumKeep {
		t.Errorf("%+v, Ollama has %+v", ours, theirs)
	}
}
