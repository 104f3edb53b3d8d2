package answer

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Detections answers with what is in a picture. least reads the field min_confidence, and write
// makes the answer, of the content type kind. opened is the form, where somebody has looked for a
// key in it.
func (a *Answers) Detections(kind string, least func(string) (float64, error), write func([]ask.Detection) ([]byte, error),
	opened func(*request.Exchange) *PictureForm) func(*request.Exchange) error {
	return func(x *request.Exchange) error {
		defer x.Reads()()
		found, err := a.detections(x, opened(x), least)
		if err != nil {
			x.Drain(time.Now().Add(request.DrainTime))
			return err
		}
		b, err := write(found)
		if err == nil {
			x.Reply().Whole(http.StatusOK, kind, b)
		}
		return err
	}
}

func (a *Answers) detections(x *request.Exchange, f *PictureForm, sure func(string) (float64, error)) (found []ask.Detection, err error) {
	if f == nil {
		if f, err = OpenPicture(x); err != nil {
			return nil, err
		}
	}
	if err := f.rest(); err != nil {
		return nil, err
	}
	least, err := sure(f.values["min_confidence"])
	if err != nil {
		return nil, err
	}
	q := &checked{model: cmp.Or(f.values["model"], a.o.Detector)}
	if q.model == "" {
		all, err := a.Detectors(x.Ctx())
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, errBlind
		}
		q.model = all[0].Name.String()
	}
	m, err := a.find(x, q, prompt.ErrUnnamed, prompt.Missing)
	if err != nil {
		return nil, err
	}
	if !q.entry.Caps.Detection {
		return nil, body.Fail(http.StatusBadRequest, "%s does not find things in pictures", q.entry.Name.Full())
	}
	if err := x.Who().Pictures(1); err != nil {
		return nil, err
	}
	if _, err := a.acquire(x.Ctx(), q, m, nil, nil); err != nil {
		return nil, err
	}
	defer q.release()
	return q.lease.Detect(x.Ctx(), ask.DetectRequest{Picture: f.picture, Least: least, Key: x.Owner()})
}

// Detectors are the models that find things in pictures, in the order in which they are asked; see
// those.
func (a *Answers) Detectors(ctx context.Context) ([]*catalog.Entry, error) {
	return a.those(ctx, "", func(e *catalog.Entry) bool { return e.Caps.Detection })
}

var errBlind = body.Fail(http.StatusNotFound,
	"no installed model finds things in pictures: 'axle pull' a YOLO, or put one into AXLE_MODEL_PATH")
