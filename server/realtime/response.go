package realtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/sentence"
)

const (
	maxAnswer   = 64 << 10 // bytes of the text of an answer
	maxMetadata = 16 << 10
	soundsFor   = 5 // events of sound a second
)

// Talker answers. Its methods are called from many goroutines.
type Talker interface {
	// Chats is the whole name of a model that chats; an empty name is the first one's.
	Chats(ctx context.Context, name string) (string, error)
	// Voice is the whole name of a voice; an empty name is the first one's.
	Voice(ctx context.Context, name string) (string, error)
	// Answer runs f, which asks for one answer, as one request of the client's.
	Answer(ctx context.Context, f func(ctx context.Context) error) error
	// Chat calls each with the events of an answer.
	Chat(ctx context.Context, r *prompt.Request, each func(ask.Event)) error
	// Say speaks texts one after the other, as they come. It gives play the samples of each piece,
	// and how many a second has. An error of play ends it.
	Say(ctx context.Context, voice string, speed float64, texts iter.Seq[string], play func(samples []float32, rate int) error) error
}

// Why a response is cancelled, beside what ends its session.
var (
	errTurn   = errors.Join(errors.New("somebody speaks"), context.Canceled)
	errAsked  = errors.Join(errors.New("the client does not want the response"), context.Canceled)
	errLonger = errors.Join(errors.New("the answer has no end"), context.Canceled)
)

// response is an answer that is asked for.
type response struct {
	id       string
	talk     talk
	out      output
	apart    bool    // it is not of the conversation
	input    []*said // what is answered; nil: the conversation
	metadata json.RawMessage
	bytes    int64  // of the items in input
	turn     string // the turn that it answers, if a word was heard in it; "": it was asked for

	// Of the conversation's lock.
	ended error                   // why it was cancelled
	stop  context.CancelCauseFunc // nil: it waits
}

// size is how many bytes it takes while it waits and runs, beside what is small.
func (r *response) size() int64 { return r.talk.size() + r.bytes + int64(len(r.metadata)) }

// response is what the client asks for with response.create.
func (s *session) response(b json.RawMessage) (r *response, err error) {
	r = &response{id: name("resp"), talk: *s.set.talk, out: *s.set.Audio.Output}
	if b == nil {
		return r, nil
	}
	var in struct {
		Conversation string            `json:"conversation"`
		Input        []json.RawMessage `json:"input"`
		Metadata     json.RawMessage   `json:"metadata"`
		Audio        struct {
			Output json.RawMessage `json:"output"`
		} `json:"audio"`
	}
	if err := into("response", b, &in); err != nil {
		return nil, err
	}
	if r.metadata = in.Metadata; len(in.Metadata) > maxMetadata {
		return nil, body.Fail(400, "metadata has more than %d KiB", maxMetadata>>10)
	}
	switch in.Conversation {
	case "", "auto":
	case "none":
		r.apart = true
	default:
		return nil, body.Fail(400, `response.conversation is %q: auto and none are possible`, clip(in.Conversation))
	}
	if r.talk, err = r.talk.with("response", b); err != nil {
		return nil, err
	}
	r.talk.Model = s.set.talk.Model // a session has one
	if r.out, err = r.out.with(in.Audio.Output); err != nil || in.Input == nil {
		return r, err
	}
	if len(in.Input) > maxItems {
		return nil, body.Fail(400, "response.input has more than %d items", maxItems)
	}
	r.input = []*said{}
	for _, b := range in.Input {
		var ref struct{ Type, ID string }
		it := new(said)
		if err := into("an item", b, &ref); err != nil {
			return nil, err
		}
		if ref.Type == "item_reference" {
			it.item, err = s.said.look(ref.ID)
		} else {
			it, err = read(b)
		}
		if err != nil {
			return nil, err
		}
		r.input = append(r.input, it)
		if r.bytes += int64(len(it.text())); r.bytes > maxText {
			return nil, body.Fail(413, "response.input has more than %d KiB", maxText>>10)
		}
	}
	r.bytes += itemRoom * int64(len(r.input))
	return r, nil
}

// told is the response as it is told.
func (s *session) told(r *response, status string, items []item) told {
	t := told{ID: r.id, Object: "realtime.response", Status: status, Output: items, Modalities: r.talk.Modalities,
		MaxTokens: r.talk.MaxTokens, Metadata: r.metadata}
	if !r.apart {
		t.Conversation = &s.talkID
	}
	if r.talk.speaks() {
		t.Audio = &struct {
			Output output `json:"output"`
		}{r.out}
	}
	return t
}

// wait puts a response among those that run or wait. Of the conversation's own there is one at a
// time, unless it was a turn that asked for it.
func (c *conversation) wait(r *response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.apart && r.turn == "" && slices.ContainsFunc(c.asked, func(x *response) bool { return !x.apart }) {
		return coded{body.Fail(400, "a response is still being written: wait for its response.done, or send response.cancel"),
			"conversation_already_has_active_response"}
	}
	c.asked = append(c.asked, r)
	return nil
}

// begin is the context of a response that runs now.
func (c *conversation) begin(ctx context.Context, r *response) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.stop = stop; r.ended != nil {
		stop(r.ended)
	}
	return ctx, stop
}

// end forgets a response.
func (c *conversation) end(r *response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = slices.DeleteFunc(c.asked, func(x *response) bool { return x == r })
}

// cancel ends the responses that fit, and says whether any does.
func (c *conversation) cancel(fits func(*response) bool, why error) (any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.asked {
		if r.ended != nil || !fits(r) {
			continue
		}
		if any, r.ended = true, why; r.stop != nil {
			r.stop(why)
		}
	}
	return any
}

// answering is a response that runs. Its fields belong to the goroutine that has the model write,
// but for those said.
type answering struct {
	s      *session
	r      *response
	output []*said // by output_index
	usage  ask.Usage
	reason string // why the model ended

	message *said // the answer's text; nil: there is none yet
	index   int   // its output_index
	text    strings.Builder
	parts   chan spokenPart // nil: nothing is spoken
	cut     int             // bytes of the text that were given to parts
	spoke   chan error

	// Of who speaks.
	part     spokenPart
	rate     *audio.Resampler
	sent     int // samples
	rendered int // samples that are there to be sent, with those that were
}

// spokenPart is a part of an answer's text, and where in it the part ends.
type spokenPart struct {
	text string
	to   int
}

// answer runs a response, and tells of it.
func (s *session) answer(ctx context.Context, r *response) {
	defer s.said.end(r)
	if r.turn != "" {
		// A client may have put something else in its place.
		if it, err := s.said.look(r.turn); err != nil || strings.TrimSpace((&said{item: it}).text()) == "" {
			return // nothing was said
		}
	}
	ctx, stop := s.said.begin(ctx, r)
	defer stop(nil)
	s.send(&responseEvent{event{Type: kindBegun}, s.told(r, going, []item{})})
	a := &answering{s: s, r: r}
	err := context.Cause(ctx)
	if err == nil {
		err = s.o.Talker.Answer(ctx, a.run)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if !errors.Is(err, ErrLeft) {
		a.finish(err)
	}
}

// run has the model write.
func (a *answering) run(ctx context.Context) error {
	t := &a.r.talk
	q := &prompt.Request{Model: t.Model, Chat: true, RelaxThink: true, Options: map[string]any{},
		Ask: ask.Request{Tools: t.offered, ToolChoice: t.choice, SerialTools: !t.Together.is(), Think: ask.ThinkOff,
			Truncate: true, Shift: true}}
	if a.r.input != nil {
		q.Ask.Messages = messages(t.Instructions, a.r.input)
	} else {
		q.Ask.Messages = a.s.said.messages(t.Instructions)
	}
	if len(q.Ask.Messages) == 0 {
		return body.Fail(400, "there is nothing to answer: no item has text, and there are no instructions")
	}
	if t.Temperature != nil {
		q.Options["temperature"] = *t.Temperature
	}
	if n := int(t.MaxTokens); n > 0 {
		q.MaxTokens = &n
	}
	if t.speaks() { // before anything is written
		if _, err := a.s.o.Talker.Voice(ctx, string(a.r.out.Voice)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer func() { // who speaks is at its end in any case, also where Chat panics
		if stop(nil); a.spoke != nil {
			<-a.spoke
		}
	}()
	err := a.s.o.Talker.Chat(ctx, q, func(e ask.Event) { a.event(ctx, stop, e) })
	if a.parts != nil {
		if rest := a.text.String()[a.cut:]; err == nil && sentence.Worded(rest) {
			a.parts <- spokenPart{rest, a.text.Len()}
		}
		close(a.parts)
		if err != nil {
			stop(err)
		}
		if spoke := <-a.spoke; err == nil {
			err = spoke
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}

// event takes an event of the model's answer.
func (a *answering) event(ctx context.Context, stop context.CancelCauseFunc, e ask.Event) {
	if e.Usage.Prompt > 0 {
		a.usage = e.Usage
	}
	switch {
	case e.Done != nil:
		a.usage, a.reason = e.Done.Usage, e.Done.Reason
	case e.ToolCall != nil:
		a.call(*e.ToolCall)
	case e.Text != "":
		a.add(ctx, stop, e.Text)
	}
}

// add takes more of the text. A model may give some after its end, which is not of the answer.
func (a *answering) add(ctx context.Context, stop context.CancelCauseFunc, text string) {
	if ctx.Err() != nil {
		return
	}
	if a.message == nil {
		if text = strings.TrimLeft(text, " \t\r\n"); text == "" {
			return
		}
		a.open(ctx, stop)
	}
	if a.text.Len()+len(text) > maxAnswer {
		stop(errLonger)
		return
	}
	a.text.WriteString(text)
	all := a.text.String()
	a.s.said.change(a.message, func() {
		if !a.message.cut {
			a.message.Content[0].Text = &all
		}
	})
	if a.parts == nil {
		a.s.send(&textEvent{event{Type: kindText}, a.place(), text})
		return
	}
	a.s.send(&textEvent{event{Type: kindWords}, a.place(), text})
	if n := sentence.Whole(all[a.cut:]); n > 0 {
		if part := all[a.cut : a.cut+n]; sentence.Worded(part) {
			a.parts <- spokenPart{part, a.cut + n}
		}
		a.cut += n
	}
}

// open begins the answer's text.
func (a *answering) open(ctx context.Context, stop context.CancelCauseFunc) {
	kind, empty := outputText, ""
	if a.r.talk.speaks() {
		kind = outputAudio
	}
	a.message = &said{item: item{ID: name("item"), Object: itemObject, Type: message, Status: going, Role: assistant, Content: []content{}},
		rate: a.r.out.Format.rate()}
	a.index = a.begin(a.message)
	a.s.said.change(a.message, func() { a.message.Content = []content{{kind, &empty}} })
	a.s.send(&partEvent{event{Type: kindPart}, a.place(), partOf(kind, "")})
	if kind == outputAudio {
		// There is room for all parts, so that the model is not kept while the voice waits for a
		// place.
		a.parts, a.spoke = make(chan spokenPart, maxAnswer/sentence.Least+1), make(chan error, 1)
		go func() {
			defer close(a.spoke)
			err := a.speak(ctx)
			if err != nil {
				stop(err)
			}
			a.spoke <- err
		}()
	}
}

func (a *answering) place() place { return place{a.r.id, a.message.ID, a.index, 0} }

func partOf(kind, text string) part {
	if kind == outputAudio {
		return part{Type: sounds, Transcript: &text}
	}
	return part{Type: writes, Text: &text}
}

// begin puts an item of the answer into the response, and into the conversation.
func (a *answering) begin(it *said) (index int) {
	a.output = append(a.output, it)
	index = len(a.output) - 1
	shown := it.copy()
	shown.Status = going
	a.s.send(&outputEvent{event{Type: kindOutput}, a.r.id, index, shown})
	if !a.r.apart {
		before := a.s.keep(it, "")
		a.s.send(&itemEvent{event{Type: kindAdded}, before, shown})
	}
	return index
}

// done tells of an item of the answer that is whole, or as far as it came.
func (a *answering) done(it *said, index int) {
	var shown item
	a.s.said.change(it, func() { shown = it.copy() })
	if !a.r.apart {
		a.s.send(&itemEvent{event{Type: kindDone}, a.s.said.before(it), shown})
	}
	a.s.send(&outputEvent{event{Type: kindOutputDone}, a.r.id, index, shown})
}

// call takes a call of a tool.
func (a *answering) call(c ask.ToolCall) {
	arguments, empty := string(c.Arguments), ""
	it := &said{item: item{ID: name("item"), Object: itemObject, Type: call, Status: completed, Name: c.Name,
		Call: cmp.Or(c.ID, name("call")), Arguments: &empty}}
	index := a.begin(it)
	a.s.said.change(it, func() { it.Arguments = &arguments })
	a.s.send(&callingEvent{event{Type: kindCalling}, a.r.id, it.ID, index, it.Call, arguments})
	a.s.send(&callingDoneEvent{event{Type: kindCallingDone}, a.r.id, it.ID, index, it.Call, it.Name, arguments})
	a.done(it, index)
}

// speak has the parts spoken, as they come.
func (a *answering) speak(ctx context.Context) error {
	texts := func(yield func(string) bool) {
		for {
			select {
			case p, more := <-a.parts:
				if a.part = p; !more || !yield(p.text) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
	err := a.s.o.Talker.Say(ctx, string(a.r.out.Voice), a.r.out.Speed, texts, func(samples []float32, rate int) error {
		return a.play(ctx, samples, rate)
	})
	if err == nil && a.rate != nil {
		err = a.sound(ctx, a.rate.Flush(nil))
	}
	return err
}

// play sends a piece of what is spoken.
func (a *answering) play(ctx context.Context, samples []float32, rate int) (err error) {
	if a.rate == nil {
		if a.rate, err = audio.NewResampler(rate, a.r.out.Format.rate()); err != nil {
			return err
		}
	}
	return a.sound(ctx, a.rate.Append(nil, samples))
}

// sound sends samples. The part that they are of ends with them, as far as is known.
func (a *answering) sound(ctx context.Context, samples []float32) error {
	a.rendered += len(samples)
	a.s.said.change(a.message, func() {
		m := &a.message.marks
		if a.message.cut {
			return
		}
		if n := len(*m); n > 0 && (*m)[n-1].to >= a.part.to {
			(*m)[n-1].end = a.rendered
		} else {
			*m = append(*m, mark{a.part.to, a.rendered})
		}
	})
	for len(samples) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(len(samples), a.message.rate/soundsFor)
		a.s.send(&soundEvent{event{Type: kindSound}, a.place(), encode(a.r.out.Format, samples[:n])})
		a.sent += n
		samples = samples[n:]
	}
	return nil
}

// encode is samples in a format.
func encode(f format, samples []float32) []byte {
	switch f.Type {
	case muLaw:
		return audio.AppendMuLaw(nil, samples)
	case aLaw:
		return audio.AppendALaw(nil, samples)
	}
	return audio.AppendPCM(nil, samples)
}

// finish tells of the end.
func (a *answering) finish(err error) {
	status, end := completed, &why{Type: completed}
	switch {
	case errors.Is(err, errTurn):
		status, end = cancelled, &why{Type: cancelled, Reason: "turn_detected"}
	case errors.Is(err, errAsked):
		status, end = cancelled, &why{Type: cancelled, Reason: "client_cancelled"}
	case errors.Is(err, errLonger), err == nil && a.reason == ask.ReasonLength:
		status, end = incomplete, &why{Type: incomplete, Reason: "max_output_tokens"}
	case err != nil:
		p := a.s.problem(err)
		status, end = failed, &why{Type: failed, Error: &p}
	}
	if it := a.message; it != nil {
		var text string
		a.s.said.change(it, func() {
			if it.Status = completed; status != completed {
				it.Status = incomplete
			}
			// What was written and did not sound was not heard.
			if err != nil && a.parts != nil && !it.cut {
				it.shorten(a.sent)
			}
			text = it.text()
		})
		kind := it.Content[0].Type
		if kind == outputAudio {
			a.s.send(&soundDoneEvent{event{Type: kindSoundDone}, a.place()})
			a.s.send(&wordsDoneEvent{event{Type: kindWordsDone}, a.place(), text})
		} else {
			a.s.send(&textDoneEvent{event{Type: kindTextDone}, a.place(), text})
		}
		a.s.send(&partEvent{event{Type: kindPartDone}, a.place(), partOf(kind, text)})
		a.done(it, a.index)
	}
	output := []item{}
	for _, it := range a.output {
		a.s.said.change(it, func() { output = append(output, it.copy()) })
	}
	t := a.s.told(a.r, status, output)
	t.Why, t.Usage = end, usedBy(a.usage)
	a.s.said.end(a.r) // whose end is told may ask for the next
	a.s.send(&responseEvent{event{Type: kindOver}, t})
}

// usedBy is what an answer took.
func usedBy(u ask.Usage) *used {
	t := &used{Total: u.Prompt + u.Output, Input: u.Prompt, Output: u.Output}
	t.In.Text, t.In.Cached, t.Out.Text = u.Prompt, u.Cached, u.Output
	return t
}
