package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var standIn = regexp.MustCompile(`(?m)^\tVPDPWSSD +Z(\d+), Z(\d+), Z(\d+)$`)

// numbers writes VDPBF16PS, which neither avo nor Go's assembler knows, as bytes, in the place of
// each instruction that stands for it. Beside the bytes stands what they mean: a test has an
// assembler that knows it say the same.
func numbers() error {
	name := flag.Lookup("out").Value.String()
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, standIn.ReplaceAllFunc(text, func(line []byte) []byte {
		var z [3]int
		for i, digits := range standIn.FindSubmatch(line)[1:] {
			z[i], _ = strconv.Atoi(string(digits))
		}
		from, with, sum := z[0], z[1], z[2]
		not := func(register, bit int) int { return ^register >> bit & 1 }
		return fmt.Appendf(nil, "\tBYTE $0x62; BYTE $%#02x; BYTE $%#02x; BYTE $%#02x; BYTE $0x52; BYTE $%#02x // VDPBF16PS Z%d, Z%d, Z%d",
			not(sum, 3)<<7|not(from, 4)<<6|not(from, 3)<<5|not(sum, 4)<<4|2, // which map of instructions
			^with&15<<3|4|2,      // which prefix
			2<<5|not(with, 4)<<3, // 64 bytes
			0xc0|sum&7<<3|from&7, from, with, sum)
	}), 0o644)
}
