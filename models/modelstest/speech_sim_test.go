//go:build cgo && !fake && linux

package modelstest_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSpeechNative is the tests of speech nets through both of the vendor's ABIs.
func TestSpeechNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for _, kind := range []string{"axcl", "axengine"} {
		for _, c := range []struct {
			name string
			test func(*testing.T, axcl.Device)
		}{{"SenseVoice", testSenseVoice}, {"Whisper", testWhisper}, {"Kokoro", testKokoro}, {"Zipformer", testZipformer},
			{"QwenASR", testQwenASR}, {"Detector", testDetector}, {"CLIP", testCLIP}, {"Faces", testFaces}} {
			t.Run(kind+" "+c.name, func(t *testing.T) { c.test(t, simCard(t, kind)) })
		}
	}
}

// simCard is the simulated card behind a link, or on its own board.
func simCard(t *testing.T, kind string) axcl.Device {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	simcardtest.Attach(t, "hazards=strict\nversion=3.16.0", true) // older ones answer no Zipformer
	if kind == "axengine" {
		libs, err := simcard.Build("")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(native.EnvEngine, filepath.Dir(libs.Engine))
	}
	d, _, err := cards.Open(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
