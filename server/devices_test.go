package server_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestTwoDevices: two devices with the page's own logic edit the same conversations, over a network
// that is cut before a request or after it. Nothing is lost, every branch can be reached, and both
// end with the same.
func TestTwoDevices(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: there is no node here, which runs the page's own logic")
	}
	edits, seeds := "1000", []string{"1"} // AXLE_EDITS=2500 makes it 10,000 with four seeds
	if n, err := strconv.Atoi(os.Getenv("AXLE_EDITS")); err == nil && n > 0 {
		edits, seeds = strconv.Itoa(n), []string{"1", "2", "3", "4"}
	}
	for _, seed := range seeds {
		t.Run(seed, func(t *testing.T) {
			r := newRig(t, keeping(t))
			out, err := exec.CommandContext(t.Context(), node, "testdata/devices.mjs", r.url, edits, seed).CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
