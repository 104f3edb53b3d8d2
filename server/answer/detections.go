package answer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

const (
	maxPicture       = 32 << 20 // bytes, as of pictures in prompts
	maxPictureField  = 4 << 10
	maxPictureFields = 16
	maxPictureHead   = 128 << 10 // bytes before the picture, which a client without a key may send
)

// PictureForm is a form with a picture, as far as it has been read. It belongs to its request.
type PictureForm struct {
	x       *request.Exchange
	slow    *request.SlowBody
	left    *io.LimitedReader // of slow: what may come before the picture
	parts   *multipart.Reader
	fields  map[string]string
	n       int             // fields, each as often as it came
	coming  *multipart.Part // the picture, which has not been read
	picture []byte
}

// OpenPicture reads the fields of a form up to the picture.
func OpenPicture(x *request.Exchange) (*PictureForm, error) {
	kind, params, err := mime.ParseMediaType(x.GetHeader("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", body.Ours(http.ErrNotMultipart.Error()))
	}
	f := &PictureForm{x: x, slow: x.Slow(maxPicture + 1<<20), fields: map[string]string{}}
	f.left = &io.LimitedReader{R: f.slow, N: maxPictureHead}
	f.parts = multipart.NewReader(f.left, params["boundary"])
	return f, f.read()
}

// Key is the key among the fields before the picture; "": there was none.
func (f *PictureForm) Key() string { return f.fields["api_key"] }

// read reads fields, up to a picture or the end of the form.
func (f *PictureForm) read() error {
	for {
		p, err := f.parts.NextPart()
		switch {
		case err != nil && f.left.N <= 0: // NextPart has io.EOF, too, for a head that is cut off
			return f.broken(err)
		case err == io.EOF: //nolint:errorlint // as NextPart has it
			// net/http sees that a client leaves only when its body was read to the end.
			switch n, err := io.CopyN(io.Discard, f.slow, maxPictureField); {
			case n == maxPictureField:
				return body.Fail(http.StatusBadRequest, "%d KiB follow the form", maxPictureField>>10)
			case err != io.EOF: //nolint:errorlint // as CopyN has it
				return f.broken(err)
			}
			return nil
		case err != nil:
			return f.broken(err)
		case p.FormName() == "image" && (f.coming != nil || f.picture != nil):
			return body.Fail(http.StatusBadRequest, "the form has two pictures: send one")
		case p.FormName() == "image":
			f.coming, f.left.N = p, math.MaxInt64 // from here on slow has the limit
			return nil
		case f.n == maxPictureFields:
			return body.Fail(http.StatusBadRequest, "the form has more than %d fields", maxPictureFields)
		}
		b, err := io.ReadAll(io.LimitReader(p, maxPictureField+1))
		switch {
		case err != nil:
			return f.broken(err)
		case len(b) > maxPictureField:
			return body.Fail(http.StatusBadRequest, "%s has more than %d KiB", p.FormName(), maxPictureField>>10)
		}
		f.fields[p.FormName()] = string(b)
		f.n++
	}
}

// Whole reads what is left of the form. picture is nil where it has none.
func (f *PictureForm) Whole() (fields map[string]string, picture []byte, err error) {
	if f.coming != nil {
		err = f.rest()
	}
	return f.fields, f.picture, err
}

// rest reads the picture and the fields behind it.
func (f *PictureForm) rest() error {
	if f.coming == nil {
		return body.Fail(http.StatusBadRequest, "image is required: the file of a picture")
	}
	b, whole, room, err := f.x.ReadPart(f.coming, maxPicture)
	switch {
	case room != nil:
		return room
	case err != nil:
		return f.broken(err)
	case !whole:
		return body.Fail(http.StatusRequestEntityTooLarge, "the picture has more than %d MiB", maxPicture>>20)
	}
	f.picture, f.coming = b, nil
	return f.read()
}

// broken is why the form could not be read.
func (f *PictureForm) broken(err error) error {
	switch {
	case f.left.N <= 0:
		return body.Fail(http.StatusBadRequest, "the form has more than %d KiB before the picture", maxPictureHead>>10)
	case f.slow.Err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return f.slow.Err
	}
	return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
}

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
	least, err := sure(f.fields["min_confidence"])
	if err != nil {
		return nil, err
	}
	q := &checked{model: cmp.Or(f.fields["model"], a.o.Detector)}
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
