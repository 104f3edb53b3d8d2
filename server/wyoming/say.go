package wyoming

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/sentence"
)

const (
	maxText    = maxData // bytes of one synthesis
	soundChunk = 1024    // samples of an event
)

// Speaker speaks. Its methods are called from many goroutines.
type Speaker interface {
	// Voices are all that there are, the one first that speaks where none is named.
	Voices(ctx context.Context) ([]Voice, error)
	// Say speaks the parts of a text one after the other, as they come. It gives play the samples
	// of each piece, and how many a second has. An error of play ends it. Without a voice and a
	// language the first voice speaks.
	Say(ctx context.Context, voice, language string, texts iter.Seq[string], play func(samples []float32, rate int) error) error
}

// Voice is one that a model speaks with.
type Voice struct {
	Name, Description string
	Languages         []string // BCP 47
}

// errFailed is why a connection ends whose sound or text failed. Clients such as Home Assistant
// wait for transcript or audio-stop, whatever else comes, or for the connection's end.
var errFailed = errors.Join(errors.New("the request failed"), context.Canceled)

// saying is a text that is spoken.
type saying struct {
	parts  chan string // has room for all that maxText lets come
	rest   string      // what came behind the last part
	bytes  int
	stream bool
}

// voice is what a text is to be spoken with.
type voice struct {
	Voice struct {
		Name     string `json:"name"`
		Language string `json:"language"`
	} `json:"voice"`
}

// say is a whole text. It is left out where the text comes in parts: then it repeats them, for
// servers that know no parts.
func (c *conn) say(ctx context.Context, e Event) error {
	if c.text != nil {
		return nil
	}
	var asked struct {
		voice
		Text string `json:"text"`
	}
	if err := e.Into(&asked); err != nil {
		return err
	}
	if strings.TrimSpace(asked.Text) == "" {
		return body.Fail(400, "synthesize has no text")
	}
	done, err := c.begin()
	if err == nil {
		s := &saying{parts: make(chan string, 1)}
		s.parts <- asked.Text
		close(s.parts)
		go c.speak(ctx, s, asked.voice, done)
	}
	return err
}

// sayStart begins a text that comes in parts.
func (c *conn) sayStart(ctx context.Context, e Event) error {
	var asked voice
	if err := e.Into(&asked); err != nil {
		return err
	}
	done, err := c.begin()
	if err == nil {
		c.text = newSaying()
		go c.speak(ctx, c.text, asked, done)
	}
	return err
}

// sayChunk takes a part of a text.
func (c *conn) sayChunk(e Event) error {
	if c.text == nil {
		return body.Fail(400, "synthesize-chunk came before synthesize-start")
	}
	var part struct {
		Text string `json:"text"`
	}
	if err := e.Into(&part); err != nil {
		return err
	}
	if err := c.text.add(part.Text); err != nil {
		c.fail(err)
		c.end(errFailed)
	}
	return nil
}

func newSaying() *saying {
	return &saying{parts: make(chan string, maxText/sentence.Least+1), stream: true}
}

// add takes more of the text, and gives on what of it is whole.
func (s *saying) add(text string) error {
	if s.bytes += len(text); s.bytes > maxText {
		return body.Fail(413, "the text has more than %d KiB: at most that much is spoken at once", maxText>>10)
	}
	s.rest += text
	if n := sentence.Whole(s.rest); n > 0 {
		if part := s.rest[:n]; sentence.Worded(part) {
			s.parts <- part
		}
		s.rest = s.rest[n:]
	}
	return nil
}

// close gives on the rest.
func (s *saying) close() {
	if sentence.Worded(s.rest) {
		s.parts <- s.rest
	}
	close(s.parts)
}

// sayStop is the end of a text.
func (c *conn) sayStop() error {
	if c.text == nil {
		return body.Fail(400, "synthesize-stop came before synthesize-start")
	}
	c.text.close()
	c.text = nil
	return nil
}

// speak lets a text be spoken, and answers.
func (c *conn) speak(ctx context.Context, s *saying, v voice, done chan struct{}) {
	defer close(done)
	type format struct {
		Rate     int `json:"rate"`
		Width    int `json:"width"`
		Channels int `json:"channels"`
	}
	f := format{Width: 2, Channels: 1}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	play := func(samples []float32, rate int) (err error) {
		if f.Rate == 0 {
			f.Rate = rate
			err = c.sendWith(kindStart, f, nil)
		}
		for len(samples) > 0 && err == nil && ctx.Err() == nil {
			n := min(len(samples), soundChunk)
			err = c.sendWith(kindChunk, f, audio.AppendPCM(nil, samples[:n]))
			samples = samples[n:]
		}
		if err != nil {
			cancel(ErrLeft)
		}
		return context.Cause(ctx)
	}
	texts := func(yield func(string) bool) {
		for {
			select {
			case part, more := <-s.parts:
				if !more || !yield(part) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
	err := c.o.Speaker.Say(ctx, v.Voice.Name, v.Voice.Language, texts, play)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	switch {
	case errors.Is(err, ErrLeft), errors.Is(err, errFailed):
		return
	case err != nil:
		c.fail(err)
		c.end(errFailed)
		return
	case f.Rate > 0 || !s.stream: // also of a text without a sound, since its client waits
		c.send(kindStop, struct{}{})
	}
	if s.stream {
		c.send(kindSaid, struct{}{})
	}
}
