package cards_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axmodel"
)

// Any single .axmodel by the names of its tensors, on whichever device there is.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "affine")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "affine.axmodel")
	if err := axmodel.WriteFile(path, axmodel.Header{Kind: axmodel.Affine, Hidden: 3, Out: 2, Pos: 1}, []axmodel.SoftGroup{{Rows: 1}},
		[]axmodel.Tensor{
			axmodel.Matrix("weight", axmodel.F32, 2, 3, []float32{1, 2, 3, 0, 0, 1}),
			axmodel.Vector("bias", axmodel.F32, []float32{10, 20})}); err != nil {
		fmt.Println(err)
		return
	}

	runtime.LockOSThread() // from open to close a card belongs to one thread
	defer runtime.UnlockOSThread()
	dev, why, err := cards.Open("soft") // "auto" for the best there is
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()                    // closes the model too
	asked, _, _ := strings.Cut(why, ":") // and what it computes with
	fmt.Println(asked)
	net, err := dev.LoadNet(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	const group = 0
	in, out := map[string][]byte{}, map[string][]byte{}
	for _, t := range net.Inputs(group) {
		fmt.Println("in", t.Name, t.Type, t.Shape)
		in[t.Name] = make([]byte, t.Size)
	}
	for _, t := range net.Outputs(group) {
		fmt.Println("out", t.Name, t.Type, t.Shape)
		out[t.Name] = make([]byte, t.Size)
	}
	for i, v := range []float32{1, 1, 1} {
		binary.LittleEndian.PutUint32(in["x"][4*i:], math.Float32bits(v))
	}
	if err := net.Run(group, in, out); err != nil {
		fmt.Println(err)
		return
	}
	for i := range 2 {
		fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(out["y"][4*i:])))
	}
	// Output:
	// the software card was asked for
	// in x fp32 [1 3]
	// out y fp32 [1 2]
	// 16
	// 21
}
