package main

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/cmd/internal/sound"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal/terminaltest"
)

// TestTalk: a file with two questions is answered twice, in text and in sound, and what is wrong is
// told.
func TestTalk(t *testing.T) {
	scriptedServer(t)
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	question := audio.AppendPCM(audio.AppendWAVHeader(nil, 24000, -1), append(spoken(0.8), spoken(0.4)...))
	for name, b := range map[string][]byte{"q.wav": question, "q.txt": []byte("no sound")} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(sounds []byte, text string) {
		t.Helper()
		samples, info, err := audio.Decode(sounds, 0, audio.Limits{})
		if err != nil || info.Rate != 24000 || len(samples) < 24000 {
			t.Errorf("%d samples of sound, %+v, %v", len(samples), info, err)
		}
		lines := strings.Split(text, "\n")
		if len(lines) != 5 || !strings.HasPrefix(lines[0], "> Second 1 is 80%.") || !strings.HasPrefix(lines[2], "> Second 1 is 40%.") ||
			lines[1] != lines[3] || len(lines[1]) < 10 {
			t.Errorf("the conversation\n%s", text)
		}
	}
	out, errOut, err := axle(t, "", "talk", "scripted", "q.wav", "-o", "a.flac", "--voice", "ben", "--system", "Be brief.")
	if err != nil || errOut != "" {
		t.Fatal(err, errOut)
	}
	answer(must(t, func() ([]byte, error) { return os.ReadFile("a.flac") }), out)
	out, errOut, err = axle(t, string(question), "talk", "scripted", "-", "-o", "-", "--say", "scripted-speaking")
	if err != nil {
		t.Fatal(err)
	}
	answer([]byte(out), errOut)
	for _, c := range []struct{ args, want string }{
		{"scripted", sound.ErrNoRecorder.Error()},
		{"scripted q.wav", sound.ErrNoPlayer.Error()},
		{"", "usage: axle talk MODEL [FILE]"},
		{"nope q.wav -o x.wav", "model 'nope' not found"},
		{"scripted-embed q.wav -o x.wav", "does not support chat"},
		{"scripted q.wav -o x.wav --voice eve", `no model here has the voice "eve"`},
		{"scripted q.wav -o x.wav --say scripted-speaking --voice eve", `has no voice "eve": it has ada, ben`},
		{"scripted q.wav -o x.wav --say scripted", "does not support speech"},
		{"scripted q.wav -o x.wav --hear scripted", "does not support audio"},
		{"scripted q.wav -o x.wav --language fr", `the language "fr" is not known`},
		{"scripted q.wav -o x.mp3", "axle writes wav, flac and pcm"},
		{"scripted q.txt -o x.wav", "q.txt: audio: no sound that is read here"},
		{"scripted no.wav -o x.wav", "no such file"},
	} {
		if _, _, err := axle(t, "", append([]string{"talk"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := os.Stat("x.wav"); !os.IsNotExist(err) {
		t.Errorf("half a file is left behind: %v", err)
	}
}

// TestTalkInterrupted: with a microphone, speech ends an answer while it sounds, and the next one
// is answered. Ctrl-C ends that, and then the conversation, in order.
func TestTalkInterrupted(t *testing.T) {
	scriptedServer(t)
	dir := t.TempDir()
	quiet := make([]float32, 12000) // which ends what was said
	for name, b := range map[string][]byte{"one": audio.AppendPCM(nil, append(spoken(0.8), quiet...)),
		"two": audio.AppendPCM(nil, append(spoken(0.4), quiet...)),
		// The second question is not asked before the first answer sounds.
		"arecord": []byte("#!/bin/sh\ncd " + dir + "\n/bin/cat one\nuntil [ -s playing ]; do /bin/sleep 0.01; done\n/bin/cat two\n" +
			"exec /bin/sleep 1000\n"),
		// It takes one piece, and is not through with it.
		"aplay": []byte("#!/bin/sh\ncd " + dir + "\n/usr/bin/head -c 1000 >/dev/null\necho $$ >>playing\nexec /bin/sleep 1000\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "talk", "scripted", "--interrupt")
	cmd.Env = append(os.Environ(), "AXLE_TEST_MAIN=1", "PATH="+dir)
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewReader(out)
	line := func(want string) {
		t.Helper()
		for {
			got, err := lines.ReadString('\n')
			if err != nil {
				_ = cmd.Wait()
				t.Fatalf("%v before %q; it said %s", err, want, told.String())
			}
			if strings.Contains(got, want) {
				return
			}
		}
	}
	line("> Second 1 is 80%.")
	line("…") // the first answer is cut
	line("> Second 1 is 40%.")
	for playing := ""; strings.Count(playing, "\n") < 2; { // the second answer sounds
		b, err := os.ReadFile(filepath.Join(dir, "playing"))
		if playing = string(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	line("…")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("it went on: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v; it said %s", err, told.String())
	}
}

// TestTalkNotBegun: before there is a conversation, Ctrl-C ends the program, also where the server
// does not answer.
func TestTalkNotBegun(t *testing.T) {
	asked, ended := make(chan struct{}, 10), make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked <- struct{}{}
			<-ended
		}
	}))
	defer ts.Close()
	defer close(ended)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(exe, "talk", "scripted", "../../models/hearing/testdata/0.flac", "-o", filepath.Join(dir, "a.wav"))
	cmd.Env = append(os.Environ(), "AXLE_TEST_MAIN=1", "AXLE_HOST="+ts.URL)
	var told strings.Builder
	cmd.Stderr = &told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }).Stop()
	<-asked
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(told.String(), "interrupted") {
		t.Errorf("%v; it said %q", err, told.String())
	}
}

// TestTalkScreen: in a terminal what was heard is dim, what would act on the terminal is quoted,
// and whatever comes in between begins a line of its own.
func TestTalkScreen(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	tty := terminaltest.Open(t)
	s := newScreen(&plain.Writer{W: tty.TTY}, &plain.Writer{W: tty.TTY}, true)
	s.Ready()
	tty.Wait("Speak now.")
	s.Heard(" How")
	s.Heard(" much?")
	tty.Wait("\x1b[90m> How much?")
	s.Said("Five\x1b[2J")
	tty.Wait("\x1b[0m\r\nFive\\u001b[2J")
	s.Problem(errors.New("busy"))
	tty.Wait("\r\nError: busy\r\n")
	s.Heard(" ")
	s.Said("\nSix")
	s.End(false)
	s.End(false)
	s.leave()
	tty.Wait("Six …\r\n…\r\n\r\n")
}

// spoken is half a second in which somebody speaks as loud as that, between quiet.
func spoken(loud float64) []float32 {
	const quiet, speech = 9000, 12000
	samples := make([]float32, quiet+speech+quiet)
	for i := range speech {
		samples[quiet+i] = float32(loud * math.Sin(float64(i)/10))
	}
	return samples
}
