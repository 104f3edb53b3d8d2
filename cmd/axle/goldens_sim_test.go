//go:build cgo && !fake && !scripted && linux

package main

import (
	"testing"

	"github.com/axle-llm/axle/axcl/native"
)

// The same goldens hold for the native code over the simulated card.
func init() {
	goldenCards["axcl"] = func(t *testing.T) []string {
		return []string{native.EnvAXCL + "=" + simLib(t), "AXSIM_ROOT=" + t.TempDir()}
	}
}
