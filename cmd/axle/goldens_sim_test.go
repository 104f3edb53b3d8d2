//go:build cgo && !fake && !scripted && linux

package main

import (
	"testing"

	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
)

// The same goldens hold for the native code over the simulated card.
func init() {
	goldenCards["axcl"] = func(t *testing.T) []string {
		return []string{native.EnvAXCL + "=" + simcardtest.Lib(t), "AXSIM_ROOT=" + t.TempDir()}
	}
}
