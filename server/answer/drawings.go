package answer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Drawings answers with pictures.
func (a *Answers) Drawings(decode func([]byte) (prompt.Drawing, error)) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		d, err := request.Read(x, request.MaxSmallBody, decode)
		if err != nil {
			return err
		}
		return a.draw(x, d, false)
	}
}

// Edits answers with pictures that are made of one, which comes in a form, or in the body that
// decode reads.
func (a *Answers) Edits(form func() prompt.DrawingForm, decode func([]byte) (prompt.Drawing, error), refuse string, why error,
) func(*request.Exchange) error {
	// A prompt has up to 32,000 characters, and may come before the picture.
	rules := formRules{names: []string{"image", "image[]"}, refuse: refuse, error: why, fields: 32, field: 128 << 10, head: 256 << 10}
	return func(x *request.Exchange) error {
		if !strings.HasPrefix(x.GetHeader("Content-Type"), "multipart/") {
			d, err := request.Read(x, request.MaxBody, decode)
			if err != nil {
				return err
			}
			return a.draw(x, d, true)
		}
		defer x.Reads()()
		d, err := a.edit(x, form(), rules)
		if err != nil {
			x.Drain(time.Now().Add(request.DrainTime))
			return err
		}
		return a.draw(x, d, true)
	}
}

// edit reads a form.
func (a *Answers) edit(x *request.Exchange, d prompt.DrawingForm, rules formRules) (prompt.Drawing, error) {
	f, err := openPicture(x, rules)
	if err == nil {
		err = f.rest()
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if err := d.Set(name, f.values[name]); err != nil {
			return nil, err
		}
	}
	return d, d.Check(f.picture)
}

// drawsHere is the answer to a prompt whose model draws; nil: it does not, or is to be loaded only.
func (a *Answers) drawsHere(r *prompt.Request, enc prompt.Encoder) (prompt.Drawing, error) {
	drawer, ok := enc.(prompt.Drawer)
	if !ok || r.Loads || r.Unloads {
		return nil, nil
	}
	e, err := catalog.Find(a.o.Store, r.Model, r.Unnamed, prompt.Missing)
	if err != nil || !e.Caps.Drawing || e.Says() != "" { // what is wrong is found on the usual way
		return nil, nil
	}
	return drawer.Drawing(e.AskedAs(r.Model))
}

// draw has a model draw pictures, one after the other. from: they are made of one that was sent.
func (a *Answers) draw(x *request.Exchange, d prompt.Drawing, from bool) error {
	q := &checked{model: d.Model()}
	if q.model == "" {
		all, err := a.Drawers(x.Ctx())
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return errNoDrawer
		}
		q.model = all[0].Name.String()
	}
	m, err := a.find(x, q, prompt.ErrUnnamed, prompt.Missing)
	if err != nil {
		return err
	}
	if !q.entry.Caps.Drawing {
		return body.Fail(http.StatusBadRequest, "%s does not draw pictures", q.entry.Name.Full())
	}
	n := d.Count()
	if from {
		n++
	}
	// Before the model is loaded: a key that has none left does not take another model's place.
	if err := x.Who().Pictures(n); err != nil {
		return err
	}
	refused := true
	defer func() {
		if refused {
			x.Who().PutBack(n)
		}
	}()
	if _, err := a.acquire(x.Ctx(), q, m, nil, d.KeepAlive()); err != nil {
		return err
	}
	defer q.release()
	can := q.lease.Info().Draws
	req, err := d.Request(can)
	if err == nil {
		err = x.DrawingRoom(d.Count(), can.Width, can.Height, req.Partial, d.Streams())
	}
	if err != nil {
		return err
	}
	req.Key = x.Owner()
	x.Answer(d, func(r *request.Reply) error {
		err := a.pictures(x, q, d, req, r)
		refused = errors.Is(err, ask.ErrRequest) || errors.Is(err, ask.ErrUnsupported)
		return err
	})
	return nil
}

// pictures sends what a model draws.
func (a *Answers) pictures(x *request.Exchange, q *checked, d prompt.Drawing, req ask.DrawRequest, r *request.Reply) error {
	ctx, start := x.Ctx(), time.Now()
	for i := range d.Count() {
		began, done := time.Now(), false
		for e, err := range q.lease.Draw(ctx, req) {
			if err != nil {
				return err
			}
			if i == 0 { // all have the same prompts
				a.cut(x, e.Cuts...)
			}
			if e.Done {
				done = true
				a.Figures.drawing.observe(time.Since(began))
			}
			b, err := d.Add(prompt.Drawn{Drawing: e, Picture: i, Seed: req.Seed, Load: q.load, Total: q.load + time.Since(start)})
			if err != nil {
				return err
			}
			if len(b) == 0 {
				continue
			}
			if err := r.Part(d.Type(), b); err != nil {
				return gone(err)
			}
		}
		if !done {
			if err := ctx.Err(); err != nil { // a model may end without a word then
				return err
			}
			return request.ErrNoEnd
		}
		req.Seed++
	}
	if d.Streams() {
		return nil
	}
	return r.Pour(d.WholeType(), func(w io.Writer) error { return d.Write(w) })
}

// Drawers are the models that draw, in the order in which they are asked; see those.
func (a *Answers) Drawers(ctx context.Context) ([]*catalog.Entry, error) {
	return a.those(ctx, "", func(e *catalog.Entry) bool { return e.Caps.Drawing })
}

var errNoDrawer = body.Fail(http.StatusNotFound, "no installed model draws pictures: 'axle pull' without a name lists models")
