//go:build cgo && !fake && linux

// Package simcardtest gives tests the simulated card: built once a test binary, found by package
// native, and as it was when a test ends. For tests only; a test that has it runs beside no other
// that has.
package simcardtest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard"
)

var built = sync.OnceValues(func() (simcard.Libs, error) { return simcard.Build("") })

var attached = sync.OnceValues(func() (*simhook.Sim, error) {
	libs, err := built()
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(native.EnvAXCL, libs.AXCL); err != nil {
		return nil, err
	}
	return simhook.Attach(libs.AXCL)
})

// Lib is the path of the simulated card's runtime, for processes of their own. The test is skipped,
// aloud, where there is no compiler.
func Lib(t testing.TB) string {
	t.Helper()
	libs, err := built()
	skipWithout(t, err)
	return libs.AXCL
}

// Attach has native open the simulated card in this process, with these options; when the test ends
// they are forgotten, and what is left on the card is an error where strict.
func Attach(t testing.TB, config string, strict bool) *simhook.Sim {
	t.Helper()
	sim, err := attached()
	skipWithout(t, err)
	if err := sim.Configure(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c := sim.Live(); strict && c != (simhook.Counts{}) {
			t.Errorf("left on the card: %+v", c)
		}
		if err := sim.Reset(); err != nil {
			t.Error(err)
		}
	})
	return sim
}

func skipWithout(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, simcard.ErrNoCompiler) {
		t.Skip("SKIPPED, not tested: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
