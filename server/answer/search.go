package answer

import (
	"context"
	"net/http"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Searchers are the models that give vectors of pictures and of texts, in the order in which they
// are asked; see those. A package may have the net of pictures alone, and no context.
func (a *Answers) Searchers(ctx context.Context) ([]*catalog.Entry, error) {
	return a.those(ctx, "", func(e *catalog.Entry) bool { return e.Embedding && e.Caps.Vision && e.Info.Context > 0 })
}

// FaceFinders are the models that find faces in pictures, likewise.
func (a *Answers) FaceFinders(ctx context.Context) ([]*catalog.Entry, error) {
	return a.those(ctx, "", func(e *catalog.Entry) bool { return e.Caps.Faces })
}

// Vector has a model make one vector, of a text or of a picture.
func (a *Answers) Vector(x *request.Exchange, model, text string, picture []byte) ([]float32, error) {
	req := &prompt.Vectors{Model: model, Unnamed: prompt.ErrUnnamed, Input: []string{text}, Truncate: true, Raw: true}
	if picture != nil {
		req.Pictures = [][]byte{picture}
	}
	out, err := a.vectors(x, req)
	if err != nil {
		return nil, err
	}
	return out.Vectors[0], nil
}

// Faces has a model find the faces in a picture.
func (a *Answers) Faces(x *request.Exchange, model string, picture []byte, least float64) ([]ask.Face, error) {
	q := &checked{model: model}
	m, err := a.find(x, q, prompt.ErrUnnamed, prompt.Missing)
	if err != nil {
		return nil, err
	}
	if !q.entry.Caps.Faces {
		return nil, body.Fail(http.StatusBadRequest, "%s does not find faces in pictures", q.entry.Name.Full())
	}
	if err := x.Who().Pictures(1); err != nil {
		return nil, err
	}
	if _, err := a.acquire(x.Ctx(), q, m, nil, nil); err != nil {
		return nil, err
	}
	defer q.release()
	return q.lease.Faces(x.Ctx(), ask.FaceRequest{Picture: picture, Least: least, Key: x.Owner()})
}
