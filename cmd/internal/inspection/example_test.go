package inspection_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/cmd/internal/inspection"
)

// A layer of the vendor's with a decode group of 63 cells and a prefill group of 16 rows.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "q_p16_l0_together.axmodel")
	layer := axmodeltest.VendorLayer(64, 32, 3, 1000, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 16, Cells: 0})
	if err := os.WriteFile(name, layer.Marshal(), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	r, err := inspection.Open(name)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := r.(*inspection.File)
	fmt.Println(f.Kind, f.Layer.Hidden, f.Layer.Groups[0], f.Groups[1].Inputs[0])
	_, err = inspection.Open(dir)
	fmt.Println(err != nil)
	// Output:
	// layer 64 {1 63 63} {K_cache K_cache_1 bf16 [1 1 32] 64}
	// true
}
