package answer

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Speak answers with the sound of a text, each piece of it as soon as it is there.
func (a *Answers) Speak(decode func([]byte) (prompt.Speaking, error)) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		s, err := request.Read(x, request.MaxSmallBody, decode)
		if err != nil {
			return err
		}
		q := &checked{model: s.Model()}
		m, err := a.find(x, q, prompt.ErrUnnamed, prompt.Missing)
		if err == nil {
			err = speaks(q.entry)
		}
		if err != nil {
			return err
		}
		req, err := s.Request(q.entry.Info.Voices)
		if err != nil {
			return err
		}
		req.Key = x.Owner()
		if _, err := a.acquire(x.Ctx(), q, m, nil, nil); err != nil {
			return err
		}
		defer q.release()
		x.Answer(s, func(r *request.Reply) error { return speak(x.Ctx(), q.lease, req, s, r) })
		return nil
	}
}

// speaks refuses a model that does not speak.
func speaks(e *catalog.Entry) error {
	if !e.Caps.Speech {
		return body.Fail(http.StatusBadRequest, "%s does not support speech", e.Name.Full())
	}
	return nil
}

// speak sends what the model says. A piece that is the whole text is held until it is clear that no
// other follows, which takes no time: then the answer can say how long it is.
func speak(ctx context.Context, m ask.Model, req ask.SpeakRequest, s prompt.Speaking, r *request.Reply) error {
	rate := m.Info().SampleRate
	send := func(samples []float32, last bool) error {
		b, err := s.Add(samples, rate, last)
		if err != nil || len(b) == 0 {
			return err
		}
		if err := r.Part(s.Type(), b); err != nil {
			return gone(err)
		}
		return nil
	}
	var held []float32
	begun := false
	for p, err := range m.Speak(ctx, req) {
		switch {
		case err != nil:
			return err
		case !begun && held == nil && strings.TrimSpace(p.Text) == strings.TrimSpace(req.Text):
			held = p.Samples
			continue
		case held != nil:
			err, held = send(held, false), nil
		}
		if err == nil {
			err = send(p.Samples, false)
		}
		if err != nil {
			return err
		}
		begun = true
	}
	if err := ctx.Err(); err != nil { // a model may end without a word then
		return err
	}
	if begun {
		return send(nil, true)
	}
	b, err := s.Add(held, rate, true)
	if err == nil {
		r.Whole(http.StatusOK, s.Type(), b)
	}
	return err
}

// Speakers are the models that speak, in the order in which they are asked; see those.
func (a *Answers) Speakers(ctx context.Context, first string) ([]*catalog.Entry, error) {
	return a.those(ctx, first, func(e *catalog.Entry) bool { return e.Caps.Speech })
}

// Voiced is a voice, and the model that speaks with it.
type Voiced struct {
	ask.Voice
	Model *catalog.Entry
}

// Voices are those of the models that speak, or of the one that is named. Those of the model called
// first are before the others; of voices of one name only the first is there.
func (a *Answers) Voices(ctx context.Context, only, first string) (out []Voiced, err error) {
	var all []*catalog.Entry
	if only == "" {
		all, err = a.Speakers(ctx, first)
	} else {
		q := &checked{model: only}
		if _, err = a.find(nil, q, prompt.ErrUnnamed, prompt.Missing); err == nil {
			all, err = []*catalog.Entry{q.entry}, speaks(q.entry)
		}
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range all {
		for _, v := range e.Info.Voices {
			if !seen[v.Name] {
				seen[v.Name] = true
				out = append(out, Voiced{v, e})
			}
		}
	}
	return out, nil
}

var errMute = body.Fail(http.StatusNotFound, "no installed model speaks: 'axle pull' without a name lists models")

// Saying is how texts that came in no form are to be spoken.
type Saying struct {
	First    string  // the model whose voices go before those of others; "": none is
	Voice    string  // "": the first that speaks the language, or the first
	Language string  // "": any
	Speed    float64 // 0: 1
}

// Say speaks texts that came in no form, one after the other, as they come. play takes the samples
// of each piece.
func (a *Answers) Say(ctx context.Context, how Saying, texts iter.Seq[string], play func(samples []float32, rate int) error) error {
	all, err := a.Voices(ctx, "", how.First)
	if err != nil {
		return err
	}
	of, err := choose(all, how.Voice, how.Language)
	if err != nil {
		return err
	}
	q := &checked{model: of.Model.Name.String()}
	m, err := a.find(nil, q, prompt.ErrUnnamed, prompt.Missing)
	if err != nil {
		return err
	}
	monitor.Of(ctx).Named(q.model)
	if _, err := a.acquire(ctx, q, m, nil, nil); err != nil {
		return err
	}
	defer q.release()
	rate := q.lease.Info().SampleRate
	for text := range texts {
		r := ask.SpeakRequest{Text: text, Voice: of.Name, Speed: cmp.Or(how.Speed, 1), Key: request.OwnerOf(ctx)}
		for p, err := range q.lease.Speak(ctx, r) {
			if err == nil {
				err = play(p.Samples, rate)
			}
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err() // a model may end without a word then
}

// choose is the voice that is asked for.
func choose(all []Voiced, voice, language string) (Voiced, error) {
	if len(all) == 0 {
		return Voiced{}, errMute
	}
	for _, v := range all {
		if voice == v.Name || voice == "" && spoken(language, v.Language) {
			return v, nil
		}
	}
	if voice == "" {
		return Voiced{}, body.Fail(http.StatusNotFound, "no voice here speaks %q", language)
	}
	return Voiced{}, body.Fail(http.StatusNotFound, "no model here has the voice %q", voice)
}

// spoken says whether a voice of one language tag speaks the language of another: who asks for en
// gets en-GB too.
func spoken(asked, tag string) bool {
	asked, tag = strings.ReplaceAll(asked, "_", "-"), strings.ReplaceAll(tag, "_", "-")
	return len(tag) >= len(asked) && strings.EqualFold(tag[:len(asked)], asked) &&
		(asked == "" || len(tag) == len(asked) || tag[len(asked)] == '-')
}
