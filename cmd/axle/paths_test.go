package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestTellPaths: a folder of models that the server cannot look into is in its log, with the way
// out.
func TestTellPaths(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	core, log := observer.New(zap.WarnLevel)
	tellPaths(zap.New(core), []string{dir, filepath.Join(dir, "missing")})
	if all := log.TakeAll(); len(all) != 1 || !strings.HasSuffix(all[0].ContextMap()["folder"].(string), "missing") ||
		!strings.Contains(all[0].ContextMap()["help"].(string), "that are there") {
		t.Errorf("%+v", all)
	}
	if os.Getuid() != 0 { // root may look into everything
		tellPaths(zap.New(core), []string{closed})
		if all := log.TakeAll(); len(all) != 1 || !strings.Contains(all[0].ContextMap()["help"].(string), "user read it") {
			t.Errorf("%+v", all)
		}
	}
	for p, want := range map[string]bool{"/home/pi/models": true, "/home": true, "/root/x": true, "/run/user/1000/x": true,
		"/homes/x": false, "/opt/home/x": false, "/srv": false, "/home/../opt": false} {
		if closedHome(p) != want {
			t.Errorf("%s: %v", p, !want)
		}
	}
}
