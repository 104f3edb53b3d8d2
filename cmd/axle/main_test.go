package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/internal/lane"
)

// patience is when a test gives up on what will never come. It decides nothing else: limits that
// are promised are measured.
const patience = 4 * time.Minute

// unraced leaves a test to the run without the race detector. What meets in its process meets in
// those that stay as well: in TestCardLostRestarts, TestOneExecuteFails, TestHeatStops,
// TestOrderlyEnd, TestOffTheBus and TestTwoCards under sixteen streams, and room by room in the
// tests of engine, server and models/store.
func unraced(t *testing.T) {
	t.Helper()
	if lane.Race {
		t.Skip("left to the run without the race detector: nothing meets in it that does not meet in others")
	}
}

// prepare makes the world of a process that a test starts; nil where nothing is to be made.
var prepare func() error

// The test binary is axle itself when a test starts it again: something to break, to kill and to
// restart.
func TestMain(m *testing.M) {
	if os.Getenv("AXLE_TEST_MAIN") != "" {
		if prepare != nil {
			if err := prepare(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(run(os.Args[1:]))
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // who runs beside others here waits for watchdogs and pauses, mostly
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
