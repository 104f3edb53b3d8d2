package sound_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/cmd/internal/sound"
)

// TestRecorder: the first program that is here gives the samples, and is gone after Close. One that
// ends is told with its words.
func TestRecorder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := sound.NewRecorder(24000); !errors.Is(err, sound.ErrNoRecorder) {
		t.Errorf("none is here: %v", err)
	}
	for _, tt := range []struct{ name, args string }{ // those later in the list of recorders first
		{"ffmpeg", "-ac 1 -ar 24000 -f s16le -"},
		{"pw-record", "--raw --format s16 --channels 1 --rate 24000 -"},
		{"rec", "-q --buffer 2048 -t raw -e signed -b 16 -c 1 -r 24000 -"},
		{"parec", "--raw --format=s16le --channels=1 --rate=24000 --latency-msec=50"},
		{"arecord", "-q -t raw -f S16_LE -c 1 -r 24000"},
	} {
		program(t, dir, tt.name, `echo "$@" >"$0.args"; echo samples; /bin/sleep 1000; echo more`)
		r, err := sound.NewRecorder(24000)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 8)
		if _, err := io.ReadFull(r, b); err != nil || string(b) != "samples\n" {
			t.Errorf("%s: it recorded %q, %v", tt.name, b, err)
		}
		ended := make(chan error)
		go func() {
			_, err := r.Read(b)
			ended <- err
		}()
		if err := r.Close(); err != nil {
			t.Error(tt.name, err)
		}
		if err := <-ended; err == nil {
			t.Errorf("%s: a read after its end", tt.name)
		}
		if args, _ := os.ReadFile(filepath.Join(dir, tt.name+".args")); !strings.HasSuffix(strings.TrimSpace(string(args)), tt.args) {
			t.Errorf("%s: called with %s", tt.name, args)
		}
	}
	for does, want := range map[string]string{
		"echo 'audio open error: No such file or directory' >&2; exit 1": "arecord: exit status 1: audio open error: No such file",
		"exit 0":                              "arecord; the sound may also come",
		"exec >&- 2>&-; exec /bin/sleep 1000": "arecord: signal: killed; the sound", // which has closed its output only
	} {
		program(t, dir, "arecord", does)
		r, err := sound.NewRecorder(24000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); !errors.Is(err, sound.ErrRecorder) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", does, err, want)
		}
		_ = r.Close()
	}
}

// TestLive: sounds are played one after the other as they come, each by a program of its own, and
// Add does not wait for it.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := sound.NewLive(24000); !errors.Is(err, sound.ErrNoPlayer) {
		t.Errorf("none is here: %v", err)
	}
	program(t, dir, "aplay", `exec /bin/cat >"$0.in"`)
	l, err := sound.NewLive(24000)
	if err != nil {
		t.Fatal(err)
	}
	l.End() // of nothing
	for n := range 3 {
		pcm := bytes.Repeat([]byte{byte(n), 1}, 100000*n+1)
		if err := errors.Join(l.Add(pcm[:2]), l.Add(pcm[2:]), l.Add(nil)); err != nil {
			t.Fatal(err)
		}
		l.End()
		if err := <-l.Played(); err != nil {
			t.Error(err)
		}
		if left := l.Stop(); n == 2 && left == 0 { // by the clock: cat has no ears
			t.Error("four seconds were over at once")
		}
		if got, err := os.ReadFile(filepath.Join(dir, "aplay.in")); err != nil || !bytes.Equal(got, pcm) {
			t.Errorf("%d bytes were played, want %d; %v", len(got), len(pcm), err)
		}
	}
}

// TestLiveGoesOn: what comes when all before it was taken is played too. A sound that was heard
// owes nothing, also where that was not looked at.
func TestLiveGoesOn(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program(t, dir, "aplay", `exec /bin/cat >"$0.in"`)
	l, err := sound.NewLive(24000)
	if err != nil {
		t.Fatal(err)
	}
	pcm := bytes.Repeat([]byte{1, 2}, 48000)
	if err := l.Add(pcm[:2]); err != nil {
		t.Fatal(err)
	}
	played := func() (n int64) {
		if i, err := os.Stat(filepath.Join(dir, "aplay.in")); err == nil {
			n = i.Size()
		}
		return n
	}
	for end := time.Now().Add(10 * time.Second); played() < 2 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if err := l.Add(pcm[2:]); err != nil {
		t.Fatal(err)
	}
	l.End()
	for end := time.Now().Add(10 * time.Second); len(l.Played()) == 0 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if left := l.Stop(); left != 0 || len(l.Played()) > 0 || played() != int64(len(pcm)) {
		t.Errorf("%v are not heard, and %d of %d bytes were played", left, played(), len(pcm))
	}
}

// TestLiveStopsAll: once a sound was stopped its program is gone, with those that it started.
func TestLiveStopsAll(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	name := filepath.Join(dir, "held")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, dir, "aplay", `exec 3>`+name+`; /bin/sh -c 'echo $PPID >&3; exec /bin/sleep 1000'; /bin/cat`)
	l, err := sound.NewLive(24000)
	if err == nil {
		err = l.Add(make([]byte, 4800))
	}
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(name) // ends when all who have it are gone
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	pid := 0
	if _, err := fmt.Fscan(held, &pid); err != nil {
		t.Fatal(err)
	}
	l.Stop()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program: %v", err)
	}
	if err := held.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(held); err != nil {
		t.Errorf("what it started goes on: %v", err)
	}
}

// TestLiveStops: a sound ends at once, whatever the player does with it, and nothing of it is heard
// when the next begins. One that is too long is refused.
func TestLiveStops(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program(t, dir, "aplay", `/bin/sleep 1000; /bin/cat`)
	l, err := sound.NewLive(24000)
	if err != nil {
		t.Fatal(err)
	}
	if left := l.Stop(); left != 0 {
		t.Errorf("%v of nothing were not heard", left)
	}
	begun := time.Now()
	for range 2 {
		if err := l.Add(make([]byte, 48000*100)); err != nil {
			t.Fatal(err)
		}
		if left := l.Stop(); left > 100*time.Second || left < 100*time.Second-time.Since(begun) {
			t.Errorf("%v of 100 s were not heard", left)
		}
	}
	for n := 0; err == nil; n++ {
		if err = l.Add(make([]byte, 48000*100)); n > 6 {
			t.Fatal("more than ten minutes were taken")
		}
	}
	if !strings.Contains(err.Error(), "more than ten minutes of sound") {
		t.Error(err)
	}
	l.Stop()
	program(t, dir, "aplay", `echo 'no such card' >&2; exit 1`)
	if err := l.Add(make([]byte, 48000)); err != nil {
		t.Fatal(err)
	}
	l.End()
	if err := <-l.Played(); err == nil || !strings.Contains(err.Error(), "no such card") {
		t.Errorf("a player that fails: %v", err)
	}
	l.Stop()
}
