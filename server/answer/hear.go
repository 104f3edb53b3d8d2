package answer

import (
	"cmp"
	"context"
	"slices"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Hearers are the models that hear, in the order in which they are asked; see those.
func (a *Answers) Hearers(ctx context.Context, first string) ([]*catalog.Entry, error) {
	return a.those(ctx, first, func(e *catalog.Entry) bool { return e.Caps.Audio })
}

// those are the models that can do something: the one called first, the others by name, and at the
// end one that ships inside the program, since it can little.
func (a *Answers) those(ctx context.Context, first string, can func(*catalog.Entry) bool) ([]*catalog.Entry, error) {
	all, err := a.o.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(e *catalog.Entry) bool { return !can(e) || e.Says() != "" })
	slices.SortFunc(all, func(x, y *catalog.Entry) int {
		switch {
		case x.Builtin() == y.Builtin():
			return cmp.Compare(x.Name.Full(), y.Name.Full())
		case x.Builtin():
			return 1
		}
		return -1
	})
	if first != "" {
		if e, err := catalog.Find(a.o.Store, first, prompt.ErrUnnamed, prompt.Missing); err == nil {
			at := slices.IndexFunc(all, func(x *catalog.Entry) bool { return x.Name == e.Name })
			if at > 0 {
				all = slices.Insert(slices.Delete(all, at, at+1), 0, e)
			}
		}
	}
	return all, nil
}

var errDeaf = body.Fail(404, "no installed model hears: 'axle pull' without a name lists models")

// Hearer is the model that hears under a name; without a name it is the first of those that do.
func (a *Answers) Hearer(ctx context.Context, name string) (*catalog.Entry, error) {
	q, _, err := a.hearer(ctx, name)
	if err != nil {
		return nil, err
	}
	return q.entry, nil
}

func (a *Answers) hearer(ctx context.Context, name string) (q *checked, m prompt.Model, err error) {
	if name == "" {
		all, err := a.Hearers(ctx, "")
		if err != nil {
			return nil, m, err
		}
		if len(all) == 0 {
			return nil, m, errDeaf
		}
		name = all[0].Name.String()
	}
	q = &checked{model: name}
	if m, err = a.find(nil, q, prompt.ErrUnnamed, prompt.Missing); err == nil {
		err = hears(q.entry)
	}
	return q, m, err
}

// Hear writes down the whole of a sound that came in no form. It calls each with the text, piece by
// piece, and returns the language that it begins in, if the model says so. Without a name the first
// of the models that hear is asked. The request's key is that of ctx.
func (a *Answers) Hear(ctx context.Context, name string, r ask.TranscribeRequest, each func(text string)) (spoken string, err error) {
	q, m, err := a.hearer(ctx, name)
	if err != nil {
		return "", err
	}
	monitor.Of(ctx).Named(q.entry.Name.String())
	if _, err := a.acquire(ctx, q, m, nil, nil); err != nil {
		return "", err
	}
	defer q.release()
	r.Key = request.OwnerOf(ctx)
	var text prompt.Spoken
	for s, err := range q.lease.Transcribe(ctx, r) {
		if err != nil {
			return "", unheard(err)
		}
		if more := text.Add(s); more != "" {
			each(more)
		}
		spoken = cmp.Or(spoken, s.Language)
	}
	if err := ctx.Err(); err != nil { // who hears may end without a word then
		return "", err
	}
	return spoken, nil
}
