package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/pool"
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

// TestPreloadKeeps: a model for which one that is loaded would have to go is left out: where one of
// the cards has no memory for its copy, and where there are to be no more models. One that is
// loaded already is no further one.
func TestPreloadKeeps(t *testing.T) {
	wide, narrow := pool.Card{Info: axcl.Info{TotalCMM: 900, FreeCMM: 900}}, pool.Card{Info: axcl.Info{TotalCMM: 400, FreeCMM: 99}}
	lost := pool.Card{Info: axcl.Info{TotalCMM: 400}, Err: axcl.ErrLost}
	soft := pool.Card{Info: axcl.Info{Host: true, TotalMem: 400, FreeMem: 99}}
	for _, tt := range []struct {
		name  string
		cards []pool.Card
		most  int
		want  string // "": all are loaded
	}{
		{"room on each", []pool.Card{wide, wide, lost}, 2, ""},
		{"one is full", []pool.Card{wide, narrow}, 2, "99 B is free beside scripted-hearing:latest"},
		{"one is full, the other way round", []pool.Card{narrow, wide}, 2, "99 B is free beside"},
		{"the machine is full", []pool.Card{soft}, 2, "99 B is free beside"},
		{"no more models", []pool.Card{wide}, 1, "--max-loaded-models allows 1, which are loaded: scripted-hearing:latest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			core, logs := observer.New(zap.InfoLevel)
			l := &onCards{Loader: r.loader, cards: tt.cards}
			describe := func(m *store.Model) (local.About, bool) {
				a, ok := scripted.Describe(m)
				a.Info.Memory.Load = 100
				return a, ok
			}
			s := server.New(local.New(r.store, local.Options{Describe: describe}), l, nil,
				server.Options{Loopback: true, MaxLoaded: tt.most, Log: zap.New(core)})
			t.Cleanup(func() {
				if err := s.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			s.Preload(t.Context(), []string{"scripted-hearing", "scripted", "scripted-hearing"})
			failed := logs.FilterMessage("a model is not preloaded").All()
			if tt.want == "" && len(failed) > 0 || tt.want != "" && (len(failed) != 1 || failed[0].ContextMap()["model"] != "scripted" ||
				!strings.Contains(fmt.Sprint(failed[0].ContextMap()["error"]), tt.want)) {
				t.Errorf("refused %v, want %q", failed, tt.want)
			}
			if n := logs.FilterMessage("preloaded").Len(); n+len(failed) != 3 {
				t.Errorf("%d are preloaded", n)
			}
		})
	}
}

// onCards is a loader with cards.
type onCards struct {
	*scripted.Loader
	cards []pool.Card
}

func (l *onCards) Cards() []pool.Card { return l.cards }
