package terminal

import (
	"fmt"
	"strings"
)

func ExampleTable() {
	t := Table{Head: []string{"MODEL", "TEMP", "CELLS", "TOKENS/S"}, Rows: [][]string{{"qwen3:0.6b", "51°C", "2047", "19.7"},
		{"模型", "-", "1023", "4.5"}}, Right: []bool{false, true, true, true}}
	var sb strings.Builder
	_ = t.Write(&sb, 26)
	fmt.Print(sb.String())
	// Output:
	// MODEL       TEMP  CELLS
	// qwen3:0.6b  51°C   2047
	// 模型           -   1023
	//
	// MODEL       TOKENS/S
	// qwen3:0.6b      19.7
	// 模型             4.5
}
