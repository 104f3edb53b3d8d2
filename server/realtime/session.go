package realtime

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/server/body"
)

const (
	maxMessage  = 16 << 20  // bytes: OpenAI takes 15 MiB of sound in an event
	freeMessage = 1 << 20   // of those, what no room is taken for
	maxEvent    = 2 << 20   // bytes of an event without sound: lists take many times their JSON
	maxWaiting  = 64        // turns that wait to be written down
	maxSession  = time.Hour // as OpenAI's; a key that is gone by then opens no other
)

// Options are what a session answers with.
type Options struct {
	Hearer Hearer
	Talker Talker
	Model  string                                // the model that hears; "": the first that does
	Chat   string                                // the model that chats; "": the session writes speech down, until it is told otherwise
	Speech func() Speech                         // finds speech in a session's sound
	Tell   func(error) (status int, text string) // what an error is to a client
	Room   func(bytes int64) error               // makes the session hold so much memory; called by who called Serve
	Idle   time.Duration                         // how long a client may send nothing
	Read   time.Duration                         // how long the rest of a message may take
	Write  time.Duration                         // how long one write may take
}

// Speech is the probability of speech in the next [vad.Window] samples of a session.
type Speech func(window []float32) (float32, error)

// Hearer writes speech down. Its methods are called from many goroutines.
type Hearer interface {
	// Model is the whole name of a model that hears, and whether it writes down while somebody
	// speaks; an empty name is the first one's.
	Model(ctx context.Context, name string) (whole string, live bool, err error)
	// Hear calls each with the text of the sound, piece by piece, and returns the language that it
	// is in if the model says so. An empty name is the first model's.
	Hear(ctx context.Context, name string, r ask.TranscribeRequest, each func(text string)) (spoken string, err error)
	// Early is Hear of what may be of no use. It is a request of the client's only when used is
	// called, which is done once at most.
	Early(ctx context.Context, name string, r ask.TranscribeRequest, each func(text string)) (spoken string, used func(), err error)
}

// ErrLeft is why no answer is needed any more: the client is gone.
var ErrLeft = errors.Join(errors.New("the client left"), context.Canceled)

// Serve runs a session until the client leaves, is silent for too long, or ctx ends; then it closes
// the connection. A turn that is being written down when ctx ends has its cause, which its client
// is told.
func Serve(ctx context.Context, c *websocket.Conn, o Options) {
	c.SetReadLimit(maxMessage)
	s := &session{o: o, c: c, talkID: name("conv"), set: fresh(name("sess"), o.Model), turns: make(chan job, maxWaiting),
		pauses: make(chan *early)}
	s.seen.Store(time.Now().UnixNano())
	s.over = time.Now().Add(maxSession)
	s.set.Audio.Input.Transcription.Model, s.hearsLive, _ = o.Hearer.Model(ctx, o.Model) // a turn tells of the error
	if o.Chat != "" {
		s.set = s.conversation(ctx, s.set, o.Chat)
		s.said.keep(true)
	}
	work, left := context.WithCancelCause(ctx)
	defer left(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work(work)
	}()
	if err := s.begin(); err != nil {
		s.fail("", err)
	}
	s.send(&sessionEvent{event{Type: kindCreated}, s.set})
	s.listen(ctx)
	if ctx.Err() == nil {
		left(ErrLeft)
	}
	close(s.turns)
	<-done
	_ = c.CloseNow()
}

// session is a client's. Its fields belong to the goroutine that reads, but for those said.
type session struct {
	o      Options         // of both
	c      *websocket.Conn // of both
	said   conversation    // of both; of a session that writes down, its last item
	talkID string          // of both: the conversation's
	set    config
	in     *stream
	buffer buffer
	found  *detector // nil: the client says when a turn is over
	large  int64     // bytes of room that a message takes
	live   *live     // the turn that is written down while it goes on; nil: none is
	early  *early    // the hearing of the turn that goes on; nil: there is none

	hearsLive bool      // the model can
	over      time.Time // of both: when the session is too old

	turns   chan job
	pauses  chan *early  // has room for none: who works takes one when there is nothing else to do
	waiting atomic.Int64 // samples in turns, and in the one that is written down
	ahead   atomic.Int64 // samples of the early hearing
	seen    atomic.Int64 // when the client sent something last, in ns
}

// job is a turn that waits to be written down, or a response.
type job struct {
	item  string
	sound []int16
	live  *live          // instead of sound, in a turn that goes on
	early *early         // done; nil: there was none
	set   *transcription // nil: it is written down for the answer alone

	response *response
}

// name is a new name for a thing.
func name(of string) string { return of + "_" + rand.Text() }

// listen takes messages until none can be read. Their context is not ctx, whose end would break the
// connection off: who works closes it in order.
func (s *session) listen(ctx context.Context) {
	read, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for {
		kind, r, err := s.c.Reader(read)
		if err != nil {
			return
		}
		late := time.AfterFunc(s.o.Read, stop)
		b, err := s.message(r)
		late.Stop()
		s.seen.Store(time.Now().UnixNano())
		var e asked
		switch wrong := new(body.Failure); {
		case errors.As(err, &wrong):
		case err != nil:
			return
		case kind != websocket.MessageText:
			err = body.Fail(400, "a message is not text: events are JSON objects")
		default:
			if err = into("an event", b, &e); err == nil {
				err = s.take(ctx, e.Type, b)
			}
		}
		if err != nil {
			s.fail(e.ID, err)
		}
		s.large = 0
		_ = s.reserve(0) // also where turns were written down
	}
}

// message reads a message. Room is taken for what a large one costs before it is read.
func (s *session) message(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, freeMessage); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return b.Bytes(), err
	}
	s.large = 4 * maxMessage // twice while it is read; its bytes of sound, and these as samples
	if err := s.reserve(0); err != nil {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return nil, err
		}
		return nil, body.Fail(503, "there is no room for a message of more than %d KiB now: send shorter ones, or this again",
			freeMessage>>10)
	}
	_, err := io.Copy(&b, r)
	return b.Bytes(), err
}

// reserve takes the room that the message, the sound that is kept, and more samples need.
func (s *session) reserve(more int) error { return s.room(3 * int64(more)) } // 2 bytes each, and what has grown for more

// room is reserve for more bytes.
func (s *session) room(more int64) error {
	return s.o.Room(3*(int64(len(s.buffer.held))+s.waiting.Load()+s.ahead.Load()) + s.large + s.said.size() + s.set.talk.size() + more)
}

// take handles an event.
func (s *session) take(ctx context.Context, kind string, b []byte) error {
	if kind != kindAppend && len(b) > maxEvent {
		return body.Fail(413, "an event of the type %q has more than %d KiB", clip(kind), maxEvent>>10)
	}
	switch kind {
	case kindUpdate:
		var e struct {
			Session json.RawMessage `json:"session"`
		}
		if err := into(kindUpdate, b, &e); err != nil {
			return err
		}
		return s.update(ctx, e.Session)
	case kindAppend:
		var e struct {
			Audio []byte `json:"audio"`
		}
		if err := into(kindAppend, b, &e); err != nil {
			return err
		}
		return s.add(e.Audio)
	case kindCommit:
		return s.commit()
	case kindClear:
		s.buffer.take(s.buffer.end())
		if err := s.begin(); err != nil {
			return err
		}
		s.send(&event{Type: kindCleared})
		return nil
	case "":
		return body.Fail(400, "an event has no type")
	}
	if s.set.talk != nil {
		return s.converse(kind, b)
	}
	return body.Fail(400, "an event of the type %q: a session that writes speech down takes session.update, and "+
		"input_audio_buffer.append, commit and clear", clip(kind))
}

// update changes what the session is set to: all of what the event says, or nothing.
func (s *session) update(ctx context.Context, b json.RawMessage) error {
	next, err := s.typed(ctx, b)
	if err == nil {
		next, err = next.with(b)
	}
	if err == nil && next.talk != nil {
		if err = s.talks(ctx, next); err == nil {
			err = s.room(next.talk.size())
		}
	}
	if err != nil {
		return err
	}
	was, is := s.set.Audio.Input, next.Audio.Input
	live := s.hearsLive
	if is.Transcription != nil && (was.Transcription == nil || is.Transcription.Model != was.Transcription.Model) {
		if is.Transcription.Model, live, err = s.o.Hearer.Model(ctx, is.Transcription.Model); err != nil {
			return err
		}
	}
	s.set, s.hearsLive = next, live
	s.forgetEarly()
	s.said.keep(next.talk != nil)
	if was.Format != is.Format {
		err = s.begin()
	} else if !reflect.DeepEqual(was.TurnDetection, is.TurnDetection) {
		err = s.detect()
	}
	if err != nil {
		return err
	}
	s.send(&sessionEvent{event{Type: kindUpdated}, s.set})
	return nil
}

// begin makes what hears the sound from now on, as one of its own. Sound that is kept stays.
func (s *session) begin() (err error) {
	if s.in, err = newStream(s.set.Audio.Input.Format); err != nil {
		return err
	}
	return s.detect()
}

// detect makes what finds turns from now on. A turn that goes on is none.
func (s *session) detect() (err error) {
	s.found = nil
	s.forgetEarly()
	if s.live != nil {
		s.live.end(errDropped)
		s.live = nil
	}
	if t := s.set.Audio.Input.TurnDetection; t != nil {
		s.found, err = newDetector(*t, s.o.Speech(), s.buffer.end())
	}
	return err
}

// add takes sound that came.
func (s *session) add(b []byte) error {
	//rule:T7 ./server/realtime TestHeld false
	if int64(len(s.buffer.held)+s.in.most(b))+s.waiting.Load() > maxHeld {
		return body.Fail(429, "more than %d minutes of sound are not written down yet, and this is left out: commit or clear "+
			"what there is, or send it as slowly as it is spoken", maxHeld/hearRate/60)
	}
	if err := s.reserve(s.in.most(b)); err != nil {
		return err
	}
	samples := s.in.samples(b)
	if s.found == nil {
		if s.buffer.add(samples); s.live == nil {
			s.begins(name("item"), s.buffer.first)
		}
		s.feed()
		return nil
	}
	for len(samples) > 0 {
		n := min(len(samples), vad.Window)
		if err := s.listenTo(samples[:n]); err != nil {
			return err
		}
		samples = samples[n:]
	}
	s.hearEarly()
	return nil
}

// listenTo looks for speech in the next samples, a window's at most.
func (s *session) listenTo(samples []float32) error {
	s.buffer.add(samples)
	s.feed()
	d := s.found
	events, err := d.listener.Add(samples)
	if err != nil {
		return err
	}
	for _, e := range events {
		switch {
		case e.Kind == vad.Started && d.item != "": // that was a pause in a turn
			d.paused = false
			s.forgetEarly()
		case e.Kind == vad.Started:
			d.item, d.from = name("item"), max(d.first+int64(e.Sample)-d.prefix, s.buffer.first)
			if s.set.Audio.Input.TurnDetection.Interrupts.is() {
				s.said.cancel(func(r *response) bool { return !r.apart }, errTurn)
			}
			s.send(&startedEvent{event{Type: kindStarted}, d.from / ms, d.item})
			s.begins(d.item, d.from)
		case e.Kind == vad.Stopped:
			d.paused = true
		case e.Kind == vad.Ended:
			s.stopped()
		}
	}
	switch {
	case d.item == "":
		s.buffer.forget(s.buffer.end() - d.prefix - before)
	case s.buffer.end()-d.from >= maxTurn: // it goes on in the next turn
		s.stopped()
		return s.detect()
	}
	return nil
}

// stopped ends the turn in which somebody spoke.
func (s *session) stopped() {
	d := s.found
	s.send(&stoppedEvent{event{Type: kindStopped}, s.buffer.end() / ms, d.item})
	s.turn(d.item, s.buffer.take(d.from), s.live)
	s.live = nil
	if s.set.talk != nil && s.set.Audio.Input.TurnDetection.Answers.is() {
		if err := s.queue(&response{id: name("resp"), talk: *s.set.talk, out: *s.set.Audio.Output, turn: d.item}); err != nil {
			s.fail("", err)
		}
	}
	d.item, d.paused = "", false
}

// commit ends a turn because the client says so.
func (s *session) commit() error {
	item := ""
	if s.found != nil {
		item = s.found.item
	}
	s.buffer.add(s.in.rest())
	s.feed()
	live := s.live
	if s.live = nil; live != nil {
		item = live.item
	}
	if err := s.begin(); err != nil {
		return err
	}
	if n := len(s.buffer.held); n < minTurn {
		if live != nil {
			live.end(errDropped)
		}
		return body.Fail(400, "the buffer has %d ms of sound: a turn has %d at least", n/ms, minTurn/ms)
	}
	s.turn(cmp.Or(item, name("item")), s.buffer.take(s.buffer.first), live)
	return nil
}

// turn tells of a turn that is over, and has it written down, if it is not being written down
// already.
func (s *session) turn(item string, sound []int16, live *live) {
	it := &said{item: spoken(item)}
	before := s.keep(it, "")
	s.send(&committedEvent{event{Type: kindCommitted}, before, item})
	s.send(&itemEvent{event{Type: kindAdded}, before, spoken(item)})
	s.send(&itemEvent{event{Type: kindDone}, before, spoken(item)})
	if live != nil && !errors.Is(live.end(io.EOF), errLate) {
		return
	}
	t := s.set.Audio.Input.Transcription
	if t == nil && s.set.talk == nil {
		return
	}
	if t != nil {
		t = new(*t)
	}
	s.waiting.Add(int64(len(sound)))
	select {
	case s.turns <- job{item: item, sound: sound, early: s.early, set: t}:
		s.early = nil
	default:
		s.forgetEarly()
		s.waiting.Add(-int64(len(sound)))
		s.failed(item, body.Fail(429, "%d turns wait to be written down, and this is left out", maxWaiting))
	}
}

// keep puts an item into the conversation, at the end or behind another. It returns which is before
// it, and tells which are no longer kept.
func (s *session) keep(it *said, after string) *string {
	before, gone, _ := s.said.add(it, after)
	s.dropped(gone)
	return before
}

// work has turns written down, and closes the connection where ctx ends or its client sends nothing
// for too long.
func (s *session) work(ctx context.Context) {
	idle, over := time.NewTimer(s.o.Idle), time.NewTimer(time.Until(s.over))
	defer idle.Stop()
	defer over.Stop()
	for {
		select {
		case h, more := <-s.turns:
			if !more {
				return
			}
			s.do(ctx, h)
			s.waiting.Add(-int64(len(h.sound)))
			idle.Reset(s.o.Idle)
		case e := <-s.pauses:
			n := int64(len(e.sound))
			e.hear(ctx, s.o.Hearer)
			s.ahead.Add(-n)
		case <-idle.C:
			if since := time.Since(time.Unix(0, s.seen.Load())); since < s.o.Idle {
				idle.Reset(s.o.Idle - since)
				continue
			}
			s.end(body.Fail(408, "no event came within %v: the session is over", s.o.Idle))
			return
		case <-over.C:
			s.end(body.Fail(408, "the session is %v old, and over: open another", maxSession))
			return
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrLeft) {
				return
			}
			for len(s.turns) > 0 { // they are told why
				if h, more := <-s.turns; more {
					s.do(ctx, h)
				}
			}
			_ = s.c.Close(websocket.StatusGoingAway, "the server is shutting down")
			return
		}
	}
}

// end closes the connection of a session that has taken too long.
func (s *session) end(err error) {
	s.fail("", err)
	_ = s.c.Close(websocket.StatusNormalClosure, "the session is over")
}

// do has a turn written down, or a response made.
func (s *session) do(ctx context.Context, j job) {
	switch {
	case j.response != nil:
		s.answer(ctx, j.response)
	case j.set != nil:
		s.write(ctx, j)
	default: // the client hears nothing of it
		text, _, err := s.hear(ctx, j, transcription{}, func(string) {})
		if err == nil {
			s.said.heard(j.item, text)
		} else if !errors.Is(err, ErrLeft) {
			s.fail("", err)
		}
	}
}

// write has a turn written down, and tells the client.
func (s *session) write(ctx context.Context, j job) {
	text, spoken, err := s.hear(ctx, j, *j.set, func(delta string) {
		s.send(&deltaEvent{event{Type: kindDelta}, j.item, 0, delta})
	})
	samples := len(j.sound)
	if j.live != nil {
		samples = j.live.samples()
	}
	switch {
	case errors.Is(err, ErrLeft), errors.Is(err, errDropped):
	case err != nil:
		s.failed(j.item, err)
	default:
		s.said.heard(j.item, text)
		e := &completedEvent{event: event{Type: kindCompleted}, Item: j.item, Transcript: text,
			Usage: usage{"duration", float64(samples) / hearRate}}
		if spoken != "" {
			e.Languages = []language{{spoken}}
		}
		s.send(e)
	}
}

// hear has a turn written down.
func (s *session) hear(ctx context.Context, j job, t transcription, each func(string)) (text, spoken string, err error) {
	var all strings.Builder
	if e := j.early; e != nil && e.used != nil {
		e.used()
		for _, delta := range e.deltas {
			all.WriteString(delta)
			each(delta)
		}
		return all.String(), e.spoken, nil
	}
	var sound ask.Sound = &turn{j.sound}
	if l := j.live; l != nil {
		sound = l
		end, stop := context.WithDeadlineCause(ctx, s.over, errDropped) // who works tells why it is over
		defer stop()
		defer context.AfterFunc(end, func() { l.end(context.Cause(end)) })() // Read has no context
		defer l.drop()
	}
	spoken, err = s.o.Hearer.Hear(ctx, t.Model, ask.TranscribeRequest{Sound: sound, Language: t.Language, Prompt: t.Prompt,
		Partial: j.live != nil},
		func(delta string) {
			all.WriteString(delta)
			each(delta)
		})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return all.String(), spoken, err
}

// failed tells of a turn that could not be written down.
func (s *session) failed(item string, err error) {
	s.send(&failedEvent{event{Type: kindFailed}, item, 0, s.problem(err)})
}

// fail tells of an error, and names the client's event that it is about.
func (s *session) fail(id string, err error) {
	e := &errorEvent{event: event{Type: kindError}}
	e.Error.problem = s.problem(err)
	if id != "" && len(id) <= maxName {
		e.Error.About = &id
	}
	s.send(e)
}

func (s *session) problem(err error) problem {
	status, text := s.o.Tell(err)
	p := problem{Type: "invalid_request_error", Code: "invalid_value", Message: text}
	switch {
	case status == 404:
		p.Code = "model_not_found"
	case status == 408:
		p.Code = "session_expired"
	case status == 429:
		p.Code = "rate_limit_exceeded"
	case status >= 500:
		p.Type, p.Code = "server_error", "server_error"
	}
	if own := (coded{}); errors.As(err, &own) {
		p.Code = own.code
	}
	return p
}

// coded is an error for which the protocol has a code.
type coded struct {
	error
	code string
}

func (c coded) Unwrap() error { return c.error }

// named is an event of ours.
type named interface{ name(id string) }

func (e *event) name(id string) { e.ID = id }

// send writes an event. Where that fails the client is gone, and who reads sees it.
func (s *session) send(e named) {
	e.name(name("event"))
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("realtime: an event that is no JSON: %v", err))
	}
	ctx, stop := context.WithTimeout(context.Background(), s.o.Write)
	defer stop()
	if s.c.Write(ctx, websocket.MessageText, b) != nil {
		_ = s.c.CloseNow()
	}
}
