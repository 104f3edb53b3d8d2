package models_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestEmbeddingGemma: the package is opened by what its configuration says or by its tensors alone,
// the shortest net first, and described as what it is.
func TestEmbeddingGemma(t *testing.T) {
	for _, e := range []modelstest.EmbeddingGemma{{Seed: 1}, {Seed: 1, Unnamed: true}} {
		dir := filepath.Join(t.TempDir(), "folder")
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		o, err := models.OpenAny(dir)
		if err != nil {
			t.Fatal(err)
		}
		g := o.(*models.EmbeddingGemma)
		if !slices.Equal(g.Lengths, modelstest.GemmaLengths()) || g.Most() != 64 || g.Hidden != 32 || g.Dims != e.Dims() ||
			!slices.Equal(g.Sizes, []int{24, 16, 8}) || g.Scale != 5.75 || g.BOS != 2 || g.EOS != 1 || g.Pad != 0 ||
			g.Prompts.Named["query"] != "Q: " || g.Prompts.Default != "" || g.Nets[2].Path != e.Path(dir, 64) {
			t.Errorf("%+v", g)
		}
		i := g.Info()
		files := int64(0)
		for _, n := range modelstest.GemmaLengths() {
			st, err := os.Stat(e.Path(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			files += st.Size()
		}
		if i.Name != "axle/embeddinggemma-small" || i.Kind != "EmbeddingGemma 2" || i.Says != "" || i.Context != 64 || i.Hidden != 24 ||
			!slices.Equal(i.Capabilities, []string{"embedding"}) || !slices.Equal(i.Prompts, []string{"document", "none", "query"}) ||
			i.Memory.Layers < files || i.Memory.Host != 259*32*2 || i.Memory.Load <= i.Memory.Card || i.Digest == "" {
			t.Errorf("%+v", i)
		}
		var b strings.Builder
		if err := i.Write(&b); err != nil || !strings.Contains(b.String(), "document, none, query") ||
			!strings.Contains(b.String(), "16 tokens, 32 tokens, 64 tokens") {
			t.Errorf("%v\n%s", err, &b)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(embedding): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestEmbeddingGemmaRefused: what is wrong with the folder is said, with the file.
func TestEmbeddingGemmaRefused(t *testing.T) {
	e := modelstest.EmbeddingGemma{Seed: 1}
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	k := filesIn(t, dir)
	set := func(key string, v any) func(m map[string][]byte) {
		return func(m map[string][]byte) {
			c := e.Config()
			c[key] = v
			m["config.json"], _ = json.Marshal(c)
		}
	}
	net := func(in, out string) func(m map[string][]byte) {
		return func(m map[string][]byte) { m["encoder_32.axmodel"] = modelstest.Net(in, out) }
	}
	const rows, valid, vector = "inputs_embeds f32 1,32,32", "valid f32 1,32", "embedding f32 1,24"
	many := map[string]string{}
	for i := range 65 {
		many[strings.Repeat("x", i+1)] = ""
	}
	for name, tt := range map[string]struct {
		change func(m map[string][]byte)
		want   string
	}{
		"a net is missing":  {func(m map[string][]byte) { delete(m, "encoder_32.axmodel") }, "encoder_32.axmodel: missing"},
		"a cut net":         {func(m map[string][]byte) { m["encoder_32.axmodel"] = m["encoder_32.axmodel"][:99] }, "encoder_32.axmodel"},
		"a net outside":     {set("encoder_axmodels", []string{"/x.axmodel"}), "not inside the package"},
		"too many nets":     {set("encoder_axmodels", slices.Repeat([]string{"encoder_16.axmodel"}, 33)), "has 33 nets"},
		"a net twice":       {set("encoder_axmodels", []string{"encoder_16.axmodel", "encoder_16.axmodel"}), "is of the same use as"},
		"bf16 rows":         {net("inputs_embeds bf16 1,32,32; "+valid, vector), "fp32 [1, length, size] is expected"},
		"flat rows":         {net("inputs_embeds f32 32,32; "+valid, vector), "fp32 [1, length, size] is expected"},
		"a short mask":      {net(rows+"; valid f32 1,31", vector), "fp32 [1, 32] is expected"},
		"another size":      {net(rows+"; "+valid, "embedding f32 1,16"), "makes 16 values of rows of 32, another makes 24 of 32"},
		"a vector a row":    {net(rows+"; "+valid, "embedding f32 1,32,24"), "an fp32 vector is expected"},
		"more inputs":       {net(rows+"; "+valid+"; more i32 1", vector), "are expected"},
		"no table":          {func(m map[string][]byte) { delete(m, "model.embed_tokens.weight.bfloat16.bin") }, "bfloat16.bin: missing"},
		"a short table":     {func(m map[string][]byte) { m["model.embed_tokens.weight.bfloat16.bin"] = make([]byte, 64) }, "want 16576"},
		"a smaller table":   {set("tokens_embed_num", 258), "want 16512"},
		"another width":     {set("tokens_embed_size", 16), "tokens_embed_size is 16, the nets take rows of 32"},
		"no tokenizer":      {func(m map[string][]byte) { delete(m, "gemma_tokenizer.txt") }, "tokenizer.json: missing"},
		"no tokens":         {func(m map[string][]byte) { m["gemma_tokenizer.txt"] = []byte("x") }, "gemma_tokenizer.txt"},
		"a scale of words":  {set("embed_scale", "wide"), "embed_scale is"},
		"a scale too large": {set("embed_scale", 1e9), "embed_scale is"},
		"another vector":    {set("embedding_dim", 768), "embedding_dim is 768, the nets give 24 values"},
		"sizes of words":    {set("matryoshka_dims", "all"), "matryoshka_dims is"},
		"a size too large":  {set("matryoshka_dims", []int{25}), "matryoshka_dims is"},
		"a size of none":    {set("matryoshka_dims", []int{0}), "matryoshka_dims is"},
		"no token":          {set("eos_token_id", 259), "eos_token_id is 259, the table has 259 rows"},
		"a token below":     {set("bos_token_id", -1), "bos_token_id is -1"},
		"prompts of a list": {set("prompts", []string{"x"}), "prompts is no object"},
		"many prompts":      {set("prompts", many), "prompts has 65 names"},
		"a long name":       {set("prompts", map[string]string{strings.Repeat("x", 65): ""}), "a name of 65 bytes"},
		"no name":           {set("prompts", map[string]string{"": "x"}), "a name of 0 bytes"},
		"a long prompt":     {set("prompts", map[string]string{"x": strings.Repeat("x", 4097)}), `the prompt "x" has 4097 bytes`},
		"a long default":    {set("default_prompt", strings.Repeat("x", 4097)), "default_prompt has 4097 bytes"},
	} {
		refused(t, name, k, tt.change, tt.want)
	}
	// What is not said has the model's own value.
	files := maps.Clone(k.Files)
	files["config.json"] = []byte(`{"model_type": "embedding_gemma2"}`)
	o, err := models.OpenAnyFS(mapFS(files), ".")
	if err != nil {
		t.Fatal(err)
	}
	if g := o.(*models.EmbeddingGemma); g.BOS != 2 || g.EOS != 1 || g.Pad != 0 || g.Sizes != nil || len(g.Nets) != 3 ||
		math.Abs(float64(g.Scale)-math.Sqrt(32)) > 1e-6 || len(g.Prompts.Names()) != 0 {
		t.Errorf("%+v", g)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// TestPrompts: a form has its words, with the task that a request or the model says; what is not
// there is an error that says what is.
func TestPrompts(t *testing.T) {
	none := models.Prompts{}
	plain := models.Prompts{Named: map[string]string{"query": "Q: ", "document": ""}, Default: "D: "}
	task := models.Prompts{Named: map[string]string{"query": "Instruct: {task}\nQuery:", "document": ""}, Task: "find"}
	for _, tt := range []struct {
		p           models.Prompts
		name, task  string
		want, wrong string
	}{
		{none, "", "", "", ""}, {none, "query", "", "", "has no prompt names"}, {none, "", "x", "", "takes no instruction"},
		{plain, "", "", "D: ", ""}, {plain, "query", "", "Q: ", ""}, {plain, "document", "", "", ""},
		{plain, "QUERY", "", "", "take one of document, query"}, {plain, "query", "x", "", "takes no instruction"},
		{task, "", "", "", ""}, {task, "query", "", "Instruct: find\nQuery:", ""}, {task, "", "buy", "Instruct: buy\nQuery:", ""},
		{task, "query", "{task}", "Instruct: {task}\nQuery:", ""}, {task, "document", "x", "", "takes no instruction"},
	} {
		got, err := tt.p.Before(tt.name, tt.task)
		if got != tt.want || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%+v, %q, %q: %q, %v", tt.p, tt.name, tt.task, got, err)
		}
	}
}

// filesIn are the files of a folder.
func filesIn(t *testing.T, dir string) modelstest.Kind {
	t.Helper()
	k := modelstest.Kind{Files: map[string][]byte{}}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			k.Files[name], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return k
}
