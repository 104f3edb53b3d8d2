package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
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

// TestLateBeside: a picture waits for models of its own card, for their encoders of pictures too,
// and not for what is quick.
func TestLateBeside(t *testing.T) {
	model := func(name, device string, st ask.Stats) pool.Running {
		n, err := models.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		e := &catalog.Entry{Name: n, Key: name}
		e.Caps.Detection = name == "yolo"
		return pool.Running{Entry: e, Device: device, Stats: st}
	}
	piece := func(t time.Duration) ask.Stats { return ask.Stats{Piece: t * time.Millisecond} }
	yolo := model("yolo", "axcl:0", piece(16))
	for name, tt := range map[string]struct {
		beside []pool.Running
		want   string // the model that is named; "": none
	}{
		"as long as may be": {[]pool.Running{model("a", "axcl:0", piece(79))}, ""},
		"longer":            {[]pool.Running{model("a", "axcl:0", piece(80))}, "a"},
		"on another card":   {[]pool.Running{model("a", "axcl:1", piece(80))}, ""},
		"the longest": {[]pool.Running{model("a", "axcl:0", piece(90)), model("b", "axcl:0", piece(99)),
			model("c", "axcl:1", piece(999))}, "b"},
		"an encoder": {[]pool.Running{model("a", "axcl:0", ask.Stats{Piece: 50 * time.Millisecond, Encoded: 3,
			Encoding: 300 * time.Millisecond})}, "a"},
	} {
		r, _, log := cardRig(t)
		for range 2 {
			r.LookPieces(append([]pool.Running{yolo}, tt.beside...))
		}
		said := log.FilterMessageSnippet("later than Frigate waits").All()
		if len(said) > 1 || (len(said) == 1) != (tt.want != "") ||
			len(said) == 1 && !strings.HasPrefix(said[0].ContextMap()["beside"].(string), tt.want) {
			t.Errorf("%s: %v", name, said)
		}
	}
}
