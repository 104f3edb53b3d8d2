package server_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/peers"
	"github.com/axle-llm/axle/server/scripted"
)

// TestPeerRoutes: rows leave a server with keys for who has the secret of rows, without a key, and
// for no one else, whatever key they have; and from a server without that secret not at all.
func TestPeerRoutes(t *testing.T) {
	//proves:G28
	secret := bytes.Repeat([]byte("S"), 32)
	disk, err := rows.Open(rows.Options{Dir: filepath.Join(t.TempDir(), "rows"), Size: 1 << 20, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	name := strings.Repeat("0", 32) + "/" + strings.Repeat("0", 64)
	off := newRig(t)
	if a := off.do("GET", "/rows/"+name, ""); a.code != http.StatusNotFound || !strings.Contains(a.body, "--rows-secret") {
		t.Errorf("a server without a secret: %d %s", a.code, a.body)
	}
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "ask", Key: askKey, Role: access.Ask},
			access.Line{Name: "admin", Key: adminKey, Role: access.Admin})
		o.Rows = peers.NewServer(disk, peers.ServerOptions{Secret: secret})
	})
	for _, method := range []string{"GET", "HEAD", "PUT"} {
		for _, key := range []string{"", askKey, adminKey} {
			if a := r.do(method, "/rows/"+name, "x", "Authorization", "Bearer "+key); a.code != http.StatusUnauthorized {
				t.Errorf("%s with the key %q and no seal: %d %s", method, key, a.code, a.body)
			}
		}
	}
	if a := r.do("POST", "/rows/"+name, "x"); a.code != http.StatusUnauthorized { // no route: as everything that is not there
		t.Errorf("POST: %d", a.code)
	}
	p, err := peers.New([]string{r.url}, peers.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n, err := p.Has(t.Context(), []string{name}); n != 0 || err != nil {
		t.Errorf("who has the secret is answered: %d, %v", n, err)
	}
	if err := p.Put(t.Context(), name, []byte("forged")); err == nil || !strings.Contains(err.Error(), "422") {
		t.Errorf("a forged file: %v", err)
	}
}

// TestServers: a server tells what its peers do, whose requests are sealed. Addresses, and errors
// that may have them, are for keys that may do everything.
func TestServers(t *testing.T) {
	secret := bytes.Repeat([]byte("S"), 32)
	rows := func() *peers.Server { return peers.NewServer(nil, peers.ServerOptions{Secret: secret}) }
	off := newRig(t)
	if a := off.do("GET", "/rows", ""); a.code != http.StatusNotFound || !strings.Contains(a.body, "--peers") {
		t.Errorf("a server without peers: %d %s", a.code, a.body)
	}
	if a := off.do("GET", "/api/axle/peers", "").object(t); len(a["servers"].([]any)) != 1 {
		t.Errorf("a server without peers: %v", a)
	}
	two := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Rows, o.Node, o.Release = rows(), "board-2", "0.2.0" })
	two.post("/api/chat", chatBody("scripted-chat", "hello", ""))
	if a := two.do("GET", "/rows", ""); a.code != http.StatusUnauthorized || strings.Contains(a.body, "board-2") {
		t.Errorf("without a seal: %d %s", a.code, a.body)
	}
	p, err := peers.New([]string{two.url, off.url}, peers.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Rows, o.Peers, o.Node, o.Release = rows(), p, "board-1", "0.2.0"
		o.Keys = access.New(access.Line{Name: "ask", Key: askKey, Role: access.Ask},
			access.Line{Name: "admin", Key: adminKey, Role: access.Admin})
	})
	for key, admin := range map[string]bool{askKey: false, adminKey: true} {
		a := r.do("GET", "/api/axle/peers", "", "Authorization", "Bearer "+key)
		list := a.object(t)["servers"].([]any)
		if len(list) != 3 {
			t.Fatal(a)
		}
		own, well, bad := list[0].(map[string]any), list[1].(map[string]any), list[2].(map[string]any)
		if own["node"] != "board-1" || own["own"] != true || own["error"] != "" {
			t.Errorf("%v", own)
		}
		if loaded, _ := well["models"].([]any); well["node"] != "board-2" || well["own"] != false || well["error"] != "" ||
			len(loaded) != 1 || loaded[0] != "scripted-chat:latest" || well["version"] != "0.2.0" || well["status"] != "ok" {
			t.Errorf("%v", well)
		}
		if bad["error"] != peers.Refused || bad["models"] == nil || bad["cards"] == nil {
			t.Errorf("%v", bad)
		}
		host := strings.TrimPrefix(off.url, "http://")
		if (bad["address"] == host) != admin || (bad["why"] != nil) != admin || strings.Contains(a.body, host) != admin {
			t.Errorf("admin %t: %s", admin, a.body)
		}
	}
}
