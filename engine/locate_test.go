package engine

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/tokenizer/chat"
	"github.com/axle-llm/axle/vision"
)

// TestLocate: a model that answers with places in a picture says what its weights make of the
// picture, stretched to the encoder's square, and its answers show the places.
func TestLocate(t *testing.T) {
	lane.NoRace(t)
	testLocate(t, openSoft)
}

func testLocate(t *testing.T, open func() (axcl.Device, string, error)) {
	e, dir := modelstest.LocateAnything{Seed: 3, Old: true}, t.TempDir()
	c, err := e.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, b := load(t, dir, open, OpenOptions{})
	if !m.Info().Capabilities.Vision {
		t.Fatalf("it does not see: %v", b.m.pictures.blind)
	}
	if s := m.Sampling(); s.Temperature != 0 || s.RepeatPenalty != 1 {
		t.Errorf("temperature %v, penalty %v", s.Temperature, s.RepeatPenalty)
	}
	const words = "Point to: the <box> of <12>."
	photo := noise(9, 320, 200)
	msg := chat.Message{Role: "user", Content: words, Images: [][]byte{photo}, Parts: []chat.Part{{Text: words}, {Image: true}}}
	r := Request{Messages: []chat.Message{msg}, Sampling: m.Sampling(), NumCtx: m.Info().Context, Limit: 24}
	ids, pieces, images, err := m.prompt(context.Background(), &r, true, new(Cut))
	if err != nil || len(images) != 1 {
		t.Fatal(len(images), err)
	}
	want := "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<image 1><img>" +
		strings.Repeat("<IMG_CONTEXT>", 400) + "</img>" + words + "<|im_end|>"
	if !strings.Contains(join(pieces), want) {
		t.Errorf("the prompt is %q", join(pieces))
	}
	// Words of a user stay words, whatever they look like.
	for id := range int32(1300) {
		if text := b.m.token(id); (text == "<box>" || text == "<12>") && slices.Contains(ids, id) {
			t.Errorf("a user's %s became a token of its own", text)
		}
	}
	job := Job{IDs: ids, Images: images, Sampling: r.Sampling, Limit: 12, IgnoreStop: true}
	got, last, err := run(b, job)
	if err != nil || last.Usage.Prompt != len(ids) {
		t.Fatal(last.Usage.Prompt, len(ids), err)
	}
	picture, err := vision.Decode(photo, vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []*axmodeltest.Seen
	for _, row := range e.Look(picture.Resize(e.Side(), e.Side()).Pix) {
		seen = append(seen, &axmodeltest.Seen{Row: row})
	}
	judgedRows(t, c, ids, m.o.Sees.Placeholder, 20, 20, seen, got)

	// The answer shows every token, and none is cut in two.
	text, cut, place := "", regexp.MustCompile(`<\d*$|^\d+>`), regexp.MustCompile(`<\d+>`)
	for ev, err := range m.Chat(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if text += ev.Text; cut.MatchString(ev.Text) {
			t.Errorf("an event has part of a place: %q", ev.Text)
		}
	}
	spelled := ""
	for _, id := range got {
		spelled += b.m.token(id)
	}
	if !place.MatchString(text) || !strings.HasPrefix(text, strings.ToValidUTF8(spelled, "\ufffd")) {
		t.Errorf("it answers %q with the tokens %q", text, spelled)
	}

	// One picture a request: a second one of a message is refused, an earlier turn's is dropped.
	two := r
	two.Messages = []chat.Message{{Role: "user", Content: words, Images: [][]byte{photo, noise(10, 64, 64)}}}
	if _, _, err := collect(m.Chat(t.Context(), two)); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(),
		"takes 1 picture a request") {
		t.Errorf("two pictures in a message: %v", err)
	}
	two.Messages = []chat.Message{msg, {Role: "assistant", Content: "<box><1><2></box>"}, msg}
	two.Messages[2].Images = [][]byte{noise(10, 64, 64)}
	if _, _, err := collect(m.Chat(t.Context(), two)); !errors.Is(err, ErrRequest) {
		t.Errorf("two turns with pictures, not to be cut: %v", err)
	}
	two.Truncate = true
	if _, _, images, err := m.prompt(t.Context(), &two, true, new(Cut)); err != nil || len(images) != 1 || !bytes.Equal(images[0],
		two.Messages[2].Images[0]) {
		t.Errorf("%d pictures stay, %v", len(images), err)
	}
}

// noise is a picture of this size, as a PNG: spots on a slope of colour.
func noise(seed uint64, width, height int) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		x, y := i%width, i/width
		copy(p.Pix[4*i:], []byte{byte(255 * x / width), byte(255 * y / height), byte(random.IntN(256)), 255})
	}
	var b bytes.Buffer
	_ = png.Encode(&b, p) // cannot fail: it writes to memory
	return b.Bytes()
}
