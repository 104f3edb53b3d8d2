//go:build cgo && !fake && !scripted && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHandsOver (D19): three conversations are evaluated at once at one server, which is then told
// to end. Another process on the same folder finds every whole block of all three. After SIGKILL it
// finds what was kept until then, and answers; a server with another secret finds nothing.
func TestHandsOver(t *testing.T) {
	//proves:D19 two processes on one folder
	unraced(t)
	t.Parallel()
	at := t.TempDir()
	secret := func(name, digits string) string {
		file := filepath.Join(at, name)
		if err := os.WriteFile(file, []byte(strings.Repeat(digits, 16)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// A card whose passes are as slow as a large model's: reading has to pay.
	server := func(secret string) *process {
		return newUnit(t, "--device", "axcl", "--cache-disk", "64MB", "--cache-ram", "0", "--rows", filepath.Join(at, "rows"),
			"--rows-secret", secret).start("AXSIM_CLOCK=real", "AXSIM_PROFILE=pi5,load 0,call * 0ns,execute 2ms")
	}
	ours := secret("ours", "0a1b")
	a, b := server(ours), server(ours)
	var said []string
	for i := range 3 {
		said = append(said, fmt.Sprintf("%d. ", i)+strings.Repeat("The quick brown fox jumps over the lazy dog. ", 12))
		if code, tokens, _ := a.ask("", said[i]); code != 200 || tokens < 100 {
			t.Fatalf("%d, %d tokens", code, tokens)
		}
	}
	if code := a.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(a.said(), "conversations were handed over") {
		t.Error("nothing was handed over")
	}
	for i, prompt := range said {
		if code, tokens, cached := b.ask("", prompt); code != 200 || cached < (tokens-1)/64*64 {
			t.Errorf("conversation %d: %d, %d of %d tokens are found", i, code, cached, tokens)
		}
	}
	stranger := server(secret("theirs", "2c3d"))
	if code, _, cached := stranger.ask("", said[2]); code != 200 || cached > 20 {
		t.Errorf("with another secret: %d, %d tokens are found", code, cached)
	}
	last := "last. " + said[0]
	if code, _, _ := b.ask("", last); code != 200 {
		t.Errorf("%d", code)
	}
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-b.gone
	c := server(ours)
	for _, prompt := range append(said, last) {
		if code, _, cached := c.ask("", prompt); code != 200 || prompt != last && cached < 64 {
			t.Errorf("after SIGKILL: %d, %d tokens are found", code, cached)
		}
	}
}
