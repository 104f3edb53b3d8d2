package watch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// TestServers: several servers have a row each and a sum, with the rates since the turn before; one
// that is not there has its error, and holds up nothing.
func TestServers(t *testing.T) {
	t.Parallel()
	at := func(name string, n float64) Named {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "axle_up_seconds 61\naxle_requests_in_flight 1\naxle_tokens_per_second %g\n", n+0.5)
			for metric, v := range map[string]float64{"cells": 100, "cells_used": 10 * n, "running": n, "queued": 1, "model_card_bytes": 1,
				"cells_cached": 1, "cells_shared": 1, "card_temperature_celsius": 50 + n} {
				fmt.Fprintf(w, "axle_%s{model=\"m\"} %g\n", metric, v)
			}
		}))
		t.Cleanup(ts.Close)
		u, err := url.Parse(ts.URL)
		if err != nil {
			t.Fatal(err)
		}
		c := client.New(u, "")
		t.Cleanup(c.HTTP.CloseIdleConnections)
		return Named{name, c}
	}
	gone, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	none := Named{"gone", client.New(gone, "")}
	all := []Named{at("one", 2), none, at("two", 3)}
	var out strings.Builder
	if err := Servers(t.Context(), all, Options{Out: &out, Every: time.Millisecond, Once: true}); err != nil {
		t.Fatal(err)
	}
	fields := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"SERVER UP RUN WAIT TOKENS/S REUSED/S CELLS USED TEMP MODELS", "one 1m1s 2 1 2.5 0.0 100 20 52°C m",
		"two 1m1s 3 1 3.5 0.0 100 30 53°C m", "all 5 2 6.0", ""} {
		if fields(lines[i]) != want {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
	if rest := fields(strings.Join(lines[5:], " ")); !strings.HasPrefix(rest, "gone: ") || !strings.HasSuffix(rest, "refused") {
		t.Errorf("%q", rest)
	}
	out.Reset()
	if err := Servers(t.Context(), all, Options{Out: &out, Every: time.Millisecond, Once: true, JSON: true}); err != nil {
		t.Fatal(err)
	}
	var said struct {
		Servers []struct {
			Server, Error string
			PerSecond     float64 `json:"tokens_per_second"`
			Models        []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &said); err != nil || len(said.Servers) != 3 || said.Servers[0].PerSecond != 2.5 ||
		said.Servers[1].Error == "" || said.Servers[2].Models[0].Name != "m" {
		t.Errorf("%v %s", err, out.String())
	}
	if err := Servers(t.Context(), []Named{none}, Options{Out: &out, Every: time.Millisecond, Once: true}); err == nil ||
		!strings.Contains(err.Error(), "gone: ") {
		t.Errorf("none answers: %v", err)
	}
}
