package pocket_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/models/pocket/pockettest"
	"github.com/axle-llm/axle/tokenizer"
)

// What pocket says it would say again with weights of eight and of four bits: the perplexity of its
// own answers rises by no more than the bound over that of bf16 weights. docs/performance.md has
// the figures.
func TestQuantised(t *testing.T) {
	from, texts := said(t)
	want := perplexity(t, from, axmodel.BF16, 0, texts)
	for _, c := range []struct {
		kind  axmodel.DType
		group int
		rises float64
	}{{axmodel.BF16Fours, 0, 1}, {axmodel.Int8Groups, 32, 1.02}, {axmodel.Int8Groups, 128, 1.02}, {axmodel.Int4Groups, 32, 1.25},
		{axmodel.Int4Groups, 128, 1.5}} {
		got := perplexity(t, from, c.kind, c.group, texts)
		t.Logf("%v of %d: perplexity %.4f, bf16's times %.4f, over %d texts", c.kind, c.group, got, got/want, len(texts))
		if !(got <= want*c.rises) {
			t.Errorf("%v of %d: perplexity %.4f, bf16's is %.4f", c.kind, c.group, got, want)
		}
	}
}

// said is where pocket lies, and what its goldens say.
func said(t *testing.T) (from string, texts [][]int32) {
	t.Helper()
	from, err := models.Materialize(pocket.FS(), filepath.Join(t.TempDir(), pocket.Name))
	if err != nil {
		t.Fatal(err)
	}
	words, err := tokenizer.Open(filepath.Join(from, "pocket_tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := pockettest.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if ids := words.Encode(nil, c.Want.Text, false); len(ids) > 8 && len(ids) <= 64 {
			texts = append(texts, ids)
		}
	}
	return from, texts
}

// Pocket's weights have eight bits, and what the software card loses of their inputs is little
// beside that: its logits are nearer to those that the same weights give as numbers, without
// rounding inputs, than bf16 weights would take them. With inputs of eight bits they were off by
// 0.0142 of their size. docs/performance.md has the figures.
func TestQuantisedInputs(t *testing.T) {
	from, texts := said(t)
	want, got := logits(t, from, axmodel.F32, 0, texts), logits(t, from, 0, 0, texts)
	off, size, other, n := 0.0, 0.0, 0, 0
	for i, rows := range want {
		for r, row := range rows {
			for k, v := range row {
				d := float64(got[i][r][k] - v)
				off, size = off+d*d, size+float64(v)*float64(v)
			}
			if n++; slices.Index(row, slices.Max(row)) != slices.Index(got[i][r], slices.Max(got[i][r])) {
				other++
			}
		}
	}
	part := math.Sqrt(off / size)
	t.Logf("the logits are off by %.4f of their size, and %d of %d greedy tokens are others", part, other, n)
	if part > 0.007 || other > 0 {
		t.Errorf("the logits are off by %.4f of their size, and %d of %d greedy tokens are others", part, other, n)
	}
}

// perplexity is that of the texts, after their first eight tokens, with pocket's matrices kept in
// another way.
func perplexity(t *testing.T, from string, kind axmodel.DType, group int, texts [][]int32) float64 {
	t.Helper()
	sum, n := 0.0, 0
	for i, rows := range logits(t, from, kind, group, texts) {
		for r := 7; r+1 < len(rows); r++ {
			total := 0.0
			for _, v := range rows[r] {
				total += math.Exp(float64(v))
			}
			sum += math.Log(total) - float64(rows[r][texts[i][r+1]])
			n++
		}
	}
	return math.Exp(sum / float64(n))
}

// logits is what follows each token of each text, with pocket's matrices kept in another way, or as
// they are where no kind is given.
func logits(t *testing.T, from string, kind axmodel.DType, group int, texts [][]int32) (all [][][]float32) {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(from, "*.axmodel"))
	if err != nil {
		t.Fatal(err)
	}
	var spec axcl.LoadSpec
	for _, name := range files {
		if strings.HasSuffix(name, "_vision.axmodel") {
			continue // text alone is asked
		}
		to := filepath.Join(dir, filepath.Base(name))
		if kind == 0 {
			to = name
		} else {
			rewrite(t, name, to, kind, group)
		}
		if strings.HasSuffix(name, "_post.axmodel") {
			spec.Head = to
		} else {
			spec.Layers = append(spec.Layers, to)
		}
	}
	d, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := axcl.Load(t.Context(), d, spec)
	if err != nil {
		t.Fatal(err)
	}
	embed, err := os.ReadFile(filepath.Join(from, "model.embed_tokens.weight.bfloat16.bin"))
	if err != nil {
		t.Fatal(err)
	}
	s := m.Shape()
	for _, ids := range texts {
		rows := len(ids)
		p := &axcl.Pass{Hidden: make([]uint16, rows*s.Hidden), SeeCells: make([]uint64, rows*axcl.Words(s.Cells)),
			SeeRows: make([]uint64, rows*axcl.Words(rows)), Logits: make([]uint16, rows*s.Out)}
		for r, id := range ids {
			for i := range s.Hidden {
				p.Hidden[r*s.Hidden+i] = binary.LittleEndian.Uint16(embed[2*(int(id)*s.Hidden+i):])
			}
			for range s.Pos {
				p.Pos = append(p.Pos, uint32(r))
			}
			p.Cell, p.Want = append(p.Cell, uint32(r)), append(p.Want, r)
			p.SeeRows[r*axcl.Words(rows)] = 1<<r - 1
		}
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		var text [][]float32
		for row := range slices.Chunk(p.Logits, s.Out) {
			text = append(text, make([]float32, s.Out))
			for i, v := range row {
				text[len(text)-1][i] = axcl.Float32(v)
			}
		}
		all = append(all, text)
	}
	return all
}

// rewrite copies a model whose matrices are of eight bits, in groups.
func rewrite(t *testing.T, from, to string, kind axmodel.DType, group int) {
	t.Helper()
	m, err := axmodel.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var ts []axmodel.Tensor
	for _, e := range m.Soft.Tensors {
		x := axmodel.Tensor{Name: e.Name, Type: e.Type, Rows: e.Rows, Cols: e.Cols}
		if e.Type == axmodel.Int8Groups {
			x.Type, x.Group = kind, group
		}
		x.Row = func(dst []float32, r int) error {
			for i := range dst {
				switch e.Type {
				case axmodel.F32:
					dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[e.Offset+4*int64(r*e.Cols+i):]))
				case axmodel.Int8Groups: // whole blocks of eight rows: all widths are multiples of 32
					at := e.Offset + int64((r/8*(e.Cols/32)+i/32)*256+i%32/4*32+r%8*4+i%4)
					scale := e.Scales + 2*int64((r/8*((e.Cols+e.Group-1)/e.Group)+i/e.Group)*8+r%8)
					dst[i] = float32(int8(b[at])) * axcl.Float32(binary.LittleEndian.Uint16(b[scale:]))
				default:
					t.Fatalf("%s: %v", e.Name, e.Type)
				}
			}
			return nil
		}
		ts = append(ts, x)
	}
	if err := axmodel.WriteFile(to, m.Soft.Header, m.Soft.Groups, ts); err != nil {
		t.Fatal(err)
	}
}
