package wyoming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/body"
)

const (
	sixteen = `"data":{"rate":16000,"width":2,"channels":1}`
	start   = `{"type":"audio-start",` + sixteen + "}\n"
	stop    = `{"type":"audio-stop"}` + "\n"
)

// TestServe: each request and each answer, as they are on the wire.
func TestServe(t *testing.T) {
	heard := func(data string) string {
		var t struct{ Text string }
		_ = json.Unmarshal([]byte(data), &t)
		return of("transcript-start", "{}") + of("transcript-chunk", fmt.Sprintf(`{"text":%q}`, t.Text)) + of("transcript", data) +
			of("transcript-stop", "{}")
	}
	attributed := `"attribution":{"name":"axle","url":"https://github.com/axle-llm/axle"},"installed":true,"description":`
	for name, tt := range map[string]struct{ in, want string }{
		"describe": {`{"type":"describe"}` + "\n", of("info", `{"asr":[{"name":"axle",`+attributed+
			`"Speech recognition on an Axera card","version":"1","models":[{"name":"ears:latest",`+attributed+
			`"Ears","version":"1","languages":["en","de"]}],"supports_transcript_streaming":true}]}`)},
		"ping":       {`{"type":"ping","data":{"text":"a"}}` + "\n", of("pong", `{"text":"a"}`)},
		"empty ping": {`{"type":"ping"}` + "\n", of("pong", `{}`)},
		"speech": {`{"type":"transcribe","data":{"name":"ears","language":"de-AT"}}` + "\n" + start + chunk(1600) + chunk(800) + stop,
			heard(`{"text":"ears de 2400","language":"de"}`)},
		"data behind the line": {`{"type":"transcribe","data_length":17}` + "\n" + `{"language":"en"}` + start + chunk(1) + stop,
			heard(`{"text":" en 1","language":"en"}`)},
		"no transcribe": {start + chunk(10) + stop, heard(`{"text":"  10"}`)},
		"no start":      {chunk(10) + stop, heard(`{"text":"  10"}`)},
		"no sound":      {start + stop, heard(`{"text":"  0"}`)},
		"two sounds": {`{"type":"transcribe","data":{"name":"a"}}` + "\n" + start + chunk(1) + stop + start + chunk(2) + stop,
			heard(`{"text":"a  1"}`) + heard(`{"text":"  2"}`)},
		"a chunk that says no format": {start + `{"type":"audio-chunk","payload_length":2}` + "\n\x00\x01" + stop,
			heard(`{"text":"  1"}`)},
		"unknown events": {`{"type":"run-pipeline","data":{"x":[1]},"payload_length":3}` + "\nabc" + `{"type":"ping"}` + "\n", of("pong", `{}`)},

		"an unknown model": {`{"type":"transcribe","data":{"name":"none"}}` + "\n" + start + chunk(1) + stop,
			of("error", `{"text":"model 'none' not found","code":"not-found"}`)},
		"stop alone": {stop, of("error", `{"text":"audio-stop came before any sound: send audio-start first","code":"bad-request"}`)},
		"no rate": {`{"type":"audio-start"}` + "\n" + chunk(1) + stop + start + stop,
			of("error", `{"text":"a rate of 0 samples a second: send from 8000 to 192000","code":"bad-request"}`) + heard(`{"text":"  0"}`)},
		"a width": {`{"type":"audio-start","data":{"rate":16000,"width":8,"channels":1}}` + "\n",
			of("error", `{"text":"samples of 8 bytes: send 1, 2, 3 or 4","code":"bad-request"}`)},
		"channels": {`{"type":"audio-start","data":{"rate":16000,"width":1,"channels":-1}}` + "\n",
			of("error", `{"text":"-1 channels: send from 1 to 32","code":"bad-request"}`)},
		"another format in the middle": {start + chunk(1) + strings.Replace(chunk(1), "16000", "8000", 1) + chunk(1) + stop + start + stop,
			of("error", `{"text":"the sound's format changed in the middle of it","code":"bad-request"}`) + heard(`{"text":"  0"}`)},
		"a start in the middle": {start + chunk(1) + start + chunk(2) + stop,
			of("error", `{"text":"audio-start came in the middle of a sound: audio-stop ends one","code":"bad-request"}`) +
				heard(`{"text":"  2"}`)},
		"data of another kind": {`{"type":"ping","data":{"text":7}}` + "\n" + stop,
			of("error", `{"text":"the data of \"ping\" cannot be read: json: cannot unmarshal number into Go struct field .text of type string",`+
				`"code":"bad-request"}`) +
				of("error", `{"text":"audio-stop came before any sound: send audio-start first","code":"bad-request"}`)},
		"a page": {"POST / HTTP/1.1\r\n\r\n" + `{"type":"ping"}` + "\n",
			of("error", `{"text":"an event's line is no JSON object: invalid character 'P' looking for beginning of value","code":"bad-request"}`)},
		"huge": {start + `{"type":"audio-chunk","payload_length":99999999}` + "\n",
			of("error", `{"text":"the payload of \"audio-chunk\" has 99999999 bytes: at most 1048576 are read","code":"too-large"}`)},
		"a busy server": {`{"type":"transcribe","data":{"name":"busy"}}` + "\n" + start + stop,
			of("error", `{"text":"busy","code":"unavailable"}`)},
		"a fault": {`{"type":"transcribe","data":{"name":"fault"}}` + "\n" + start + stop, of("error", `{"text":"a fault","code":"internal"}`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, t.Context(), &ears{})
			c.write(tt.in)
			if got := c.quiet(); got != tt.want {
				t.Errorf("%s:\n%s\nwant:\n%s", name, got, tt.want)
			}
		})
	}
}

// TestTextStreams: text is sent while its sound still comes, and all of it at the end; a sound
// without words has an answer too.
func TestTextStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{})
		c.write(`{"type":"transcribe","data":{"name":"parts"}}` + "\n" + start + chunk(1000))
		kinds := func() (out []string) {
			for r := NewReader(strings.NewReader(c.quiet())); ; {
				e, err := r.Next()
				if err != nil {
					return out
				}
				var data struct{ Text string }
				_ = e.Into(&data)
				out = append(out, strings.TrimSpace(e.Type+" "+data.Text))
			}
		}
		if got, want := kinds(), []string{"transcript-start", "transcript-chunk 1000"}; !slices.Equal(got, want) {
			t.Errorf("at first: %q, want %q", got, want)
		}
		c.write(chunk(1000) + stop)
		if got, want := kinds(), []string{"transcript-chunk  2000", "transcript 1000 2000", "transcript-stop"}; !slices.Equal(got, want) {
			t.Errorf("then: %q, want %q", got, want)
		}
		c.write(`{"type":"transcribe","data":{"name":"silence"}}` + "\n" + start + chunk(1000) + stop)
		if got, want := kinds(), []string{"transcript-start", "transcript", "transcript-stop"}; !slices.Equal(got, want) {
			t.Errorf("of nothing: %q, want %q", got, want)
		}
		c.write(`{"type":"transcribe","data":{"name":"silence"}}` + "\n" + start)
		_ = c.quiet()
		for range 3 * blocks { // more than is kept of a sound
			c.write(chunk(block))
		}
		c.write(stop + `{"type":"ping"}` + "\n")
		if got, want := c.quiet(), of("pong", "{}"); got != want {
			t.Errorf("behind an answer that did not wait for the sound's end: %q, want %q", got, want)
		}
	})
}

// TestHearFails: who sends a sound that cannot be heard is told at once, and the connection ends
// when the sound has: Home Assistant waits for transcript, whatever else comes, or for that end.
func TestHearFails(t *testing.T) {
	for _, name := range []string{"none", "busy", "fault"} {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, t.Context(), &ears{})
			c.write(`{"type":"transcribe","data":{"name":"` + name + `"}}` + "\n" + start)
			if got := c.quiet(); !strings.Contains(got, `{"type":"error"`) {
				t.Errorf("%s: %q", name, got)
			}
			for range 3 * blocks { // more than is kept of a sound
				c.write(chunk(block))
			}
			c.write(`{"type":"ping"}` + "\n")
			if got, want := c.quiet(), of("pong", "{}"); got != want {
				t.Errorf("%s: then %q, want %q: the connection is to take all of the sound", name, got, want)
			}
			c.write(stop)
			if _, err := c.Write([]byte(start)); err == nil {
				t.Errorf("%s: the connection goes on", name)
			}
		})
	}
}

// TestFormats: sound of every width, many rates and several channels is heard as 16 kHz mono.
func TestFormats(t *testing.T) {
	for _, f := range []format{{8000, 1, 1}, {16000, 1, 2}, {16000, 2, 1}, {22050, 2, 2}, {44100, 3, 2}, {48000, 4, 2}, {192000, 4, 8}} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{}
			c := dial(t, t.Context(), e)
			sample := []byte{0, 0, 0, 0x40}[4-f.Width:] // half of the loudest
			if f.Width == 1 {
				sample = []byte{0xc0} // without a sign, as in a wav
			}
			data := fmt.Sprintf(`"data":{"rate":%d,"width":%d,"channels":%d}`, f.Rate, f.Width, f.Channels)
			sound := strings.Repeat(string(sample), f.Rate/2*f.Channels)
			c.write(`{"type":"audio-start",` + data + "}\n")
			for len(sound) > 0 {
				n := min(len(sound), 5001) // also in the middle of a sample
				c.write(fmt.Sprintf("{\"type\":\"audio-chunk\",%s,\"payload_length\":%d}\n%s", data, n, sound[:n]))
				sound = sound[n:]
			}
			c.write(stop)
			if got := c.quiet(); !strings.Contains(got, `"text":"  8000"`) {
				t.Errorf("%+v: %s", f, got)
			}
			if e.loudest < 0.49 || e.loudest > 0.6 { // a filter overshoots at the edges
				t.Errorf("%+v: %v", f, e.loudest)
			}
		})
	}
}

// TestTimes: half lines, payloads and sounds that never go on end, and so do connections that ask
// nothing, but not those that wait for their answer.
func TestTimes(t *testing.T) {
	//proves:T8
	for name, tt := range map[string]struct {
		in, want string
		after    time.Duration
	}{
		"nothing":              {"", "", 2 * time.Minute},
		"a ping":               {`{"type":"ping"}` + "\n", "pong", 2 * time.Minute},
		"half a line":          {`{"type":"pi`, "the rest of an event did not come within 10s", 10 * time.Second},
		"half the data":        {`{"type":"ping","data_length":9}` + "\n{}", "the rest of an event did not come within 10s", 10 * time.Second},
		"half a payload":       {`{"type":"a","payload_length":9}` + "\nab", "the rest of an event did not come within 10s", 10 * time.Second},
		"half a piece":         {start + `{"type":"audio-chunk","payload_length":9}` + "\nab", "the rest of an event did not come", 10 * time.Second},
		"half a sound":         {start + chunk(1), "no more of the sound came within 10s: audio-stop ends it", 10 * time.Second},
		"an answer that lasts": {`{"type":"transcribe","data":{"name":"long"}}` + "\n" + start + stop, `"text":"long  0"`, time.Hour + 2*time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, e := time.Now(), &ears{}
			c := dial(t, t.Context(), e)
			c.write(tt.in)
			got, err := io.ReadAll(c)
			if took := time.Since(begun); err != nil || !strings.Contains(string(got), tt.want) || (tt.want == "") != (len(got) == 0) ||
				took < tt.after || took > tt.after+2*time.Minute {
				t.Errorf("%s: after %v: %s, %v", name, took, got, err)
			}
			synctest.Wait()
			if e.running != 0 {
				t.Errorf("%s: something is still heard", name)
			}
		})
	}
}

// TestLeaves: a client that leaves ends what is heard for it, whether its sound was whole or not.
func TestLeaves(t *testing.T) {
	for name, in := range map[string]string{"in the middle": start + chunk(100),
		"before the answer": `{"type":"transcribe","data":{"name":"long"}}` + "\n" + start + chunk(100) + stop} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{}
			c := dial(t, t.Context(), e)
			c.write(in)
			synctest.Wait()
			if e.running != 1 {
				t.Fatalf("%s: %d are heard", name, e.running)
			}
			_ = c.Close()
			synctest.Wait()
			if e.running != 0 || !errors.Is(e.err, context.Canceled) {
				t.Errorf("%s: %d are still heard, %v", name, e.running, e.err)
			}
		})
	}
}

// TestBounded: a sound that is not heard yet is held back, however much of it there is.
func TestBounded(t *testing.T) {
	//proves:T7
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{})
		sent := 0
		go func() {
			_, _ = io.WriteString(c, `{"type":"transcribe","data":{"name":"long"}}`+"\n"+start)
			for {
				n, err := io.WriteString(c, chunk(8000))
				if err != nil {
					return
				}
				sent += n
			}
		}()
		synctest.Wait()
		if most := block*blocks + maxLine + 32<<10; sent < block*blocks/2 || sent > most {
			t.Errorf("%d bytes are held, of at most %d", sent, most)
		}
		_ = c.Close()
	})
}

// TestTooLong: a sound has an end, whatever its client thinks.
func TestTooLong(t *testing.T) {
	//proves:T7
	s := newSound(t.Context(), format{16000, 1, 1})
	go func() {
		for s.write(make([]byte, 1<<20)) == nil {
		}
	}()
	var err error
	n := 0
	for b := make([]float32, 1<<16); err == nil; {
		var k int
		k, err = s.Read(b)
		n += k
	}
	if !errors.Is(err, audio.ErrLimit) || n < 3500*hearRate || n > 3600*hearRate {
		t.Errorf("after %d samples: %v", n, err)
	}
}

// TestEnd: when the server ends, a client that speaks is told, and one that does nothing is let go.
func TestEnd(t *testing.T) {
	for name, in := range map[string]string{"idle": "", "speaks": start + chunk(100), "half an event": `{"type`} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			begun := time.Now()
			c := dial(t, ctx, &ears{})
			c.write(in)
			synctest.Wait()
			end(errors.New("the end"))
			got, err := io.ReadAll(c)
			if said := strings.Contains(string(got), `{"text":"the end","code":"internal"}`); err != nil || said != (name == "speaks") {
				t.Errorf("%s: %s, %v", name, got, err)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// ears hear how many samples a sound has. The model long takes an hour.
type ears struct {
	running int
	loudest float32
	err     error // of the last sound
}

func (*ears) Models(context.Context) ([]Model, error) {
	return []Model{{"ears:latest", "Ears", []string{"en", "de"}}}, nil
}

func (e *ears) Hear(ctx context.Context, name, language string, sound ask.Sound, each func(string)) (string, error) {
	e.running++
	defer func() { e.running-- }()
	switch name {
	case "none":
		return "", body.Fail(404, "model 'none' not found")
	case "silence":
		return "", nil
	case "parts":
		n := 0
		for b := make([]float32, 1000); ; {
			k, err := sound.Read(b[:1000-n%1000])
			if n += k; err != nil {
				return "", nil //nolint:nilerr // the sound is over
			}
			if n%1000 == 0 {
				each(strings.Repeat(" ", n/2000) + strconv.Itoa(n))
			}
		}
	case "busy":
		return "", body.Fail(503, "busy")
	case "fault":
		return "", errors.New("a fault")
	case "long":
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			e.err = ctx.Err()
			return "", e.err
		}
	}
	n := 0
	for b := make([]float32, 1000); ; {
		k, err := sound.Read(b)
		n += k
		for _, x := range b[:k] {
			e.loudest = max(e.loudest, x)
		}
		if errors.Is(err, io.EOF) {
			each(fmt.Sprintf("%s %s %d", name, language, n))
			return language, nil
		}
		if e.err = err; err != nil {
			return "", err
		}
	}
}

// client is a satellite.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, ctx context.Context, e *ears) *client { return dialAs(t, ctx, e, nil) }

func dialAs(t *testing.T, ctx context.Context, h Hearer, s Speaker) *client {
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	go Serve(ctx, there, Options{Hearer: h, Speaker: s, Version: "1", Idle: 2 * time.Minute,
		Read: 10 * time.Second, Write: 10 * time.Second,
		Tell: func(err error) (int, string) {
			if f := new(body.Failure); errors.As(err, &f) {
				return f.Status, f.Text
			}
			return 500, err.Error()
		}})
	return &client{t, here}
}

func (c *client) write(s string) {
	c.t.Helper()
	go func() { _, _ = io.WriteString(c, s) }() // the other side may be writing
	synctest.Wait()
}

// quiet is what comes until nothing more does.
func (c *client) quiet() string {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Error(err)
	}
	return string(b)
}

// of is an event of the server.
func of(kind, data string) string {
	return fmt.Sprintf("{\"type\":%q,\"data_length\":%d}\n%s", kind, len(data), data)
}

// chunk is a piece of so many samples.
func chunk(n int) string {
	return fmt.Sprintf("{\"type\":\"audio-chunk\",%s,\"payload_length\":%d}\n%s", sixteen, 2*n, strings.Repeat("\x00\x10", n))
}
