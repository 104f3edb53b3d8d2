package conversation

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/client"
)

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
		talk := &Talk{Conn: client.New(base, ""), Model: "m", Out: io.Discard}
		err = talk.vector(t.Context(), "text")
		if err == nil || hang && !errors.Is(err, ErrInterrupted) {
			t.Errorf("interrupted %t: %v", hang, err)
		}
		ts.Close()
	}
}
