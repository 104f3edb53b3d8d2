package answer

// This file is the one way down of every prompt, whatever its dialect: from what a body was decoded
// to, to an engine request that nothing is wrong with. run.go takes the way back.

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Prompt answers the requests of a dialect's route.
func (a *Answers) Prompt(to prompt.Route) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		r, enc, err := x.ReadPrompt(to)
		if err != nil {
			return err
		}
		switch d, err := a.drawsHere(r, enc); {
		case err != nil:
			return err
		case d != nil:
			return a.draw(x, d, len(r.Ask.Images) > 0)
		}
		x.Answer(enc, func(w *request.Reply) error { return a.respond(x, w, r, enc) })
		return nil
	}
}

// respond answers a prompt, and one that the encoder asks in its place where the answer was none.
func (a *Answers) respond(x *request.Exchange, w *request.Reply, r *prompt.Request, enc prompt.Encoder) error {
	err := a.once(x, w, r, enc)
	rep, ok := enc.(prompt.Repeater)
	if err == nil || !ok {
		return err
	}
	if again, ok := rep.Again(err); ok {
		err = a.once(x, w, again, enc)
	}
	if failed, ok := rep.Failed(err); ok {
		a.log.Debug("no answer of the form that was asked for", zap.String("error", a.o.Shared.Told(err)))
		return failed
	}
	return err
}

// once checks a prompt and answers it.
func (a *Answers) once(x *request.Exchange, w *request.Reply, r *prompt.Request, enc prompt.Encoder) error {
	start, ctx := time.Now(), x.Ctx()
	q, err := a.check(ctx, x, r)
	if err != nil {
		return err
	}
	defer q.release()
	if q.doneReason != "" {
		return noText(w, enc, prompt.Part{Model: r.Model, Created: time.Now().UTC(), Done: true, Reason: q.doneReason})
	}
	if see, ok := enc.(prompt.Renderer); ok && r.RenderOnly {
		text, err := q.lease.Render(ctx, q.engine)
		if err != nil {
			return unrendered(err)
		}
		w.JSON(http.StatusOK, see.Rendered(prompt.Part{Model: r.Model, Created: time.Now().UTC()}, text, q.images))
		return nil
	}
	a.logPrompt(x.Request.URL.Path, q.engine)
	return a.run(x, w, enc, q, start)
}

// checked is a request that nothing is wrong with: its model is loaded, its options are sound.
// Release it.
type checked struct {
	model      string      // as the request named it
	images     int         // how many pictures it has
	engine     ask.Request // what it became
	entry      *catalog.Entry
	lease      *pool.Lease   // given back, or nil, where doneReason is set
	load       time.Duration // how long the model took to be there
	isChat     bool
	account    account
	doneReason string // "load" or "unload": nothing else was asked for, and it is done; "": an answer is
}

func (q *checked) release() {
	if q.lease != nil {
		q.lease.Release()
	}
	q.account.end()
}

// check is the way that every prompt goes, whatever its dialect: the model is found, what it cannot
// do, pictures and options are refused, the model is loaded, and the prompt becomes an engine's
// request. x is nil where an answer outlives the request that asked for it (the vendor's API).
//
// Vectors (vectors.go) and reranking (rerank.go) have no prompt and go their own way: find and
// acquire, and the engine's Embed or Rerank. Of what else a request may ask of a model nothing
// reaches an engine.
func (a *Answers) check(ctx context.Context, x *request.Exchange, r *prompt.Request) (q *checked, err error) {
	q = &checked{model: r.Model}
	m, err := a.find(x, q, r.Unnamed, prompt.Missing)
	if err != nil {
		return nil, err
	}
	if r.Unloads && request.Who(ctx).May(access.Admin) {
		a.o.Loaded.Unload(ctx, q.entry)
		q.doneReason = "unload"
		return q, nil
	}
	if err := r.Check(m); err != nil {
		return nil, err
	}
	numCtx := prompt.NumCtx(a.o.ContextLength, r.Options, m.Params)
	if r.Encodes {
		q.lease, err = a.o.Loaded.Prompts(ctx, q.entry)
	} else {
		numCtx, err = a.acquire(ctx, q, m, r.Options, r.KeepAlive)
	}
	if err != nil {
		return nil, err
	}
	images, _ := r.Images()
	q.images = len(images)
	//rule:T6 ./server TestKeyPictures q.images => 0
	err = request.Who(ctx).Pictures(q.images)
	if err == nil && r.Loads {
		q.release()
		q.doneReason = "load"
		return q, nil
	}
	var unknown []string
	if err == nil {
		q.engine, q.isChat, unknown, err = r.Engine(q.lease.Sampling(), m)
	}
	if err != nil {
		q.release()
		return nil, err
	}
	a.logIgnored(unknown)
	//rule:T17 ./server TestKeyReachesEngine drop
	q.engine.Key = request.OwnerOf(ctx)
	q.account = account{key: request.Who(ctx), seen: monitor.Of(ctx).Usage}
	if q.engine.NumCtx <= 0 {
		q.engine.NumCtx = numCtx
	}
	return q, nil
}

// find resolves the model that q names.
func (a *Answers) find(x *request.Exchange, q *checked, unnamed error, missing string) (m prompt.Model, err error) {
	if q.entry, err = catalog.Find(a.o.Store, q.model, unnamed, missing); err != nil {
		return m, err
	}
	if x != nil {
		x.Log.Model = q.entry.Name.String()
		monitor.Of(x.Ctx()).Named(x.Log.Model)
	}
	if err := q.entry.Runs(q.model); err != nil {
		return m, err
	}
	return q.entry.AskedAs(q.model), nil
}

// acquire loads q's model. numCtx is the context that its options ask for.
func (a *Answers) acquire(ctx context.Context, q *checked, m prompt.Model, options map[string]any, keep *time.Duration) (
	numCtx int, err error,
) {
	numCtx = prompt.NumCtx(a.o.ContextLength, options, m.Params)
	start := time.Now()
	if keep != nil && *keep < 0 {
		keep = new(pool.Forever)
	}
	// How long a model stays is a matter of all who ask it: of a key that only asks, the server's
	// own time counts.
	if !request.Who(ctx).May(access.Admin) && keep != nil {
		//rule:T6 ./server TestRoleWithin false
		if *keep == 0 {
			return 0, request.Forbidden("unloading a model (a keep_alive of 0)")
		}
		keep = nil
	}
	q.lease, err = a.o.Loaded.Acquire(ctx, q.entry, keep, numCtx)
	q.load = time.Since(start)
	a.Figures.load.observe(q.load)
	if err == nil {
		monitor.Of(ctx).Loaded()
	}
	return numCtx, err
}

// unrendered is a prompt that could not be rendered: the request's fault where the engine says so,
// the template's otherwise.
func unrendered(err error) error {
	if errors.Is(err, ask.ErrRequest) {
		return err
	}
	return request.Because(http.StatusInternalServerError, err)
}

// logPrompt writes a request's text to the log, which happens only when asked.
func (a *Answers) logPrompt(path string, er ask.Request) {
	//rule:T14 ./server TestLog drop
	if !a.o.Shared.LogPrompts {
		return
	}
	a.log.Info("prompt", zap.String("path", path), zap.String("prompt", er.Prompt), zap.Any("messages", er.Messages))
}

// logIgnored tells the debug log of options that are not known. Their names are a client's words.
func (a *Answers) logIgnored(names []string) {
	switch {
	case len(names) == 0:
	case a.o.Shared.LogPrompts:
		a.log.Debug("options ignored", zap.Strings("options", names))
	default:
		a.log.Debug("options ignored", zap.Int("options", len(names)))
	}
}
