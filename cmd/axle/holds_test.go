//go:build !scripted

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// A command that opens a card asks the server on this machine first, and says what to do where that
// holds it; a software card has no owner, a lost one is held no more, and what is no server of
// axle's has none.
func TestWhoseCard(t *testing.T) {
	state := ""
	code := http.StatusOK
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/axle/state":
			w.WriteHeader(code)
			fmt.Fprint(w, state)
		case "/api/axle/store":
			fmt.Fprint(w, `{"folder":"/nowhere/at/all","user":"axle"}`)
		}
	}))
	defer ts.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_HOST", ts.URL)
	const real, soft = `{"device":"axcl:0","state":"ready"}`, `{"device":"soft","state":"ready","software":true}`
	for _, tt := range []struct {
		cards, device string
		code          int
		want          []string
	}{
		{real, "auto", 200, []string{ts.URL, "holds the card (axcl:0)", "systemctl stop axle", ts.URL + "/ui"}},
		{real, "axcl", 200, []string{"holds the card"}},
		{real, "axcl:0", 200, []string{"holds the card"}},
		{real, "axcl:1", 200, nil},
		{real, "soft", 200, nil},
		{real, "axengine", 200, nil},
		{soft, "auto", 200, nil},
		{soft + "," + real, "auto", 200, []string{"holds the card"}},
		{`{"device":"axcl:0","state":"lost"}`, "auto", 200, nil},
		{"", "auto", 200, nil},
		{"", "auto", 404, nil},
		{"", "auto", 401, []string{"may hold the card", "set AXLE_KEY"}},
	} {
		if code, state = tt.code, `{"cards":[`+tt.cards+`]}`; code != 200 {
			state = `{"error":"no"}`
		}
		err := free(t.Context(), tt.device, "measuring")
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%+v: %v", tt, err)
		}
		for _, w := range tt.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
	}
	// The commands that open one.
	code, state = 200, `{"cards":[`+real+`]}`
	for _, args := range [][]string{{"bench", "qwen3-0.6b"}, {"bench", "pocket", "--device", "axcl"}, {"doctor", "--conformance"},
		{"doctor", "--vision", "pocket"}} {
		if _, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "holds the card (axcl:0)") {
			t.Errorf("%v: %v", args, err)
		}
	}
	// The server's store cannot be asked for once it was ended, so how to name it is said before.
	t.Setenv("AXLE_MODELS", "")
	if err := free(t.Context(), "auto", "measuring"); err == nil || !strings.Contains(err.Error(), " AXLE_MODELS=/nowhere/at/all axle ") {
		t.Error(err)
	}
	ts.Close()
	if err := free(t.Context(), "auto", "measuring"); err != nil {
		t.Errorf("no server: %v", err)
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "203.0.113.9": false, "box.example": false} {
		conn := client.New(&url.URL{Scheme: "http", Host: net.JoinHostPort(host, "80")}, "")
		if (conn.Local() || ours(host)) != want {
			t.Errorf("%s is this machine: %v", host, !want)
		}
	}
	if err := client.Error(nil); err != nil {
		t.Error(err)
	}
}
