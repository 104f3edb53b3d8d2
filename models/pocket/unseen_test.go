package pocket_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// leastSeen is the share of the questions about pictures that the weights in the tree must answer
// rightly; testdata/pocket/README.md has what they do answer.
const leastSeen = 0.9

// TestUnseen asks pocket about pictures that training never saw: png, jpeg and webp, larger and
// smaller than its encoder's, some of them lying as cameras write them, upright only by their EXIF.
func TestUnseen(t *testing.T) {
	//proves:G19
	all := unseen(t)
	if testing.Short() {
		all = all[:16]
	}
	testUnseen(t, open(t), all)
}

// TestReadmePicture: pocket says that it sees, and what it answers of the picture that the README
// shows is what is there.
func TestReadmePicture(t *testing.T) {
	p, err := models.OpenFS(pocket.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Capabilities(); !slices.Contains(c, "vision") {
		t.Errorf("capabilities %v, without vision", c)
	}
	shapes := asked{Question: "what is in", Answer: "A red circle, a blue square and a yellow star.", Pictures: []string{"../shapes.png"}}
	if got := ask(t, open(t), shapes, chat.ThinkOff, false); got != shapes.Answer {
		t.Errorf("it says %q, not %q", got, shapes.Answer)
	}
}

// TestUpright: a photo is seen upright, however the camera was held: in each of EXIF's eight
// orientations the answer is that of the upright picture, and what the file has without it is
// another one.
func TestUpright(t *testing.T) {
	f, err := os.Open(filepath.Join(unseenDir, "../shapes.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	upright, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	m := open(t)
	const question, right = "What is in this picture?", "A red circle, a blue square and a yellow star."
	for o := 1; o <= 8; o++ {
		var lying bytes.Buffer
		if err := jpeg.Encode(&lying, held(upright, o), &jpeg.Options{Quality: 95}); err != nil {
			t.Fatal(err)
		}
		photo := slices.Insert(bytes.Clone(lying.Bytes()), 2,
			[]byte("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"+string(rune(o))+
				"\x00\x00\x00\x00\x00\x00\x00")...)
		if got := askAbout(t, m, question, chat.ThinkOff, false, photo); got != right {
			t.Errorf("orientation %d: %q", o, got)
		}
		if got := askAbout(t, m, question, chat.ThinkOff, false, lying.Bytes()); (got == right) != (o == 1) {
			t.Errorf("without orientation %d: %q", o, got)
		}
	}
}

// held is what a camera stores of a scene that EXIF's orientation o puts upright again. It is wider
// than high, so that a side cannot be taken for the other.
func held(scene image.Image, o int) image.Image {
	const w, h = 240, 180
	b := scene.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if o >= 5 {
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			c := scene.At(b.Min.X+x*b.Dx()/w, b.Min.Y+y*b.Dy()/h)
			switch o {
			case 1:
				out.Set(x, y, c)
			case 2:
				out.Set(w-1-x, y, c)
			case 3:
				out.Set(w-1-x, h-1-y, c)
			case 4:
				out.Set(x, h-1-y, c)
			case 5:
				out.Set(y, x, c)
			case 6: // to be turned to the right: its first row is the right side
				out.Set(y, w-1-x, c)
			case 7:
				out.Set(h-1-y, w-1-x, c)
			case 8:
				out.Set(h-1-y, x, c)
			}
		}
	}
	return out
}

// asked is a line of testdata/pocket/unseen/questions.jsonl: a question about pictures, and the
// whole answer.
type asked struct {
	Kind, Question, Answer string
	Pictures               []string
}

const unseenDir = "../../testdata/pocket/unseen"

func unseen(t *testing.T) (all []asked) {
	t.Helper()
	f, err := os.Open(filepath.Join(unseenDir, "questions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var a asked
		if err := json.Unmarshal(sc.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// testUnseen judges the answers: nothing but the answer that is taught counts. Half of the
// questions have their text before the pictures, and every third is thought about.
func testUnseen(t *testing.T, m *engine.Model, all []asked) {
	t.Helper()
	right := 0
	by := map[string][2]int{}
	for i, a := range all {
		think := chat.ThinkOff
		if i%3 == 2 {
			think = chat.ThinkOn
		}
		n := by[a.Kind]
		n[1]++
		if got := ask(t, m, a, think, i%2 == 1); got == a.Answer {
			right++
			n[0]++
		} else {
			t.Logf("%s: %q about %v says %q, not %q", a.Kind, a.Question, a.Pictures, got, a.Answer)
		}
		by[a.Kind] = n
	}
	t.Logf("%d of %d right: %v", right, len(all), by)
	if float64(right) < leastSeen*float64(len(all)) {
		t.Errorf("%d of %d questions about pictures answered rightly, want %.0f %%", right, len(all), 100*leastSeen)
	}
}

// ask is the greedy answer to a question about pictures, its text before them or after.
func ask(t *testing.T, m *engine.Model, a asked, think chat.Think, before bool) string {
	t.Helper()
	var pictures [][]byte
	for _, name := range a.Pictures {
		b, err := os.ReadFile(filepath.Join(unseenDir, name))
		if err != nil {
			t.Fatal(err)
		}
		pictures = append(pictures, b)
	}
	return askAbout(t, m, a.Question, think, before, pictures...)
}

// askAbout is ask of pictures that are no files.
func askAbout(t *testing.T, m *engine.Model, question string, think chat.Think, before bool, pictures ...[]byte) string {
	t.Helper()
	r := engine.Request{Think: think, Sampling: m.Sampling(), Limit: 80}
	r.Sampling.Temperature = 0
	msg := chat.Message{Role: "user", Content: question}
	for _, b := range pictures {
		msg.Images = append(msg.Images, b)
		msg.Parts = append(msg.Parts, chat.Part{Image: true})
	}
	if text := (chat.Part{Text: question}); before {
		msg.Parts = slices.Insert(msg.Parts, 0, text)
	} else {
		msg.Parts = append(msg.Parts, text)
	}
	r.Messages = []chat.Message{msg}
	var answer strings.Builder
	for e, err := range m.Chat(t.Context(), r) {
		if err != nil {
			t.Fatalf("%q: %v", question, err)
		}
		answer.WriteString(e.Text)
	}
	return answer.String()
}
