package axcl_test

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/graph"
)

// A net that goes on from what it kept: its state stays on the card, in two buffers that are its input and its output in turn.
func ExampleNet_Bind() {
	dir, err := os.MkdirTemp("", "axle")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sum.axmodel")
	g := graph.New()
	sum := g.Add(g.Input("before", axcl.FP32, 1), g.Input("x", axcl.FP32, 1))
	g.Output("after", axcl.FP32, sum)
	if err := g.Save(path); err != nil {
		log.Fatal(err)
	}

	dev, err := soft.Open(soft.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close() // closes the net and the buffers, too
	net, err := dev.LoadNet(path)
	if err != nil {
		log.Fatal(err)
	}
	var state [2]axcl.Buffer
	for i := range state {
		if state[i], err = dev.NewBuffer(4); err != nil {
			log.Fatal(err)
		}
	}
	for _, x := range []float32{1, 2, 3.5} {
		if err := net.Bind(0, "before", state[0]); err != nil {
			log.Fatal(err)
		}
		if err := net.Bind(0, "after", state[1]); err != nil {
			log.Fatal(err)
		}
		in := binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))
		if err := net.Run(0, map[string][]byte{"x": in}, nil); err != nil {
			log.Fatal(err)
		}
		state[0], state[1] = state[1], state[0]
	}
	out := make([]byte, 4)
	if err := state[0].Read(0, out); err != nil {
		log.Fatal(err)
	}
	fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(out)))
	// Output: 6.5
}
