package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// What the server says of a model it cannot remove is what the user reads, and the exit code is 1.
func TestRmTellsWhy(t *testing.T) {
	const why = "models: a file of m:latest is damaged; pull it again"
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": why})
		}
	}))
	defer ts.Close()
	t.Setenv("AXLE_HOST", ts.URL)
	if err := failure(t.Context(), os.Stdout, []string{"rm", "m"}); err == nil || err.code != 1 || err.Error() != why {
		t.Errorf("rm: %v", err)
	}
}

// A server that takes no work any more is not said to be absent.
func TestEndingServer(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer ts.Close()
	t.Setenv("AXLE_HOST", ts.URL)
	if err := failure(t.Context(), os.Stdout, []string{"list"}); err == nil || err.code != 1 ||
		!strings.Contains(err.Error(), ts.URL+" takes no requests now: it is ending, or its card was lost") {
		t.Errorf("list: %v", err)
	}
}
