package modelstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// Jina is a small jina-embeddings-v5-omni of random weights, which every software card runs, with
// the adapters retrieval and clustering.
type Jina struct {
	Seed    uint64
	Float32 bool           // vectors come as float32
	Config  map[string]any // of config.json in addition
}

// JinaRows is how many tokens a text of it may have.
const JinaRows = 64

// Write makes the package.
func (j Jina) Write(dir string) error {
	_, _, err := j.Make(dir)
	return err
}

// Make makes the package, and returns its weights and what each adapter adds to them.
func (j Jina) Make(dir string) (*axmodeltest.Checkpoint, map[string][][]Delta, error) {
	from, err := os.MkdirTemp("", "jina")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(from)
	ck, err := axmodeltest.RandomCheckpoint(from, "qwen3", j.Seed)
	if err != nil {
		return nil, nil, err
	}
	if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: dir, Context: 127, Chunk: JinaRows,
		History: []int{0, 64}, Name: "jina_embeddings_v5_omni", Embedding: true, Float32: j.Float32}); err != nil {
		return nil, nil, err
	}
	deltas, err := AddAdapters(dir, 4, j.Seed, "retrieval", "clustering")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	c := map[string]any{}
	if err = errors.Join(err, json.Unmarshal(data, &c)); err != nil {
		return nil, nil, err
	}
	for key, v := range j.Config {
		c[key] = v
	}
	data, err = json.Marshal(c)
	return ck, deltas, errors.Join(err, os.WriteFile(path, data, 0o644))
}

// JinaMerge adds an adapter to a package's weights, by times.
func JinaMerge(ck *axmodeltest.Checkpoint, layers [][]Delta, by float64) {
	for l, parts := range layers {
		for k, d := range parts {
			at := "self_attn"
			if k > 3 {
				at = "mlp"
			}
			w := ck.Weight(fmt.Sprintf("model.layers.%d.%s.%s.weight", l, at,
				[]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}[k]))
			for i := range w {
				w[i] += float32(by * d.V[i])
			}
		}
	}
}

// JinaOracle is the vector of a text's ids in float64, not normalised.
func JinaOracle(ck *axmodeltest.Checkpoint, ids []int32) []float64 {
	rows := axmodeltest.Causal(ids)
	for i := range rows {
		rows[i].See = nil
		for j := range rows {
			if j != i {
				rows[i].See = append(rows[i].See, j)
			}
		}
	}
	all := ck.Hiddens(rows)
	return all[len(all)-1]
}
