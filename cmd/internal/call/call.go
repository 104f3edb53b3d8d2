package call

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/cmd/internal/client"
)

const (
	// Rate is how many samples a second the sound has that goes and comes.
	Rate = 24000

	bytesPerSecond = 2 * Rate
	piece          = bytesPerSecond / 20 // of an event: longer ones are heard later
	maxMessage     = 16 << 20            // bytes
	patience       = 10 * time.Second    // for a connection, and for a server that takes no more
	alive          = 30 * time.Second    // between events that tell the server that we are here
	echo           = 300 * time.Millisecond
	pause          = time.Second // of silence, which ends what is said at the end of a file
)

// Options are what a conversation is made of.
type Options struct {
	Model        string // that answers
	Instructions string
	Hear         string // the model that writes down; "": the server's choice
	Language     string
	Voice        string // which is of a model that speaks; "": the server's choice

	// In is raw PCM of 16 bits. A microphone's goes to the server as it comes; its end is an error.
	// Other sound goes at the speed at which it was spoken, and waits while an answer is made and
	// played.
	In         io.Reader
	Microphone bool
	// Interrupt: what is said while an answer sounds is listened to, and ends the answer. Without
	// it that is left out, for a microphone that hears the loudspeaker would interrupt it.
	Interrupt bool

	Out  Out
	Text Text
	// Stop ends the answer that is being made or played; where there is none, the conversation.
	Stop <-chan os.Signal
}

// Out is where answers sound.
type Out interface {
	Add(pcm []byte) error          // does not wait for the sound
	End()                          // of an answer: no more comes
	Played() <-chan error          // tells once that an answer that has ended was heard, or why not
	Stop() (unheard time.Duration) // ends an answer now
}

// Text is where the conversation is read.
type Text interface {
	Ready()            // somebody may speak now
	Heard(part string) // of what was said
	Said(part string)  // of an answer
	End(whole bool)    // of what was said, or of an answer
	Problem(err error) // the conversation goes on
}

// Run holds a conversation. It returns nil when the sound of a file has ended and its last answer
// was heard, or when Stop ends the conversation with a microphone. Otherwise it fails with what the
// server says, with client.ErrBrokeOff, with what In or Out fails with, with context.Canceled where
// Stop ends what a file began, and with ctx's error.
func Run(ctx context.Context, conn *client.Client, o Options) error {
	ws, err := dial(ctx, conn, o.Model)
	if err != nil {
		return err
	}
	c := &call{o: o, ws: ws, events: make(chan event), over: make(chan struct{}), gone: make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(context.WithoutCancel(ctx))
	}()
	err = c.hold(ctx)
	o.Out.Stop()
	close(c.over)
	if err == nil {
		_ = ws.Close(websocket.StatusNormalClosure, "")
	}
	_ = ws.CloseNow()
	<-read
	return err
}

func dial(ctx context.Context, conn *client.Client, model string) (*websocket.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	u := conn.URL.JoinPath("/v1/realtime")
	u.RawQuery = url.Values{"model": {model}}.Encode()
	ws, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: conn.HTTP})
	switch {
	case err == nil:
		ws.SetReadLimit(maxMessage)
		return ws, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, client.Error(client.Refused(resp))
	}
	return nil, err
}

// call is a conversation. Its fields belong to the goroutine that holds it, but for those said.
type call struct {
	o      Options
	ws     *websocket.Conn // of both
	events chan event      // of both
	gone   chan error      // of both: why no more events come
	over   chan struct{}   // of both: no events are wanted any more

	ready    bool      // the session is set
	turns    int       // that are not answered yet
	heard    string    // the item that deltas of what was said came for
	response string    // the answer that is being made; "": none
	dropped  string    // the answer that is not wanted any more
	item     string    // the answer that sounds, or is about to
	content  int       // its part
	given    int       // bytes of it that went to Out
	sounds   bool      // Out has something of it
	deaf     time.Time // until when a loudspeaker is still heard
	fenced   bool      // the end of the file was sent
	ended    bool      // and has been seen
}

// read takes events until the connection ends.
func (c *call) read(ctx context.Context) {
	for {
		kind, b, err := c.ws.Read(ctx)
		var e event
		if err == nil {
			e, err = parse(kind, b)
		} else {
			err = closed(err)
		}
		if err != nil {
			c.gone <- err
			return
		}
		select {
		case c.events <- e:
		case <-c.over:
		}
	}
}

// parse reads an event; of one that is not looked at, its type.
func parse(kind websocket.MessageType, b []byte) (e event, err error) {
	var is struct {
		Type string `json:"type"`
	}
	if kind != websocket.MessageText {
		return e, errors.New("the answer is not as it should be: events are text")
	}
	if err = json.Unmarshal(b, &is); err == nil {
		switch e.Type = is.Type; e.Type {
		case kindResponse, kindDone:
			of := struct {
				Response *response `json:"response"`
			}{&e.Whole}
			err = json.Unmarshal(b, &of)
		case kindError, kindHeard, kindCompleted, kindUnheard, kindSound, kindSaid:
			err = json.Unmarshal(b, &e)
		}
	}
	if err != nil {
		return e, fmt.Errorf("the answer is not as it should be: %w", err)
	}
	return e, nil
}

// hold holds the conversation.
func (c *call) hold(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pieces, end := make(chan []byte), make(chan error, 1)
	go func() { end <- c.o.listen(ctx, pieces) }()
	tick := time.NewTicker(alive)
	defer tick.Stop()
	if err := c.send(ctx, c.o.session()); err != nil {
		return err
	}
	for !c.ended || c.turns > 0 || c.response != "" || c.sounds {
		from := pieces
		if !c.o.Microphone && !c.o.Interrupt && (c.turns > 0 || c.response != "" || c.sounds) {
			from = nil // it waits
		}
		var err error
		select {
		case e := <-c.events:
			err = c.take(ctx, e)
		case err = <-c.gone:
		case b := <-from:
			if c.o.Interrupt || !c.o.Microphone || !c.sounds && time.Now().After(c.deaf) {
				err = c.send(ctx, &appended{"input_audio_buffer.append", b})
			}
		case err = <-end:
			if err == nil {
				err = c.fence(ctx)
			}
		case err = <-c.o.Out.Played():
			c.o.Out.Stop()
			c.sounds, c.item, c.deaf = false, "", time.Now().Add(echo)
		case <-c.o.Stop:
			if !c.answers() {
				if c.o.Microphone {
					return nil
				}
				return context.Canceled
			}
			err = c.cut(ctx, true)
		case <-tick.C:
			err = c.send(ctx, &appended{Type: "input_audio_buffer.append", Audio: []byte{}})
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// session is what a conversation wants.
func (o *Options) session() *update {
	u := &update{Type: "session.update", Session: session{Type: "realtime", Model: o.Model, Modalities: []string{"audio"},
		Instructions: o.Instructions}}
	in, out := &u.Session.Audio.Input, &u.Session.Audio.Output
	in.Format, out.Format = format{"audio/pcm", Rate}, format{"audio/pcm", Rate}
	in.Transcription = transcription{o.Hear, o.Language}
	in.TurnDetection = turnDetection{"server_vad", true, true}
	out.Voice = o.Voice
	return u
}

// listen reads the sound, and gives it away in pieces until its end.
func (o *Options) listen(ctx context.Context, to chan<- []byte) error {
	for {
		b := make([]byte, piece)
		n, err := io.ReadFull(o.In, b)
		if n -= n % 2; n > 0 {
			select {
			case to <- b[:n]:
			case <-ctx.Done():
				return ctx.Err()
			}
			if !o.Microphone {
				select {
				case <-time.After(time.Duration(n) * time.Second / bytesPerSecond):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// fence sends the end of a file: silence, so that the last words are over, and what the server
// answers when it has heard all of it.
func (c *call) fence(ctx context.Context) error {
	c.fenced = true
	silence := make([]byte, int(pause.Seconds()*bytesPerSecond))
	if err := c.send(ctx, &appended{"input_audio_buffer.append", silence}); err != nil {
		return err
	}
	return c.send(ctx, &command{Type: "input_audio_buffer.clear"})
}

// take handles an event.
func (c *call) take(ctx context.Context, e event) error {
	switch e.Type {
	case kindUpdated:
		if !c.ready {
			c.ready = true
			c.o.Text.Ready()
		}
	case kindError:
		if e.Error.About == late {
			return nil
		}
		return c.problem(e.Error)
	case kindStarted:
		if c.answers() {
			return c.cut(ctx, false) // the server has ended it
		}
	case kindStopped:
		c.turns++
	case kindCleared:
		c.ended = c.fenced
	case kindHeard:
		c.heard = e.Item
		c.o.Text.Heard(e.Delta)
	case kindCompleted:
		if c.heard != e.Item {
			c.o.Text.Heard(e.Text)
		}
		c.heard = ""
		c.o.Text.End(true)
		if strings.TrimSpace(e.Text) == "" { // a noise, which is not answered
			c.turns = max(0, c.turns-1)
		}
	case kindUnheard:
		return c.problem(e.Error)
	case kindResponse:
		c.turns = max(0, c.turns-1)
		c.response = e.Whole.ID
	case kindSaid:
		if e.Response != c.dropped {
			c.o.Text.Said(e.Delta)
		}
	case kindSound:
		return c.play(e)
	case kindDone:
		c.response = ""
		if e.Whole.ID == c.dropped {
			return nil
		}
		c.o.Text.End(e.Whole.Status != "cancelled" && e.Whole.Status != "incomplete")
		c.o.Out.End()
		if e.Whole.Status == "failed" {
			return c.problem(e.Whole.Details.Error)
		}
	}
	return nil
}

// play plays what has come of an answer.
func (c *call) play(e event) error {
	if e.Response == c.dropped {
		return nil
	}
	pcm, err := base64.StdEncoding.DecodeString(e.Delta)
	switch {
	case err != nil:
		return fmt.Errorf("the answer is not as it should be: its sound: %w", err)
	case len(pcm)%2 > 0:
		return errors.New("the answer is not as it should be: half a sample of sound")
	case len(pcm) == 0:
		return nil
	}
	if c.item != e.Item {
		c.item, c.content, c.given = e.Item, e.Content, 0
	}
	c.given += len(pcm)
	c.sounds = true
	return c.o.Out.Add(pcm)
}

// answers says whether an answer is made or played that was not ended here.
func (c *call) answers() bool { return c.sounds || c.response != "" && c.response != c.dropped }

// cut ends the answer now, and tells the server how much of it was heard.
func (c *call) cut(ctx context.Context, cancel bool) error {
	unheard := c.o.Out.Stop()
	if c.response != "" {
		c.dropped = c.response
		if cancel {
			if err := c.send(ctx, &command{"response.cancel", late}); err != nil {
				return err
			}
		}
	}
	item := c.item
	c.item, c.sounds, c.deaf = "", false, time.Now().Add(echo)
	c.o.Text.End(false)
	if item == "" || unheard == 0 && c.response == "" {
		return nil
	}
	given := time.Duration(c.given) * time.Second / bytesPerSecond
	return c.send(ctx, &truncated{"conversation.item.truncate", late, item, c.content, max(0, given-unheard).Milliseconds()})
}

// problem is what the server says is wrong. A conversation goes on after it, but not before its
// session is set, and not with a file, which does not say it again.
func (c *call) problem(p problem) error {
	err := errors.New(p.Message)
	if p.Message == "" {
		err = errors.New("the server does not say what is wrong; its log may")
	}
	if !c.ready || !c.o.Microphone {
		return err
	}
	c.o.Text.Problem(err)
	return nil
}

// send sends an event.
func (c *call) send(ctx context.Context, e any) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	err = c.ws.Write(ctx, websocket.MessageText, b)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", client.ErrBrokeOff, ctx.Err())
	}
	select {
	case why := <-c.gone: // who reads knows better
		return why
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", client.ErrBrokeOff, err)
	}
}

// closed is why a connection ended.
func closed(err error) error {
	var end websocket.CloseError
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return fmt.Errorf("the answer is not as it should be: an event of more than %d MiB", maxMessage>>20)
	case errors.As(err, &end) && end.Reason != "":
		return fmt.Errorf("the server ended the conversation: %s", end.Reason)
	case errors.As(err, &end):
		return fmt.Errorf("the server ended the conversation: %s", end.Code)
	}
	return fmt.Errorf("%w: %w", client.ErrBrokeOff, err)
}
