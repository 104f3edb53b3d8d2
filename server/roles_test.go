package server_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

var updateRoles = flag.Bool("update-roles", false, "write the table of roles in docs/api.md anew")

const askKey, adminKey = "secret-of-ask", "secret-of-admin"

// TestRoles (T6): every route of the table, asked without a key, with one that asks and with one
// that may do everything. A path without a route is refused without a key too, so that a client
// without a key does not learn what there is.
func TestRoles(t *testing.T) {
	r := roleRig(t)
	ts := httptest.NewServer(r.VendorHandler(t.Context(), true))
	defer ts.Close()
	vendor := &rig{Server: r.Server, t: t, url: ts.URL}
	main, old := r.Routes()
	refused := map[string][3]int{ // without a key, with ask, with admin; 0: the route answers
		"anyone": {0, 0, 0}, "ask": {401, 0, 0}, "admin": {401, 403, 0},
	}
	cells := 0
	for _, at := range []struct {
		r      *rig
		routes []server.Route
	}{{r, main}, {vendor, old}} {
		for _, route := range at.routes {
			path := strings.NewReplacer(":digest", "sha256:x", ":key", "x", ":id", "0", "*model", "none", "*file",
				"none").Replace(route.Path)
			for i, key := range []string{"", askKey, adminKey} {
				var header []string
				if key != "" {
					header = []string{"Authorization", "Bearer " + key}
				}
				a := at.r.do(route.Method, path, "", header...)
				want := refused[route.Role][i]
				if want != 0 && a.code != want || want == 0 && (strings.Contains(a.body, "wants a key") || a.code == 403) {
					t.Errorf("%s %s of the role %s with the key %q: %d %s, want %d", route.Method, route.Path, route.Role, key, a.code,
						a.body,
						want)
				}
				if a.code == 403 && !strings.Contains(a.body, "role admin") && route.Method != "HEAD" {
					t.Errorf("%s %s: the refusal does not say what helps: %s", route.Method, route.Path, a.body)
				}
				cells++
			}
		}
		for _, path := range []string{"/api/nothing", "/ui/../api/tags", "/debug/pprof/", "//api/tags"} {
			if a := at.r.do("GET", path, ""); a.code != 401 {
				t.Errorf("%s without a key: %d", path, a.code)
			}
		}
	}
	if cells < 150 {
		t.Errorf("only %d cells of the matrix", cells)
	}
	// Nothing that changes models, the card or the disk is for keys that ask.
	for _, route := range main {
		changes := slices.Contains([]string{"create", "copy", "pull", "push", "delete", "blobs"}, strings.Split(route.Path+"///",
			"/")[2]) ||
			strings.HasSuffix(route.Path, "/bench") && route.Method != "GET"
		if changes != (route.Role == "admin") {
			t.Errorf("%s %s has the role %s", route.Method, route.Path, route.Role)
		}
	}
}

// A server with a route that has no role does not start.
func TestRouteWithoutRole(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		role   access.Role
		starts bool
	}{{0, false}, {-1, false}, {access.Admin + 1, false}, {access.Anyone, true}, {access.Ask, true}, {access.Admin, true}} {
		func() {
			defer func() {
				if said := recover(); (said == nil) != tt.starts || said != nil && !strings.Contains(fmt.Sprint(said), "GET /new") {
					t.Errorf("a route of %v: %v", tt.role, said)
				}
			}()
			r.Mount(tt.role)
		}()
	}
}

// The table in docs/api.md is the routes' own: go test ./server -run TestRolesDocument
// -update-roles writes it.
func TestRolesDocument(t *testing.T) {
	//proves:T6
	const file, begin, end = "../docs/api.md", "<!-- roles: from the route table -->\n", "<!-- roles end -->\n"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(b), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("docs/api.md has no place for the table of roles")
	}
	main, vendor := newRig(t).Routes()
	var table strings.Builder
	table.WriteString("| route | no key | `ask` | `admin` |\n|---|---|---|---|\n")
	row := func(r server.Route, note string) {
		yes := map[string]string{"anyone": "yes | yes | yes", "ask": "401 | yes | yes", "admin": "401 | 403 | yes"}[r.Role]
		fmt.Fprintf(&table, "| `%s %s`%s | %s |\n", r.Method, r.Path, note, yes)
	}
	for _, r := range main {
		row(r, "")
	}
	for _, r := range vendor {
		row(r, " (the vendor's port)")
	}
	want := before + begin + table.String() + end + after
	if *updateRoles {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(b) != want {
		t.Error("the table of roles in docs/api.md is not what the routes say: write it anew with -update-roles")
	}
}

// What the role of a key changes in a route that it may ask: how long models stay, what models were
// told, what may be begun.
func TestRoleWithin(t *testing.T) {
	r := roleRig(t)
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	if a := r.post("/api/create",
		`{"model":"mine","from":"scripted-chat","system":"the canary's words","messages":[{"role":"user","content":"canary"}]}`,
		as(adminKey)...); a.code != 200 {
		t.Fatal(a)
	}
	loaded := func() bool { return strings.Contains(r.do("GET", "/api/ps", "", as(askKey)...).body, "scripted-chat") }
	r.post("/api/chat", chatBody("scripted-chat", "[[say:x]]", ""), as(askKey)...)
	if !loaded() {
		t.Fatal("the model is not loaded")
	}
	for key, want := range map[string]bool{askKey: false, adminKey: true} { // the page goes by it
		if a := r.do("GET", "/api/axle/state", "", as(key)...).object(t); a["admin"] != want {
			t.Errorf("admin is %v, want %v", a["admin"], want)
		}
	}
	// Each of these would let the model go, or keep it from others.
	for _, tt := range []struct {
		path, body string
		code       int
	}{
		{"/api/generate", `{"model":"scripted-chat","keep_alive":0}`, 403},
		{"/api/chat", `{"model":"scripted-chat","keep_alive":"0s"}`, 403},
		{"/api/chat", chatBody("scripted-chat", "[[say:x]]", `,"keep_alive":0`), 403},
		{"/api/embed", `{"model":"scripted-embed","input":"x","keep_alive":0}`, 403},
		{"/api/embeddings", `{"model":"scripted-embed","prompt":"x","keep_alive":0}`, 403},
		{"/api/rerank", `{"model":"scripted-embed","query":"x","documents":["y"],"keep_alive":0}`, 403},
		{"/api/chat", chatBody("scripted-chat", "[[say:x]]", `,"keep_alive":"1ms"`), 200},
		{"/api/chat", chatBody("scripted-chat", "[[say:x]]", `,"keep_alive":-1`), 200},
	} {
		if a := r.post(tt.path, tt.body, as(askKey)...); a.code != tt.code || a.code == 403 && !strings.Contains(a.body, "role admin") {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, a.code, a.body)
		}
	}
	if ps := r.do("GET", "/api/ps", "", as(askKey)...).body; !loaded() || strings.Contains(ps, `"expires_at":"23`) {
		t.Errorf("a key that asks has changed how long a model stays: %s", ps)
	}
	for _, verbose := range []string{"", `,"verbose":true`, `,"system":"canary"`} {
		if a := r.post("/api/show", `{"model":"mine"`+verbose+`}`, as(askKey)...); a.code != 200 || strings.Contains(a.body, "canary") ||
			!strings.Contains(a.body, "capabilities") {
			t.Errorf("show to a key that asks: %d %s", a.code, a.body)
		}
	}
	if a := r.post("/api/show", `{"model":"mine"}`, as(adminKey)...); !strings.Contains(a.body, "the canary's words") {
		t.Errorf("show to an admin: %s", a.body)
	}
	for key, want := range map[string]string{askKey: `"allowed":false,"why":"measuring needs a key of the role admin`,
		adminKey: `"allowed":true`} {
		if a := r.do("GET", "/api/axle/state", "", as(key)...); !strings.Contains(a.body, want) {
			t.Errorf("state to %s: %s", key, a.body)
		}
	}
	if a := r.post("/api/generate", `{"model":"scripted-chat","keep_alive":0}`, as(adminKey)...); a.code != 200 || loaded() {
		t.Errorf("an admin unloads: %d, loaded %v", a.code, loaded())
	}
}

// roleRig is a server with a key of each role. Nothing that a test sends to all routes can be
// pulled or deleted.
func roleRig(t *testing.T) *rig {
	return newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "ask", Key: askKey, Role: access.Ask},
			access.Line{Name: "admin", Key: adminKey, Role: access.Admin})
	})
}
