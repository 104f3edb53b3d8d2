package answer

import (
	"context"
	"net/http"
	"strings"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Collect answers a conversation for who takes the text and no events (the vendor's API), from the
// model the request names, else from the one that is loaded, else from the first there is that
// chats. part is given each piece as it comes; what was said is returned with an error too.
func (a *Answers) Collect(ctx context.Context, req *prompt.Request, part func(string)) (string, error) {
	if req.Model == "" {
		req.Model = a.anyModel(ctx)
	}
	if strings.TrimSpace(req.Model) == "" {
		return "", body.Fail(http.StatusBadRequest, "Model not init")
	}
	if req.Text() > body.MaxText { // the session has grown since its bodies were weighed
		return "", body.TextTooLong()
	}
	q, err := a.check(ctx, nil, req)
	if err != nil {
		return "", err
	}
	defer q.release()
	if q.doneReason != "" {
		return "", nil
	}
	var said strings.Builder
	for ev, err := range q.lease.Chat(ctx, q.engine) {
		if err != nil {
			a.o.Shared.OnFailure(err)
			return said.String(), err
		}
		if q.account.event(ev); ev.Cut != nil {
			a.noteCut(*ev.Cut, true, "the vendor's API", q.entry.Name.String(), "")
		}
		if ev.Text == "" {
			continue
		}
		said.WriteString(ev.Text)
		part(ev.Text)
	}
	return said.String(), nil
}

func (a *Answers) anyModel(ctx context.Context) string {
	if l := a.o.Loaded.Loaded(); len(l) > 0 {
		return l[0].Entry.Name.String()
	}
	list, err := a.o.Store.List(ctx)
	if err != nil {
		return ""
	}
	for _, e := range list {
		if !e.Embedding {
			return e.Name.String()
		}
	}
	return ""
}
