package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/scripted"
)

// Each model that is loaded tells where its cache rows lie, and what came back from there.
func TestTiersTold(t *testing.T) {
	r := newRig(t)
	r.post("/api/generate", `{"model":"scripted","prompt":"[[say:x]]"}`)
	want := `"tiers":[{"name":"card","rows":4096,"hits":0,"in_bytes":0,"out_bytes":0,"saved_seconds":0},` +
		`{"name":"memory","rows":300,"used":20,"hits":7,"in_bytes":14336,"out_bytes":40960,"saved_seconds":1.5},` +
		`{"name":"disk","rows":640,"hits":3,"in_bytes":6144,"out_bytes":10240,"saved_seconds":0.25},` +
		`{"name":"peer","hits":5,"in_bytes":10240,"out_bytes":0,"saved_seconds":1}]`
	if a := r.do("GET", "/api/ps", ""); a.code != 200 || !strings.Contains(a.body, want) {
		t.Errorf("%d %s, want %s in it", a.code, a.body, want)
	}
}

// The page is told the same of each loaded model, and what its states take.
func TestTiersMonitor(t *testing.T) {
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Info.Memory.States = 65 << 20 })
	r.post("/api/generate", `{"model":"scripted","prompt":"[[say:x]]"}`)
	var s state
	if r.monitor("state", &s); len(s.Models) != 1 || s.Models[0].Memory["states"] != 65<<20 {
		t.Fatalf("%+v", s.Models)
	}
	want := []manage.Tier{{Name: "card", Rows: 4096}, {Name: "memory", Rows: 300, Used: 20, Hits: 7, In: 14336, Out: 40960, Saved: 1.5},
		{Name: "disk", Rows: 640, Hits: 3, In: 6144, Out: 10240, Saved: 0.25}, {Name: "peer", Hits: 5, In: 10240, Saved: 1}}
	if got := s.Models[0].Tiers; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
