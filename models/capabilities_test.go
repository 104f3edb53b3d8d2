package models_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/models"
)

// What a text to be embedded ends with: the vendor's text file cannot say it, so the tokenizer type
// does, for embedding packages alone.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name, typ, last string
		out             int
		want            []int32
		err             error
	}{
		{"Qwen3", "Qwen3", "<|endoftext|>", 8, []int32{19}, nil},
		{"Qwen3-VL, written otherwise", "qwen3_vl", "<|endoftext|>", 8, []int32{19}, nil},
		{"a model that writes", "Qwen3", "<|endoftext|>", 20, nil, nil},
		{"another family", "SmolLM3", "<|endoftext|>", 8, nil, nil},
		{"another model's tokenizer", "Qwen3", "<eos>", 8, nil, models.ErrMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.vendor("", "qwen3_p128_l%d_together.axmodel", 1, "qwen3_post.axmodel")
			b.write("qwen3_post.axmodel", axmodeltest.VendorHead(8, c.out, 8, axcl.BF16, true).Marshal())
			b.write("config.json", []byte(`{"template_filename_axmodel": "qwen3_p128_l%d_together.axmodel", "tokenizer_type": "`+c.typ+
				`"}`))
			text := "430 1\n1 1 0\n19 19\n20\n"
			for i := range 19 {
				text += base64.StdEncoding.EncodeToString([]byte{'a' + byte(i)}) + "\n"
			}
			b.write("qwen3_tokenizer.txt", []byte(text+base64.StdEncoding.EncodeToString([]byte(c.last))+"\n"))
			p := b.open()
			if got, err := p.Ends(); !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%v %v, want %v %v", got, err, c.want, c.err)
			}
		})
	}
}
