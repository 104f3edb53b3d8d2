//go:build !cgo || fake || !linux

package cards

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

func openNative(string, int) (axcl.Device, error) {
	return nil, fmt.Errorf("axcl: %w: this build is without the vendor's libraries (made with CGO_ENABLED=0 or -tags fake)", axcl.ErrNoDevice)
}

func look(kind string) Library {
	_, err := openNative(kind, 0)
	return Library{Kind: kind, Err: err}
}
