//go:build unix && !purego

package kernel

import "golang.org/x/sys/unix"

// hasBF16 says whether the processor has matrix products of bf16. x/sys/cpu does not tell it; the
// kernel tells every process, on Linux.
func hasBF16() bool {
	const hwcap2, bf16 = 26, 1 << 14 // AT_HWCAP2, HWCAP2_BF16
	all, _ := unix.Auxv()            // none elsewhere
	for _, v := range all {
		if v[0] == hwcap2 {
			return v[1]&bf16 != 0
		}
	}
	return false
}
