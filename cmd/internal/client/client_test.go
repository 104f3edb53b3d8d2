package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
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
		{"cut", `{"status":"pulling manifest"}` + "\n", false, ErrBrokeOff.Error()},
		{"nothing", "", false, ErrBrokeOff.Error()},
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
			c := New(base, "")
			said := func(string) {
				if tt.interrupt {
					cancel()
				}
			}
			for work, err := range map[string]error{
				"pull":   c.Pull(ctx, "m", func(p store.Progress) { said(p.Status) }),
				"create": c.Create(ctx, &api.CreateRequest{Model: "m"}, said),
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
