package answer

// This file is the one way down of every prompt, whatever its dialect: from what a body was decoded
// to, to an engine request that nothing is wrong with. run.go takes the way back.

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ollama/ollama/api"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/loaded"
	"github.com/axle-llm/axle/server/look"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// chat answers a conversation in any dialect.
func (a *Answers) chat(x *exchange.Exchange, req *ollama.ChatRequest, enc exchange.Encoder[api.ChatResponse]) {
	exchange.Answer(x, enc, func(r *exchange.Reply) error { return respond(a, x, r, req, enc, chatKind) })
}

// generate answers a bare prompt in any dialect.
func (a *Answers) generate(x *exchange.Exchange, req *ollama.GenerateRequest, enc exchange.Encoder[api.GenerateResponse]) {
	exchange.Answer(x, enc, func(r *exchange.Reply) error { return respond(a, x, r, req, enc, generateKind) })
}

// compact answers a compaction, asking once more when the model's first summary is none.
func (a *Answers) compact(x *exchange.Exchange, req *openai.Compaction) {
	exchange.Answer(x, req, func(r *exchange.Reply) error {
		err := respond(a, x, r, req.Native, req, chatKind)
		if errors.Is(err, openai.ErrSummary) {
			if err = req.Again(err); err == nil {
				err = respond(a, x, r, req.Native, req, chatKind)
			}
		}
		if errors.Is(err, openai.ErrSummary) {
			a.log.Debug("no summary", zap.String("error", a.o.Shared.Told(err)))
			return exchange.Error(http.StatusInternalServerError, openai.ErrSummary.Error())
		}
		return err
	})
}

// respond checks a prompt and answers it.
func respond[R any](a *Answers, x *exchange.Exchange, r *exchange.Reply, p ollama.Prompt, enc exchange.Encoder[R], k kind[R]) error {
	start, ctx := time.Now(), x.Ctx()
	q, err := a.check(ctx, x, p)
	if err != nil {
		return err
	}
	defer q.release()
	if q.doneReason != "" {
		return noText(r, enc, k.done(q.common.Model, q.doneReason))
	}
	q.engine.Cut = a.cut(x)
	if q.common.RenderOnly {
		text, err := q.lease.Render(ctx, q.engine)
		if err != nil {
			return unrendered(err)
		}
		r.JSON(http.StatusOK, k.debug(q.common.Model, &api.DebugInfo{RenderedTemplate: text, ImageCount: len(q.common.Images)}))
		return nil
	}
	a.logPrompt(x.Request.URL.Path, q.engine)
	if c, ok := enc.(several[R]); ok && c.Candidates() > 1 {
		return choose(a, x, r, c, k, q, start)
	}
	return run(a, x, r, enc, k, q, start)
}

// checked is a request that nothing is wrong with: its model is loaded, its options are sound.
// Release it.
type checked struct {
	common     ollama.Common // what chats and bare prompts have in common
	engine     ask.Request   // what it became
	entry      *catalog.Entry
	lease      *loaded.Lease // nil where doneReason is set
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
func (a *Answers) check(ctx context.Context, x *exchange.Exchange, p ollama.Prompt) (q *checked, err error) {
	q = &checked{common: p.Common()}
	m, err := a.find(x, q, ollama.Missing)
	if err != nil {
		return nil, err
	}
	if q.common.Unloads && exchange.Who(ctx).May(access.Admin) {
		a.o.Loaded.Unload(ctx, q.entry)
		q.doneReason = "unload"
		return q, nil
	}
	if err := p.Check(m); err != nil {
		return nil, err
	}
	numCtx, err := a.acquire(ctx, q, m)
	if err != nil {
		return nil, err
	}
	//rule:T6 ./server TestKeyPictures len(q.common.Images) => 0
	if err := exchange.Who(ctx).Pictures(len(q.common.Images)); err != nil {
		q.release()
		return nil, err
	}
	if q.common.Loads {
		q.release()
		q.doneReason = "load"
		return q, nil
	}
	var unknown []string
	if q.engine, q.isChat, unknown, err = p.ToEngine(q.lease.Sampling(), m); err != nil {
		q.release()
		return nil, err
	}
	a.logIgnored(unknown)
	//rule:T17 ./server TestKeyReachesEngine drop
	q.engine.Key = exchange.OwnerOf(ctx)
	q.account = account{key: exchange.Who(ctx), seen: look.Of(ctx).Usage}
	q.engine.Begun, q.engine.Watch = q.account.begun, q.account.usage
	if q.engine.NumCtx <= 0 {
		q.engine.NumCtx = numCtx
	}
	return q, nil
}

// find resolves the model that q names.
func (a *Answers) find(x *exchange.Exchange, q *checked, missing string) (m ollama.Model, err error) {
	if q.entry, err = catalog.Find(a.o.Store, q.common.Model, q.common.Unnamed, missing); err != nil {
		return m, err
	}
	if x != nil {
		x.Log.Model = q.entry.Name.String()
		look.Of(x.Ctx()).Named(x.Log.Model)
	}
	if err := q.entry.Runs(q.common.Model); err != nil {
		return m, err
	}
	return q.entry.AskedAs(q.common.Model), nil
}

// acquire loads q's model. numCtx is the context that its options ask for.
func (a *Answers) acquire(ctx context.Context, q *checked, m ollama.Model) (numCtx int, err error) {
	numCtx = a.numCtx(m, q.common.Options)
	start := time.Now()
	keep := keepAlive(q.common.KeepAlive)
	// How long a model stays is a matter of all who ask it: of a key that only asks, the server's
	// own time counts.
	if !exchange.Who(ctx).May(access.Admin) && keep != nil {
		//rule:T6 ./server TestRoleWithin false
		if *keep == 0 {
			return 0, exchange.Forbidden("unloading a model (a keep_alive of 0)")
		}
		keep = nil
	}
	q.lease, err = a.o.Loaded.Acquire(ctx, q.entry, keep, numCtx)
	q.load = time.Since(start)
	a.Figures.load.observe(q.load)
	if err == nil {
		look.Of(ctx).Loaded()
	}
	return numCtx, err
}

// keepAlive is a request's keep_alive for the loaded models.
func keepAlive(d *api.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	// Ollama's decoder makes forever of what is negative, so that a negative duration is one of
	// more seconds than fit: for ever too.
	if d.Duration < 0 {
		forever := loaded.Forever
		return &forever
	}
	return &d.Duration
}

// numCtx is the context a request asks for, as far as that is a number.
func (a *Answers) numCtx(m ollama.Model, opts map[string]any) int {
	for _, o := range []map[string]any{opts, m.Params} {
		switch n := o["num_ctx"].(type) {
		case float64:
			return int(min(max(n, 4), 1<<31-1))
		case int64:
			return int(min(max(n, 4), 1<<31-1))
		}
	}
	return a.o.ContextLength
}

// unrendered is a prompt that could not be rendered: the request's fault where the engine says so,
// the template's otherwise.
func unrendered(err error) error {
	if errors.Is(err, ask.ErrRequest) {
		return err
	}
	return exchange.Because(http.StatusInternalServerError, err)
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
