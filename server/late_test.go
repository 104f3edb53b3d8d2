package server_test

import (
	"strings"
	"testing"
	"time"
)

// TestLatePictures: the log says once that a picture would be late beside a model, and says nothing
// of a detector alone.
func TestLatePictures(t *testing.T) {
	r, _, log := cardRig(t)
	late := func() int { return log.FilterMessageSnippet("later than Frigate waits").Len() }
	picture := pictureField("image", drawnPNG(40, 20)) + "--x--\r\n"
	if a := r.do("POST", detection, picture, "Content-Type", formKind); a.code != 200 {
		t.Fatal(a.body)
	}
	if r.LookAtCards(); late() != 0 {
		t.Errorf("alone: %v", log.All())
	}
	for i := range 2 {
		r.post("/api/generate", `{"model":"scripted-chat","prompt":"[[say:a]]","stream":false}`)
		r.LookAtCards()
		if r.LookAtCards(); late() != 1 {
			t.Errorf("after %d answers of another model: %v", i+1, log.All())
		}
	}
	fields := log.FilterMessageSnippet("later than Frigate waits").All()[0].ContextMap()
	if !strings.HasPrefix(fields["detector"].(string), "scripted-detecting") ||
		!strings.HasPrefix(fields["beside"].(string), "scripted-chat") || fields["longest_piece"] != 60*time.Millisecond ||
		fields["answered_within"] != 125*time.Millisecond {
		t.Errorf("%v", fields)
	}
}
