package axle

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
)

// TestUnitFile (T18): the service has a user of its own, a strict file system, and of devices the
// cards' nodes only; it is started again when it was lost, and never killed in the middle of a load
// without having been told.
func TestUnitFile(t *testing.T) {
	//proves:T18
	b, err := os.ReadFile("packaging/axle.service")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(b)) {
		have = append(have, strings.TrimSpace(line))
	}
	for _, want := range []string{"User=axle", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
		"CapabilityBoundingSet=",
		"DevicePolicy=closed", "UMask=0027", "Restart=on-failure", "KillMode=mixed"} {
		if !slices.Contains(have, want) {
			t.Errorf("packaging/axle.service lacks %s", want)
		}
	}
	var nodes []string
	for _, n := range axcl.Nodes() {
		nodes = append(nodes, "DeviceAllow=/dev/"+n.Name+" rw")
		if !slices.Contains(have, nodes[len(nodes)-1]) {
			t.Errorf("packaging/axle.service lacks %s", nodes[len(nodes)-1])
		}
	}
	for _, line := range have {
		if strings.HasPrefix(line, "DeviceAllow=") && !slices.Contains(nodes, line) || strings.HasPrefix(line, "User=root") ||
			strings.HasPrefix(line, "ReadWritePaths=/") {
			t.Errorf("packaging/axle.service allows too much: %s", line)
		}
	}
}
