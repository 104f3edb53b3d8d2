//go:build cgo && !fake && linux

package cards

import (
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/native"
)

func openNative(kind string, index int) (axcl.Device, error) {
	return native.Open(native.Kind(kind), index)
}

func look(kind string) Library {
	f := native.Look(native.Kind(kind))
	return Library{Kind: kind, Path: f.Library, Version: f.Version, Missing: f.Missing, Devices: f.Devices, Simulated: f.Simulated,
		Err: f.Err}
}
