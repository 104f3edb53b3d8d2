//go:build !scripted

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWyoming: the program answers a satellite with the text that it writes of the same sound in a
// file, and ends in order while the satellite is still there. One address may be both ports'.
func TestWyoming(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	if err := (modelstest.SenseVoice{Seed: 1, Layout: "Axera"}).Write(filepath.Join(place, "sense")); err != nil {
		t.Fatal(err)
	}
	samples := murmur(3)
	pcm := audio.AppendPCM(nil, samples)
	file := filepath.Join(place, "a.wav")
	if err := os.WriteFile(file, append(audio.AppendWAVHeader(nil, 16000, -1), pcm...), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	want, _, err := command(t, "transcribe", file)
	if err != nil {
		t.Fatal(err)
	}

	addr := freeAddr(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(exe, "serve", "--device", "soft", "--wyoming", addr, "--wyoming-say", addr)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AXLE_TEST_MAIN=1", "AXLE_HOST=" + freeAddr(t),
		"AXLE_MODELS=" + t.TempDir(), "AXLE_MODEL_PATH=" + place}
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	var c net.Conn
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if c, err = net.Dial("tcp", addr); err == nil {
			break
		}
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatalf("%v; it said\n%s", <-gone, said.String())
		}
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(c)
	const format = `"data":{"rate":16000,"width":2,"channels":1}`
	fmt.Fprintf(c, "{\"type\":\"describe\"}\n")
	if kind, data := wyomingEvent(t, in); kind != "info" || !strings.Contains(data, `"name":"sense:latest"`) ||
		!strings.Contains(data, `"languages":["en","ja","ko","yue","zh"]`) || !strings.Contains(data, `"version":"`+version+`"`) {
		t.Errorf("%s %s", kind, data)
	}
	fmt.Fprintf(c, "{\"type\":\"transcribe\"}\n{\"type\":\"audio-start\",%s}\n", format)
	for len(pcm) > 0 {
		n := min(len(pcm), 2048)
		fmt.Fprintf(c, "{\"type\":\"audio-chunk\",%s,\"payload_length\":%d}\n%s", format, n, pcm[:n])
		pcm = pcm[n:]
	}
	fmt.Fprintf(c, "{\"type\":\"audio-stop\"}\n")
	kind, data := wyomingEvent(t, in)
	for kind == "transcript-start" || kind == "transcript-chunk" {
		kind, data = wyomingEvent(t, in)
	}
	var got struct{ Text string }
	if err := json.Unmarshal([]byte(data), &got); err != nil || kind != "transcript" || got.Text != strings.TrimSpace(want) {
		t.Errorf("%s %s, %v: axle transcribe says %q", kind, data, err, want)
	}
	if kind, data = wyomingEvent(t, in); kind != "transcript-stop" {
		t.Errorf("%s %s", kind, data)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if b, err := io.ReadAll(in); err != nil || len(b) > 0 {
		t.Errorf("the end: %q, %v", b, err)
	}
	if err := <-gone; err != nil || t.Failed() {
		t.Errorf("the server ended with %v; it said\n%s", err, said.String())
	}
}

// wyomingEvent is the next event, and its data.
func wyomingEvent(t *testing.T, in *bufio.Reader) (kind, data string) {
	t.Helper()
	line, err := in.ReadBytes('\n')
	var h struct {
		Type string `json:"type"`
		Len  int    `json:"data_length"`
	}
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	b := make([]byte, h.Len)
	if err == nil {
		_, err = io.ReadFull(in, b)
	}
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return h.Type, string(b)
}
