//go:build cgo && !fake && linux

package engine

import (
	"testing"

	"github.com/axle-llm/axle/internal/lane"
)

// TestCLIPNative is TestCLIP through the vendor's ABI.
func TestCLIPNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testCLIP(t, open)
}
