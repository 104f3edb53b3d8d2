// Package lane lets a test say which of the Makefile's lanes leaves it out. Only tests import it.
package lane

import (
	"flag"
	"os"
)

// T is what a lane needs of a *testing.T.
type T interface {
	Helper()
	Skip(args ...any)
}

// Slow leaves the test out of `make quick`, which runs tests with -short: it takes more than a
// second of a processor, and asks what other tests ask too, of more inputs, of a larger one, or of
// the simulated card. Lanes that want it in a short form (the sweep of faults under the sanitizers,
// and against planted defects) set AXLE_TEST_SLOW beside -short.
func Slow(t T) {
	t.Helper()
	if f := flag.Lookup("test.short"); f != nil && f.Value.String() == "true" && os.Getenv("AXLE_TEST_SLOW") == "" {
		t.Skip("SKIPPED: slow")
	}
}

// NoRace leaves the test out of `make race`: one goroutine does what it does, and long, or a test
// that stays does it too with fewer inputs. The detector can find nothing more in it.
func NoRace(t T) {
	t.Helper()
	if Race {
		t.Skip("SKIPPED: the race detector finds nothing more in it")
	}
}
