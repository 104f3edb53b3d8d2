package main

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is axle itself when a test starts it again: something to break, to kill and to restart.
func TestMain(m *testing.M) {
	if os.Getenv("AXLE_TEST_MAIN") != "" {
		os.Exit(run(os.Args[1:]))
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
