package axmodel_test

import (
	"bytes"
	"fmt"

	"github.com/axle-llm/axle/axmodel"
)

// A model for the software card, written and read back: what it takes and gives in each of its shape groups.
func Example() {
	h := axmodel.Header{Kind: axmodel.Affine, Hidden: 3, Out: 2, Pos: 1, Tool: "example"}
	var file bytes.Buffer // or axmodel.WriteFile
	err := axmodel.Write(&file, h, []axmodel.SoftGroup{{Rows: 1}, {Rows: 4}}, []axmodel.Tensor{
		axmodel.Matrix("weight", axmodel.F32, 2, 3, []float32{1, 0, 0, 0, 1, 0}), axmodel.Vector("bias", axmodel.F32, []float32{10, 20})})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := axmodel.Read(bytes.NewReader(file.Bytes()), int64(file.Len())) // or axmodel.ReadFile, for a vendor's file too
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Soft.Kind, m.Tool)
	for i, g := range m.Groups {
		fmt.Println(i, g.Inputs, g.Outputs)
	}
	_, err = axmodel.Read(bytes.NewReader(file.Bytes()[:100]), 100)
	fmt.Println(err)
	// Output:
	// affine example
	// 0 [{x fp32 [1 3] 12}] [{y fp32 [1 2] 8}]
	// 1 [{x fp32 [4 3] 48}] [{y fp32 [4 2] 32}]
	// axmodel: is cut short: 100 bytes, the header alone has 192
}
