package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server/programs"
)

var values = programs.Values{URL: "http://pi.lan:11434", Model: "qwen3:4b-16k", Key: "secret-key-of-mine", Context: 16384}

// What each program of the table is started with, seen by a program in its place: all of it names
// the server and the model, and no argument has the key.
func TestStarted(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "fake")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nfor a in \"$@\"; do printf 'arg %s\\n' \"$a\"; done\nenv\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"claude": {"ANTHROPIC_BASE_URL=http://pi.lan:11434\n", "ANTHROPIC_AUTH_TOKEN=secret-key-of-mine\n",
			"ANTHROPIC_MODEL=qwen3:4b-16k\n", "ANTHROPIC_DEFAULT_HAIKU_MODEL=qwen3:4b-16k\n", "CLAUDE_CODE_AUTO_COMPACT_WINDOW=16384\n"},
		"codex": {"arg -c\narg model=\"qwen3:4b-16k\"\n", "arg model_provider=\"axle\"\n", "arg model_context_window=16384\n",
			"arg model_providers.axle.base_url=\"http://pi.lan:11434/v1\"\n", "arg model_providers.axle.env_key=\"AXLE_KEY\"\n"},
		"copilot": {"COPILOT_PROVIDER_BASE_URL=http://pi.lan:11434/v1\n", "COPILOT_PROVIDER_API_KEY=secret-key-of-mine\n",
			"COPILOT_MODEL=qwen3:4b-16k\n", "COPILOT_OFFLINE=true\n"},
		"opencode": {`"baseURL":"http://pi.lan:11434/v1"`, `"apiKey":"{env:AXLE_KEY}"`, `"qwen3:4b-16k":{"limit":{"context":16384,"output":4096}`,
			`"model":"axle/qwen3:4b-16k"`},
		"qwen": {"OPENAI_BASE_URL=http://pi.lan:11434/v1\n", "OPENAI_API_KEY=secret-key-of-mine\n", "arg --auth-type\narg openai\n"},
	}
	for _, p := range programs.Table {
		if p.Launch == nil {
			continue
		}
		set, err := For(p.Launch, values, []string{"-p", "it's"})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(fake, set.Args...)
		cmd.Env = set.Environ([]string{"PATH=" + os.Getenv("PATH"), "AXLE_KEY=" + values.Key, "ANTHROPIC_API_KEY=sk-ant-other", "KEPT=1",
			"COPILOT_MODEL=other"})
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if len(want[p.ID]) == 0 {
			t.Errorf("%s: nothing is wanted of it", p.ID)
		}
		for _, w := range append(want[p.ID], "KEPT=1\n", "arg -p\narg it's\n") {
			if !strings.Contains(string(out), w) {
				t.Errorf("%s: no %q in\n%s", p.ID, w, out)
			}
		}
		if p.ID == "claude" && strings.Contains(string(out), "sk-ant") {
			t.Errorf("a key of another service goes to this server:\n%s", out)
		}
		if strings.Contains(strings.Join(cmd.Args, " "), values.Key) {
			t.Errorf("%s: the key is on the command line: %q", p.ID, cmd.Args)
		}
		if text := set.Text(p.Launch.Command); strings.Contains(text, values.Key) || !strings.HasSuffix(text, ` -p 'it'\''s'`+"\n") {
			t.Errorf("%s: it is told as\n%s", p.ID, text)
		}
		// Without a key, and with a context that is not known, nothing is left open.
		set, err = For(p.Launch, programs.Values{URL: "http://x", Model: "m"}, nil)
		if text := set.Text(""); err != nil || strings.ContainsAny(strings.ReplaceAll(text, `{"`, ""), "{") && p.ID != "opencode" ||
			strings.Contains(text, "AXLE_KEY") || strings.Contains(text, "context") {
			t.Errorf("%s without a key: %v\n%s", p.ID, err, text)
		}
	}
	_, err := For(programs.Find("qwen").Launch, values, []string{"--key=" + values.Key})
	if err == nil || strings.Contains(err.Error(), values.Key) {
		t.Errorf("a key in an argument: %v", err)
	}
}

// A configuration that is written names the server, keeps the rest, is made anew as it was to the
// byte, and holds no key.
func TestWriteUndo(t *testing.T) {
	files := map[string]string{
		"claude":   "{\n  // mine\n  \"permissions\": {\"allow\": [\"Bash(ls)\"]},\n  \"env\": {\"A\": \"1\",},\n}\n",
		"codex":    "# mine\nmodel = 'gpt'\n\n[mcp_servers.x]\ncommand = \"y\" # z\n\n",
		"opencode": "{ \"theme\": \"dark\" }",
	}
	other := values
	other.Model = "other:1b"
	for _, p := range programs.Table {
		if p.Launch == nil || p.Launch.File == nil {
			continue
		}
		for _, old := range []string{files[p.ID], ""} {
			home := t.TempDir()
			getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
			path, err := Where(p.Launch.File, getenv)
			if err != nil {
				t.Fatal(err)
			}
			if old != "" {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(old), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			for _, v := range []programs.Values{values, other} { // a second time for another model
				kept, err := Write(path, p.Launch.File.TOML, Entries(p.Launch, v))
				if err != nil {
					t.Fatalf("%s: %v", p.ID, err)
				}
				now, err := os.ReadFile(path)
				was, err2 := os.ReadFile(kept)
				if err != nil || err2 != nil || !strings.Contains(string(now), v.Model) || !strings.Contains(string(now), "pi.lan:11434") ||
					strings.Contains(string(now), v.Key) || string(was) != old {
					t.Errorf("%s: %v %v\n%s\nwas\n%s", p.ID, err, err2, now, was)
				}
				if again, err := Write(path, p.Launch.File.TOML, Entries(p.Launch, v)); again != "" || err != nil {
					t.Errorf("%s: written twice: %q %v", p.ID, again, err)
				}
			}
			now, _ := os.ReadFile(path)
			if err := os.WriteFile(path, append(now, '\n'), 0o640); err != nil {
				t.Fatal(err)
			}
			err = Undo(path)
			if err == nil || !strings.Contains(err.Error(), "was changed since") || !strings.Contains(err.Error(), home) {
				t.Errorf("%s: undone though it was changed: %v", p.ID, err)
			}
			if err := os.WriteFile(path, now, 0o640); err != nil {
				t.Fatal(err)
			}
			if err := Undo(path); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if old != "" && (err != nil || string(b) != old) || old == "" && err == nil {
				t.Errorf("%s: %v\n%q is not\n%q", p.ID, err, b, old)
			}
			if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if err := Undo(path); err == nil || !strings.Contains(err.Error(), "nothing to undo") {
				t.Errorf("%s: undone twice: %v", p.ID, err)
			}
		}
	}
}

// TestDangling: a link to a file that is not there, of a disk that is away, is not replaced.
func TestDangling(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := os.Symlink("away/settings.json", path); err != nil {
		t.Fatal(err)
	}
	_, err := Write(path, false, []Value{{Path: []string{"model"}, Value: "m"}})
	if to, err2 := os.Readlink(path); err == nil || !strings.Contains(err.Error(), "away") || err2 != nil || to != "away/settings.json" {
		t.Errorf("%v; the link is %q %v", err, to, err2)
	}
}

// Links stay, modes stay, and a file that cannot be changed stays.
func TestWriteTo(t *testing.T) {
	dir := t.TempDir()
	file := &programs.File{Variable: "X", Names: []string{"a.json", "a.jsonc"}}
	getenv := func(string) string { return dir }
	real := filepath.Join(dir, "real")
	if err := os.WriteFile(real, []byte("{}"), 0o604); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "a.jsonc")); err != nil {
		t.Fatal(err)
	}
	path, err := Where(file, getenv)
	if err != nil || filepath.Base(path) != "real" {
		t.Fatal(path, err)
	}
	if _, err := Write(path, false, []Value{{[]string{"a"}, "b"}}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o604 {
		t.Error(st.Mode(), err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(broken, false, []Value{{[]string{"a"}, "b"}}); err == nil || !strings.Contains(err.Error(), broken) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(broken); string(b) != "{" {
		t.Errorf("%q", b)
	}
	if _, err := Where(&programs.File{Names: []string{"x"}}, func(string) string { return "" }); err == nil {
		t.Error("found without a home")
	}
}

func TestLook(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Look(programs.Find("claude")); err == nil || !strings.Contains(err.Error(), "npm install -g @anthropic-ai/claude-code") {
		t.Error(err)
	}
}

// What opencode is given is JSON that says what it would say in its own file.
func TestSameInFile(t *testing.T) {
	p := programs.Find("opencode")
	set, err := For(p.Launch, values, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(set.Env, func(v programs.Var) bool { return v.Name == p.Launch.As })
	file, err := setJSON(nil, Entries(p.Launch, values))
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := fmt.Sprint(json.Unmarshal([]byte(set.Env[i].Value), &a), json.Unmarshal(file, &b)); err != "<nil> <nil>" {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !bytes.Equal(x, y) {
		t.Errorf("%s is not %s", x, y)
	}
}
