//go:build !scripted

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestTalkModels: with the models inside the program and one that speaks, all of them in software,
// what was said is heard, answered and spoken. Without that one it is said what is missing.
func TestTalkModels(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_DEVICE", "soft")
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	out := filepath.Join(place, "answer.wav")
	args := []string{"talk", "pocket", "../../models/hearing/testdata/0.flac", "-o", out}
	if _, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "no installed model speaks") {
		t.Errorf("without a model that speaks: %v", err)
	}
	dir := filepath.Join(place, "speaker")
	if err := (modelstest.Kokoro{Seed: 3, Layout: "A"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dictionaries"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "dictionaries", "us_gold.json"), []byte(`{"the":"ðə"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text, _, err := command(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	heard, answered, _ := strings.Cut(text, "\n")
	if heard != "> nine yes one light down no" || len(answered) < 5 {
		t.Errorf("the conversation\n%s", text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if sound, info, err := audio.Decode(b, 0, audio.Limits{}); err != nil || info.Rate != 24000 || len(sound) < 2400 {
		t.Errorf("%d samples of an answer, %+v, %v", len(sound), info, err)
	}
	// A session names a voice, not its model: where another has it too, that is said.
	other := filepath.Join(place, "other")
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, name := range []string{"speaker", "other"} {
		if _, _, err := command(t, append(args, "--say", name)...); err != nil {
			if refused++; !strings.Contains(err.Error(), "would speak, which has the voice ") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d of two models with the same voices are refused", refused)
	}
}
