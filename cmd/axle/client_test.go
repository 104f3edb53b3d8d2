package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models/store"
)

// Long work is done when the server has said so, not when its answer ends.
func TestWorkBreaksOff(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		interrupt  bool
		want       string
	}{
		{"done", `{"status":"pulling manifest"}` + "\n" + `{"status":"success"}` + "\n", false, ""},
		{"cut", `{"status":"pulling manifest"}` + "\n", false, errBrokeOff.Error()},
		{"nothing", "", false, errBrokeOff.Error()},
		{"an error", `{"status":"pulling manifest"}` + "\n" + `{"error":"no room"}` + "\n", false, "no room"},
		{"interrupted", `{"status":"pulling manifest"}` + "\n", true, context.Canceled.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(tt.body))
				if tt.interrupt {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
			}))
			defer ts.Close()
			base, err := url.Parse(ts.URL)
			if err != nil {
				t.Fatal(err)
			}
			c := &connection{Client: api.NewClient(base, ts.Client())}
			said := func(string) {
				if tt.interrupt {
					cancel()
				}
			}
			for work, err := range map[string]error{
				"pull":   c.pull(ctx, "m", func(p store.Progress) { said(p.Status) }),
				"create": c.create(ctx, &api.CreateRequest{Model: "m"}, said),
			} {
				text := ""
				if err != nil {
					text = err.Error()
				}
				if tt.interrupt && !errors.Is(err, context.Canceled) || !tt.interrupt && text != tt.want {
					t.Errorf("%s: %v, want %q", work, err, tt.want)
				}
			}
		})
	}
}

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

// An embedding that is broken off, or that the answer has none of, is told.
func TestVector(t *testing.T) {
	for _, hang := range []bool{false, true} {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			if hang {
				_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
				<-r.Context().Done()
				return
			}
			_, _ = w.Write([]byte(`{"embeddings":[]}`))
		}))
		base, err := url.Parse(ts.URL)
		if err != nil {
			t.Fatal(err)
		}
		talk := &talk{conn: &connection{Client: api.NewClient(base, ts.Client())}, model: "m", out: io.Discard}
		err = talk.vector(t.Context(), "text")
		var exit *exitError
		if err == nil || hang && (!errors.As(err, &exit) || exit.code != exitInterrupted) {
			t.Errorf("interrupted %t: %v", hang, err)
		}
		ts.Close()
	}
}

func TestDoctorModelAlone(t *testing.T) {
	if err := failure(t.Context(), os.Stdout, []string{"doctor", "--model", t.TempDir()}); err == nil || err.code != 2 {
		t.Errorf("doctor --model: %v", err)
	}
}
