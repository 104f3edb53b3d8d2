package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/detect"
)

// FaceRequest asks for the faces in a picture, and Face is one of them.
type (
	FaceRequest = ask.FaceRequest
	Face        = ask.Face
)

// tellsFaces is what a backend that finds faces in pictures has in addition.
type tellsFaces interface {
	Faces(ctx context.Context, r FaceRequest) ([]Face, error)
}

// Faces returns the faces in a picture with their vectors, the surest first. Errors:
// ErrUnsupported, if the model does not find faces; ErrRequest, for a picture that cannot be read;
// detect.ErrNonsense; ErrBusy; the card's.
func (m *Model) Faces(ctx context.Context, r FaceRequest) ([]Face, error) {
	return findFaces(ctx, m.b, r, m.info.Name)
}

func findFaces(ctx context.Context, b Backend, r FaceRequest, name string) ([]Face, error) {
	if b, ok := b.(tellsFaces); ok {
		return b.Faces(ctx, r)
	}
	return nil, fmt.Errorf("%w: %s does not find faces in pictures", ErrUnsupported, name)
}

const (
	faceOverlap = 0.4 // share of what two boxes cover from which on they are of one face
	faceMost    = 128 // faces in a picture: each is a call
)

// faceTemplate is where ArcFace's nets expect the eyes, the nose and the corners of the mouth.
var faceTemplate = [][2]float64{{38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366}, {41.5493, 92.3655}, {70.7299, 92.2041}}

// faces is two nets on a card: one finds the faces in a picture, and one makes a vector of each.
type faces struct {
	*netBackend
	p *models.Faces
}

func openFaces(ctx context.Context, p *models.Faces, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Capabilities: ask.Capabilities{Faces: true}}
	return openNets(ctx, p, []models.NetFile{p.Finder, p.Teller}, info, o, func(n *netBackend) (Backend, error) {
		n.called = "faces"
		return &faces{n, p}, nil
	})
}

// Faces finds the faces in a picture. Keys take turns, one picture each.
func (b *faces) Faces(ctx context.Context, r FaceRequest) ([]Face, error) {
	if err := sure(r.Least); err != nil {
		return nil, err
	}
	leave, err := b.waiting.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	done, err := b.turn(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	defer done()
	found, upright, err := b.find(ctx, r)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].Vector, err = b.tell(ctx, upright[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// find returns the faces without their vectors, and each of them upright, as the second net takes
// it. The picture itself is gone by then.
func (b *faces) find(ctx context.Context, r FaceRequest) (found []Face, upright [][]byte, err error) {
	var p *vision.Picture
	var pixels []byte
	var fit vision.Fit
	if err := decodePicture(ctx, r.Key, r.Picture, func(read *vision.Picture) (err error) {
		p = read
		pixels, fit, err = boxed(p, b.p.Layout, 0, b.p.RGB)
		return err
	}); err != nil {
		return nil, nil, err
	}
	out := buffersFor(b.p.Outputs)
	if err := b.call(ctx, map[string][]byte{b.p.Image.Name: pixels}, out); err != nil {
		return nil, nil, err
	}
	all, err := b.p.Form.Decode(numbersOf(b.p.Outputs, out), r.Least)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s", err, b.info.Name) // no strike: see detector.found
	}
	for _, box := range detect.SuppressFaces(all, faceOverlap, faceMost) {
		f := Face{Score: box.Score}
		f.X0, f.Y0 = fit.Back(box.X0, box.Y0)
		f.X1, f.Y1 = fit.Back(box.X1, box.Y1)
		for i, at := range box.Points {
			f.Points[i][0], f.Points[i][1] = fit.Beyond(at[0], at[1])
		}
		turn, ok := vision.Align(f.Points[:], faceTemplate)
		if !ok || f.X1 <= f.X0 || f.Y1 <= f.Y0 { // no face has all its points in one; the others are beside the picture
			continue
		}
		small, _, err := boxed(p.Aligned(turn, b.p.Small.Width, b.p.Small.Height), b.p.Small, 0, b.p.RGB)
		if err != nil {
			return nil, nil, err
		}
		found, upright = append(found, f), append(upright, small)
	}
	return found, upright, nil
}

// tell makes the vector of a face.
func (b *faces) tell(ctx context.Context, upright []byte) ([]float32, error) {
	given := []axcl.Tensor{b.p.Vector}
	out := buffersFor(given)
	if _, err := b.nets[1].run(ctx, 0, map[string][]byte{b.p.Crop.Name: upright}, out); err != nil {
		return nil, err
	}
	b.calls.Add(1)
	vector := numbersOf(given, out)[0]
	sum := 0.0
	for _, v := range vector {
		sum += float64(v)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("%w: %s", detect.ErrNonsense, b.info.Name)
	}
	return vector, nil
}
