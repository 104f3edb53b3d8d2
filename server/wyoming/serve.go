package wyoming

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/body"
)

// The events that there are.
const (
	kindDescribe   = "describe"
	kindInfo       = "info"
	kindPing       = "ping"
	kindPong       = "pong"
	kindError      = "error"
	kindTranscribe = "transcribe"
	kindStart      = "audio-start"
	kindChunk      = "audio-chunk"
	kindStop       = "audio-stop"
	kindTranscript = "transcript"
	kindTextStart  = "transcript-start"
	kindTextChunk  = "transcript-chunk"
	kindTextStop   = "transcript-stop"
	kindSay        = "synthesize"
	kindSayStart   = "synthesize-start"
	kindSayChunk   = "synthesize-chunk"
	kindSayStop    = "synthesize-stop"
	kindSaid       = "synthesize-stopped"
)

// Options are what a listener answers.
type Options struct {
	Hearer  Hearer                                // recognition; nil: there is none
	Speaker Speaker                               // synthesis; nil: there is none
	Version string                                // axle's
	Tell    func(error) (status int, text string) // what an error is to a client
	Idle    time.Duration                         // how long a connection may ask nothing
	Read    time.Duration                         // how long the rest of an event may take, and the next piece of a sound
	Write   time.Duration                         // how long one write may take
}

// Hearer writes speech down. Its methods are called from many goroutines.
type Hearer interface {
	// Models are those that hear, the one first that is asked where none is named.
	Models(ctx context.Context) ([]Model, error)
	// Hear reads the sound to its end. It calls each with the text, piece by piece as it is
	// understood, and with none that is empty. It returns the language that the text is in if the
	// model says so. An empty name is the first model's, an empty language is to be found.
	Hear(ctx context.Context, name, language string, sound ask.Sound, each func(text string)) (spoken string, err error)
}

// Model is one that hears.
type Model struct {
	Name, Description string
	Languages         []string // ISO 639-1
}

// ErrLeft is why nobody needs an answer any more: the client is gone, or sent what cannot be read.
var ErrLeft = errors.Join(errors.New("the satellite left"), context.Canceled)

// Serve answers a connection until the client leaves or ctx ends, and closes it. Then a sound that
// is being heard has ctx's cause, which its client is told.
func Serve(ctx context.Context, nc net.Conn, o Options) {
	c := &conn{o: o, nc: nc, r: NewReader(nc)}
	defer nc.Close()
	base, left := context.WithCancelCause(ctx)
	stop := context.AfterFunc(base, func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	c.end = left
	err := c.listen(base)
	if told := new(body.Failure); errors.As(err, &told) {
		c.fail(err)
	}
	if ctx.Err() == nil {
		left(ErrLeft)
	}
	if c.last != nil {
		<-c.last
	}
	left(nil)
}

// conn is a connection. Its fields belong to the goroutine that reads, but for what out guards.
type conn struct {
	o    Options
	nc   net.Conn
	r    *Reader
	asks struct {
		Name     string `json:"name"`
		Language string `json:"language"`
	}
	now  *hearing                // what comes is its sound; nil: no sound is expected
	deaf bool                    // what comes is of a sound that was refused
	text *saying                 // what comes is its text; nil: no text is expected
	last chan struct{}           // closed when the last that began is answered; nil: nothing did
	end  context.CancelCauseFunc // ends the connection

	out ranked.Mutex[ranked.Wyoming] // writes to nc
}

// hearing is a sound that is written down.
type hearing struct {
	sound  *sound
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when its answer was sent
}

// over says whether what done belongs to is answered; nil is nothing.
func over(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return done == nil
	}
}

// listen takes events until one cannot be read.
func (c *conn) listen(ctx context.Context) error {
	for {
		if err := c.wait(ctx); err != nil {
			return err
		}
		c.until(ctx, c.o.Read)
		e, err := c.r.Next()
		if err == nil {
			var wrong *body.Failure
			if err = c.take(ctx, e); errors.As(err, &wrong) {
				c.fail(err)
				err = nil
			}
		}
		if err == nil {
			c.until(ctx, c.o.Read)
			err = c.r.pass()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			return body.Fail(408, "the rest of an event did not come within %v", c.o.Read)
		}
		if err != nil {
			return err
		}
	}
}

// wait waits for the next event.
func (c *conn) wait(ctx context.Context) error {
	for {
		limit := c.o.Idle
		if c.now != nil {
			limit = c.o.Read
		}
		answers := !over(c.last)
		c.until(ctx, limit)
		err := c.r.Wait()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case c.now != nil && !over(c.now.done):
			return body.Fail(408, "no more of the sound came within %v: audio-stop ends it", c.o.Read)
		case c.text != nil:
			return body.Fail(408, "no more of the text came within %v: synthesize-stop ends it", c.o.Idle)
		case !answers: // else the client waited, and not the server
			return err
		}
	}
}

// until sets how long is read, unless ctx has ended.
func (c *conn) until(ctx context.Context, d time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(d))
	if ctx.Err() != nil { // also where it ended just before
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// take handles an event. Those that are not known are left out: clients send more than one service
// needs. A *body.Failure is for the client, any other error is the connection's.
func (c *conn) take(ctx context.Context, e Event) error {
	switch e.Type {
	case kindDescribe:
		c.describe(ctx)
		return nil
	case kindPing:
		var ping struct {
			Text string `json:"text,omitempty"`
		}
		if err := e.Into(&ping); err != nil {
			return err
		}
		c.send(kindPong, ping)
		return nil
	}
	if c.o.Speaker != nil {
		switch e.Type {
		case kindSay:
			return c.say(ctx, e)
		case kindSayStart:
			return c.sayStart(ctx, e)
		case kindSayChunk:
			return c.sayChunk(e)
		case kindSayStop:
			return c.sayStop()
		}
	}
	if c.o.Hearer == nil {
		return nil
	}
	switch e.Type {
	case kindTranscribe:
		c.asks.Name, c.asks.Language = "", ""
		return e.Into(&c.asks)
	case kindStart:
		c.drop(body.Fail(400, "audio-start came in the middle of a sound: audio-stop ends one"))
		c.deaf = false
		return c.start(ctx, e)
	case kindChunk:
		return c.chunk(ctx, e)
	case kindStop:
		return c.stop()
	}
	return nil
}

// start begins a sound, when the answer to the one before has been sent.
func (c *conn) start(ctx context.Context, e Event) error {
	var f format
	err := e.Into(&f)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		c.deaf = true
		return err
	}
	done, err := c.begin()
	if err != nil {
		c.deaf = true
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hearing{newSound(ctx, f), cancel, done}
	c.now = h
	name, language := c.asks.Name, language(c.asks.Language)
	c.asks.Name, c.asks.Language = "", ""
	go c.hear(ctx, h, name, language)
	return nil
}

// begin waits until the one before is answered. Who begins closes done when the next is.
func (c *conn) begin() (done chan struct{}, err error) {
	switch {
	case c.text != nil:
		return nil, body.Fail(400, "another request came in the middle of a text: synthesize-stop ends one")
	case c.now != nil:
		return nil, body.Fail(400, "another request came in the middle of a sound: audio-stop ends one")
	case c.last != nil:
		<-c.last
	}
	c.last = make(chan struct{})
	return c.last, nil
}

// hear lets a sound be heard, and answers: piece by piece, and at the end with all of it, for
// clients that know no pieces.
func (c *conn) hear(ctx context.Context, h *hearing, name, language string) {
	defer close(h.done)
	type words struct {
		Text     string `json:"text"`
		Language string `json:"language,omitempty"`
	}
	var all strings.Builder
	begun := false
	begin := func() {
		if !begun {
			c.send(kindTextStart, struct{}{})
		}
		begun = true
	}
	spoken, err := c.o.Hearer.Hear(ctx, name, language, h.sound, func(text string) {
		begin()
		c.send(kindTextChunk, words{Text: text})
		all.WriteString(text)
	})
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		begin()
		c.send(kindTranscript, words{all.String(), spoken})
		c.send(kindTextStop, struct{}{})
	case cause == nil:
		c.fail(err)
		h.sound.drain()
		c.end(errFailed)
	case !errors.Is(cause, ErrLeft):
		c.fail(cause)
	}
	h.cancel(ErrLeft) // nobody hears what still comes
}

// chunk takes a piece of a sound.
func (c *conn) chunk(ctx context.Context, e Event) error {
	if c.deaf {
		return nil
	}
	if c.now == nil {
		if err := c.start(ctx, e); err != nil {
			return err
		}
	}
	f := c.now.sound.format
	err := e.Into(&f) // what it does not say stays
	if err == nil && f != c.now.sound.format {
		err = body.Fail(400, "the sound's format changed in the middle of it")
	}
	if err != nil {
		c.drop(err)
		return nil
	}
	for e.Payload.N > 0 {
		c.until(ctx, c.o.Read)
		piece := make([]byte, min(e.Payload.N, block))
		if _, err := io.ReadFull(e.Payload, piece); err != nil {
			return err
		}
		if c.now.sound.write(piece) != nil { // its client has been told why, or will be
			c.now, c.deaf = nil, true
			break
		}
	}
	return nil
}

// drop ends a sound that is still coming; its client is told why.
func (c *conn) drop(err error) {
	if c.now == nil {
		return
	}
	c.now.cancel(err)
	c.now, c.deaf = nil, true
}

// stop is the end of a sound.
func (c *conn) stop() error {
	switch {
	case c.now != nil:
		c.now.sound.end()
		c.now = nil
	case c.deaf:
		c.deaf = false
	default:
		return body.Fail(400, "audio-stop came before any sound: send audio-start first")
	}
	return nil
}

// language is the language of a tag that may also name a country: en of en-US.
func language(tag string) string {
	tag, _, _ = strings.Cut(strings.ReplaceAll(tag, "_", "-"), "-")
	return strings.ToLower(strings.TrimSpace(tag))
}

// thing is how info describes programs and models.
type thing struct {
	Name        string      `json:"name"`
	Attribution attribution `json:"attribution"`
	Installed   bool        `json:"installed"`
	Description string      `json:"description"`
	Version     string      `json:"version"`
}

type attribution struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type hearingModel struct {
	thing
	Languages []string `json:"languages"`
}

type hearingProgram struct {
	thing
	Models  []hearingModel `json:"models"`
	Streams bool           `json:"supports_transcript_streaming"`
}

type speakingVoice struct {
	thing
	Languages []string `json:"languages"`
}

type speakingProgram struct {
	thing
	Voices  []speakingVoice `json:"voices"`
	Streams bool            `json:"supports_synthesize_streaming"`
}

// describe says what there is. A program without models would be offered and fail, so it is left
// out.
func (c *conn) describe(ctx context.Context) {
	of := func(name, description string) thing {
		return thing{name, attribution{"axle", "https://github.com/axle-llm/axle"}, true, description, c.o.Version}
	}
	info := struct {
		ASR []hearingProgram  `json:"asr"`
		TTS []speakingProgram `json:"tts,omitempty"`
	}{ASR: []hearingProgram{}}
	if c.o.Hearer != nil {
		models, err := c.o.Hearer.Models(ctx)
		if err != nil {
			c.fail(err)
			return
		}
		p := hearingProgram{thing: of("axle", "Speech recognition on an Axera card"), Streams: true}
		for _, m := range models {
			p.Models = append(p.Models, hearingModel{of(m.Name, m.Description), append([]string{}, m.Languages...)})
		}
		if len(p.Models) > 0 {
			info.ASR = append(info.ASR, p)
		}
	}
	if c.o.Speaker != nil {
		voices, err := c.o.Speaker.Voices(ctx)
		if err != nil {
			c.fail(err)
			return
		}
		p := speakingProgram{thing: of("axle", "Speech synthesis on an Axera card"), Streams: true}
		for _, v := range voices {
			p.Voices = append(p.Voices, speakingVoice{of(v.Name, v.Description), append([]string{}, v.Languages...)})
		}
		if len(p.Voices) > 0 {
			info.TTS = append(info.TTS, p)
		}
	}
	c.send(kindInfo, info)
}

// fail tells the client of an error.
func (c *conn) fail(err error) {
	status, text := c.o.Tell(err)
	c.send(kindError, struct {
		Text string `json:"text"`
		Code string `json:"code"`
	}{text, code(status)})
}

// code is what kind of error a status is, as a word for programs.
func code(status int) string {
	switch status {
	case 404:
		return "not-found"
	case 408:
		return "timeout"
	case 413:
		return "too-large"
	case 429, 503:
		return "unavailable"
	}
	if status < 500 {
		return "bad-request"
	}
	return "internal"
}

// send writes an event. Where that fails the client is gone, which the reader notices.
func (c *conn) send(kind string, data any) { _ = c.sendWith(kind, data, nil) }

// sendWith writes an event with a payload. After an error no more can be written.
func (c *conn) sendWith(kind string, data any, payload []byte) error {
	b, err := Append(nil, kind, data, payload)
	if err != nil {
		return err
	}
	c.out.Lock()
	defer c.out.Unlock()
	_ = c.nc.SetWriteDeadline(time.Now().Add(c.o.Write))
	if _, err = c.nc.Write(b); err != nil {
		_ = c.nc.Close() // half an event is no place to go on from
	}
	return err
}
