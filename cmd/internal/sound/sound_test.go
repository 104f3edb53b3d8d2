package sound_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/cmd/internal/sound"
)

// TestEncoder: what is written reads back to the bit, to a pipe and to a file, and a file knows its
// length, as the one that is written at once does.
func TestEncoder(t *testing.T) {
	samples := make([]float32, 10000)
	for i := range samples {
		samples[i] = float32(i%2000-1000) / (1 << 15)
	}
	pcm := audio.AppendPCM(nil, samples)
	whole := map[string][]byte{"pcm": pcm, "wav": append(audio.AppendWAVHeader(nil, 24000, len(samples)), pcm...),
		"flac": audio.AppendFLAC(nil, samples, 24000)}
	for _, format := range sound.Formats {
		var pipe bytes.Buffer
		f, err := os.Create(filepath.Join(t.TempDir(), "a"))
		if err != nil {
			t.Fatal(err)
		}
		toPipe, toFile := sound.Encoder{W: &pipe, Format: format}, sound.Encoder{W: f, Format: format}
		for _, piece := range [][]byte{pcm[:2], pcm[2:9000], nil, pcm[9000:]} {
			if err := errors.Join(toPipe.Add(piece, 24000), toFile.Add(piece, 24000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(toPipe.End(24000, nil), toFile.End(24000, f), f.Close()); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(file, whole[format]) {
			t.Errorf("%s: a file of %d bytes, want %d; %v", format, len(file), len(whole[format]), err)
		}
		if format == "pcm" {
			if !bytes.Equal(pipe.Bytes(), pcm) {
				t.Errorf("pcm: %d bytes", pipe.Len())
			}
			continue
		}
		got, info, err := audio.Decode(pipe.Bytes(), 0, audio.Limits{})
		if err != nil || info.Rate != 24000 || !slices.Equal(audio.AppendPCM(nil, got), pcm) {
			t.Errorf("%s: %d samples, %+v, %v", format, len(got), info, err)
		}
	}
	if err := (&sound.Encoder{W: new(bytes.Buffer), Format: "mp3"}).Add(pcm, 24000); err == nil {
		t.Error("mp3 was written")
	}
}

// TestPlayer: the first program that is here is given the samples, through a pipe or as a file.
func TestPlayer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := sound.NewPlayer(); !errors.Is(err, sound.ErrNoPlayer) {
		t.Errorf("none is here: %v", err)
	}
	pcm := audio.AppendPCM(nil, make([]float32, 12345))
	for _, tt := range []struct{ name, args string }{ // those later in the list of players first
		{"ffplay", "-nodisp -autoexit -loglevel error -f s16le -sample_rate 24000 -i -"},
		{"afplay", ""},
		{"paplay", "--raw --format=s16le --channels=1 --rate=24000"},
		{"pw-play", "--raw --format s16 --channels 1 --rate 24000 -"},
		{"aplay", "-q -t raw -f S16_LE -c 1 -r 24000 -"},
	} {
		program(t, dir, tt.name, `echo "$@" >"$0.args"; if [ -f "$1" ]; then exec /bin/cat "$1" >"$0.in"; fi; exec /bin/cat >"$0.in"`)
		p, err := sound.NewPlayer()
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range [][]byte{pcm[:10000], pcm[10000:]} {
			if err := p.Add(t.Context(), piece, 24000); err != nil {
				t.Fatal(tt.name, err)
			}
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(tt.name, err)
		}
		args, _ := os.ReadFile(filepath.Join(dir, tt.name+".args"))
		in, _ := os.ReadFile(filepath.Join(dir, tt.name+".in"))
		want := pcm
		if tt.name == "afplay" {
			want = append(audio.AppendWAVHeader(nil, 24000, len(pcm)/2), pcm...)
			if _, err := os.Stat(strings.TrimSpace(string(args))); !os.IsNotExist(err) {
				t.Errorf("its file is left behind: %v", err)
			}
		} else if strings.TrimSpace(string(args)) != tt.args {
			t.Errorf("%s: called with %s", tt.name, args)
		}
		if !bytes.Equal(in, want) {
			t.Errorf("%s: it was given %d bytes, want %d", tt.name, len(in), len(want))
		}
	}
}

// TestPlayerFails: a program that ends early is why it took no more, and its words are told; one
// that is interrupted ends.
func TestPlayerFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program(t, dir, "aplay", "echo 'audio open error: No such file or directory' >&2; exit 1")
	p, err := sound.NewPlayer()
	for err == nil {
		err = p.Add(t.Context(), make([]byte, 4096), 24000)
	}
	if err := p.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "aplay: exit status 1: audio open error") ||
		!strings.Contains(err.Error(), "-o FILE writes the sound to a file") {
		t.Errorf("its error: %v", err)
	}
	program(t, dir, "aplay", "exit 0") // its window was closed, for example
	p, err = sound.NewPlayer()
	for err == nil {
		err = p.Add(t.Context(), make([]byte, 4096), 24000)
	}
	if closed := p.Close(t.Context()); closed != nil || !strings.Contains(err.Error(), "aplay ended before the sound: ") {
		t.Errorf("one that ends early: %v, then %v", err, closed)
	}
	program(t, dir, "aplay", `/bin/sleep 1000 & echo $! >"$0.pid"; exec /bin/cat >/dev/null`) // something stays, with its stderr
	if p, err = sound.NewPlayer(); err == nil {
		err = p.Add(t.Context(), make([]byte, 10), 24000)
	}
	if err := errors.Join(err, p.Close(t.Context())); err != nil {
		t.Errorf("one that leaves something behind: %v", err)
	}
	pid := 0
	if b, err := os.ReadFile(filepath.Join(dir, "aplay.pid")); err != nil {
		t.Error(err)
	} else if _, err := fmt.Sscan(string(b), &pid); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	program(t, dir, "aplay", "exec /bin/sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	if p, err = sound.NewPlayer(); err == nil {
		err = p.Add(ctx, make([]byte, 10), 24000)
	}
	cancel()
	if err := errors.Join(err, p.Close(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if p, err = sound.NewPlayer(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("one that played nothing: %v", err)
	}
}

// program writes a script that stands for a player.
func program(t *testing.T, dir, name, does string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n%s\n", does), 0o755); err != nil {
		t.Fatal(err)
	}
}
