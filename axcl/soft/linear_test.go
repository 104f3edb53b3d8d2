package soft_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// A float32 state is the same to the last bit, whether its rows came one by one or in a chunk, and
// rows of padding leave no trace in it, whatever they hold; a state may replace the one it was made
// of in the same memory.
func TestLinearChunk(t *testing.T) {
	//proves:G13 layers with a state
	n := linearNet(t, open(t, soft.Options{Threads: 2}), compile.Options{Quant: "int8"})
	const rows, here = 16, 11
	chunk, whole := buffers(n, 2)
	hidden := len(chunk["input"]) / rows
	for i := range len(chunk["input"]) / 2 {
		v := float32(i*7919%1000)/500 - 1
		if i*2 >= here*hidden {
			v *= 1e30
		}
		binary.LittleEndian.PutUint16(chunk["input"][2*i:], axcl.BFloat16(v))
	}
	one := func(mask []byte, n int) {
		for i := range n {
			binary.LittleEndian.PutUint16(mask[2*i:], 0x3f80)
		}
	}
	one(chunk["mask"], here)
	if err := n.Run(2, chunk, whole); err != nil {
		t.Fatal(err)
	}
	single, next := buffers(n, 0)
	one(single["mask"], 1)
	next["K_cache_out"], next["V_cache_out"] = single["K_cache"], single["V_cache"]
	for r := range here {
		copy(single["input"], chunk["input"][r*hidden:(r+1)*hidden])
		if err := n.Run(0, single, next); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(next["output"], whole["output"][r*hidden:(r+1)*hidden]) {
			t.Errorf("row %d alone is not what it is in a chunk", r)
		}
	}
	for _, name := range []string{"K_cache", "V_cache"} {
		if !bytes.Equal(single[name], whole[name+"_out"]) {
			t.Errorf("%s after %d rows one by one is not what it is after a chunk", name, here)
		}
	}
	// Nothing but padding: the states stay.
	copy(chunk["K_cache"], single["K_cache"])
	copy(chunk["V_cache"], single["V_cache"])
	clear(chunk["mask"])
	if err := n.Run(1, chunk, whole); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(chunk["K_cache"], whole["K_cache_out"]) || !bytes.Equal(chunk["V_cache"], whole["V_cache_out"]) {
		t.Error("rows of padding alone changed a state")
	}
}

// linearNet is the first layer of a random model, which keeps a state, as a net of chunks of 16.
func linearNet(t *testing.T, d axcl.Device, o compile.Options) axcl.Net {
	t.Helper()
	a, _ := axmodeltest.Find("qwen3_5-grouped")
	dir := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(dir, a, 1); err != nil {
		t.Fatal(err)
	}
	o.From, o.Out, o.Context, o.Chunk, o.History, o.Name = dir, filepath.Join(dir, "p"), 95, 16, []int{0, 64}, "m"
	if _, err := compile.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	n, err := d.LoadNet(filepath.Join(dir, "p", "m_p16_l0_together.axmodel"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// buffers are a layer's inputs and outputs, by its tensors' names.
func buffers(n axcl.Net, group int) (in, out map[string][]byte) {
	in, out = map[string][]byte{}, map[string][]byte{}
	for _, t := range n.Inputs(group) {
		in[t.Name] = make([]byte, t.Size)
	}
	for _, t := range n.Outputs(group) {
		out[t.Name] = make([]byte, t.Size)
	}
	return in, out
}
