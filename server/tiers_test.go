package server_test

import (
	"strings"
	"testing"
)

// Each model that is loaded tells where its cache rows lie, and what came back from there.
func TestTiersTold(t *testing.T) {
	r := newRig(t)
	r.post("/api/generate", `{"model":"scripted","prompt":"[[say:x]]"}`)
	want := `"tiers":[{"name":"card","rows":4096,"hits":0,"in_bytes":0,"out_bytes":0,"saved_seconds":0},` +
		`{"name":"memory","rows":300,"used":20,"hits":7,"in_bytes":14336,"out_bytes":40960,"saved_seconds":1.5},` +
		`{"name":"disk","hits":3,"in_bytes":6144,"out_bytes":10240,"saved_seconds":0.25}]`
	if a := r.do("GET", "/api/ps", ""); a.code != 200 || !strings.Contains(a.body, want) {
		t.Errorf("%d %s, want %s in it", a.code, a.body, want)
	}
}
