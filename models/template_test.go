package models_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
)

// Layer templates are read as printf reads them, with one number.
func TestLayerFile(t *testing.T) {
	for template, want := range map[string]string{
		"a_l%d.axmodel": "a_l7.axmodel", "a_l%02d.axmodel": "a_l07.axmodel", "a_l%i.axmodel": "a_l7.axmodel",
		"a_l%u.axmodel":       "a_l7.axmodel",
		"100%%_l%03u.axmodel": "100%_l007.axmodel", "w/a_l%d.axmodel": "w/a_l7.axmodel", "a_l%-2d_b": "a_l7 _b",
		"a": "", "a%d%d": "", "a%s": "", "a%": "", "a%33d": "", "a%d%": "", "%d/a": "", "a%%d": "", "a%ld": "",
	} {
		got, ok := models.LayerFile(template, 7)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q gives %q, %v; want %q", template, got, ok, want)
		}
	}
}

// A package whose template has another conversion opens; one with two is refused.
func TestLayerTemplates(t *testing.T) {
	for _, template := range []string{"qwen3_p8_l%02d_together.axmodel", "qwen3_p8_l%i_together.axmodel", "q%%_p8_l%u_together.axmodel"} {
		b := newBench(t)
		b.vendor("", strings.NewReplacer("%i", "%d", "%u", "%d").Replace(template), 3, "qwen3_post.axmodel")
		b.write("config.json", fmt.Appendf(nil, `{"template_filename_axmodel": %q, "axmodel_num": 3, "tokenizer_type": "Qwen3",
			"filename_post_axmodel": "qwen3_post.axmodel"}`, template))
		if p := b.open(); len(p.Layers) != 3 || len(p.Facts) != 3 || p.Layout != "A" {
			t.Errorf("%s: layers %v, layout %s", template, p.Layers, p.Layout)
		}
	}
	b := newBench(t)
	b.write("config.json", []byte(`{"template_filename_axmodel": "a_l%d_%d.axmodel", "axmodel_num": 1}`))
	if _, err := models.Open(b.dir); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), "must hold one %d") {
		t.Errorf("%v", err)
	}
}

// MiniCPM5-2B's configuration is Qwen3-VL's but for its name and its tokenizer.
func TestFamilyByName(t *testing.T) {
	for _, c := range []struct{ name, tokenizer, family, typ string }{
		{"AXERA-TECH/MiniCPM5-2B", "minicpm5_tokenizer.txt", "minicpm5", "MiniCPM5"},
		{"AXERA-TECH/MiniCPM5-2B", "qwen3_tokenizer.txt", "qwen3vl", "Qwen3VL"},
		{"mine", "minicpm5_tokenizer.txt", "qwen3vl", "Qwen3VL"},
	} {
		b := newBench(t)
		b.vendor("", "llama_p8_l%d_together.axmodel", 2, "llama_post.axmodel")
		b.write(c.tokenizer, []byte("430 1\n"))
		b.write("config.json", fmt.Appendf(nil, `{"model_name": %q, "tokenizer_type": "Qwen3VL", "url_tokenizer_model": %q,
			"template_filename_axmodel": "llama_p8_l%%d_together.axmodel", "axmodel_num": 2, "filename_post_axmodel": "llama_post.axmodel"}`,
			c.name, c.tokenizer))
		if p := b.open(); p.Family != c.family || p.TokenizerType != c.typ {
			t.Errorf("%s with %s: family %s, tokenizer %s; want %+v", c.name, c.tokenizer, p.Family, p.TokenizerType, c)
		}
	}
}
