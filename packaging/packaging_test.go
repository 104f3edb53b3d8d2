package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server/mcp"
)

// TestUnit: what the unit promises (T18, and a card that is lost or must not be killed while
// loading).
func TestUnit(t *testing.T) {
	//proves:T18
	u := unit(t, "axle.service")
	for key, want := range map[string]string{
		"Service.User": "axle", "Service.Group": "axle",
		"Service.KillMode": "mixed", "Service.TimeoutStopSec": "300",
		"Service.Restart": "on-failure", "Service.RestartSec": "2", "Service.RestartSteps": "6", "Service.RestartMaxDelaySec": "60",
		"Unit.StartLimitIntervalSec": "0", "Service.RestartPreventExitStatus": "2",
		"Service.NoNewPrivileges": "yes", "Service.ProtectSystem": "strict", "Service.ProtectHome": "yes", "Service.PrivateTmp": "yes",
		"Service.ProtectKernelTunables": "yes", "Service.ProtectKernelModules": "yes", "Service.ProtectKernelLogs": "yes",
		"Service.ProtectControlGroups": "yes", "Service.RestrictNamespaces": "yes", "Service.RestrictSUIDSGID": "yes",
		"Service.LockPersonality": "yes", "Service.CapabilityBoundingSet": "", "Service.SystemCallFilter": "@system-service",
		"Service.SystemCallArchitectures": "native", "Service.DevicePolicy": "closed", "Service.LimitRTPRIO": "99",
		"Service.StateDirectory": "axle", "Service.EnvironmentFile": "-/etc/axle/axle.env", "Install.WantedBy": "multi-user.target",
	} {
		if got := u[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want one %q", key, got, want)
		}
	}
	// All nodes of the library's and no other: with the first alone it does not start.
	var nodes []string
	for _, n := range axcl.Nodes() {
		nodes = append(nodes, "/dev/"+n.Name+" rw")
	}
	if got := u["Service.DeviceAllow"]; !slices.Equal(got, nodes) {
		t.Errorf("DeviceAllow is %q, want %q", got, nodes)
	}
	if got := u["Service.RestrictRealtime"]; got != nil {
		t.Errorf("RestrictRealtime is %q: the library's listening threads are refused their priority, and LimitRTPRIO means nothing", got)
	}
	if got := u["Service.ExecStart"]; len(got) != 1 || got[0] != "/usr/bin/axle serve" {
		t.Errorf("ExecStart is %q", got)
	}
}

// TestToolUnit: a tool server under the package is another user's, in a group of its own, without
// devices, and without what axle keeps.
func TestToolUnit(t *testing.T) {
	//proves:T22
	u, axle := unit(t, "axle-mcp@.service"), unit(t, "axle.service")
	for key, want := range map[string]string{
		"Service.ExecStart": "/usr/bin/axle " + mcp.ChildArg, "Service.User": mcp.User, "Service.Group": mcp.User,
		"Service.StandardInput": "socket", "Service.StandardOutput": "socket", "Service.StandardError": "journal",
		"Service.KillMode": "control-group", "Service.PrivateDevices": "yes", "Service.DevicePolicy": "closed",
		"Service.InaccessiblePaths": "-/etc/axle -/var/lib/axle -/var/cache/axle", "Service.NoNewPrivileges": "yes",
		"Service.ProtectSystem": "strict", "Service.ProtectHome": "yes", "Service.PrivateTmp": "yes", "Service.CapabilityBoundingSet": "",
		"Service.ProtectProc": "invisible", "Service.MemoryMax": "1G", "Service.TasksMax": "256",
	} {
		if got := u[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want one %q", key, got, want)
		}
	}
	if u["Service.DeviceAllow"] != nil || u["Service.User"][0] == axle["Service.User"][0] {
		t.Error("it has devices, or axle's user")
	}
	s := unit(t, "axle-mcp.socket")
	if got := s["Socket.SocketMode"]; len(got) != 1 || got[0] != "0660" || s["Socket.SocketGroup"][0] != axle["Service.Group"][0] ||
		s["Socket.Accept"][0] != "yes" {
		t.Errorf("who may connect: %q", got)
	}
	at := s["Socket.ListenStream"][0]
	if !slices.ContainsFunc(axle["Service.Environment"], func(v string) bool { return strings.Contains(v, "AXLE_MCP_SOCKET="+at) }) ||
		!slices.Contains(axle["Unit.Wants"], "axle-mcp.socket") {
		t.Error("axle.service does not know the socket")
	}
	users, err := os.ReadFile("sysusers.conf")
	if err != nil || !regexp.MustCompile(`(?m)^u `+mcp.User+` - "[^"]+" /var/lib/axle-mcp /usr/sbin/nologin$`).Match(users) {
		t.Errorf("sysusers.conf makes no user %s: %v\n%s", mcp.User, err, users)
	}
}

// unit reads a unit file: each directive with all its values, in the order of the file.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	section := ""
	for i, line := range strings.Split(string(b), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("%s:%d: %q is no directive", name, i+1, line)
			}
			out[section+"."+key] = append(out[section+"."+key], value)
		}
	}
	return out
}

// TestUnitVerify lets systemd read the unit, and rate it.
func TestUnitVerify(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed")
	}
	// The binary is not installed where the tests run: any program stands for it.
	b, err := os.ReadFile("axle.service")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "axle.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(b, []byte("/usr/bin/axle serve"), []byte("/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		// systemd before 254 has no steps, and ignores them as we want.
		if strings.Contains(line, "axle.service") && !strings.Contains(line, "'RestartSteps'") &&
			!strings.Contains(line, "'RestartMaxDelaySec'") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if err != nil && t.Failed() {
		t.Error(err)
	}
	out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", file).CombinedOutput()
	if bytes.Contains(out, []byte("unrecognized option")) {
		t.Skip("SKIPPED: this systemd-analyze cannot rate a file")
	}
	if err != nil {
		t.Errorf("exposed more than 2.5 of 10: %v\n%.3000s", err, out)
	}
}

// TestRules: the udev rules and the system user are of the form that their programs read, and give
// the unit's group every node.
func TestRules(t *testing.T) {
	//proves:T18
	u := unit(t, "axle.service")
	rule, err := os.ReadFile("70-axle.rules")
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`^[A-Z]+(\{[^}]+\})?(==|!=|=|\+=|:=)"[^"]*"$`)
	var lines []string
	for line := range strings.Lines(string(rule)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		lines = append(lines, line)
		for p := range strings.SplitSeq(line, ", ") {
			if !part.MatchString(p) {
				t.Errorf("70-axle.rules: %q is not KEY==\"value\"", p)
			}
		}
	}
	nodes := axcl.Nodes()
	if len(lines) != len(nodes) {
		t.Errorf("70-axle.rules has %d rules for %d nodes", len(lines), len(nodes))
	}
	for _, n := range nodes {
		if want := fmt.Sprintf(`KERNEL==%q, GROUP=%q, MODE="0660"`, n.Name, u["Service.Group"][0]); !slices.Contains(lines, want) {
			t.Errorf("70-axle.rules lacks %s", want)
		}
	}
	users, err := os.ReadFile("sysusers.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^u ` + u["Service.User"][0] + ` - "[^"]+" /var/lib/axle /usr/sbin/nologin$`).Match(users) {
		t.Errorf("sysusers.conf makes no user %s:\n%s", u["Service.User"][0], users)
	}
}

// TestNodesEverywhere: the example in the Dockerfile gives a container each node that a card needs,
// and says which others there may be; what makes the package's rules take effect asks for each.
func TestNodesEverywhere(t *testing.T) {
	//proves:T18
	for name, flag := range map[string]string{"Dockerfile": "--device /dev/", "postinst": "--sysname-match="} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range axcl.Nodes() {
			if !regexp.MustCompile(regexp.QuoteMeta(flag+n.Name) + `(\s|$)`).Match(b) {
				t.Errorf("%s lacks %s%s", name, flag, n.Name)
			}
		}
	}
}
