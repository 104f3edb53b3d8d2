package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	env := func(k string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "t0ken", "EMPTY": ""}[k]
		return v, ok
	}
	for _, tt := range []struct{ in, want string }{
		{`{"a": {"command": "x", "args": ["${TOKEN}", "$HOME"], "env": {"A": "${NONE:-b}${EMPTY:-c}"}}}`, ""},
		{`{"a": {"url": "https://h/${TOKEN}", "type": "http", "headers": {"authorization": "Bearer ${TOKEN}"}, "timeout": 1.5}}`, ""},
		{`{"a": {"disabled": true}}`, ""},
		{`{"a": {}}`, `server "a": neither command`},
		{`{"a": {"command": "x", "url": "http://h"}}`, `command and url`},
		{`{"a__b": {"command": "x"}}`, `server "a__b": a name is`},
		{`{"../x": {"command": "x"}}`, `a name is`},
		{`{"a": {"command": "x", "cmd": 1}}`, `unknown field "cmd"; known are`},
		{`{"a": {"command": 1}}`, `server "a": `},
		{`{"a": {"command": "bin/x"}}`, `command: is a name`},
		{`{"a": {"command": ""}}`, `command: is empty`},
		{`{"a": {"command": "x", "headers": {"a": "b"}}}`, `headers are for`},
		{`{"a": {"command": "x", "env": {"A=B": "c"}}}`, `env: "A=B"`},
		{`{"a": {"command": "x", "args": ["${NONE}"]}}`, `args[0]: the variable NONE is not set`},
		{`{"a": {"command": "x", "env": {"A": "${B"}}}`, `env.A: after ${`},
		{`{"a": {"command": "x", "type": "http"}}`, `type: "http" is not stdio`},
		{`{"a": {"command": "x", "timeout": 0}}`, `timeout: 0 is not from 1 to 600`},
		{`{"a": {"url": "ftp://h"}}`, `url: is no address`},
		{`{"a": {"url": "http://u:p@h"}}`, `url: has a user`},
		{`{"a": {"url": "http://h", "type": "sse"}}`, `type: sse is`},
		{`{"a": {"url": "http://h", "env": {"A": "b"}}}`, `args and env are for`},
		{`{"a": {"url": "http://h", "headers": {"a": "b\nc: d"}}}`, `headers: "a"`},
		{`[]`, `mcpServers is no object`},
	} {
		_, err := parse([]byte(`{"mcpServers": `+tt.in+`}`), env)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.in, err, tt.want)
		}
	}
	for _, in := range []string{`{`, `[]`, `{"servers": {}}`, `{"mcpServers": {}, "x": 1}`, `{}`} {
		if _, err := parse([]byte(in), env); err == nil {
			t.Errorf("%s is read", in)
		}
	}
	all, err := parse([]byte(`{"mcpServers": {"b": {"command": "x", "args": ["${TOKEN}", "$HOME"], "env": {"A": "${NONE:-b}${EMPTY:-c}"}}, `+
		`"a": {"url": "http://h/", "headers": {"authorization": "Bearer ${TOKEN}"}}}}`), env)
	if err != nil || len(all) != 2 || all[0].headers["Authorization"] != "Bearer t0ken" || all[1].args[0] != "t0ken" ||
		all[1].args[1] != "$HOME" || all[1].env["A"] != "bc" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A file that holds secrets is read only where others cannot.
func TestFileMode(t *testing.T) {
	//proves:T22
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	for _, tt := range []struct {
		in   string
		mode os.FileMode
		ok   bool
	}{
		{`{"mcpServers": {"a": {"command": "x", "env": {"A": "b"}}}}`, 0o600, true},
		{`{"mcpServers": {"a": {"command": "x", "env": {"A": "b"}}}}`, 0o640, false},
		{`{"mcpServers": {"a": {"url": "http://h", "headers": {"A": "b"}}}}`, 0o604, false},
		{`{"mcpServers": {"a": {"command": "x"}}}`, 0o644, true},
	} {
		if err := os.WriteFile(file, []byte(tt.in), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := read(file, os.LookupEnv); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("%o: %v", tt.mode, err)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := read(name, os.LookupEnv); err == nil || !strings.Contains(err.Error(), name) {
			t.Error(err)
		}
	}
}
