package main

import (
	"os"
	"testing"
)

// The test binary is axle itself when a test starts it again: something to break, to kill and to restart.
func TestMain(m *testing.M) {
	if os.Getenv("AXLE_TEST_MAIN") != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}
