package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/cmd/internal/sound"
)

// TestSay: a text of the command line or of a pipe is written to files and pipes and played, and
// what is wrong is told.
func TestSay(t *testing.T) {
	scriptedServer(t)
	t.Chdir(t.TempDir())
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(must(t, os.Getwd), "bin"))
	const tenth = 2400 // samples, and a word; a sentence ends with half of that
	for _, tt := range []struct {
		stdin, args, file, begins string
		samples                   int
	}{
		{"", "-o a.wav One two. Three four five.", "a.wav", "RIFF\xa4\x70\x00\x00WAVEfmt ", 6 * tenth},
		{"One two. Three four five.\n", "-o b", "b", "RIFF", 6 * tenth},
		{"", "One -o c.flac -s 2", "c.flac", "fLaC", 3 * tenth / 4},
		{"", "One -f flac -o d.wav --voice ben", "d.wav", "fLaC", 3 * tenth / 2},
		{"One.", "-o - -m scripted-speaking", "", "RIFF", 3 * tenth / 2},
		{"One two. Three.", "-o - -f flac", "", "fLaC", 4 * tenth},
	} {
		out, errOut, err := axle(t, tt.stdin, append([]string{"say"}, strings.Fields(tt.args)...)...)
		if err != nil {
			t.Errorf("%s: %v %s", tt.args, err, errOut)
			continue
		}
		if tt.file != "" {
			out = string(must(t, func() ([]byte, error) { return os.ReadFile(tt.file) }))
		}
		samples, info, err := audio.Decode([]byte(out), 0, audio.Limits{})
		if err != nil || info.Rate != 24000 || len(samples) != tt.samples || !strings.HasPrefix(out, tt.begins) {
			t.Errorf("%s: %d samples, %+v, %v: %q", tt.args, len(samples), info, err, out[:min(len(out), 16)])
		}
	}
	if out, _, err := axle(t, "", "say", "-f", "pcm", "-o", "-", "One"); err != nil || len(out) != 2*3*tenth/2 {
		t.Errorf("pcm: %d bytes, %v", len(out), err)
	}
	if out, _, err := axle(t, "", "say", "--voices", "-m", "scripted-speaking"); err != nil ||
		!strings.Contains(out, "ben      en-GB       scripted-speaking:latest") {
		t.Errorf("voices: %q, %v", out, err)
	}
	for _, c := range []struct{ args, want string }{
		{"One", sound.ErrNoPlayer.Error()},
		{"", "there is no text to say"},
		{"--speed 5 One", "--speed must be between 0.25 and 4"},
		{"--format mp3 -o x One", "--format must be one of wav, flac, pcm"},
		{"--format wav One", "--format is that of a file"},
		{"-o x.mp3 One", "-o x.mp3: axle writes wav, flac and pcm"},
		{"-o no/x.wav One", "no such file"},
		{"--voices One", "takes no text"},
		{"--voices -m nope", "model 'nope' not found"},
		{"-o x.wav -v eve One", `voice "eve" is not known: the model has ada, ben`},
		{"-o x.wav -m scripted One", "does not support speech"},
		{"-o x.wav One two. [[err:503:gone]] Three", "the answer broke off"},
	} {
		if _, _, err := axle(t, " \n", append([]string{"say"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	for _, in := range []string{"Gr\xfc\xdfe.", "\x7fELF\x02\x01\x80"} {
		if _, _, err := axle(t, in, "say", "-o", "x.wav"); err == nil || !strings.Contains(err.Error(), "no text in UTF-8") {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := os.Stat("x.wav"); !os.IsNotExist(err) {
		t.Errorf("half a file is left behind: %v", err)
	}
	if err := os.WriteFile("bin/aplay", []byte("#!/bin/sh\nexec /bin/cat >played\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, errOut, err := axle(t, "", "say", "One", "two.", "Three."); err != nil {
		t.Errorf("it is not played: %v %s", err, errOut)
	}
	if b := must(t, func() ([]byte, error) { return os.ReadFile("played") }); len(b) != 2*4*tenth {
		t.Errorf("%d bytes were played", len(b))
	}
}

// TestSayAsItComes: what has come of a sound is played while its rest is still to be computed, and
// one that breaks off is a failure.
func TestSayAsItComes(t *testing.T) {
	played := make(chan int)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		_, _ = w.Write(audio.AppendWAVHeader(nil, 24000, -1))
		for n := range 2 {
			_, _ = w.Write(make([]byte, 1000+n)) // the second is no whole number of samples
			_ = http.NewResponseController(w).Flush()
			if got := <-played; got != 1000 {
				t.Errorf("%d bytes of piece %d were played", got, n)
			}
		}
		panic(http.ErrAbortHandler)
	}))
	defer ts.Close()
	conn := client.New(must(t, func() (*url.URL, error) { return url.Parse(ts.URL) }), "")
	total := 0
	err := conn.Say(t.Context(), client.Text{Model: "m", Text: "x"}, func(pcm []byte, rate int) error {
		if total += len(pcm); rate != 24000 || len(pcm)%2 > 0 {
			t.Errorf("%d bytes, rate %d", len(pcm), rate)
		}
		if total%1000 == 0 {
			played <- 1000
		}
		return nil
	})
	if !errors.Is(err, client.ErrBrokeOff) || total != 2000 {
		t.Errorf("%d bytes, %v", total, err)
	}
}

// TestSayParts: a long text is cut into requests where sentences end, and nothing of it is lost.
func TestSayParts(t *testing.T) {
	for _, text := range []string{"Short.", strings.Repeat("A sentence of words. ", 500), strings.Repeat("words ", 2000),
		strings.Repeat("ä", 10000), "a.\n" + strings.Repeat("ü ", 5000), " \n"} {
		var all strings.Builder
		n := 0
		for p := range parts(text) {
			if n++; utf8.RuneCountInString(p) > maxSaid || !utf8.ValidString(p) {
				t.Errorf("a part of %d characters of %.20q", utf8.RuneCountInString(p), text)
			}
			if strings.HasPrefix(text, "A sentence") && !strings.HasSuffix(p, ". ") {
				t.Errorf("a part ends in the middle of a sentence: %q", p[len(p)-20:])
			}
			all.WriteString(p)
		}
		if all.String() != text && strings.TrimSpace(text) != "" {
			t.Errorf("%d of %d bytes are left of %.20q", all.Len(), len(text), text)
		}
	}
}

func must[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	v, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return v
}
