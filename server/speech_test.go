package server_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

// TestSpeech: each form of the answer has the words of the text in the voice and at the speed that
// were asked for, and one whose length is known says it.
func TestSpeech(t *testing.T) {
	r := newRig(t)
	const one, two = "Cats sleep.", "Cats sleep. Go home now!"
	for _, tt := range []struct {
		name, more, text string
		kind             string // of the answer; "": audio/wav
		length           bool   // the answer says how long it is
		speed            float64
		voice            string
	}{
		{name: "wav of one piece", text: one, length: true},
		{name: "wav of two", text: two},
		{name: "white space", text: " " + one + "\n", length: true},
		{name: "said to be wav", more: `"response_format":"wav","stream_format":"audio","instructions":"whisper","colour":1`, text: two},
		{name: "pcm", more: `"response_format":"pcm"`, text: two, kind: "audio/pcm"},
		{name: "flac", more: `"response_format":"flac"`, text: two, kind: "audio/flac"},
		{name: "flac of one piece", more: `"response_format":"flac"`, text: one, kind: "audio/flac", length: true},
		{name: "events", more: `"stream_format":"sse"`, text: two, kind: "text/event-stream"},
		{name: "events of one", more: `"stream_format":"sse","response_format":"pcm"`, text: one, kind: "text/event-stream", length: true},
		{name: "flac in events", more: `"stream_format":"sse","response_format":"flac"`, text: two, kind: "text/event-stream"},
		{name: "slow", more: `"speed":0.25`, text: one, length: true, speed: 0.25},
		{name: "fast", more: `"speed":4`, text: two, speed: 4},
		{name: "nulls", more: `"speed":null,"voice":null,"response_format":null,"stream_format":null`, text: one, length: true},
		{name: "a voice", more: `"voice":"ben"`, text: one, length: true, voice: "ben"},
		{name: "a voice's id", more: `"voice":{"id":"Ben"}`, text: one, length: true, voice: "ben"},
		{name: "OpenAI's first", more: `"voice":"alloy"`, text: one, length: true},
		{name: "OpenAI's second", more: `"voice":"ash"`, text: one, length: true, voice: "ben"},
	} {
		a := r.post("/v1/audio/speech", speechBody(tt.text, tt.more))
		kind := a.header.Get("Content-Type")
		sound := a.body
		if kind == "text/event-stream" {
			sound = spokenEvents(t, tt.name, a.body, len(tt.text))
		}
		if want := tt.kind; a.code != 200 || kind != want && (want != "" || kind != "audio/wav") {
			t.Errorf("%s: %d, %s, %.200s", tt.name, a.code, kind, a.body)
			continue
		}
		if said := a.header.Get("Content-Length") != ""; said != tt.length {
			t.Errorf("%s: the answer says its length: %v", tt.name, said)
		}
		if open := strings.HasPrefix(sound, "RIFF\xff\xff\xff\xff"); strings.HasPrefix(sound, "RIFF") && open == tt.length {
			t.Errorf("%s: the wav is of unknown length: %v", tt.name, open)
		}
		if tt.speed == 0 {
			tt.speed = 1
		}
		if tt.voice == "" {
			tt.voice = "ada"
		}
		checkSpoken(t, tt.name, sound, tt.text, tt.voice, tt.speed)
	}
}

// TestSpeechRefused: each way to ask wrongly has its answer, before a model is loaded.
func TestSpeechRefused(t *testing.T) {
	//proves:T3
	r := newRig(t)
	for _, tt := range []struct {
		name, body, want string
		code             int
	}{
		{"no body", "", "missing request body", 400},
		{"no object", "[]", "cannot unmarshal array", 400},
		{"cut off", `{"model":"scripted-speaking","input":"a`, "unexpected EOF", 400},
		{"no model", `{"input":"a"}`, "model is required", 400},
		{"no input", `{"model":"scripted-speaking"}`, "input is required: the text to speak", 400},
		{"an empty input", `{"model":"scripted-speaking","input":" \n"}`, "input is required: the text to speak", 400},
		{"input of another kind", `{"model":"scripted-speaking","input":["a"]}`, "cannot unmarshal array", 400},
		{"long", `{"model":"scripted-speaking","input":"` + strings.Repeat("ä", 4097) + `"}`,
			"input has 4097 characters: at most 4096 are spoken at once", 400},
		{"unknown", `{"model":"tts-1","input":"a"}`, "model 'tts-1' not found", 404},
		{"mute", `{"model":"scripted","input":"a"}`, "scripted:latest does not support speech", 400},
		{"hears", `{"model":"scripted-hearing","input":"a"}`, "scripted-hearing:latest does not support speech", 400},
		{"mp3", speechBody("a", `"response_format":"mp3"`), `response_format must be wav, pcm or flac, got \"mp3\"`, 400},
		{"opus", speechBody("a", `"response_format":"opus"`), `response_format must be wav, pcm or flac, got \"opus\"`, 400},
		{"stream_format", speechBody("a", `"stream_format":"ndjson"`), "stream_format must be audio or sse", 400},
		{"slower", speechBody("a", `"speed":0.2499`), "speed must be between 0.25 and 4, got 0.2499", 400},
		{"faster", speechBody("a", `"speed":4.01`), "speed must be between 0.25 and 4, got 4.01", 400},
		{"backwards", speechBody("a", `"speed":-1`), "speed must be between 0.25 and 4, got -1", 400},
		{"at once", speechBody("a", `"speed":1e999`), "cannot unmarshal number", 400},
		{"a voice", speechBody("a", `"voice":"eve"`), `voice \"eve\" is not known: the model has ada, ben`, 400},
		{"a voice of another kind", speechBody("a", `"voice":7`), "voice must be a name, or an object with an id", 400},
		{"a large body", `{"input":"` + strings.Repeat("a", 1<<20) + `"}`, "the request body is too large: the limit is 1 MiB", 413},
		{"a fault", speechBody("[[err:503:the card is gone]]", ""), "the card is gone", 503},
	} {
		a := r.post("/v1/audio/speech", tt.body)
		var e struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.code != tt.code || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s: got %d %.300s, want %d %s", tt.name, a.code, a.body, tt.code, tt.want)
		}
	}
	if n := len(r.loader.Backends()); n != 1 {
		t.Errorf("%d models were loaded", n)
	}
	for _, text := range []string{strings.Repeat("ä", 4096), "…"} {
		if a := r.post("/v1/audio/speech", speechBody(text, "")); a.code != 200 {
			t.Errorf("%.10s: %d %s", text, a.code, a.body)
		}
	}
}

// TestTextOfSound: a model of sound refuses text and says what it does instead, and can be loaded
// and unloaded as others.
func TestTextOfSound(t *testing.T) {
	r := newRig(t)
	for model, want := range map[string]string{"scripted-hearing": "it writes speech down, see /v1/audio/transcriptions",
		"scripted-speaking": "it speaks, see /v1/audio/speech"} {
		for path, body := range map[string]string{"/api/generate": `"prompt":"a"`, "/api/chat": `"messages":[{"role":"user","content":"a"}]`,
			"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}]`,
			"/v1/messages":         `"max_tokens":1,"messages":[{"role":"user","content":"a"}]`} {
			if a := r.post(path, `{"model":"`+model+`",`+body+`}`); a.code != 400 || !strings.Contains(a.body, want) {
				t.Errorf("%s %s: %d %s", path, model, a.code, a.body)
			}
		}
		for _, more := range []string{`"stream":false`, `"keep_alive":0`} { // no prompt: it is loaded, and unloaded
			if a := r.post("/api/generate", `{"model":"`+model+`",`+more+`}`); a.code != 200 || !strings.Contains(a.body, "load") {
				t.Errorf("%s %s: %d %s", model, more, a.code, a.body)
			}
		}
	}
}

// TestSpeechOrder: a piece leaves before the next is computed, and before the model is even asked
// for it.
func TestSpeechOrder(t *testing.T) {
	for _, form := range []string{"wav", "pcm", "sse"} {
		goOn := make(chan bool)
		r := newRig(t, func(_ *server.Options, c *scripted.Config) {
			c.Speaks = func(n int) {
				if n > 1 {
					<-goOn
				}
			}
		})
		more := `"response_format":"` + form + `"`
		if form == "sse" {
			more = `"response_format":"pcm","stream_format":"sse"`
		}
		resp := r.speaks(speechBody("One two. Three four. Five six.", more))
		piece, head := 2*24000*250/1000, 0
		switch form {
		case "wav":
			head = 44
		case "sse":
			piece = len(`data: {"audio":"","type":"speech.audio.delta"}`+"\n\n") + base64.StdEncoding.EncodedLen(piece)
		}
		for n := range 3 {
			if _, err := io.CopyN(io.Discard, resp.Body, int64(head+piece)); err != nil {
				t.Fatalf("%s: piece %d: %v", form, n, err)
			}
			if head = 0; n < 2 {
				goOn <- true
			}
		}
		rest, err := io.ReadAll(resp.Body)
		if done := `data: {"type":"speech.audio.done","usage":{"input_tokens":30,"output_tokens":15,"total_tokens":45}}`; err != nil ||
			string(rest) != map[string]string{"sse": done + "\n\n"}[form] {
			t.Errorf("%s: the end: %q, %v", form, rest, err)
		}
		_ = resp.Body.Close()
	}
}

// TestSpeechLeaves: a client that leaves ends the synthesis.
func TestSpeechLeaves(t *testing.T) {
	//proves:G7
	r := newRig(t)
	resp := r.speaks(speechBody(strings.Repeat("[[delay:20]] One. ", 200), ""))
	if _, err := io.CopyN(io.Discard, resp.Body, 1000); err != nil {
		t.Fatal(err)
	}
	r.active(1)
	b := r.loader.Backends()[0]
	_ = resp.Body.Close()
	r.wait("the end", func() bool { return r.Active() == 0 && b.Stats().Running == 0 })
}

// TestSpeechFails: a sound that fails in its middle never looks whole, and is in the log and the
// metrics; events say what was wrong.
func TestSpeechFails(t *testing.T) {
	r := newRig(t)
	text := "One two. [[err:500:it broke]] Three."
	for _, format := range []string{"wav", "pcm", "flac"} {
		resp := r.speaks(speechBody(text, `"response_format":"`+format+`"`))
		if b, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || format != "flac" && len(b) < 10000 {
			t.Errorf("%s: %d bytes, %v", format, len(b), err)
		}
		_ = resp.Body.Close()
	}
	a := r.post("/v1/audio/speech", speechBody(text, `"stream_format":"sse"`))
	if _, end, _ := strings.Cut(a.body, "}\n\n"); a.code != 200 ||
		end != `data: {"error":{"message":"it broke","type":"api_error","param":null,"code":null}}`+"\n\n" {
		t.Errorf("events: %d %q", a.code, end)
	}
	r.wait("the metrics", func() bool {
		return strings.Contains(r.do("GET", "/metrics", "").body, `axle_requests_total{route="/v1/audio/speech",status="500"} 4`+"\n")
	})
}

// TestSpeechKeys: a key's limits hold, and its owner can end what is being spoken.
func TestSpeechKeys(t *testing.T) {
	r := limitRig(t, access.Limits{Requests: 1})
	resp := r.speaks(speechBody(strings.Repeat("[[delay:20]] One. ", 200), ""), bearer("limited")...)
	defer resp.Body.Close()
	if a := r.post("/v1/audio/speech", speechBody("One.", ""), bearer("limited")...); a.code != 429 ||
		!strings.Contains(a.body, "1 requests at work") {
		t.Errorf("a second: %d %s", a.code, a.body)
	}
	if a := r.post("/v1/audio/speech", speechBody("One.", ""), bearer("free")...); a.code != 200 {
		t.Errorf("another key: %d %s", a.code, a.body)
	}
	state := r.do("GET", "/api/axle/state", "", bearer("limited")...).body
	m := regexp.MustCompile(`"id":"(\d+)","own":true`).FindStringSubmatch(state)
	if m == nil || !strings.Contains(state, "scripted-speaking:latest") {
		t.Fatalf("it is not listed: %s", state)
	}
	r.do("DELETE", "/api/axle/streams/"+m[1], "", bearer("limited")...)
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("it ended with %v", err)
	}
}

// TestSpeechSlow: a client that reads nothing is cut off, and that is not the server's failure.
func TestSpeechSlow(t *testing.T) {
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.WriteTimeout = 50 * time.Millisecond })
	body := speechBody(strings.Repeat("One two three four. ", 200), `"speed":0.25`)
	c := r.dial(fmt.Sprintf("POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	defer c.Close()
	r.wait("the metrics", func() bool {
		page := r.do("GET", "/metrics", "").body
		if strings.Contains(page, `axle_requests_total{route="/v1/audio/speech",status="5`) {
			t.Fatal(page)
		}
		return strings.Contains(page, `axle_requests_total{route="/v1/audio/speech",status="499"} 1`+"\n")
	})
}

// TestSpeechMany: 64 long texts at once are all spoken, in little memory.
func TestSpeechMany(t *testing.T) {
	//proves:T7
	lane.Slow(t)
	lane.NoRace(t)
	r := newRig(t)
	sentence := strings.Repeat("word ", 40) + "end. "
	text := strings.TrimSpace(strings.Repeat(sentence, 4096/len(sentence)))
	runtime.GC()
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	var most uint64
	var mu sync.Mutex
	var g sync.WaitGroup
	for i := range 64 {
		g.Go(func() {
			more := []string{`"speed":0.25`, `"response_format":"flac","speed":0.5`, `"stream_format":"sse"`}[i%3]
			resp := r.speaks(speechBody(text, more))
			defer resp.Body.Close()
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil || n < 10000 {
				t.Errorf("%d bytes, %v", n, err)
			}
			mu.Lock()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			mu.Unlock()
		})
	}
	g.Wait()
	grown := int64(most-before.HeapInuse) >> 20
	t.Logf("it took %d MiB of memory", grown)
	// At the lowest speed a sentence has 16 s of sound, which is 1.5 MiB of samples.
	if grown > 512 {
		t.Errorf("it took %d MiB of memory", grown)
	}
}

// TestVoices: the lists that Open WebUI asks for, and what the others say of a model that speaks.
func TestVoices(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{
		"/v1/audio/voices": `{"voices":[{"id":"ada","name":"ada","language":"en-US","model":"scripted-speaking:latest"},` +
			`{"id":"ben","name":"ben","language":"en-GB","model":"scripted-speaking:latest"}]}`,
		"/v1/audio/voices?model=scripted-speaking": `{"voices":[{"id":"ada",`,
		"/v1/audio/voices?model=nope":              `{"error":{"message":"model 'nope' not found","type":"not_found_error"`,
		"/v1/audio/voices?model=scripted":          `{"error":{"message":"registry.ollama.ai/library/scripted:latest does not support speech"`,
		"/v1/audio/models":                         `{"models":[{"id":"scripted-speaking:latest"}]}`,
	} {
		if a := r.do("GET", path, ""); !strings.HasPrefix(a.body, want) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	if a := r.post("/api/show", `{"model":"scripted-speaking"}`); !strings.Contains(a.body, `"capabilities":["speech"]`) {
		t.Errorf("show: %s", a.body)
	}
	if a := r.do("GET", "/api/tags", ""); !strings.Contains(a.body, `"capabilities":["speech"]`) {
		t.Errorf("tags: %s", a.body)
	}
}

// speechBody is a request to speak a text, with more fields.
func speechBody(text, more string) string {
	b, _ := json.Marshal(text)
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"model":"scripted-speaking","input":%s%s}`, b, more)
}

// speaks asks for speech, and returns when its beginning is there.
func (r *rig) speaks(body string, header ...string) *http.Response {
	req, err := http.NewRequest(http.MethodPost, r.url+"/v1/audio/speech", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("%d %s", resp.StatusCode, b)
	}
	return resp
}

// spokenEvents is the sound of an answer of events.
func spokenEvents(t *testing.T, name, body string, chars int) string {
	t.Helper()
	var sound []byte
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 1<<24)
	ended := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string
			Audio []byte
			Usage struct {
				In    int `json:"input_tokens"`
				Out   int `json:"output_tokens"`
				Total int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || ended {
			t.Errorf("%s: %s, %v", name, data, err)
		}
		switch sound = append(sound, e.Audio...); e.Type {
		case "speech.audio.delta":
		case "speech.audio.done":
			ended = e.Usage.In == chars && e.Usage.Out > 0 && e.Usage.Total == e.Usage.In+e.Usage.Out
		default:
			t.Errorf("%s: event %s", name, data)
		}
	}
	if !ended {
		t.Errorf("%s: it does not end: %s", name, body[max(0, len(body)-200):])
	}
	return string(sound)
}

// checkSpoken fails unless a sound is what scripted-speaking makes of the text: in each tenth of a
// second the tone of its word.
func checkSpoken(t *testing.T, name, sound, text, voice string, speed float64) {
	t.Helper()
	const rate = 24000
	samples := make([]float32, 0, 1<<16)
	switch {
	case strings.HasPrefix(sound, "RIFF"), strings.HasPrefix(sound, "fLaC"):
		in, err := audio.NewReader(strings.NewReader(sound), rate, audio.Limits{Bytes: 1 << 24, Duration: time.Minute})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		for b := make([]float32, 4096); err == nil; {
			var n int
			n, err = in.Read(b)
			samples = append(samples, b[:n]...)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	default:
		for b := bytes.NewReader([]byte(sound)); b.Len() > 1; {
			low, _ := b.ReadByte()
			high, _ := b.ReadByte()
			samples = append(samples, float32(int16(uint16(high)<<8|uint16(low)))/(1<<15))
		}
	}
	length := int(rate / 10 / speed)
	for s := range strings.SplitAfterSeq(strings.TrimSpace(text), ". ") {
		for _, word := range strings.Fields(s) {
			if len(samples) < length {
				t.Errorf("%s: it ends before %q", name, word)
				return
			}
			if got, want := strength(samples[:length], scripted.Tone(word, voice)), 0.5; math.Abs(got-want) > 0.02 {
				t.Errorf("%s: the tone of %q has %.3f of %v", name, word, got, want)
			}
			samples = samples[length:]
		}
		if len(samples) < length/2 || strength(samples[:length/2], 0) > 0.01 {
			t.Errorf("%s: no pause after %q", name, s)
			return
		}
		samples = samples[length/2:]
	}
	if len(samples) > 0 {
		t.Errorf("%s: %d samples more than words", name, len(samples))
	}
}

// strength is how loud a sound is at a frequency.
func strength(samples []float32, hertz int) float64 {
	var re, im float64
	for i, x := range samples {
		sin, cos := math.Sincos(2 * math.Pi * float64(hertz) * float64(i) / 24000)
		re, im = re+cos*float64(x), im+sin*float64(x)
	}
	return 2 * math.Hypot(re, im) / float64(len(samples))
}
