//go:build cgo && !fake && linux

package cards

import (
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/native"
)

func openNative(kind string, index int) (axcl.Device, error) {
	return native.Open(native.Kind(kind), index)
}
