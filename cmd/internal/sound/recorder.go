package sound

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// ErrNoRecorder is that none of the programs is here that could record a sound.
var ErrNoRecorder = errors.New("no recorder is here: install arecord (alsa-utils), parec (pulseaudio-utils), rec (sox), " +
	"pw-record (pipewire) or ffmpeg, or give the sound as a file or a pipe")

// ErrRecorder is that the program that recorded ended.
var ErrRecorder = errors.New("the microphone ended")

// recorders are the programs that record, those first that work on most machines. All write raw
// samples to a pipe, and are told to write them soon where they would not by themselves.
var recorders = []program{
	{"arecord", "-q -t raw -f S16_LE -c 1 -r RATE"},
	{"parec", "--raw --format=s16le --channels=1 --rate=RATE --latency-msec=50"},
	{"rec", "-q --buffer 2048 -t raw -e signed -b 16 -c 1 -r RATE -"},
	{"pw-record", "--raw --format s16 --channels 1 --rate RATE -"}, // before PipeWire 1 it wrote no raw samples
	{"ffmpeg", "-nostdin -loglevel error " + microphone() + " -ac 1 -ar RATE -f s16le -"},
}

// microphone is what ffmpeg calls it.
func microphone() string {
	if runtime.GOOS == "darwin" {
		return "-f avfoundation -i :default"
	}
	return "-f alsa -i default"
}

// A Recorder reads samples from a microphone, with a program of this machine. Close may be called
// while another goroutine reads.
type Recorder struct {
	path   string
	cancel context.CancelFunc
	pipe   *os.File
	done   chan struct{}
	ended  error // once done is closed
}

// NewRecorder starts a program that records until Close. Errors: ErrNoRecorder, and that the
// program did not start.
func NewRecorder(rate int) (*Recorder, error) {
	path, args := first(recorders)
	if path == "" {
		return nil, ErrNoRecorder
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{path: path, cancel: cancel, pipe: in, done: make(chan struct{})}
	var said beginning
	cmd := command(ctx, path, &said, strings.Fields(strings.ReplaceAll(args, "RATE", strconv.Itoa(rate)))...)
	cmd.Stdout = out
	err = cmd.Start()
	_ = out.Close() // the program has its own
	if err != nil {
		cancel()
		return nil, errors.Join(err, in.Close())
	}
	go func() {
		defer close(r.done)
		r.ended = ended(path, cmd.Wait(), strings.TrimSpace(string(said)))
	}()
	return r, nil
}

// Read reads raw PCM of 16 bits. Where the program has ended it fails with ErrRecorder, which wraps
// why.
func (r *Recorder) Read(p []byte) (int, error) {
	n, err := r.pipe.Read(p)
	if err == nil {
		return n, nil
	}
	select {
	case <-r.done:
	case <-time.After(time.Second): // it has closed its output only
		r.cancel()
		<-r.done
	}
	return n, r.ended
}

// Close ends the program, and waits for its end.
func (r *Recorder) Close() error {
	r.cancel()
	<-r.done
	return r.pipe.Close()
}

// ended is why a program that recorded has ended, with its own words.
func ended(path string, err error, said string) error {
	if err != nil {
		path += ": " + err.Error()
	}
	if said != "" {
		path += ": " + said
	}
	return fmt.Errorf("%w: %s; the sound may also come from a file or a pipe", ErrRecorder, path)
}
