package answer

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

const (
	heldSound  = 25 << 20 // bytes of a sound that fields may follow, as OpenAI and Ollama take
	maxSound   = 2 << 30  // bytes of a sound
	maxHearing = 6 * time.Hour
	soundRate  = 16000 // samples a second that recognisers hear
	maxField   = 64 << 10
	maxFields  = 64
	livePace   = 512 // bytes a second of a sound that is made as it comes: Opus has 750 of speech
)

// Transcriptions answers with the text of speech. Fields of the form may come after the sound if it
// has no more than 25 MiB, which are held until then. A longer sound is decoded as it comes, and so
// is one of unknown length whose answer is a stream: a microphone, for example.
func (a *Answers) Transcriptions(begin func() prompt.Hearing) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		defer x.Reads()() // until its owner ends it, too
		t := &transcription{a: a, x: x, h: begin()}
		err := t.open()
		if err == nil {
			err = t.answer()
		}
		if err != nil {
			x.Drain(time.Now().Add(request.DrainTime))
		}
		return err
	}
}

// transcription is a request for a transcription: a form with a sound.
type transcription struct {
	a     *Answers
	x     *request.Exchange
	h     prompt.Hearing
	q     *checked // nil: its model was not looked for
	model prompt.Model
	slow  *request.SlowBody
	parts *multipart.Reader
	sound io.Reader // nil: none came
	more  bool      // the sound is still coming, and what follows it has not been read
	live  bool      // it is answered while it comes
}

// open reads the fields, up to a sound that is too long to be held.
func (t *transcription) open() error {
	kind, params, err := mime.ParseMediaType(t.x.GetHeader("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", body.Ours(http.ErrNotMultipart.Error()))
	}
	t.slow = t.x.Slow(maxSound + 1<<20)
	t.parts = multipart.NewReader(t.slow, params["boundary"])
	for n := 0; !t.more; n++ {
		p, err := t.parts.NextPart()
		if err == io.EOF { //nolint:errorlint // as NextPart has it
			if err := t.end(); err != nil {
				return err
			}
			break
		}
		if err != nil {
			return t.broken(err)
		}
		if n == maxFields {
			return body.Fail(http.StatusBadRequest, "the form has more than %d fields", maxFields)
		}
		if err := t.part(p); err != nil {
			return err
		}
	}
	if err := t.find(); err != nil {
		return err
	}
	if t.sound == nil {
		return body.Fail(http.StatusBadRequest, "file is required: %s", body.Ours(http.ErrMissingFile.Error()))
	}
	return t.h.Check()
}

// end reads what follows the form: net/http sees that a client leaves only when its body was read
// to the end.
func (t *transcription) end() error {
	switch n, err := io.CopyN(io.Discard, t.slow, maxField); {
	case n == maxField:
		return body.Fail(http.StatusBadRequest, "%d KiB follow the form", maxField>>10)
	case err != io.EOF: //nolint:errorlint // as CopyN has it
		return t.broken(err)
	}
	return nil
}

// part reads a part of the form.
func (t *transcription) part(p *multipart.Part) error {
	switch {
	case p.FormName() == "file" && p.FileName() != "":
		return t.hold(p)
	case p.FileName() != "":
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(p, maxField+1))
	switch {
	case err != nil:
		return t.broken(err)
	case len(b) > maxField:
		return body.Fail(http.StatusBadRequest, "%s has more than %d KiB", p.FormName(), maxField>>10)
	}
	return t.h.Set(p.FormName(), string(b))
}

// broken is why the form could not be read.
func (t *transcription) broken(err error) error {
	if t.slow.Err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return t.slow.Err
	}
	return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
}

// find looks for the model, once, and refuses one that does not hear.
func (t *transcription) find() (err error) {
	if t.q != nil {
		return nil
	}
	t.q = &checked{model: t.h.Model()}
	if t.model, err = t.a.find(t.x, t.q, prompt.ErrUnnamed, prompt.Missing); err != nil {
		return err
	}
	return hears(t.q.entry)
}

// hears refuses a model that does not hear.
func hears(e *catalog.Entry) error {
	if !e.Caps.Audio {
		return body.Fail(http.StatusBadRequest, "%s does not support audio", e.Name.Full())
	}
	return nil
}

// hold reads the sound, if it is not too long to be held.
func (t *transcription) hold(p io.Reader) error {
	if t.sound != nil {
		return body.Fail(http.StatusBadRequest, "the form has two files: send one")
	}
	if t.h.Model() != "" { // a model that does not hear is refused before the sound is read
		if err := t.find(); err != nil {
			return err
		}
	}
	if t.q != nil && t.h.Streams() && t.x.Request.ContentLength < 0 { // its end is not known
		t.sound, t.more, t.live = p, true, true
		t.slow.Pace = livePace
		return nil
	}
	b, whole, room, err := t.x.ReadPart(p, heldSound)
	switch {
	case room != nil:
		return room
	case err != nil:
		return t.broken(err)
	case whole && len(b) == 0:
		return body.Fail(http.StatusBadRequest, "audio file is empty")
	case !whole && t.q == nil:
		return body.Fail(http.StatusRequestEntityTooLarge,
			"the file has more than %d MiB: send the other fields of the form before it", heldSound>>20)
	}
	if t.sound, t.more = bytes.NewReader(b), !whole; t.more {
		t.sound = io.MultiReader(t.sound, p)
	}
	return nil
}

// rest refuses fields that came too late.
func (t *transcription) rest() error {
	if !t.more {
		return nil
	}
	p, err := t.parts.NextPart()
	switch {
	case err == io.EOF: //nolint:errorlint // as NextPart has it
		return nil
	case err != nil:
		return t.broken(err)
	}
	if t.live {
		return body.Fail(http.StatusBadRequest, "%s comes after a file that is answered as it comes: send it before the file", p.FormName())
	}
	return body.Fail(http.StatusBadRequest, "%s comes after a file of more than %d MiB: send it before the file", p.FormName(),
		heldSound>>20)
}

// counted counts the samples that are read.
type counted struct {
	*audio.Reader
	n int64
}

func (c *counted) Read(samples []float32) (int, error) {
	n, err := c.Reader.Read(samples)
	c.n += int64(n)
	return n, err
}

// answer loads the model and lets it hear.
func (t *transcription) answer() error {
	in, err := audio.NewReader(t.sound, soundRate, audio.Limits{Bytes: maxSound, Duration: maxHearing})
	if err != nil {
		return t.unheard(err)
	}
	if _, err := t.a.acquire(t.x.Ctx(), t.q, t.model, nil, nil); err != nil {
		return err
	}
	defer t.q.release()
	if t.more { // else net/http throws up to 256 KiB of the sound away when the answer begins
		t.x.Duplex()
	}
	t.x.Answer(t.h, func(r *request.Reply) error {
		err := t.hear(&counted{Reader: in}, r)
		if err != nil && t.more && !t.live { // who sends live also reads
			t.x.Drain(time.Now().Add(request.DrainTime))
		}
		return err
	})
	return nil
}

// hear answers with what the model hears.
func (t *transcription) hear(sound *counted, r *request.Reply) error {
	req := t.h.Request()
	req.Sound, req.Key = sound, t.x.Owner()
	for s, err := range t.q.lease.Transcribe(t.x.Ctx(), req) {
		if err != nil {
			return t.unheard(err)
		}
		event, err := t.h.Add(s)
		if err != nil {
			return err
		}
		if t.h.Streams() && event != nil {
			if err := r.Part(t.h.Type(), event); err != nil {
				return gone(err)
			}
		}
	}
	if err := t.x.Ctx().Err(); err != nil { // who hears may end without a word then
		return err
	}
	if err := t.rest(); err != nil {
		return err
	}
	b, err := t.h.Finish(time.Duration(sound.n) * time.Second / soundRate)
	switch {
	case err != nil:
		return err
	case t.h.Streams():
		if err := r.Part(t.h.Type(), b); err != nil {
			return gone(err)
		}
		return nil
	}
	r.Whole(http.StatusOK, t.h.Type(), b)
	return nil
}

// unheard is unheard, or why the form could not be read.
func (t *transcription) unheard(err error) error {
	if t.slow.Err != nil {
		return t.slow.Err
	}
	return unheard(err)
}

// unheard is why a sound could not be decoded, or the model not hear it.
func unheard(err error) error {
	switch {
	case errors.Is(err, audio.ErrLimit):
		return body.Fail(http.StatusRequestEntityTooLarge, "cannot hear this: %s", strings.TrimPrefix(err.Error(), "audio: "))
	case errors.Is(err, audio.ErrFormat), errors.Is(err, audio.ErrUnsupported), errors.Is(err, audio.ErrDamaged):
		return body.Fail(http.StatusBadRequest, "cannot hear this: %s", strings.TrimPrefix(err.Error(), "audio: "))
	}
	return err
}
