//go:build !scripted && (!cgo || fake || !linux)

package main

// attachSim: this build loads no libraries, so there is no simulated card.
func attachSim(string) benchSim { return nil }
