package server_test

import (
	"bufio"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httputil"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

const formKind = "multipart/form-data; boundary=x"

// TestTranscriptions: each form of the answer, and each way to ask wrongly. Nothing of a form is
// left behind.
func TestTranscriptions(t *testing.T) {
	//proves:T7
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.ReadTimeout = patience })
	const end = "--x--\r\n"
	model, sound := field("model", "scripted-hearing"), soundField(wav(2.5))
	for _, tt := range []struct {
		name, body, want string
		code             int
	}{
		{"json", model + sound + end,
			`{"text":"Second 1 is 50%. Second 2 is 50%. Second 3 is 50%.","usage":{"type":"duration","seconds":2.5}}` + "\n", 200},
		{"the sound first", sound + field("language", "de") + model + end, `{"text":"Second 1 is 50%. Second 2`, 200},
		{"text", model + field("response_format", "text") + sound + end, "Second 1 is 50%. Second 2 is 50%. Second 3 is 50%.", 200},
		{"srt", model + field("response_format", "srt") + sound + end, "3\n00:00:02,000 --> 00:00:02,500\nSecond 3 is 50%.\n", 200},
		{"vtt", model + field("response_format", "vtt") + sound + end, "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nSecond 1 is 50%.\n", 200},
		{"verbose", model + field("response_format", "verbose_json") + sound + end,
			`{"task":"transcribe","language":"english","duration":2.5,"text":"Second 1 is 50%. Second 2 is 50%. Second 3 is 50%.",` +
				`"segments":[{"id":0,"seek":0,"start":0,"end":1,"text":"Second 1 is 50%.","tokens":[1],"temperature":0,"avg_logprob":-0.5`, 200},
		{"verbose's usage", model + field("response_format", "verbose_json") + sound + end,
			`],"usage":{"type":"duration","seconds":2.5}}` + "\n", 200},
		{"words", model + field("response_format", "verbose_json") + field("timestamp_granularities[]", "word") + sound + end,
			`"words":[{"word":"Second","start":0,"end":0.1}`, 200},
		{"a stream", model + field("stream", "true") + sound + end,
			`data: {"delta":"Second 1 is 50%.","type":"transcript.text.delta"}` + "\n\n" + `data: {"delta":" Second 2`, 200},
		{"the end of a stream", model + field("stream", "true") + sound + end,
			`data: {"text":"Second 1 is 50%. Second 2 is 50%. Second 3 is 50%.","type":"transcript.text.done"}`, 200},
		{"a prompt", model + field("prompt", "axle") + sound + end, `{"text":"Second 1 is 50%. After axle. Second 2`, 200},
		{"warm", model + field("response_format", "verbose_json") + field("temperature", "0.5") + sound + end, `"temperature":0.5,`, 200},
		{"fields that mean nothing", model + field("colour", "red") + sound + end, `{"text":`, 200},

		{"no model", sound + end, "model is required", 400},
		{"no file", model + end, "file is required: http: no such file", 400},
		{"two files", model + sound + sound + end, "the form has two files", 400},
		{"an empty file", model + soundField("") + end, "audio file is empty", 400},
		{"no sound", model + soundField("hello, this is text and no sound at all") + end, "no sound that is read here", 400},
		{"cut off", model, "failed to parse multipart form: unexpected EOF", 400},
		{"unknown", field("model", "nope") + sound + end, "model 'nope' not found", 404},
		{"deaf", field("model", "scripted") + sound + end, "scripted:latest does not support audio", 400},
		{"deaf, the sound first", soundField(strings.Repeat("RIFF", 3<<18)) + field("model", "scripted") + end,
			"scripted:latest does not support audio", 400},
		{"a language", model + field("language", "tlh") + sound + end, "the language \\\"tlh\\\" is not known", 400},
		{"a format", model + field("response_format", "mp3") + sound + end,
			"response_format must be json, text, srt, vtt or verbose_json", 400},
		{"a temperature", model + field("temperature", "2") + sound + end, "temperature must be between 0 and 1", 400},
		{"NaN", model + field("temperature", "NaN") + sound + end, "temperature must be between 0 and 1", 400},
		{"subtitles as a stream", model + field("stream", "1") + field("response_format", "srt") + sound + end,
			"a streamed answer has no srt", 400},
		{"words of nothing", model + field("timestamp_granularities[]", "word") + sound + end,
			"needs the response_format verbose_json", 400},
		{"a long field", model + field("prompt", strings.Repeat("word ", 1<<14)) + sound + end, "prompt has more than 64 KiB", 400},
		{"many fields", model + strings.Repeat(field("a", ""), 64) + sound + end, "more than 64 fields", 400},
		{"long, the model last", soundField(wav(900)) + model + end, "send the other fields of the form before it", 413},
		{"long, a field last", model + soundField(wav(900)) + field("language", "en") + end,
			"language comes after a file of more than 25", 400},
	} {
		a := r.post("/v1/audio/transcriptions", tt.body, "Content-Type", formKind)
		if a.code != tt.code || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s: got %d %.400s, want %d %s", tt.name, a.code, a.body, tt.code, tt.want)
		}
	}
	a := r.post("/v1/audio/translations", model+field("response_format", "verbose_json")+sound+end, "Content-Type", formKind)
	if want := `{"task":"translate","language":"english","duration":2.5,"text":"In English: Second 1`; !strings.HasPrefix(a.body, want) ||
		strings.Contains(a.body, "usage") {
		t.Errorf("a translation: %d %.200s", a.code, a.body)
	}
	if a := r.post("/v1/audio/transcriptions", "{}"); a.code != 400 ||
		!strings.Contains(a.body, "request Content-Type isn't multipart/form-data") {
		t.Errorf("no form: %d %s", a.code, a.body)
	}
	// A model that does not hear is refused while the sound is still to be sent.
	head := field("model", "scripted") + soundField(strings.Repeat("RIFF", 1<<18))
	if out := r.raw(fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: "+
		"20000000\r\n\r\n%s", formKind, head)); !strings.Contains(out, "does not support audio") {
		t.Errorf("half a form: %q", out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTranscriptionHours: two hours of sound take little memory, whatever the form says they are.
func TestTranscriptionHours(t *testing.T) {
	//proves:T7
	lane.Slow(t)
	lane.NoRace(t)
	r := newRig(t)
	const seconds = 2 * 3600
	in, out := io.Pipe()
	form := multipart.NewWriter(out)
	var most atomic.Uint64
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		_ = form.WriteField("model", "scripted-hearing")
		_ = form.WriteField("response_format", "srt")
		part, _ := form.CreateFormFile("file", "a.wav")
		_, _ = part.Write(audio.AppendWAVHeader(nil, 16000, -1))
		minute := []byte(wav(60))[44:]
		for range seconds / 60 {
			_, _ = part.Write(minute)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
		}
		_ = form.Close()
		_ = out.Close()
	}()
	resp, err := http.Post(r.url+"/v1/audio/transcriptions", form.FormDataContentType(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(b), "\n01:59:59,000 --> 02:00:00,000\nSecond 7200 is 50%.\n") {
		t.Errorf("%d, %v: %.100s … %.200s", resp.StatusCode, err, b, b[max(0, len(b)-200):])
	}
	// 25 MiB are held until it is clear that the sound is longer; the sound has 220.
	if grown := int64(most.Load()-before.HeapInuse) >> 20; grown > 128 {
		t.Errorf("it took %d MiB of memory", grown)
	} else {
		t.Logf("it took %d MiB of memory", grown)
	}
}

// TestTranscriptionLive: what a microphone gives is answered while it comes.
func TestTranscriptionLive(t *testing.T) {
	r := newRig(t)
	in, out := io.Pipe()
	form := multipart.NewWriter(out)
	second := []byte(wav(1))[44:]
	begun := make(chan io.Writer, 1)
	go func() {
		_ = form.WriteField("model", "scripted-hearing")
		_ = form.WriteField("stream", "true")
		part, _ := form.CreateFormFile("file", "a.wav")
		_, _ = part.Write(audio.AppendWAVHeader(nil, 16000, -1))
		_, _ = part.Write(append(second, second...))
		begun <- part
	}()
	resp, err := http.Post(r.url+"/v1/audio/transcriptions", form.FormDataContentType(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	part := <-begun
	for n := 1; n <= 3; n++ {
		line, err := events.ReadString('\n')
		if err != nil || !strings.Contains(line, fmt.Sprintf("Second %d is 50%%.", n)) {
			t.Fatalf("event %d: %q, %v", n, line, err)
		}
		_, _ = events.ReadString('\n')
		_, _ = part.Write(append(second, second...)) // a decoder holds a block back
	}
	_ = form.Close()
	_ = out.Close()
	rest, err := io.ReadAll(events)
	if err != nil || !strings.Contains(string(rest), `"type":"transcript.text.done"`) {
		t.Errorf("the end: %q, %v", rest, err)
	}
}

// TestTranscriptionTail: the end of a body may come after its answer; the connection ends then.
func TestTranscriptionTail(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		form := field("model", "scripted-hearing") + field("stream", "true") + soundField(wav(1)) + "--x--\r\n"
		c := b.send(t, fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nTransfer-Encoding: "+
			"chunked\r\n\r\n%x\r\n%s\r\n", formKind, len(form), form))
		defer c.Close()
		in := bufio.NewReader(c)
		var got strings.Builder
		for !strings.Contains(got.String(), "transcript.text.done") {
			line, err := in.ReadString('\n')
			if got.WriteString(line); err != nil {
				t.Fatalf("%s, %v", got.String(), err)
			}
		}
		if !strings.Contains(got.String(), "\r\nConnection: close\r\n") {
			t.Errorf("%s", got.String())
		}
		go func() { _, _ = io.WriteString(c, "0\r\n\r\n") }() // a pipe takes nothing while its other end writes
		if rest, err := io.ReadAll(in); err != nil || !strings.HasSuffix(string(rest), "0\r\n\r\n") {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// TestTranscriptionsMany: of 64 uploads at once those that there is room for are heard, and the
// others are told to come again.
func TestTranscriptionsMany(t *testing.T) {
	//proves:T7
	lane.Slow(t)
	lane.NoRace(t)
	r := newRig(t)
	form := soundField(wav(700)) + field("model", "scripted-hearing") + field("response_format", "srt") + "--x--\r\n"
	most := budget.Get().Requests
	var g sync.WaitGroup
	var heard, later atomic.Int64
	for range 64 {
		g.Go(func() {
			switch a := r.post("/v1/audio/transcriptions", form, "Content-Type", formKind); {
			case a.code == 200 && strings.Contains(a.body, "Second 700 is 50%."):
				heard.Add(1)
			case a.code == 503 && a.header.Get("Retry-After") != "":
				later.Add(1)
			default:
				t.Errorf("%d %.200s", a.code, a.body)
			}
			if held := r.Room(); held > most {
				t.Errorf("requests hold %d bytes, %d may be held", held, most)
			}
		})
	}
	g.Wait()
	t.Logf("%d heard, %d told to come again; there is room for %d MiB", heard.Load(), later.Load(), most>>20)
	// A request gives its room back after its answer.
	for end := time.Now().Add(patience); r.Room() > 0 && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	if heard.Load() == 0 || r.Room() != 0 {
		t.Errorf("%d heard; %d bytes are still held", heard.Load(), r.Room())
	}
}

// TestTranscriptionPace: a microphone may speak for as long as it likes, but what comes a byte at a
// time ends.
func TestTranscriptionPace(t *testing.T) {
	//proves:T8
	for _, tt := range []struct {
		name, want string
		step       int
		every      time.Duration
	}{
		{"a microphone", "transcript.text.done", 3200, 100 * time.Millisecond},
		{"a byte at a time", `"error"`, 1, time.Second},
	} {
		inBubble(t, 0, func(t *testing.T, b *bubble) {
			c := b.send(t, "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "+formKind+
				"\r\nTransfer-Encoding: chunked\r\n\r\n")
			defer c.Close()
			over := make(chan struct{})
			go func() {
				defer close(over)
				out := httputil.NewChunkedWriter(c)
				_, err := io.WriteString(out, field("model", "scripted-hearing")+field("stream", "true")+
					strings.TrimSuffix(soundField(string(audio.AppendWAVHeader(nil, 16000, -1))), "\r\n"))
				piece := make([]byte, tt.step)
				for n := 0; n < 300*10 && err == nil; n++ {
					_, err = out.Write(piece)
					<-time.After(tt.every)
				}
				if err == nil {
					_, _ = io.WriteString(out, "\r\n--x--\r\n")
					_ = out.Close()
					_, _ = io.WriteString(c, "\r\n")
				}
			}()
			got, err := io.ReadAll(c)
			if err != nil || !strings.Contains(string(got), tt.want) {
				t.Errorf("%s: %v, %.300s … %s", tt.name, err, got, got[max(0, len(got)-200):])
			}
			_ = c.Close()
			<-over
		})
	}
}

// TestTranscriptionLeaves: a client that leaves is heard no longer, and neither is one whose answer
// was ended by its owner, whether its form came whole or not.
func TestTranscriptionLeaves(t *testing.T) {
	//proves:G7
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Parallel = 1 })
	head := "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nAxle-Session: " + session + "\r\nContent-Type: " + formKind +
		"\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	sound := string(audio.AppendWAVHeader(nil, 16000, -1)) + wav(1)
	form := field("model", "scripted-hearing") + soundField(sound)
	// The model has one place. The first client has it, and does not go on.
	speaks := r.dial(head + chunk(field("stream", "true")+strings.TrimSuffix(form, "\r\n")))
	defer speaks.Close()
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(patience / 2); !is(); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d are still heard", what, r.Active())
			}
		}
	}
	stats := func() (s ask.Stats) {
		for _, b := range r.loader.Backends() {
			s = b.Stats()
		}
		return s
	}
	until("the first", func() bool { return stats().Running == 1 })
	whole := r.dial(head + chunk(form+"--x--\r\n"))
	until("a whole form", func() bool { return r.Active() == 2 })
	_, _ = io.WriteString(whole, "0\r\n\r\n")
	until("a whole form, waiting", func() bool { return stats().Queued == 1 })
	_ = whole.Close()
	until("a whole form, left", func() bool { return r.Active() == 1 })
	half := r.dial(head + chunk(strings.TrimSuffix(form, "\r\n")))
	until("half a form", func() bool { return r.Active() == 2 })
	_ = half.Close()
	until("half a form, left", func() bool { return r.Active() == 1 })
	var mine state
	r.monitor("state", &mine, "Axle-Session", session)
	if len(mine.Streams) != 1 {
		t.Fatalf("%+v", mine.Streams)
	}
	if a := r.do("DELETE", "/api/axle/streams/"+mine.Streams[0].ID, "", "Axle-Session", session); a.code != 204 {
		t.Errorf("%d %s", a.code, a.body)
	}
	until("ended", func() bool { return r.Active() == 0 })
}

// TestTranscriptionEnded: an answer that its owner ended does not look whole, also where the model
// ends without a word.
func TestTranscriptionEnded(t *testing.T) {
	r := newRig(t)
	form := field("model", "scripted-hearing") + field("stream", "true") + field("prompt", strings.Repeat("x", 60000)) +
		soundField(wav(600)) + "--x--\r\n"
	c := r.dial("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAxle-Session: " + session +
		fmt.Sprintf("\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", formKind, len(form), form))
	defer c.Close()
	in := bufio.NewReader(c)
	if _, err := in.ReadString('\n'); err != nil { // the answer has 36 MB, and is not read
		t.Fatal(err)
	}
	var mine state
	r.monitor("state", &mine, "Axle-Session", session)
	if len(mine.Streams) != 1 {
		t.Fatalf("%+v", mine.Streams)
	}
	if a := r.do("DELETE", "/api/axle/streams/"+mine.Streams[0].ID, "", "Axle-Session", session); a.code != 204 {
		t.Errorf("%d %s", a.code, a.body)
	}
	got, err := io.ReadAll(in)
	if end := string(got[max(0, len(got)-500):]); err != nil || !strings.Contains(end, "the answer was ended by its owner") ||
		strings.Contains(end, "transcript.text.done") {
		t.Errorf("%s, %v", end, err)
	}
}

// TestTranscriptionLong: a sound that is too long to be held is heard whole, and what is wrong with
// it is told, also to a client that sends all before it reads.
func TestTranscriptionLong(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name, fields string
		seconds      float64
		want         string
	}{
		{"a stream", field("stream", "true"), 820, `"delta":" Second 820 is 50%."`},
		{"a language", field("language", "tlh"), 1000, "the language \\\"tlh\\\" is not known"},
		{"a language, a stream", field("language", "tlh") + field("stream", "1"), 1000, "the language \\\"tlh\\\" is not known"},
	} {
		form := field("model", "scripted-hearing") + tt.fields + soundField(wav(tt.seconds)) + "--x--\r\n"
		out := r.raw(fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", formKind, len(form), form))
		if !strings.Contains(out, tt.want) {
			t.Errorf("%s: %.200s … %s", tt.name, out, out[max(0, len(out)-300):])
		}
	}
}

// field is a field of a form, and soundField the one with the sound.
func field(name, value string) string {
	return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

func soundField(sound string) string {
	return "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + sound + "\r\n"
}

// wav is a sound of this many seconds, and half as loud as can be.
func wav(seconds float64) string {
	samples := make([]float32, int(16000*seconds))
	for i := range samples {
		samples[i] = 0.5
	}
	return string(audio.AppendPCM(audio.AppendWAVHeader(nil, 16000, len(samples)), samples))
}
