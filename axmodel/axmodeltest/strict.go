package axmodeltest

import (
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/vision"
)

// Strict has a card compute a picture with the encoder at path, and then the same bytes in every
// order that one might take for the right one, and values that were normed before: each must give
// other rows, so that a test with this encoder cannot pass by luck.
func Strict(d axcl.Device, path string, c *Checkpoint, p *vision.Picture) error {
	n, err := d.LoadNet(path)
	if err != nil {
		return err
	}
	defer n.Close()
	in, to := n.Inputs(0)[0], n.Outputs(0)[0]
	rows := c.Sight.Down * c.Sight.Across / c.Sight.Merge / c.Sight.Merge
	l, err := vision.ReadLayout(in.Shape, vision.U8, vision.Hints{Rows: rows, Width: p.Width, Height: p.Height})
	if err != nil {
		return err
	}
	pixels, err := l.Append(nil, p, vision.Own)
	if err != nil {
		return err
	}
	run := func(b []byte) ([]float32, error) {
		out := make([]byte, to.Size)
		err := n.Run(0, map[string][]byte{in.Name: b}, map[string][]byte{to.Name: out})
		return float32s(out), err
	}
	want, err := run(pixels)
	if err != nil {
		return err
	}
	each := func(f func(byte) byte) []byte {
		out := slices.Clone(pixels)
		for i, b := range out {
			out[i] = f(b)
		}
		return out
	}
	// moved takes the value at i from of(i), in parts of this many bytes.
	moved := func(part int, of func(i int) int) []byte {
		var out []byte
		for at := 0; at < len(pixels); at += part {
			for i := range part {
				out = append(out, pixels[at+of(i)])
			}
		}
		return out
	}
	width, patch := c.Sight.Across, c.Sight.Patch*c.Sight.Patch*3
	wrong := map[string][]byte{
		"blue before red":      moved(3, func(i int) int { return 2 - i }),
		"planes":               moved(len(pixels), func(i int) int { return i%(len(pixels)/3)*3 + i/(len(pixels)/3) }),
		"upside down":          moved(len(pixels), func(i int) int { return len(pixels) - 3 - i/3*3 + i%3 }),
		"dark":                 each(func(b byte) byte { return b / 2 }),
		"normed around zero":   each(func(b byte) byte { return b + 128 }),
		"a negative":           each(func(b byte) byte { return 255 - b }),
		"one colour for three": moved(3, func(int) int { return 0 }),
	}
	if l.Kind == vision.Qwen {
		wrong["planes in a patch"] = moved(patch, func(i int) int { return i%(patch/3)*3 + i/(patch/3) })
		wrong["columns before rows in a patch"] = moved(patch, func(i int) int {
			side := c.Sight.Patch
			return (i/3%side*side+i/3/side)*3 + i%3
		})
		wrong["patches in the order of rows"] = moved(len(pixels), func(i int) int {
			at, m := i/(2*patch), c.Sight.Merge
			y, x := at/width, at%width
			return (((y/m*(width/m)+x/m)*m+y%m)*m+x%m)*2*patch + i%(2*patch)
		})
	} else {
		wrong["columns before rows"] = moved(len(pixels), func(i int) int {
			return (i/3%p.Height*p.Width+i/3/p.Height)*3 + i%3
		})
	}
	for name, b := range wrong {
		got, err := run(b)
		if err != nil {
			return err
		}
		least := 1.0
		for r := 0; r < len(want); r += c.Hidden {
			right := make([]float64, c.Hidden)
			for i, v := range want[r : r+c.Hidden] {
				right[i] = float64(v)
			}
			least = min(least, cosine(got[r:r+c.Hidden], right))
		}
		if !(least < 0.99) {
			return fmt.Errorf("axmodeltest: a picture with %s gives the same rows, to a cosine of %v", name, least)
		}
	}
	return nil
}
