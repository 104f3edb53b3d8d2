package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLaunch: what 'axle launch' does around the program: it looks whether the server, the model
// and the program are there, warns where the context has no room, and ends as the program does. The
// program in its place records what it was started with.
func TestLaunch(t *testing.T) {
	scriptedServer(t)
	bin, home := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("HOME", home)
	t.Setenv("CODEX_HOME", "")
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("AXLE_KEY", "")
	fake := "#!/bin/sh\necho \"args $*\"\n" +
		"echo \"key $ANTHROPIC_AUTH_TOKEN at $ANTHROPIC_BASE_URL with $ANTHROPIC_MODEL\"\nread line\necho \"in $line\"\n" +
		"exit 7\n"
	for _, name := range []string{"claude", "codex"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(fake), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		stdin, args string
		out, errs   []string // what they have
		fails       string
	}{
		{"", "launch", []string{"claude", "Claude Code", "18600", "2.1.197"}, nil, ""},
		{"hello\n", "launch claude -- -p x", []string{"args -p x\n", "key axle at http://127.0.0.1:", " with scripted-chat\n",
			"in hello\n"},
			[]string{"Claude Code with scripted-chat at http://127.0.0.1:",
				"18600 tokens (measured with 2.1.197), and the context of scripted-chat:latest is 4096"}, "exit 7"},
		{"", "launch codex --model scripted --print", []string{"codex -c 'model=\"scripted\"'"}, nil, ""},
		{"", "launch claude --model nope", nil, nil, "no model nope: 'axle pull nope'"},
		{"", "launch claude --model scripted-embed", nil, nil, "does not answer text"},
		{"", "launch opencode", nil, nil, "opencode is not installed here"},
		{"", "launch emacs", nil, nil, `"emacs" is not known`},
		{"", "launch curl", nil, nil, "not started from here"},
		{"", "launch claude now", nil, nil, "stands behind --: axle launch claude -- now"},
		{"", "launch --write", nil, nil, "name the program"},
		{"", "launch claude --write --undo", nil, nil, "only one of"},
		{"", "launch copilot --write", nil, nil, "only variables"},
		{"", "launch claude --host 127.0.0.1:1", nil, nil, "no server answers at http://127.0.0.1:1"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Setenv("AXLE_HOST", os.Getenv("AXLE_HOST")) // --host sets it
			out, errs, err := axle(t, c.stdin, strings.Fields(c.args)...)
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("%v, want %q (%s)", err, c.fails, errs)
			}
			for _, w := range c.out {
				if !strings.Contains(out, w) {
					t.Errorf("no %q in %q", w, out)
				}
			}
			for _, w := range c.errs {
				if !strings.Contains(errs, w) {
					t.Errorf("no %q in %q", w, errs)
				}
			}
		})
	}
	file := filepath.Join(home, ".codex", "config.toml")
	const old = "# mine\n[tools]\nweb_search = true\n"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, err := axle(t, "", "launch", "codex", "--write", "--model", "scripted")
	now, _ := os.ReadFile(file)
	if err != nil || !strings.Contains(errs, "axle launch codex --undo") || !strings.Contains(string(now), "model = \"scripted\"\n") ||
		!strings.HasPrefix(string(now), "model = ") || !strings.Contains(string(now), old) {
		t.Errorf("%v %s\n%s", err, errs, now)
	}
	_, _, err = axle(t, "", "launch", "codex", "--undo")
	if now, _ := os.ReadFile(file); err != nil || string(now) != old {
		t.Errorf("%v\n%s", err, now)
	}
}

// TestCompletions: a shell is told of the server's models and of those that can be pulled, and of
// nothing that could be taken for more than a name. Where no server answers, of none.
func TestCompletions(t *testing.T) {
	scriptedServer(t)
	for _, c := range []struct{ args, want, not string }{
		{"run scripted-c", "scripted-chat\n", "scripted-embed"},
		{"rm scripted-chat scripted-", "scripted-embed\n", "scripted-chat\n"},
		{"show scr", "scripted\n", ":latest"},
		{"pull qwen3:0", "qwen3:0.6b\n", "scripted"},
		{"launch co", "copilot\tCopilot CLI\n", "curl"},
		{"launch claude --model scripted-v", "scripted-vision\n", "scripted-chat"},
	} {
		out, _, err := axle(t, "", append([]string{"__complete"}, strings.Fields(c.args)...)...)
		if err != nil || !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
			t.Errorf("%s: %v %q", c.args, err, out)
		}
	}
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	if out, _, err := axle(t, "", "__complete", "run", ""); err != nil || out != ":4\n" {
		t.Errorf("without a server: %v %q", err, out)
	}
}
