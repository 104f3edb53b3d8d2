//go:build !cgo || fake || !linux

package cards

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

func openNative(string, int) (axcl.Device, error) {
	return nil, fmt.Errorf("axcl: %w: %w", axcl.ErrNoDevice, errPure)
}

func look(kind string) Library {
	_, err := openNative(kind, 0)
	return Library{Kind: kind, Err: err}
}
