package manage

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/request"
)

// progress runs a long piece of work and sends its status lines, each at once, or only the last. An
// error before the first line has its own status; a later one is the stream's last line.
func progress(x *request.Exchange, asked *bool, work func(ctx context.Context, status func(catalog.Progress)) error) error {
	stream := asked == nil || *asked
	x.Answer(ollama.Errors{}, func(r *request.Reply) error {
		ctx, cancel := context.WithCancel(x.Ctx())
		defer cancel()
		out, over, sent := newStatusLines(), make(chan struct{}), make(chan error, 1)
		if stream {
			go func() {
				err := out.send(over, func(p catalog.Progress) error {
					b, err := progressObject(p)
					if err == nil {
						err = r.Part(request.Lines, append(b, '\n'))
					}
					return err
				})
				if err != nil {
					cancel()
				}
				sent <- err
			}()
		} else {
			sent <- nil
		}
		var unsent error
		err := func() error {
			defer func() { // also where the work panics
				close(over)
				unsent = <-sent
			}()
			return work(ctx, out.put)
		}()
		if err := errors.Join(err, unsent); err != nil {
			return ofManaging(err)
		}
		if stream {
			return nil
		}
		_, last := out.take()
		b, err := progressObject(last)
		if err != nil {
			return err
		}
		r.Whole(http.StatusOK, request.JSON, b)
		return nil
	})
	return nil
}

func progressObject(p catalog.Progress) ([]byte, error) {
	return json.Marshal(api.ProgressResponse{Status: p.Status, Digest: p.Digest, Total: p.Total, Completed: p.Completed})
}

// ofManaging keeps an error of management work from being told as one of a running model.
func ofManaging(err error) error {
	if errors.As(err, new(*body.Failure)) || request.Own(err) || errors.Is(err, context.Canceled) || errors.Is(err, models.ErrName) ||
		errors.Is(err, store.ErrReadOnly) || errors.Is(err, store.ErrTaken) {
		return err
	}
	return request.Because(statusOf(err), err)
}

// statusOf is the status of an error of management work: an unknown name, files that this chip
// cannot run and blobs that were not uploaded are the client's mistake, and trying again would not
// help; anything else is ours, the hub's or the disk's.
func statusOf(err error) int {
	switch {
	case errors.Is(err, hub.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, hub.ErrDenied):
		return http.StatusForbidden
	case errors.Is(err, store.ErrGGUF), errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrRequest),
		errors.Is(err, models.ErrNotPackage), errors.Is(err, models.ErrKind):
		return http.StatusBadRequest
	case errors.Is(err, store.ErrSpace):
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
