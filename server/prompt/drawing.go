package prompt

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"time"

	"github.com/axle-llm/axle/ask"
)

// Drawing is a request for pictures, and its answer, in a dialect.
type Drawing interface {
	Model() string             // "": the first installed one that draws
	KeepAlive() *time.Duration // nil: the server's own
	Count() int                // of pictures, at least one; each has the seed after that of the one before it
	// Request is what is asked of a model that can do that, for the first picture, without the key.
	Request(can ask.Draws) (ask.DrawRequest, error)
	Streams() bool
	// Add takes an event of a picture's making, and returns what a stream has of it; nil: nothing.
	Add(d Drawn) ([]byte, error)
	// Write writes an answer that does not stream, once every picture is done.
	Write(w io.Writer) error
	Type() string // of a stream
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
	WholeType() string
}

// DrawingForm is a Drawing that is asked for with a form: its fields are set, then it is checked.
type DrawingForm interface {
	Drawing
	Set(name, value string) error // a field; one that means nothing is left out
	Check(picture []byte) error   // picture is the one to start from
}

// Drawer is an [Encoder] that has an answer, too, where the model draws. The request is one to
// draw then. m is that model.
type Drawer interface {
	Drawing(m Model) (Drawing, error)
}

// Drawn is an event of a picture's making.
type Drawn struct {
	ask.Drawing
	Picture     int // which of those that were asked for, from 0
	Seed        uint32
	Load, Total time.Duration // how long the model took to be there, and the request up to now
}

// The forms of picture files.
const (
	PNG  = "png"
	JPEG = "jpeg"
)

// PictureFile is what a drawing shows as a file of that form. quality is a JPEG's, from 1 to 100.
func PictureFile(d ask.Drawing, form string, quality int) ([]byte, error) {
	if len(d.Pixels) == 0 || len(d.Pixels) != 3*d.Width*d.Height {
		return nil, fmt.Errorf("a picture of %dx%d pixels has %d bytes", d.Width, d.Height, len(d.Pixels))
	}
	img := image.NewRGBA(image.Rect(0, 0, d.Width, d.Height)) // the kind that image/jpeg reads by rows
	for from, to := d.Pixels, img.Pix; len(from) > 0; from, to = from[3:], to[4:] {
		to[0], to[1], to[2], to[3] = from[0], from[1], from[2], 255
	}
	var b bytes.Buffer
	var err error
	if form == JPEG {
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	} else {
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
	}
	return b.Bytes(), err
}
