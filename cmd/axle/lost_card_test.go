//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestAway (D8): a card that auto had chosen and that was lost is waited for: its models are not
// left to the software card, and the first request after it is back is served by it. Asking for the
// software card forgets it.
func TestAway(t *testing.T) {
	//proves:D8 after a restart
	unraced(t)
	t.Parallel()
	u := newUnit(t, "--device", "auto")
	serves := func(p *process) outcome {
		path, body := question(0, prompts[0])
		return ask(context.Background(), http.DefaultClient, p.url+path, body)
	}
	p := u.start("AXSIM_FAULT=Execute:1500:lost")
	for o := serves(p); o.end == endWhole; o = serves(p) {
	}
	if c := p.code(); c != 75 {
		t.Fatalf("exit code %d", c)
	}
	p = u.start("AXSIM_DEVICES=none", "AXLE_AXENGINE_LIB=/nowhere/libax_engine.so", "AXSIM_NOISE=")
	if o := serves(p); o.end != endRefused || !strings.Contains(o.detail, "axcl_host is missing") {
		t.Errorf("while the card is away: %+v", o)
	}
	if said := p.said(); !strings.Contains(said, "it is waited for") || strings.Contains(said, "software card computes") {
		t.Errorf("the log:\n%s", said)
	}
	p.stop()
	for range 2 {
		p = u.start()
		if o := serves(p); o.end != endWhole || !strings.Contains(p.said(), "an AXCL card is there") &&
			!strings.Contains(p.said(), "was asked for") {
			t.Errorf("when it is back: %+v\n%s", o, p.said())
		}
		p.stop()
	}
}

func TestAwayForgets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "card-lost")
	for _, tt := range []struct {
		device, held, want string
		kept               bool
	}{
		{"", "axcl", "axcl", true}, {"auto", "axengine", "axengine", true}, {"soft", "axcl", "soft", false},
		{"axcl:1", "axcl", "axcl:1", false}, {"auto", "../soft", "auto", false},
	} {
		if err := os.WriteFile(file, []byte(tt.held), 0o600); err != nil {
			t.Fatal(err)
		}
		a := rememberLostCard(dir, tt.device, zap.NewNop())
		if _, err := os.Stat(file); a.device != tt.want || (err == nil) != tt.kept {
			t.Errorf("%q with %q: opens %q, file kept: %v", tt.device, tt.held, a.device, err == nil)
		}
	}
	a := rememberLostCard(dir, "auto", zap.NewNop())
	a.opened("soft")
	a.lost()
	if _, err := os.Stat(file); err == nil {
		t.Error("a lost software card is waited for")
	}
}
