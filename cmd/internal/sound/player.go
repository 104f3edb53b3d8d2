package sound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoPlayer is that none of the programs is here that could play a sound.
var ErrNoPlayer = errors.New("no player is here: install aplay (alsa-utils), pw-play, paplay, afplay or ffplay, " +
	"or write the sound to a file with -o FILE")

// players are the programs that play, those first that begin soonest. All read raw samples from a
// pipe, but for afplay, which wants a file.
var players = []program{
	{"aplay", "-q -t raw -f S16_LE -c 1 -r RATE -"},
	{"pw-play", "--raw --format s16 --channels 1 --rate RATE -"},
	{"paplay", "--raw --format=s16le --channels=1 --rate=RATE"},
	{"afplay", "FILE"},
	{"ffplay", "-nodisp -autoexit -loglevel error -f s16le -sample_rate RATE -i -"},
}

// program is one that plays or records.
type program struct {
	name string
	args string // RATE is the samples a second, FILE a wav
}

// first is the first program of a list that is here; an empty path: none is.
func first(list []program) (path, args string) {
	for _, p := range list {
		if path, err := exec.LookPath(p.name); err == nil {
			return path, p.args
		}
	}
	return "", ""
}

// command makes a command whose end does not wait for what a script among the programs leaves
// behind. It is of a group of its own: Ctrl-C in the terminal is ours to answer, and what ends it
// ends a script's children too.
func command(ctx context.Context, path string, said *beginning, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, path, args...)
	c.Stderr = said
	c.WaitDelay = time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// A Player plays samples with a program of this machine.
type Player struct {
	path, args string
	cmd        *exec.Cmd // nil: it was not started
	pipe       io.WriteCloser
	said       beginning // on stderr
	file       *os.File  // nil: it reads a pipe
	encoder    Encoder
	rate       int
}

// NewPlayer finds a program. Errors: ErrNoPlayer.
func NewPlayer() (*Player, error) {
	path, args := first(players)
	if path == "" {
		return nil, ErrNoPlayer
	}
	return &Player{path: path, args: args}, nil
}

// Add plays samples: raw PCM of 16 bits. It returns when the program has taken them, and fails when
// that has ended.
func (p *Player) Add(ctx context.Context, pcm []byte, rate int) error {
	if p.rate == 0 {
		p.rate = rate
		if err := p.begin(ctx); err != nil {
			return err
		}
	}
	if p.file != nil {
		return p.encoder.Add(pcm, rate)
	}
	switch _, err := p.pipe.Write(pcm); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default: // unless Close finds out why: a window was closed, for example
		return fmt.Errorf("%s ended before the sound: %w", p.path, err)
	}
}

func (p *Player) begin(ctx context.Context) (err error) {
	if strings.Contains(p.args, "FILE") {
		if p.file, err = os.CreateTemp("", "axle-*.wav"); err == nil {
			p.encoder = Encoder{W: p.file, Format: "wav"}
		}
		return err
	}
	p.cmd = command(ctx, p.path, &p.said, strings.Fields(strings.ReplaceAll(p.args, "RATE", strconv.Itoa(p.rate)))...)
	if p.pipe, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.cmd = nil
	}
	return err
}

// Close waits until everything that was added is played. It returns why the program failed, which
// is then why Add did.
func (p *Player) Close(ctx context.Context) (err error) {
	if p.file != nil {
		defer func() { _ = os.Remove(p.file.Name()) }()
		err = p.encoder.End(p.rate, p.file)
		if err = errors.Join(err, p.file.Close()); err != nil {
			return err
		}
		p.cmd = command(ctx, p.path, &p.said, p.file.Name())
		if err := p.cmd.Start(); err != nil {
			return err
		}
	}
	if p.cmd == nil {
		return nil
	}
	if p.pipe != nil {
		_ = p.pipe.Close()
	}
	if err = p.cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended well, and left something behind
	}
	switch said := strings.TrimSpace(string(p.said)); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && said != "":
		return fmt.Errorf("%s: %w: %s; -o FILE writes the sound to a file", p.path, err, said)
	case err != nil:
		return fmt.Errorf("%s: %w; -o FILE writes the sound to a file", p.path, err)
	}
	return nil
}

// beginning is the first kilobyte of what is written to it.
type beginning []byte

func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), 1024-len(*b))]...)
	return len(p), nil
}
