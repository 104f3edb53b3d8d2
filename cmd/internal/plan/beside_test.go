package plan

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/models"
)

// TestDetectionBeside: a picture waits for the longest piece of the models beside the detector,
// which is known for what was published, and said to be unknown for what was not.
func TestDetectionBeside(t *testing.T) {
	yolo := Net(models.Info{Name: "yolo11s", Kind: "YOLO", Capabilities: []string{"detection"}, Memory: models.Memory{IO: 6_070_000}})
	net := func(kind string, bytes int64) Model {
		return Net(models.Info{Name: "it", Kind: kind, Memory: models.Memory{Layers: bytes}})
	}
	shape := func(name string) Model {
		m, ok := Shape(name)
		if !ok {
			t.Fatal(name)
		}
		return m
	}
	half, sees := shape("qwen3-0.6b"), shape("qwen3-vl-2b")
	half.Layers, sees.Layers = half.Layers[:14], sees.Layers[:3]
	unseen := half
	unseen.Rows, unseen.Patches = 64, 1
	// A computed call and its transfer, 3.4 + 12.1 ms, and 5 ms to decode the jpeg.
	const alone = 20.6
	for _, tt := range []struct {
		name     string
		beside   []Model
		piece    float64 // ms
		of, what string
		keeps    bool
		unknown  int
		says     string
	}{
		{"nothing", nil, 0, "", "", true, 0, "answered within 21ms: keeps Frigate's 100ms"},
		// 28 layers of 128 rows at 5.2 ms, and four times the head's 7.9 with its logits.
		{"a small text model", []Model{shape("qwen3-0.6b")}, 28*5.2 + 4*7.9, "qwen3-0.6b", "128 rows of a prompt with 4 answers", false, 0,
			"Set its api_timeout to 0.3, or"},
		{"half of its layers", []Model{half}, 14*5.2 + 4*7.9, "qwen3-0.6b", "128 rows of a prompt with 4 answers", false, 0,
			"does not keep Frigate's 100ms.\nSet its api_timeout to 0.2, or"},
		{"pictures", []Model{sees}, 192, "qwen3-vl-2b", "a picture's encoder", false, 0, "does not keep"},
		{"pictures of no published call", []Model{unseen}, 14*5.2 + 4*7.9, "qwen3-0.6b", "128 rows of a prompt with 4 answers", false, 1,
			"not known: the pieces of qwen3-0.6b"},
		{"the longer of two", []Model{shape("qwen3-0.6b"), shape("qwen3-4b"), yolo}, 36*39.7 + 4*19.4, "qwen3-4b",
			"128 rows of a prompt with 4 answers", false, 0, "api_timeout to 1.6"},
		// A layer with a state takes one sequence in a pass: one head of 12.6.
		{"states", []Model{shape("qwen3.5-0.8b")}, 295, "qwen3.5-0.8b", "128 rows of a prompt", false, 0, "does not keep"},
		{"another detector", []Model{yolo}, alone - 5, "yolo11s", "a detection", true, 0, "keeps Frigate's"},
		{"Whisper small", []Model{net("Whisper", 758e6)}, 190, "it", "Whisper small's encoder", false, 0, "does not keep"},
		{"a large Whisper", []Model{net("Whisper", 1600e6)}, 0, "", "", false, 1, "depends on them"},
		{"drawing", []Model{net("Stable Diffusion 1.5", 2e9)}, 930, "it", "the decoder of a picture (a step takes 435 ms)", false, 0,
			"api_timeout to 1.0"},
		{"a recogniser of no published call", []Model{net("Zipformer", 1e6)}, 0, "", "", false, 1, "not known: the pieces of it;"},
		{"too long whatever the other takes", []Model{net("Zipformer", 1e6), shape("qwen3-4b")}, 36*39.7 + 4*19.4, "qwen3-4b",
			"128 rows of a prompt with 4 answers", false, 1, "does not keep"},
	} {
		set := Together(mustProfile(t), 1<<40, append([]Model{yolo}, tt.beside...)...)
		d := set.Detection
		if got := float64(d.Alone) / 1e6; math.Abs(got-alone) > 0.3 {
			t.Errorf("%s: alone %v", tt.name, d.Alone)
		}
		if got := float64(d.Piece) / 1e6; math.Abs(got-tt.piece) > 5 || d.Of != tt.of || d.What != tt.what || d.Keeps != tt.keeps ||
			len(d.Unknown) != tt.unknown || d.Within != d.Alone+d.Piece {
			t.Errorf("%s: %+v, want %.1f ms", tt.name, d, tt.piece)
		}
		var out bytes.Buffer
		if err := set.Text(&out); err != nil || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: %v\n%s, want %q", tt.name, err, out.String(), tt.says)
		}
	}
	if set := Together(mustProfile(t), 1<<40, shape("qwen3-0.6b")); set.Detection != nil {
		t.Errorf("without a detector: %+v", set.Detection)
	}
	quick, _ := Shape("qwen3-0.6b")
	if d := Together(&profiles.Profile{}, 1<<40, yolo, quick).Detection; d.Alone != 8400*time.Microsecond {
		t.Errorf("by a profile that says no costs: %+v", d)
	}
}
