package answer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/loaded"
	"github.com/axle-llm/axle/server/look"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// checked is a request that nothing is wrong with: its model is loaded, its options and its format are sound, its text is weighed. Release
// it.
type checked struct {
	asked  ollama.Common
	engine engine.Request // what it became
	entry  *catalog.Entry
	lease  *loaded.Lease // nil where only is set
	load   time.Duration // how long the model took to be there
	isChat bool
	only   string // "load" or "unload": that was all, and is done
}

func (q *checked) release() {
	if q.lease != nil {
		q.lease.Release()
	}
}

// check is the way that every prompt goes, whatever its dialect: the model is found (catalog), what it cannot do, pictures and options
// refused (ollama), room taken for the format (exchange), the model loaded (loaded), and the prompt made an engine's request (ollama) and
// weighed again now that it is decoded (exchange). x is nil where an answer outlives the request that asked for it (the vendor's API): such
// a one takes no room.
func (a *Answers) check(ctx context.Context, x *exchange.Exchange, p ollama.Prompt) (*checked, error) {
	q := &checked{asked: p.Common()}
	m, err := a.find(x, q, ollama.Missing)
	if err != nil {
		return nil, err
	}
	if q.asked.Unloads {
		a.o.Loaded.Unload(ctx, q.entry)
		q.only = "unload"
		return q, nil
	}
	if err := p.Check(m); err != nil {
		return nil, err
	}
	if x != nil {
		if err := x.FormatRoom(q.asked.Format); err != nil {
			return nil, err
		}
	}
	numCtx, err := a.acquire(ctx, q, m)
	if err != nil {
		return nil, err
	}
	if q.asked.Loads {
		q.release()
		q.only = "load"
		return q, nil
	}
	if err := a.convert(x, q, p, m); err != nil {
		q.release()
		return nil, err
	}
	q.engine.Key = exchange.KeyOf(ctx)
	q.engine.Watch = look.Of(ctx).Usage
	if q.engine.NumCtx <= 0 {
		q.engine.NumCtx = numCtx
	}
	return q, nil
}

// find resolves the model that q names.
func (a *Answers) find(x *exchange.Exchange, q *checked, missing string) (m ollama.Model, err error) {
	if q.entry, err = catalog.Find(a.o.Store, q.asked.Model, q.asked.Unnamed, missing); err != nil {
		return m, err
	}
	if x != nil {
		x.Log.Model = q.entry.Name.String()
		look.Of(x.Asked()).Named(x.Log.Model)
	}
	return q.entry.AskedAs(q.asked.Model), nil
}

// acquire loads q's model. numCtx is the context that its options ask for.
func (a *Answers) acquire(ctx context.Context, q *checked, m ollama.Model) (numCtx int, err error) {
	numCtx = a.numCtx(m, q.asked.Options)
	start := time.Now()
	q.lease, err = a.o.Loaded.Acquire(ctx, q.entry, keepAlive(q.asked.KeepAlive), numCtx)
	q.load = time.Since(start)
	a.Figures.load.observe(q.load)
	if err == nil {
		look.Of(ctx).Loaded()
	}
	return numCtx, err
}

// convert makes an engine's request of the prompt, and weighs its text.
func (a *Answers) convert(x *exchange.Exchange, q *checked, p ollama.Prompt, m ollama.Model) (err error) {
	var custom chat.Template
	if q.asked.Template != "" {
		if custom, err = chat.NewGo(q.asked.Template); err != nil {
			return exchange.Because(http.StatusInternalServerError, err)
		}
	}
	var unknown []string
	if q.engine, q.isChat, unknown, err = p.ToEngine(q.lease.Sampling(), m, custom); err != nil {
		return err
	}
	if n := text(q.engine); x == nil {
		err = exchange.CheckText(n)
	} else {
		err = x.WeighText(n)
	}
	if err == nil {
		a.logIgnored(unknown)
	}
	return err
}

// keepAlive is a request's keep_alive for the loaded models.
func keepAlive(d *api.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	// Ollama's decoder makes forever of what is negative, so that a negative duration is one of more seconds than fit: for ever too.
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

// text is how many bytes of text an engine's request has, images left out.
func text(er engine.Request) (n int) {
	n = len(er.Prompt) + len(er.Suffix) + len(er.System) + len(er.ToolChoice)
	for _, m := range er.Messages {
		n += len(m.Role) + len(m.Content) + len(m.Thinking) + len(m.ToolName) + len(m.ToolCallID)
		for _, call := range m.ToolCalls {
			n += len(call.ID) + len(call.Name) + len(call.Arguments)
		}
	}
	for _, t := range er.Tools {
		n += max(len(t.Raw), len(t.Type)+len(t.Name)+len(t.Description)+len(t.Parameters))
	}
	for key, v := range er.Kwargs {
		n += len(key) + len(v)
	}
	for _, s := range er.Stop {
		n += len(s)
	}
	return n
}

// noShift gives a prompt that does not fit the text Ollama has for it where it may be cut but a full context may not be shifted. Without
// truncation the backend's own text is passed on, which tells both numbers.
func noShift(err error, er engine.Request) error {
	var ce *engine.ContextError
	if er.Truncate && !er.Shift && errors.As(err, &ce) {
		return exchange.Error(http.StatusBadRequest, exchange.TooLong)
	}
	return err
}

// unrendered is a prompt that could not be rendered: the request's fault where the engine says so, the template's otherwise.
func unrendered(err error) error {
	if errors.Is(err, engine.ErrRequest) {
		return err
	}
	return exchange.Because(http.StatusInternalServerError, err)
}
