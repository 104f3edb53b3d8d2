package scripted

import (
	"context"
	"fmt"
	"math"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/vision"
)

// EmbedPictures implements the optional interface behind engine.Model.Embed: a picture's vector is
// that of the word for what is most of it, red, green or blue, and of its text beside it.
func (b *Backend) EmbedPictures(ctx context.Context, r ask.EmbedRequest) (out ask.Embeddings, err error) {
	if !b.c.Info.Capabilities.Vision {
		return out, fmt.Errorf("%w: %s gives no vectors of pictures", ask.ErrUnsupported, b.c.Info.Name)
	}
	texts := make([][]int32, len(r.Input))
	for i, text := range r.Input {
		if p := r.Pictures[i]; p != nil {
			img, err := vision.Decode(p, vision.Limits{})
			if err != nil {
				return out, &ask.PictureError{Index: i, Err: err}
			}
			var sum [3]int
			for at, v := range img.Pix {
				sum[at%3] += int(v)
			}
			word := "red"
			if sum[1] > sum[0] {
				word = "green"
			}
			if sum[2] > max(sum[0], sum[1]) {
				word = "blue"
			}
			text = word + " " + text
		}
		for _, w := range cut(text) {
			texts[i] = append(texts[i], b.words.id(w))
		}
		out.Prompt += len(texts[i])
	}
	if out.Vectors, err = b.Embed(ctx, texts, r.Key); err != nil {
		return out, err
	}
	for i, v := range out.Vectors {
		if r.Dimensions > 0 {
			v = v[:r.Dimensions]
		}
		length := 0.0
		for _, x := range v {
			length += float64(x) * float64(x)
		}
		for d := range v {
			if !r.Raw && length > 0 {
				v[d] /= float32(math.Sqrt(length))
			}
		}
		out.Vectors[i] = v
	}
	return out, nil
}
