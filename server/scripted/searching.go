package scripted

import (
	"context"
	"fmt"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/vision"
)

// EmbedPictures implements the optional interface behind engine.Model.Embed: a picture's vector is
// that of the word for what is most of it, red, green or blue, and of the text beside it.
func (b *Backend) EmbedPictures(ctx context.Context, pictures [][]byte, texts []string, key string) ([][]float32, error) {
	if !b.c.Info.Capabilities.Vision {
		return nil, fmt.Errorf("%w: %s gives no vectors of pictures", ask.ErrUnsupported, b.c.Info.Name)
	}
	inputs := make([][]int32, len(pictures))
	for i, file := range pictures {
		p, err := vision.Decode(file, vision.Limits{})
		if err != nil {
			return nil, fmt.Errorf("%w: the picture cannot be read: %w", ask.ErrRequest, err)
		}
		var sum [3]int
		for at, v := range p.Pix {
			sum[at%3] += int(v)
		}
		word := "red"
		if sum[1] > sum[0] {
			word = "green"
		}
		if sum[2] > max(sum[0], sum[1]) {
			word = "blue"
		}
		for _, w := range cut(word + " " + texts[i]) {
			inputs[i] = append(inputs[i], b.words.id(w))
		}
	}
	return b.Embed(ctx, inputs, key)
}
