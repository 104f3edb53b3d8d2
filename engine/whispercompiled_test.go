package engine

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisperCompiled: what is compiled from a checkpoint says what OpenAI's program makes of its
// weights' logits in float64.
func TestWhisperCompiled(t *testing.T) {
	lane.NoRace(t)
	for _, e := range []modelstest.Whisper{{Seed: 4, Layout: "B"}, {Seed: 5, Layout: "B", Turbo: true, Layers: 1}} {
		m, _, _ := onCard(t, func(dir string) error {
			from := filepath.Join(t.TempDir(), "checkpoint")
			if err := e.Checkpoint(from); err != nil {
				return err
			}
			_, err := compile.Run(context.Background(), compile.Options{From: from, Out: dir, Quant: "fp32", Name: "tiny"})
			return err
		}, softCard, OpenOptions{})
		sound := babble(e.Seed, 11)
		oracle := heardBy(e, sound)
		for _, r := range []TranscribeRequest{{}, {Language: "de", Translate: true}} {
			r.Sound = hearing(sound)
			got, err := transcribed(context.Background(), m, r)
			if err != nil {
				t.Fatal(err)
			}
			if want := wantedSegments(e, oracle, sound, r); len(want) == 0 || !slices.EqualFunc(got, want, sameSegment) {
				t.Errorf("%+v:\n got %+v\nwant %+v", r, got, want)
			}
		}
	}
}
