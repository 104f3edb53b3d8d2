package server_test

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// TestPreload: models are loaded in order and stay; one that is not there is logged, and keeps no
// other out.
func TestPreload(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Log, o.KeepAlive = zap.New(core), 0 })
	r.Preload(t.Context(), []string{"scripted-hearing", "nope", "scripted"})
	var loaded []string
	for _, b := range r.loader.Backends() {
		loaded = append(loaded, b.Info().Name)
	}
	if len(loaded) != 2 || loaded[0] != "scripted-hearing:latest" || loaded[1] != "scripted:latest" {
		t.Errorf("loaded %v", loaded)
	}
	if n := strings.Count(r.do("GET", "/api/ps", "").body, `"expires_at":`); n != 2 {
		t.Errorf("%d models stay", n)
	}
	failed := logs.FilterMessage("a model is not preloaded").All()
	if len(failed) != 1 || failed[0].ContextMap()["model"] != "nope" {
		t.Errorf("logged %v", failed)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r.Preload(ended, []string{"scripted-chat"})
	if n := len(r.loader.Backends()); n != 2 {
		t.Errorf("after the end %d models are loaded", n)
	}
}
