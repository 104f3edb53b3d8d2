package answer

import (
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

const maxPicture = 32 << 20 // bytes, as of pictures in prompts

// formRules are what a form with a picture may have. Sizes are in bytes.
type formRules struct {
	names  []string // of the picture
	refuse string   // the field, or file, that is refused, with an error; "": none is
	error  error
	fields int // at most, each as often as it comes
	field  int // at most, of a field
	head   int64
}

// Of a detection, a client without a key may send what comes before the picture.
var detectionForm = formRules{names: []string{"image"}, fields: 16, field: 4 << 10, head: 128 << 10}

// PictureForm is a form with a picture, as far as it has been read. It belongs to its request.
type PictureForm struct {
	formRules
	x       *request.Exchange
	slow    *request.SlowBody
	left    *io.LimitedReader // of slow: what may come before the picture
	parts   *multipart.Reader
	values  map[string]string
	n       int             // fields so far
	coming  *multipart.Part // the picture, which has not been read
	picture []byte
}

// OpenPicture reads the fields of a detection's form up to the picture.
func OpenPicture(x *request.Exchange) (*PictureForm, error) { return openPicture(x, detectionForm) }

// openPicture reads the fields of a form up to the picture.
func openPicture(x *request.Exchange, rules formRules) (*PictureForm, error) {
	kind, params, err := mime.ParseMediaType(x.GetHeader("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", body.Ours(http.ErrNotMultipart.Error()))
	}
	f := &PictureForm{formRules: rules, x: x, slow: x.Slow(maxPicture + 1<<20), values: map[string]string{}}
	f.left = &io.LimitedReader{R: f.slow, N: f.head}
	f.parts = multipart.NewReader(f.left, params["boundary"])
	return f, f.read()
}

// Key is the key among the fields before the picture; "": there was none.
func (f *PictureForm) Key() string { return f.values["api_key"] }

// read reads fields, up to a picture or the end of the form.
func (f *PictureForm) read() error {
	for {
		p, err := f.parts.NextPart()
		switch {
		case err != nil && f.left.N <= 0: // NextPart has io.EOF, too, for a head that is cut off
			return f.broken(err)
		case err == io.EOF: //nolint:errorlint // as NextPart has it
			// net/http sees that a client leaves only when its body was read to the end.
			switch n, err := io.CopyN(io.Discard, f.slow, int64(f.field)); {
			case n == int64(f.field):
				return body.Fail(http.StatusBadRequest, "%d KiB follow the form", f.field>>10)
			case err != io.EOF: //nolint:errorlint // as CopyN has it
				return f.broken(err)
			}
			return nil
		case err != nil:
			return f.broken(err)
		case f.refuse != "" && p.FormName() == f.refuse:
			return f.error
		case slices.Contains(f.names, p.FormName()) && (f.coming != nil || f.picture != nil):
			return body.Fail(http.StatusBadRequest, "the form has two pictures: send one")
		case slices.Contains(f.names, p.FormName()):
			f.coming, f.left.N = p, math.MaxInt64 // from here on slow has the limit
			return nil
		case f.n == f.fields:
			return body.Fail(http.StatusBadRequest, "the form has more than %d fields", f.fields)
		}
		b, err := io.ReadAll(io.LimitReader(p, int64(f.field)+1))
		switch {
		case err != nil:
			return f.broken(err)
		case len(b) > f.field:
			return body.Fail(http.StatusBadRequest, "%s has more than %d KiB", p.FormName(), f.field>>10)
		}
		f.values[p.FormName()] = string(b)
		f.n++
	}
}

// Whole reads what is left of the form. picture is nil where it has none.
func (f *PictureForm) Whole() (fields map[string]string, picture []byte, err error) {
	if f.coming != nil {
		err = f.rest()
	}
	return f.values, f.picture, err
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
		return body.Fail(http.StatusBadRequest, "the form has more than %d KiB before the picture", f.head>>10)
	case f.slow.Err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return f.slow.Err
	}
	return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
}
