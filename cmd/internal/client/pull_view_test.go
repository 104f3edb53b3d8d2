package client

import (
	"bytes"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/store"
)

// In a terminal there is one line, drawn anew, no wider than the screen.
func TestPullView(t *testing.T) {
	var b bytes.Buffer
	v := NewPullView(&b)
	v.tty, v.width = true, 60
	v.Update(store.Progress{Status: "pulling manifest"})
	v.Update(store.Progress{Status: "pulling 0123", Digest: "sha256:0", Total: 2_000_000_000, Completed: 500_000_000})
	v.Update(store.Progress{Status: "pulling 4567", Digest: "sha256:4", Total: 2_000_000_000})
	v.Update(store.Progress{Status: "verifying sha256 digest"})
	v.End()
	want := "pulling manifest\n\r\x1b[Kpulling  25%  500 MB of 2 GB  "
	if !strings.HasPrefix(b.String(), want) || !strings.Contains(b.String(), "pulling  12%  500 MB of 4 GB") ||
		!strings.HasSuffix(b.String(), "\nverifying sha256 digest\n") {
		t.Errorf("%q", b.String())
	}
	for line := range strings.FieldsFuncSeq(b.String(), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if len(strings.TrimPrefix(line, "\x1b[K")) > 60 {
			t.Errorf("%d wide: %q", len(line), line)
		}
	}
}
