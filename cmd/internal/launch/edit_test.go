package launch

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestSetJSON(t *testing.T) {
	values := []Value{{[]string{"env", "A"}, "x"}, {[]string{"model"}, "axle/m"}}
	for _, c := range []struct{ name, in, want, fails string }{
		{"none", "", "{\n  \"env\": {\n    \"A\": \"x\"\n  },\n  \"model\": \"axle/m\"\n}\n", ""},
		{"empty", "{}", "{\n  \"env\": {\n    \"A\": \"x\"\n  },\n  \"model\": \"axle/m\"\n}", ""},
		{"one line", `{"a": 1}`, "{\"a\": 1, \"env\": {\n  \"A\": \"x\"\n},\n\"model\": \"axle/m\"}", ""},
		{"tabs, comments and a comma at the end",
			"{\n\t// mine\n\t\"env\": {\n\t\t\"B\": \"y\", // kept\n\t},\n\t/* so */ \"model\" : \"old\",\n}\n",
			"{\n\t// mine\n\t\"env\": {\n\t\t\"B\": \"y\", // kept\n\t\t\"A\": \"x\"\n\t},\n\t/* so */ \"model\" : \"axle/m\",\n}\n", ""},
		{"a name that is written with escapes", `{"\u006dodel": {"deep": [1, "}"]}, "env": {}}`,
			"{\"\\u006dodel\": \"axle/m\", \"env\": {\n  \"A\": \"x\"\n}}", ""},
		{"twice", `{"model": 1, "model": 2}`, "{\"model\": 1, \"model\": \"axle/m\", \"env\": {\n  \"A\": \"x\"\n}}", ""},
		{"a comment behind the last", "{\n  \"a\": 1 // one, {\n}", "{\n  \"a\": 1, // one, {\n  \"env\": {\n    \"A\": \"x\"\n  },\n" +
			"  \"model\": \"axle/m\"\n}", ""},
		{"large numbers stay", "{\n  \"n\": 12345678901234567890123\n}",
			"{\n  \"n\": 12345678901234567890123,\n  \"env\": {\n    \"A\": \"x\"\n  },\n" +
				"  \"model\": \"axle/m\"\n}", ""},
		{"a mark of byte order", "\xef\xbb\xbf{}", "\xef\xbb\xbf{\n  \"env\": {\n    \"A\": \"x\"\n  },\n  \"model\": \"axle/m\"\n}", ""},
		{"no group", `{"env": "x"}`, "", "env is something other than a group of settings"},
		{"an array", `[]`, "", "cannot be read as JSON"},
		{"cut off", `{"a": `, "", "cannot be read as JSON"},
		{"two", `{} {}`, "", "more behind its end"},
		{"null", `null`, "", "holds no object"},
	} {
		got, err := setJSON([]byte(c.in), values)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
		if again, err := setJSON(got, values); err != nil || string(again) != string(got) {
			t.Errorf("%s: set twice: %v\n%s", c.name, err, again)
		}
	}
}

func TestSetTOML(t *testing.T) {
	values := []Value{{[]string{"model"}, `a "m"`}, {[]string{"n"}, int64(7)}, {[]string{"p", "a.b", "url"}, "http://x"},
		{[]string{"p", "a.b", "api"}, "y"}}
	for _, c := range []struct{ name, in, want, fails string }{
		{"none", "", "model = \"a \\\"m\\\"\"\nn = 7\n\n[p.\"a.b\"]\nurl = \"http://x\"\napi = \"y\"\n", ""},
		{"comments only", "# mine\n", "model = \"a \\\"m\\\"\"\nn = 7\n# mine\n\n[p.\"a.b\"]\nurl = \"http://x\"\napi = \"y\"\n", ""},
		{"settings and tables", "# mine\nmodel = 'old' # why\nx = \"\"\"\n[t]\nmodel = 1\n\"\"\"\n\n[t]\nmodel = [ # [p]\n  \"]\",\n]\n",
			"# mine\nmodel = \"a \\\"m\\\"\" # why\nx = \"\"\"\n[t]\nmodel = 1\n\"\"\"\nn = 7\n\n[t]\nmodel = [ # [p]\n  \"]\",\n]\n" +
				"\n[p.\"a.b\"]\nurl = \"http://x\"\napi = \"y\"\n", ""},
		{"tables first", "[t]\na=1", "model = \"a \\\"m\\\"\"\nn = 7\n\n[t]\na=1\n\n[p.\"a.b\"]\nurl = \"http://x\"\napi = \"y\"\n", ""},
		{"the table is there", "n = 7\n[ p . 'a.b' ]\napi = \"old\"\nmore = true\n[z]\n",
			"n = 7\nmodel = \"a \\\"m\\\"\"\n[ p . 'a.b' ]\napi = \"y\"\nmore = true\nurl = \"http://x\"\n[z]\n", ""},
		{"dotted", "p.\"a.b\".api = 1\n", "", "a way that this program does not change"},
		{"in a line", "p = { \"a.b\" = {} }\n", "", "a way that this program does not change"},
		{"no table", "p = 1\n", "", "p is something other than a group of settings"},
		{"an array of tables", "[[p]]\na=1\n", "", "p is something other than a group of settings"},
		{"no TOML", "a b\n", "", "cannot be read as TOML"},
	} {
		got, err := setTOML([]byte(c.in), values)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q\n%s", c.name, err, c.fails, got)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
		if again, err := setTOML(got, values); err != nil || string(again) != string(got) {
			t.Errorf("%s: set twice: %v\n%s", c.name, err, again)
		}
	}
}

// FuzzSet: whatever a file holds, setting values in it fails or sets them and nothing else.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"", "{}", `{"env":{"B":1,},}`, "{/*", `{"model":`, "a=1\n[t]\nb='''x'''", "p.q=1", "[[p]]",
		"a=[[1],\n[2]]#", "\"a\"=1",
		"a='''", `{"a":"\`, "[", "a", `{"env":{"A":"x"}//`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(s))
	}
	values := []Value{{[]string{"env", "A"}, "x"}, {[]string{"model"}, "m"}}
	f.Fuzz(func(t *testing.T, file []byte) {
		if got, err := setJSON(file, values); err == nil {
			tree, err := readJSON(got)
			if err != nil || tree["model"] != "m" {
				t.Errorf("%q became %q: %v", file, got, err)
			}
			if _, err := json.Marshal(tree); err != nil {
				t.Error(err)
			}
		}
		if got, err := setTOML(file, values); err == nil {
			was, _ := readTOML(file)
			tree, err := readTOML(got)
			if err != nil || tree["model"] != "m" {
				t.Errorf("%q became %q: %v", file, got, err)
			}
			for k, v := range was {
				if k != "env" && k != "model" && !reflect.DeepEqual(tree[k], v) {
					t.Logf("%q: %v became %v", k, v, tree[k]) // NaN is not itself
				}
			}
		}
	})
}
