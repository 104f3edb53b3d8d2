package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// TestParseHosts: what a list of servers may be, and which address it stands for.
func TestParseHosts(t *testing.T) {
	all, err := ParseHosts("pi, 10.0.0.1:80 ,https://axle.example.org,http://b:1/,[::1]:5")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http://pi:11434/readyz", "http://10.0.0.1:80/readyz", "https://axle.example.org:443/readyz", "http://b:1/readyz",
		"http://[::1]:5/readyz"}
	for i, h := range all {
		if h.url != want[i] {
			t.Errorf("%s: %s", h.name, h.url)
		}
	}
	for list, says := range map[string]string{
		"": "0 servers are named", " , ": "0 servers", "a,a:11434": "twice", "ftp://a": `"ftp://a" is no server`, "a/b": "is no server",
		"http://": "is no server", "u:p@a": "is no server", "a:x": "is no server", "a?b": "is no server",
		strings.Repeat("a,", 1) + many(256): "257 servers are named",
	} {
		if _, err := ParseHosts(list); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %q", list, err, says)
		}
	}
}

// TestWatch: the file has the servers that are ready, and no others: one that drains goes at once,
// one that dies after two checks, and each comes back. The file is never half written.
func TestWatch(t *testing.T) {
	var state [3]atomic.Int32 // what /readyz answers; 0: the connection breaks
	var hosts []string
	for i := range state {
		state[i].Store(200)
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			code := int(state[i].Load())
			if code == 0 || r.URL.Path != "/readyz" {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(code)
			fmt.Fprint(w, `{"status":"draining"}`)
		}))
		defer ts.Close()
		hosts = append(hosts, ts.Listener.Addr().String())
	}
	hosts[1] = strings.Replace(hosts[1], "127.0.0.1", "localhost", 1) // the file has addresses, not names
	list, err := ParseHosts(strings.Join(hosts, ","))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	ctx, stop := context.WithCancel(t.Context())
	var said strings.Builder
	done := make(chan error, 1)
	go func() { done <- Watch(ctx, Options{Hosts: list, File: file, Out: &said, Every: time.Millisecond}) }()
	want := func(is ...int) {
		t.Helper()
		var last string
		for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
			b, err := os.ReadFile(file)
			if err == nil {
				last = ports(t, b)
			}
			var wanted []string
			for _, i := range is {
				_, port, _ := net.SplitHostPort(hosts[i])
				wanted = append(wanted, port)
			}
			if last == strings.Join(wanted, " ") && err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the file has the ports %s, want %v", last, wanted)
			}
		}
	}
	want(0, 1, 2)
	state[1].Store(503)
	want(0, 2)
	state[0].Store(0)
	want(2)
	state[2].Store(503)
	want()
	state[0].Store(200)
	state[1].Store(200)
	want(0, 1)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, line := range []string{"is ready\n", hosts[1] + ` is left out: 503 {"status":"draining"}`, hosts[0] + " is left out: Get "} {
		if !strings.Contains(said.String(), line) {
			t.Errorf("%q is not in\n%s", line, said.String())
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || len(left) > 0 {
		t.Errorf("%v %v is left", left, err)
	}
}

// TestOnce: one look prints what is ready, and fails where nothing is.
func TestOnce(t *testing.T) {
	code := 200
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	defer ts.Close()
	list, err := ParseHosts(ts.URL + ",127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Watch(t.Context(), Options{Hosts: list, Out: &out}); err != nil || strings.Count(out.String(), "address") != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
	code = 302
	out.Reset()
	if err := Watch(t.Context(), Options{Hosts: list, Out: &out}); err == nil || !strings.Contains(err.Error(), "no server is ready") ||
		!strings.Contains(err.Error(), "127.0.0.1:1: ") || out.String() != "endpoints: []\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
	six, err := ParseHosts("[::1]:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ipv4(t.Context(), six[0].host); err == nil || !strings.Contains(err.Error(), "no IPv4 address") {
		t.Error(err)
	}
	if err := Watch(t.Context(), Options{Hosts: list, Out: &out, File: filepath.Join(t.TempDir(), "none", "x")}); err == nil {
		t.Error("a folder that is not there was written to")
	}
}

// ports reads a file as the picker does, and returns the ports in it.
func ports(t *testing.T, b []byte) string {
	t.Helper()
	var file struct {
		Endpoints []struct {
			Name, Address, Port string
			Labels              map[string]string
		}
	}
	if err := yaml.UnmarshalWithOptions(b, &file, yaml.Strict()); err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	var all []string
	for _, e := range file.Endpoints {
		if e.Address != "127.0.0.1" || e.Labels["llm-d.ai/engine-type"] != "axle" || e.Name == "" {
			t.Fatalf("%+v", e)
		}
		all = append(all, e.Port)
	}
	return strings.Join(all, " ")
}

func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint("b", i))
	}
	return strings.Join(all, ",")
}
