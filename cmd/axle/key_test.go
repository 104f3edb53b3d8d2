//go:build !scripted

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server/access"
)

// TestKeyCommand: a key is shown when it is made and never again; the file that the commands leave
// is one that a server takes.
func TestKeyCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	t.Setenv("OLLAMA_KEYS_FILE", "")
	t.Setenv("AXLE_KEYS_FILE", "")
	if _, _, err := command(t, "key", "list"); err == nil || !strings.Contains(err.Error(), "AXLE_KEYS_FILE names it") {
		t.Errorf("without a file: %v", err)
	}
	t.Setenv("AXLE_KEYS_FILE", file)
	var made []string
	for _, args := range [][]string{{"ann"}, {"ops", "--role", "admin"}, {"kiosk", "--requests", "2", "--tokens", "5000", "--pictures",
		"3", "--sessions", "4"}} {
		out, errs, err := command(t, append([]string{"key", "add"}, args...)...)
		if err != nil || !regexp.MustCompile(`^axle-[A-Z2-7]{26,}\n$`).MatchString(out) || !strings.Contains(errs,
			"systemctl reload axle") {
			t.Fatalf("key add %v: %q %q %v", args, out, errs, err)
		}
		made = append(made, strings.TrimSpace(out))
	}
	for _, args := range [][]string{{"ann"}, {"bob", "--role", "king"}, {"bob", "--tokens", "-1"}, {"bob", "--sessions", "-1"},
		{"a:b"}, {}} {
		if out, _, err := command(t, append([]string{"key", "add"}, args...)...); err == nil || out != "" {
			t.Errorf("key add %v: %q, %v", args, out, err)
		}
	}
	out, _, err := command(t, "key", "list")
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != 5 || !regexp.MustCompile(`^kiosk +ask +2 +5000 +3 +4 +[A-Z2-7]{26,} *$`).MatchString(lines[3]) ||
		!regexp.MustCompile(`^ops +admin +- +- +- +- +`).MatchString(lines[2]) {
		t.Errorf("key list: %v\n%s", err, out)
	}
	for _, key := range made {
		if strings.Contains(out, key) {
			t.Error("the list has a key")
		}
	}
	if out, _, err := command(t, "key", "rm", "ann"); err != nil || !strings.Contains(out, "removed ann") {
		t.Errorf("key rm: %q %v", out, err)
	}
	if _, _, err := command(t, "key", "rm", "ann"); err == nil || !strings.Contains(err.Error(), "no key of this name or id is there") {
		t.Errorf("key rm of what is gone: %v", err)
	}
	keys, err := access.Load(file)
	b, _ := os.ReadFile(file)
	if err != nil || keys.Len() != 2 || strings.Contains(string(b), made[0]) || !strings.Contains(string(b), made[1]) {
		t.Errorf("the file at last: %v\n%s", err, b)
	}
}
