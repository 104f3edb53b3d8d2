package mcp

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test's own program is the servers that the tests run, and what starts them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildArg {
		os.Exit(Child())
	}
	if len(os.Args) > 2 && os.Args[1] == "play" {
		play(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
