package immich

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/axle-llm/axle/ask"
)

// Answer is what was found for a request.
type Answer struct {
	Clip          []float32 // nil: it was not asked for
	Faces         []ask.Face
	Found         bool // faces were asked for
	Width, Height int  // of the picture; 0: there was none
}

type box struct {
	X1 int `json:"x1"`
	Y1 int `json:"y1"`
	X2 int `json:"x2"`
	Y2 int `json:"y2"`
}

type face struct {
	BoundingBox box     `json:"boundingBox"`
	Embedding   string  `json:"embedding"`
	Score       float64 `json:"score"`
}

// Body is the body of the answer. Error: a vector holds what is no number.
func (a *Answer) Body() ([]byte, error) {
	var out struct {
		Clip   string  `json:"clip,omitempty"`
		Faces  *[]face `json:"facial-recognition,omitempty"`
		Height int     `json:"imageHeight,omitempty"`
		Width  int     `json:"imageWidth,omitempty"`
	}
	out.Height, out.Width = a.Height, a.Width
	var err error
	if a.Clip != nil {
		if out.Clip, err = vector(a.Clip); err != nil {
			return nil, err
		}
	}
	if a.Found {
		all := make([]face, len(a.Faces))
		for i, f := range a.Faces {
			whole := func(v float64) int { return int(math.Round(v)) }
			all[i] = face{BoundingBox: box{whole(f.X0), whole(f.Y0), whole(f.X1), whole(f.Y1)}, Score: f.Score}
			if all[i].Embedding, err = vector(f.Vector); err != nil {
				return nil, err
			}
		}
		out.Faces = &all
	}
	return json.Marshal(out)
}

// vector is a vector as Immich takes it: text.
func vector(v []float32) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("immich: a vector contains NaN or Inf values: %w", err)
	}
	return string(b), nil
}
