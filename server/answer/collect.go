package answer

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Collect answers a conversation for who takes the text and no events (the vendor's API), from the
// model the request names, else from the one that is loaded, else from the first there is that
// chats. part is given each piece as it comes; what was said is returned with an error too.
func (a *Answers) Collect(ctx context.Context, req *prompt.Request, part func(string)) (string, error) {
	if req.Model == "" {
		if e, err := a.Chatter(ctx, ""); err == nil {
			req.Model = e.Name.String()
		}
	}
	if strings.TrimSpace(req.Model) == "" {
		return "", body.Fail(http.StatusBadRequest, "Model not init")
	}
	var said strings.Builder
	err := a.Events(ctx, req, "the vendor's API", func(e ask.Event) {
		if e.Text != "" {
			said.WriteString(e.Text)
			part(e.Text)
		}
	})
	return said.String(), err
}

// Events answers a conversation for who takes the engine's events. where is the way that the
// request came, for the log.
func (a *Answers) Events(ctx context.Context, req *prompt.Request, where string, each func(ask.Event)) error {
	if req.Text() > body.MaxText { // the session has grown since its bodies were weighed
		return body.TextTooLong()
	}
	start := time.Now()
	q, err := a.check(ctx, nil, req)
	if err != nil {
		return err
	}
	defer q.release()
	if q.doneReason != "" {
		return nil
	}
	a.logPrompt(where, q.engine)
	answer, trace := prompt.Answer{Model: q.model, Start: start, Load: q.load}, a.Figures.begin(false)
	defer trace.end(&answer)
	done := false
	for e, err := range q.lease.Chat(ctx, q.engine) {
		if err != nil {
			a.o.Shared.OnFailure(err)
			return err
		}
		if q.account.event(e); e.Cut != nil {
			a.noteCut(*e.Cut, true, where, q.entry.Name.String(), "")
		}
		if e.Text != "" || e.Thinking != "" || e.ToolCall != nil || e.Done != nil {
			now := time.Now()
			trace.event(now, e)
			answer.Part(e, now)
			done = done || e.Done != nil
		}
		each(e)
	}
	if err := ctx.Err(); err != nil { // a model may end without a word then
		return err
	}
	if !done {
		return request.ErrNoEnd
	}
	return nil
}

// Chatter is the model that chats under a name; without a name it is one that is loaded, or else
// the first of those that do.
func (a *Answers) Chatter(ctx context.Context, name string) (*catalog.Entry, error) {
	if name == "" {
		chats := func(e *catalog.Entry) bool {
			return !e.Embedding && !e.Caps.Audio && !e.Caps.Speech && !e.Caps.Detection && !e.Caps.Faces && !e.Caps.Drawing &&
				e.Says() == ""
		}
		for _, l := range a.o.Loaded.Loaded() {
			if chats(l.Entry) {
				return l.Entry, nil
			}
		}
		all, err := a.those(ctx, "", chats)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, errSilent
		}
		return all[0], nil
	}
	q := &checked{model: name}
	m, err := a.find(nil, q, prompt.ErrUnnamed, prompt.Missing)
	if err == nil {
		err = (&prompt.Request{Model: name, Chat: true}).Check(m)
	}
	return q.entry, err
}

var errSilent = body.Fail(http.StatusNotFound, "no installed model chats: 'axle pull' without a name lists models")
