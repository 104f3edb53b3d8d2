//go:build !scripted

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/internal/lane"
)

// TestRealtime: the program finds two turns in what comes to a session and writes them down with
// the recogniser inside, on a card in software; it ends in order while the session is still there.
func TestRealtime(t *testing.T) {
	lane.NoRace(t)
	said, err := os.ReadFile("../../models/hearing/testdata/said.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(said), "\n")[:2]
	quiet := make([]float32, 24000)
	sound := quiet
	for _, name := range []string{"0", "1"} {
		b, err := os.ReadFile("../../models/hearing/testdata/" + name + ".flac")
		if err != nil {
			t.Fatal(err)
		}
		speech, _, err := audio.Decode(b, 24000, audio.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		sound = append(append(sound, speech...), quiet...)
	}

	addr := freeAddr(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	cmd := exec.Command(exe, "serve", "--device", "soft")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AXLE_TEST_MAIN=1", "AXLE_HOST=" + addr,
		"AXLE_MODELS=" + t.TempDir()}
	cmd.Stdout, cmd.Stderr = &told, &told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var c *websocket.Conn
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if c, _, err = websocket.Dial(ctx, "ws://"+addr+"/v1/realtime?intent=transcription", nil); err == nil {
			break
		}
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatalf("%v; it said\n%s", <-gone, told.String())
		}
	}
	defer func() { _ = c.CloseNow() }()
	for len(sound) > 0 {
		n := min(len(sound), 1000)
		e := `{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(audio.AppendPCM(nil, sound[:n])) + `"}`
		if err := c.Write(ctx, websocket.MessageText, []byte(e)); err != nil {
			t.Fatal(err)
		}
		sound = sound[n:]
	}
	var got []string
	for len(got) < 2 {
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("%v; it said\n%s", err, told.String())
		}
		var e struct{ Type, Transcript string }
		if err := json.Unmarshal(b, &e); err != nil || e.Type == "error" || strings.HasSuffix(e.Type, ".failed") {
			t.Fatalf("%s", b)
		}
		if strings.HasSuffix(e.Type, ".completed") {
			got = append(got, e.Transcript)
		}
	}
	for i := range got {
		if _, said, _ := strings.Cut(want[i], "\t"); got[i] != said {
			t.Errorf("it wrote %q, and %q was said", got[i], said)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	for err == nil {
		_, _, err = c.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the end: %v", err)
	}
	if err := <-gone; err != nil || t.Failed() {
		t.Errorf("the server ended with %v; it said\n%s", err, told.String())
	}
}
