//go:build cgo && !fake && linux

package benchmark

import "github.com/axle-llm/axle/axcl/native/simhook"

// attachSim finds the counters of a simulated card's library; nil where it is a real one's.
func attachSim(library string) simCounts {
	if library == "" {
		return nil
	}
	if s, err := simhook.Attach(library); err == nil {
		return s
	}
	return nil
}
