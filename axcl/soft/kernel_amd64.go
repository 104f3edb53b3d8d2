package soft

import "golang.org/x/sys/cpu"

// fast says whether the processor has what the assembly needs.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

var kernels = map[bool]string{true: "AVX2", false: "Go"}[fast]
