package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/detect"
)

// DetectRequest asks what is in a picture, and Detection is a thing in it.
type (
	DetectRequest = ask.DetectRequest
	Detection     = ask.Detection
)

// finds is what a backend that finds things in pictures has in addition.
type finds interface {
	Detect(ctx context.Context, r DetectRequest) ([]Detection, error)
}

// Detect returns what is in a picture, the surest first. It is urgent work: it waits for the piece
// of work that the card is at, and then goes before all that is not urgent, as long as urgent work
// takes no more than a quarter of the card's time. Errors: ErrUnsupported, if the model does not
// find things; ErrRequest, for a picture that cannot be read; detect.ErrNonsense; ErrBusy; the
// card's.
func (m *Model) Detect(ctx context.Context, r DetectRequest) ([]Detection, error) {
	return find(ctx, m.b, r, m.info.Name)
}

func find(ctx context.Context, b Backend, r DetectRequest, name string) ([]Detection, error) {
	if b, ok := b.(finds); ok {
		return b.Detect(ctx, r)
	}
	return nil, fmt.Errorf("%w: %s does not find things in pictures", ErrUnsupported, name)
}

const (
	detectOverlap = 0.45 // share of what two boxes of a class cover from which on they are of one thing
	detectMost    = 300  // things in a picture
	// pictures at a time that are decoded and wait for the card: several cameras wait for
	// the same piece of work, and each picture takes some 10 MB
	detectAhead = 8
	detectGrey  = 114 // what stands beside a picture of another form, as in training
)

// detector is a net on a card that finds things in a picture, one picture in each call.
type detector struct {
	*netBackend
	p *models.Detector
}

func openDetector(ctx context.Context, p *models.Detector, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Capabilities: ask.Capabilities{Detection: true}}
	return openNets(ctx, p, []models.NetFile{p.Net}, info, o, func(n *netBackend) (Backend, error) {
		//rule:G26 TestDetectUrgent card.Urgent => card.Turn
		n.called, n.nets[0].kind = "detect", card.Urgent
		n.turns = fair.New(detectAhead, 0)
		return &detector{n, p}, nil
	})
}

// Detect finds things in a picture. Keys take turns, one picture each.
func (b *detector) Detect(ctx context.Context, r DetectRequest) ([]Detection, error) {
	if err := sure(r.Least); err != nil {
		return nil, err
	}
	leave, err := b.waiting.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	// A picture that waits is not decoded yet: what is made of one is ten times as large.
	done, err := b.turn(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	defer done()
	var pixels []byte
	var fit vision.Fit
	if err := decodePicture(ctx, r.Key, r.Picture, func(p *vision.Picture) (err error) {
		pixels, fit, err = boxed(p, b.p.Layout, detectGrey, b.p.RGB)
		return err
	}); err != nil {
		return nil, err
	}
	out := buffersFor(b.p.Outputs)
	if err := b.call(ctx, map[string][]byte{b.p.Image.Name: pixels}, out); err != nil {
		return nil, err
	}
	return b.found(out, fit, r.Least)
}

// sure refuses what is no confidence.
func sure(least float64) error {
	if !(least >= 0 && least <= 1) {
		return fmt.Errorf("%w: a confidence is between 0 and 1, not %g", ErrRequest, least)
	}
	return nil
}

// boxed is what a net takes of a picture: as large as it fits, with grey beside it. rgb: the net
// takes red first.
func boxed(p *vision.Picture, l vision.Layout, grey byte, rgb bool) (pixels []byte, fit vision.Fit, err error) {
	small, fit := p.Letterbox(l.Width, l.Height, grey)
	if !rgb {
		if small == p {
			small = &vision.Picture{Width: p.Width, Height: p.Height, Pix: bytes.Clone(p.Pix)}
		}
		for i := 0; i < len(small.Pix); i += 3 {
			small.Pix[i], small.Pix[i+2] = small.Pix[i+2], small.Pix[i]
		}
	}
	norm := vision.Own
	if l.Type == vision.F32 {
		norm = vision.Unit
	}
	pixels, err = l.Append(nil, small, norm)
	return pixels, fit, err
}

// buffersFor makes what a net's outputs are written to, by their names.
func buffersFor(all []axcl.Tensor) map[string][]byte {
	out := map[string][]byte{}
	for _, t := range all {
		out[t.Name] = make([]byte, t.Size)
	}
	return out
}

// numbersOf returns the numbers of outputs, in the order of the tensors.
func numbersOf(all []axcl.Tensor, out map[string][]byte) (values [][]float32) {
	for _, t := range all {
		v := make([]float32, len(out[t.Name])/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(out[t.Name][4*i:]))
		}
		values = append(values, v)
	}
	return values
}

// found reads the net's outputs.
func (b *detector) found(out map[string][]byte, fit vision.Fit, least float64) ([]Detection, error) {
	boxes, err := b.p.Form.Decode(numbersOf(b.p.Outputs, out), least)
	if err != nil {
		// No strike against the card: a picture may cause this, and can be sent on purpose.
		return nil, fmt.Errorf("%w: %s", err, b.info.Name)
	}
	var found []Detection
	for _, box := range detect.Suppress(boxes, detectOverlap, detectMost) {
		d := Detection{Label: b.p.Labels[box.Class], Confidence: box.Score}
		d.X0, d.Y0 = fit.Back(box.X0, box.Y0)
		d.X1, d.Y1 = fit.Back(box.X1, box.Y1)
		if d.X1 > d.X0 && d.Y1 > d.Y0 { // else it is beside the picture
			found = append(found, d)
		}
	}
	return found, nil
}
