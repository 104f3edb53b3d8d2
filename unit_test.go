package axle

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestUnitFile (T18): the service has a user of its own, a strict file system and one device node; it is started again when it was lost, and
// never killed in the middle of a load without having been told.
func TestUnitFile(t *testing.T) {
	b, err := os.ReadFile("packaging/axle.service")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(b)) {
		have = append(have, strings.TrimSpace(line))
	}
	for _, want := range []string{"User=axle", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "CapabilityBoundingSet=",
		"DevicePolicy=closed", "DeviceAllow=/dev/axcl_host rw", "UMask=0027", "Restart=on-failure", "KillMode=mixed"} {
		if !slices.Contains(have, want) {
			t.Errorf("packaging/axle.service lacks %s", want)
		}
	}
	for _, line := range have {
		if strings.HasPrefix(line, "DeviceAllow=") && line != "DeviceAllow=/dev/axcl_host rw" || strings.HasPrefix(line, "User=root") || strings.HasPrefix(line, "ReadWritePaths=/") {
			t.Errorf("packaging/axle.service allows too much: %s", line)
		}
	}
}
