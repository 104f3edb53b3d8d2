package wyoming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/server/body"
)

const sayStop = `{"type":"synthesize-stop"}` + "\n"

// TestSay: each request and each answer of synthesis, as they are on the wire.
func TestSay(t *testing.T) {
	failed := func(text, code string) string { return of("error", fmt.Sprintf(`{"text":%q,"code":%q}`, text, code)) }
	begun, ended, stopped := of("audio-start", soundFormat), of("audio-stop", "{}"), of("synthesize-stopped", "{}")
	sayStart := `{"type":"synthesize-start","data":{"voice":{"name":"eve"}}}` + "\n"
	for name, tt := range map[string]struct {
		in, want string
		closed   bool // the connection
	}{
		"describe": {in: `{"type":"describe"}` + "\n", want: of("info", `{"asr":[],"tts":[{"name":"axle",`+attributed+
			`"Speech synthesis on an Axera card","version":"1","voices":[{"name":"ada",`+attributed+
			`"Ada","version":"1","languages":["en-US"]}],"supports_synthesize_streaming":true}]}`)},
		"a text":          {in: synthesize("abc", ""), want: begun + spoken(3) + ended},
		"a voice":         {in: synthesize("abc", `"name":"eve","speaker":null`), want: begun + spoken(3) + ended},
		"a language":      {in: synthesize("abc", `"language":"en"`), want: begun + spoken(3) + ended},
		"a long text":     {in: synthesize(strings.Repeat("a", 2500), ""), want: begun + spoken(1024, 1024, 452) + ended},
		"exactly a chunk": {in: synthesize(strings.Repeat("a", 1024), ""), want: begun + spoken(1024) + ended},
		"no sound":        {in: synthesize("-", ""), want: ended},
		"a queue": {in: synthesize("a", "") + synthesize("bc", ""),
			want: begun + spoken(1) + ended + begun + spoken(2) + ended},
		"parts": {in: sayStart + part("Hello to") + part(" the world. And ") + part("all.") +
			synthesize("Hello to the world. And all.", "") + sayStop,
			want: begun + spoken(20, 8) + ended + stopped},
		"parts without words": {in: sayStart + part("… … … … … …\n") + part("Well done. Good.\n") + part(" 🎉 🎉 🎉 🎉!\n") + sayStop,
			want: begun + spoken(17) + ended + stopped},
		"short sentences": {in: sayStart + strings.Repeat(part("Hi you! "), 5) + sayStop,
			want: begun + spoken(16, 16, 8) + ended + stopped},
		"more parts than are spoken yet": {in: strings.Replace(sayStart, "eve", "long", 1) +
			strings.Repeat(part("Hi you! Hi you! "), 4000) + `{"type":"ping"}` + "\n", want: of("pong", "{}")},
		"parts of nothing": {in: sayStart + part(" ") + sayStop, want: stopped},
		"two texts": {in: sayStart + part("One.") + sayStop + sayStart + part("Two.") + sayStop,
			want: begun + spoken(4) + ended + stopped + begun + spoken(4) + ended + stopped},
		"speech is not written down": {in: start + chunk(10) + stop + `{"type":"ping"}` + "\n", want: of("pong", "{}")},

		"an empty text": {in: synthesize(" ", "") + synthesize("a", ""),
			want: failed("synthesize has no text", "bad-request") + begun + spoken(1) + ended},
		"text of another kind": {in: `{"type":"synthesize","data":{"text":["a"]}}` + "\n",
			want: failed("the data of \"synthesize\" cannot be read: json: cannot unmarshal array into Go struct field .text "+
				"of type string", "bad-request")},
		"an unknown voice": {in: synthesize("a", `"name":"none"`), closed: true,
			want: failed("no model here has the voice \"none\"", "not-found")},
		"a busy server": {in: synthesize("a", `"name":"busy"`), closed: true, want: failed("busy", "unavailable")},
		"half a text":   {in: synthesize("abc", `"name":"half"`), closed: true, want: begun + spoken(3) + failed("a fault", "internal")},
		"part alone":    {in: part("a"), want: failed("synthesize-chunk came before synthesize-start", "bad-request")},
		"stop alone":    {in: sayStop, want: failed("synthesize-stop came before synthesize-start", "bad-request")},
		"start in a text": {in: sayStart + part("One.") + sayStart + sayStop,
			want: failed("another request came in the middle of a text: synthesize-stop ends one", "bad-request") +
				begun + spoken(4) + ended + stopped},
		"much text": {in: strings.Replace(sayStart, "eve", "long", 1) + strings.Repeat(part(strings.Repeat("a", 60000)), 2), closed: true,
			want: failed("the text has more than 64 KiB: at most that much is spoken at once", "too-large")},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := dialAs(t, t.Context(), nil, &mouth{})
			c.write(tt.in)
			if got := c.quiet(); got != tt.want {
				t.Errorf("%s:\n%.2000q\nwant:\n%.2000q", name, got, tt.want)
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) != tt.closed {
				t.Errorf("%s: then %v", name, err)
			}
		})
	}
}

// TestSayBoth: a sound and a text that come at once are refused, and neither waits for the other.
func TestSayBoth(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"a text in a sound": {start + chunk(10) + synthesize("a", "") + stop, "another request came in the middle of a sound"},
		"parts in a sound":  {start + `{"type":"synthesize-start"}` + "\n" + stop, "another request came in the middle of a sound"},
		"a sound in a text": {`{"type":"synthesize-start"}` + "\n" + start + chunk(10) + stop + sayStop, "another request came in the middle of a text"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &ears{}
			c := dialAs(t, t.Context(), e, &mouth{})
			c.write(tt.in + synthesize("abc", ""))
			if got := c.quiet(); !strings.Contains(got, tt.want) || !strings.Contains(got, spoken(3)) || e.running > 0 {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

// TestSayAsItComes: a sentence is spoken while the rest of the text is still to come.
func TestSayAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialAs(t, t.Context(), nil, &mouth{})
		c.write(`{"type":"synthesize-start"}` + "\n" + part("The first sentence. ") + part("And then"))
		if got := c.quiet(); !strings.HasSuffix(got, spoken(20)) {
			t.Errorf("%q", got)
		}
		c.write(part(" the second.\n"))
		if got := c.quiet(); got != spoken(21) {
			t.Errorf("%q", got)
		}
		c.write(sayStop)
		if got := c.quiet(); !strings.Contains(got, "audio-stop") || !strings.Contains(got, "synthesize-stopped") {
			t.Errorf("%q", got)
		}
	})
}

// TestSayTimes: a text that does not go on ends, one that is long to speak does not.
func TestSayTimes(t *testing.T) {
	//proves:T8
	for name, tt := range map[string]struct {
		in, want string
		after    time.Duration
	}{
		"half a text":        {`{"type":"synthesize-start"}` + "\n" + part("One."), "no more of the text came within 2m0s: synthesize-stop ends it", 2 * time.Minute},
		"a sound that lasts": {synthesize("abc", `"name":"long"`), "audio-stop", time.Hour + 2*time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, m := time.Now(), &mouth{}
			c := dialAs(t, t.Context(), nil, m)
			c.write(tt.in)
			got, err := io.ReadAll(c)
			if took := time.Since(begun); err != nil || !strings.Contains(string(got), tt.want) ||
				took < tt.after || took > tt.after+2*time.Minute {
				t.Errorf("%s: after %v: %s, %v", name, took, got, err)
			}
			synctest.Wait()
			if m.running != 0 {
				t.Errorf("%s: something is still spoken", name)
			}
		})
	}
}

// TestSayLeaves: a client that leaves ends what is spoken for it, and so does the server's end, of
// which it is told.
func TestSayLeaves(t *testing.T) {
	for name, in := range map[string]string{"before a sound": synthesize("abc", `"name":"long"`), "in a sound": synthesize("abc", `"name":"endless"`),
		"in a text": `{"type":"synthesize-start"}` + "\n" + part("A whole sentence. ")} {
		for _, leaves := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				m := &mouth{}
				c := dialAs(t, ctx, nil, m)
				c.write(in)
				if m.running != 1 {
					t.Fatalf("%s: %d are spoken", name, m.running)
				}
				if leaves {
					_ = c.Close()
				} else {
					end(errors.New("the end"))
					if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), `{"text":"the end","code":"internal"}`) {
						t.Errorf("%s: %.300q, %v", name, got, err)
					}
				}
				synctest.Wait()
				if m.running != 0 {
					t.Errorf("%s: %d are still spoken", name, m.running)
				}
				end(nil)
			})
		}
	}
}

// mouth makes as many samples of a text as it has bytes. The voice long takes an hour before them,
// endless goes on with them, and half fails after them.
type mouth struct{ running int }

func (*mouth) Voices(context.Context) ([]Voice, error) {
	return []Voice{{"ada", "Ada", []string{"en-US"}}}, nil
}

func (m *mouth) Say(ctx context.Context, voice, language string, texts iter.Seq[string], play func([]float32, int) error) error {
	m.running++
	defer func() { m.running-- }()
	switch {
	case voice == "none":
		return body.Fail(404, "no model here has the voice %q", voice)
	case voice == "busy":
		return body.Fail(503, "busy")
	case voice == "long":
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return ctx.Err()
		}
	case voice != "" && voice != "eve" && voice != "half" && voice != "endless", language != "" && language != "en":
		return errors.New("asked for what it was not asked for")
	}
	for text := range texts {
		if text == "-" {
			continue
		}
		samples := make([]float32, len(text))
		for i := range samples {
			samples[i] = 0.125
		}
		for again := true; again; again = voice == "endless" {
			if err := play(samples, 24000); err != nil {
				return err
			}
		}
	}
	if voice == "half" {
		return errors.New("a fault")
	}
	return ctx.Err()
}

const (
	soundFormat = `{"rate":24000,"width":2,"channels":1}`
	attributed  = `"attribution":{"name":"axle","url":"https://github.com/axle-llm/axle"},"installed":true,"description":`
)

// spoken are pieces of sound of mouth's, of these numbers of samples.
func spoken(samples ...int) (all string) {
	for _, n := range samples {
		all += fmt.Sprintf("{\"type\":\"audio-chunk\",\"data_length\":%d,\"payload_length\":%d}\n%s%s", len(soundFormat), 2*n, soundFormat,
			strings.Repeat("\x00\x10", n))
	}
	return all
}

// synthesize asks for a text with a voice.
func synthesize(text, voice string) string {
	return fmt.Sprintf(`{"type":"synthesize","data":{"text":%q,"voice":{%s}}}`+"\n", text, voice)
}

// part is a part of a text.
func part(text string) string {
	return fmt.Sprintf(`{"type":"synthesize-chunk","data":{"text":%q}}`+"\n", text)
}
