package compile

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// settleWhole checks Options.Whole against the checkpoint.
func (j *job) settleWhole() error {
	switch {
	case j.Whole == "":
		return nil
	case j.Whole != "one" && j.Whole != "two":
		return fmt.Errorf("compile: whole is %q, one and two (files) are possible", j.Whole)
	case j.a.linear != nil:
		return &Error{Path: j.From, What: "layers that keep a state cannot be in a whole decoder: compile it a file a layer"}
	case j.a.tower != nil:
		return &Error{Path: j.From, What: "a whole decoder takes no pictures: compile it a file a layer, or the text model alone"}
	case j.a.family == "gemma4":
		return &Error{Path: j.From, What: "a whole decoder has no layer inputs and no shared K and V: compile it a " +
			"file a layer"}
	case j.a.window() > 0 && j.a.window() < j.Context:
		return &Error{Path: j.From, What: fmt.Sprintf("a whole decoder has one mask for all layers, and some of these see a window of %d: "+
			"compile it a file a layer, or with a context of at most %[1]d", j.a.window())}
	case j.Embedding:
		return &Error{Path: j.From, What: "a whole decoder gives logits: compile an embedding model a file a layer"}
	case j.a.Layers+1 > axmodel.MaxParts:
		return &Error{Path: j.From, What: fmt.Sprintf("%d layers: a whole decoder has at most %d", j.a.Layers, axmodel.MaxParts-1)}
	}
	j.History = []int{j.Context}
	j.groups = axmodel.Ladder(j.Context, j.Chunk, j.History)
	return nil
}

// wholeFiles puts the files of layers and head into one, or two.
func (j *job) wholeFiles() []file {
	a := j.a
	head := j.files[len(j.files)-1]
	pack := func(name string, groups []axmodel.SoftGroup, flags uint32) file {
		f := file{name: name, groups: groups, header: axmodel.Header{Kind: axmodel.Decoder,
			Flags:  flags | head.header.Flags&axmodel.FlagF32 | when(!j.Plain, axmodel.FlagSuffix),
			Hidden: a.Hidden, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Out: j.vocab, Pos: 1, Tool: j.Tool}}
		for _, p := range j.files {
			part := axmodel.SoftPart{Header: p.header, Groups: groups, Tensors: append([]axmodel.Tensor(nil), p.tensors...)}
			if p.header.Kind == axmodel.Head {
				part.Groups = p.groups
			}
			f.parts = append(f.parts, part)
		}
		return f
	}
	switch {
	case j.Whole == "one":
		return []file{pack(axmodel.WholeFile, j.groups, 0)}
	case len(j.groups) == 1:
		return []file{pack(axmodel.DecodeFile, j.groups, 0)}
	}
	return []file{pack(axmodel.DecodeFile, j.groups[:1], 0), pack(axmodel.PrefillFile, j.groups[1:], axmodel.FlagLast)}
}

// embedWidth is how many bytes a value of the embedding table takes: numpy knows no bf16.
func (j *job) embedWidth() int64 {
	if j.Whole != "" {
		return 4
	}
	return 2
}

// table writes the embeddings as numpy does. Beside a whole decoder lies no configuration that
// could say what Gemma's are multiplied by: they are so already.
func (j *job) table(ctx context.Context, w io.Writer, row func([]float32, int) error) error {
	if !j.a.gemma {
		return j.rows(ctx, w, j.vocab, j.a.Hidden, true, row)
	}
	scale := embedScale(j.a.Hidden)
	return j.rows(ctx, w, j.vocab, j.a.Hidden, true, func(v []float32, r int) error {
		err := row(v, r)
		for i, x := range v {
			v[i] = axcl.Float32(axcl.BFloat16(x)) * scale
		}
		return err
	})
}

// embedScale is √hidden in bf16, as Gemma was trained with it.
func embedScale(hidden int) float32 {
	return axcl.Float32(axcl.BFloat16(float32(math.Sqrt(float64(hidden)))))
}

// npyHeader begins a matrix of float32.
func npyHeader(buf *bufio.Writer, rows, cols int) {
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, cols)
	const before = 10 // magic, version and the header's length
	head += strings.Repeat(" ", 63-(before+len(head))%64) + "\n"
	buf.WriteString("\x93NUMPY\x01\x00")
	_ = binary.Write(buf, binary.LittleEndian, uint16(len(head)))
	buf.WriteString(head)
}

// describeWhole copies the checkpoint's config.json, which is the package's own, and the tokenizer
// beside it.
func (j *job) describeWhole(dir string) error {
	const config = "config.json"
	b, err := read(j.root, config, maxText)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, config), b, 0o644); err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(tokenizerFiles), func(name string) bool { return name == config })
	return j.copyTokenizer(dir, "tokenizer", rest)
}
