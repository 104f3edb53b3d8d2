package plain

import (
	"go/build"
	"testing"
)

// TestUnsupported: the sentence that ends a build is for those machines that axle cannot be built
// for, and for no other.
func TestUnsupported(t *testing.T) {
	for _, tt := range []struct {
		os, arch string
		ends     bool
	}{
		{"linux", "amd64", false}, {"linux", "arm64", false}, {"linux", "riscv64", false}, {"darwin", "arm64", false},
		{"linux", "386", true}, {"linux", "arm", true}, {"windows", "amd64", true}, {"windows", "arm64", true}, {"js", "wasm", true},
	} {
		c := build.Default
		c.GOOS, c.GOARCH = tt.os, tt.arch
		if got, err := c.MatchFile(".", "unsupported.go"); err != nil || got != tt.ends {
			t.Errorf("%s/%s: %v, %v", tt.os, tt.arch, got, err)
		}
	}
}
