package terminal

import (
	"fmt"
	"strings"
)

func ExampleTabs() {
	var sb strings.Builder
	t := NewTabs(&sb, 26, true)
	fmt.Fprintln(t, "MODEL\tTEMP\tCELLS\tTOKENS/S\nqwen3:0.6b\t51°C\t2047\t19.7\n模型\t-\t1023\t4.5")
	_ = t.Flush()
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
