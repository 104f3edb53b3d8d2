//go:build cgo && !fake && linux

package engine

import (
	"testing"

	"github.com/axle-llm/axle/internal/lane"
)

// TestDrawNative is TestDraw through the vendor's ABI.
func TestDrawNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testDraw(t, open)
}
