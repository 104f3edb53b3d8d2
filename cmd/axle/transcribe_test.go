//go:build !scripted

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestTranscribe: files and standard input are written down, in each form, and what cannot be is
// said with its name.
func TestTranscribe(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	if err := (modelstest.SenseVoice{Seed: 1, Layout: "Axera"}).Write(filepath.Join(place, "sense")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	samples := murmur(3)
	flac, wav := filepath.Join(place, "a.flac"), filepath.Join(place, "b.wav")
	for name, b := range map[string][]byte{flac: audio.AppendFLAC(nil, samples, 16000),
		wav: audio.AppendPCM(audio.AppendWAVHeader(nil, 16000, -1), samples)} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, _, err := command(t, "transcribe", wav)
	if err != nil || len(text) < 10 || !strings.HasSuffix(text, "\n") || strings.Contains(text, "wav") {
		t.Errorf("%q, %v", text, err)
	}
	in, err := os.Open(wav)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	old := os.Stdin
	os.Stdin = in
	piped, _, err := command(t, "transcribe", "-m", "sense", "-")
	os.Stdin = old
	if err != nil || piped != text {
		t.Errorf("from a pipe %q, from the file %q, %v", piped, text, err)
	}
	both, _, err := command(t, "transcribe", flac, wav)
	if err != nil || both != flac+":\n"+text+wav+":\n"+text {
		t.Errorf("both: %q, %v", both, err)
	}
	srt, _, err := command(t, "transcribe", "--format", "srt", "--language", "en", wav)
	if err != nil || !strings.HasPrefix(srt, "1\n00:00:0") {
		t.Errorf("subtitles: %q, %v", srt, err)
	}
	for _, c := range []struct{ args, want string }{
		{wav + "x", "no such file"},
		{filepath.Join(place, "sense", "tokens.txt"), "tokens.txt: cannot hear this: no sound that is read here"},
		{"-m pocket " + wav, "does not support audio"},
		{"-l tlh " + wav, `does not know the language "tlh"`},
		{"-f mp3 " + wav, "--format must be one of text, json, srt, vtt, verbose_json"},
		{"", "requires at least 1 arg"},
	} {
		if _, _, err := command(t, append([]string{"transcribe"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestTranscribeQwenASR: a recogniser that is a language model is described and used as any
// recogniser, and answers no prompts.
func TestTranscribeQwenASR(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	dir, wav := filepath.Join(place, "qwen"), filepath.Join(place, "a.wav")
	if err := (modelstest.QwenASR{Seed: 1}).Write(dir); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	samples := murmur(2)
	if err := os.WriteFile(wav, audio.AppendPCM(audio.AppendWAVHeader(nil, 16000, -1), samples), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, _, err := command(t, "transcribe", "-m", "qwen", "-l", "en", wav); err != nil || len(text) < 3 {
		t.Errorf("%q, %v", text, err)
	}
	for _, c := range []struct{ args, want string }{
		{"inspect " + dir, "conv_frontend.axmodel and encoder.axmodel: 30 s of sound, to 390 rows fp32"},
		{"inspect " + dir, "decode 1+1023, prefill 64+0 to 384 (7)"},
		{"list", "qwen"},
		{"show qwen", "audio"},
		{"plan " + dir, "2.7 MB, 2.8 MB while it is loaded, of 7.4 GB: fits"},
		{"run qwen hello", "does not support generate: it writes speech down"},
		{"transcribe -m qwen -l tlh " + wav, `does not know the language "tlh"`},
	} {
		got, _, err := command(t, strings.Fields(c.args)...)
		if err != nil {
			got += err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", c.args, got, c.want)
		}
	}
}

// TestTranscribeBuiltin: the recogniser inside the program hears, from a file to its text, where no
// other is installed. All commands know it by its name.
func TestTranscribeBuiltin(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	said := map[string]string{}
	list, err := os.ReadFile("../../models/hearing/testdata/said.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		file, text, _ := strings.Cut(line, "\t")
		said[file] = text
	}
	for _, c := range []struct{ args, want string }{
		{"transcribe ../../models/hearing/testdata/0.flac", said["0.flac"]},
		{"transcribe -m pocket-hearing ../../models/hearing/testdata/1.flac", said["1.flac"]},
		{"list", "pocket-hearing:latest"},
		{"show pocket-hearing", "audio"},
		{"plan pocket --with pocket-hearing", "axle serve --preload pocket,pocket-hearing\n"},
		{"run pocket-hearing hello", "does not support generate: it writes speech down"},
	} {
		got, _, err := command(t, strings.Fields(c.args)...)
		if err != nil {
			got += err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", c.args, got, c.want)
		}
	}
	if err := (modelstest.SenseVoice{Seed: 1, Layout: "Axera"}).Write(filepath.Join(place, "sense")); err != nil {
		t.Fatal(err)
	}
	if got, _, err := command(t, "transcribe", "../../models/hearing/testdata/0.flac"); err != nil || got == said["0.flac"] {
		t.Errorf("beside another recogniser: %q, %v", got, err)
	}
}

// TestTranscribeSpoken: a sound that comes in parts is understood as it comes, and its text
// is that of the file.
func TestTranscribeSpoken(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	if err := (modelstest.Zipformer{Seed: 2, Layout: "HY"}).Write(filepath.Join(place, "zip")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_DEVICE", "soft") // a simulated card of AXCL 3.10 runs no Zipformer
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	samples := murmur(4)
	sound := audio.AppendPCM(audio.AppendWAVHeader(nil, 16000, -1), samples)
	wav := filepath.Join(place, "a.wav")
	if err := os.WriteFile(wav, sound, 0o644); err != nil {
		t.Fatal(err)
	}
	want, _, err := command(t, "transcribe", "-m", "zip", wav)
	if err != nil || len(want) < 10 {
		t.Fatalf("%q, %v", want, err)
	}
	whole, _, err := command(t, "transcribe", "-m", "zip", "-f", "json", wav)
	if text := strings.TrimSpace(want); err != nil || !strings.Contains(whole, text) {
		t.Errorf("whole %q, as it came %q, %v", whole, text, err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdin
	os.Stdin = in
	go func() {
		for part := range slices.Chunk(sound, 3001) {
			_, _ = out.Write(part)
		}
		_ = out.Close()
	}()
	got, _, err := command(t, "transcribe", "-m", "zip", "-")
	os.Stdin = old
	_ = in.Close()
	if err != nil || got != want {
		t.Errorf("from a pipe %q, from the file %q, %v", got, want, err)
	}
	if err := (modelstest.Zipformer{Seed: 1, Layout: "Axera"}).Write(filepath.Join(place, "split")); err != nil {
		t.Fatal(err)
	}
	if text, _, err := command(t, "transcribe", "-m", "split", wav); err != nil || len(text) < 10 {
		t.Errorf("nets and tokens in folders of their own: %q, %v", text, err)
	}
	for _, args := range [][]string{{"show", "zip"}, {"inspect", filepath.Join(place, "zip")}, {"plan", "zip"}, {"list"}} {
		text, _, err := command(t, args...)
		if err != nil || strings.Contains(text, "does not run") || !strings.Contains(text, "zip") {
			t.Errorf("%v: %v\n%s", args, err, text)
		}
	}
}

// TestTranscribeBreaksOff: an answer that ends before its last event, or with an error, is a
// failure.
func TestTranscribeBreaksOff(t *testing.T) {
	for answer, want := range map[string]string{
		"data: {\"type\":\"transcript.text.delta\",\"delta\":\"Half\"}\n\n":                   "broke off",
		"data: {\"error\":{\"message\":\"the card was lost\",\"type\":\"server_error\"}}\n\n": "the card was lost",
		"data: <html>\n\n": "not as it should be",
	} {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_ = http.NewResponseController(w).EnableFullDuplex()
				_, _ = w.Write([]byte(answer))
			}
		}))
		t.Setenv("AXLE_HOST", ts.URL)
		if _, _, err := command(t, "transcribe", "-m", "m", "transcribe_test.go"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", answer, err, want)
		}
		ts.Close()
	}
}

// murmur is a sound in which a recogniser of any weights hears something.
func murmur(seconds int) []float32 {
	samples := make([]float32, seconds*16000)
	for i := range samples {
		samples[i] = float32(i/1000%7) / 10 * float32(i%50-25) / 25
	}
	return samples
}
