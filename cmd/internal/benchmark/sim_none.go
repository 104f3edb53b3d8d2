//go:build !cgo || fake || !linux

package benchmark

// attachSim: this build loads no libraries, so there is no simulated card.
func attachSim(string) simCounts { return nil }
