//go:build linux

package cards

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/axcl"
)

const axleUnit = "[Service]\nUser=axle\nDevicePolicy=closed\nDeviceAllow=/dev/axcl_host rw\n"

// TestNodes: each node is looked at for this user and for the service's, and what is missing is
// named with the rule that gives it.
func TestNodes(t *testing.T) {
	pi := person{name: "pi", uid: 1000, gids: []uint32{1000, 44}}
	all := axleUnit + "DeviceAllow=/dev/msg_userdev rw\nDeviceAllow=/dev/ax_mmb_dev rw\nDeviceAllow=/dev/p2p rw\n"
	failed := Library{Kind: "axcl", Path: "/usr/lib/axcl/libaxcl_rt.so", Version: "3.10.2",
		Err: &axcl.Error{Op: "axclInit", Layer: axcl.NoLayer, Code: 0x8030010b}}
	for _, tt := range []struct {
		name   string
		change func(m fstest.MapFS)
		lib    Library
		me     person
		say    []string // "finding: state: words"
		not    []string
	}{
		{"the vendor's rules", func(fstest.MapFS) {}, working(), pi,
			[]string{"driver: ok: /dev/axcl_host, /dev/msg_userdev and /dev/ax_mmb_dev are there"}, []string{"device nodes", "service"}},
		{"one is missing", func(m fstest.MapFS) { delete(m, "dev/msg_userdev") }, failed, pi,
			[]string{"driver: problem: /dev/axcl_host and /dev/ax_mmb_dev are there, missing: /dev/msg_userdev (needed for every message)",
				"driver: problem: modprobe"}, []string{"device nodes"}},
		{"two are missing, and yet it works", func(m fstest.MapFS) { delete(m, "dev/msg_userdev"); delete(m, "dev/ax_mmb_dev") }, working(),
			pi,
			[]string{"driver: note: /dev/axcl_host is there, missing: /dev/msg_userdev (needed for every message) and /dev/ax_mmb_dev ("},
			nil},
		{"no rule for one", func(m fstest.MapFS) { m["dev/ax_mmb_dev"] = node(0o600, 0) }, failed, pi,
			[]string{"device nodes: problem: /dev/ax_mmb_dev (root, 0600) is closed to this user, pi and the service's, axle",
				`device nodes: problem: /usr/lib/udev/rules.d/70-axle.rules the line KERNEL=="ax_mmb_dev", GROUP="axle", MODE="0660"; then sudo udevadm control --reload, sudo udevadm trigger --sysname-match=ax_mmb_dev`,
				"device nodes: problem: sudo usermod -aG axle pi"}, nil},
		{"the rule is there and overruled", func(m fstest.MapFS) {
			m["dev/ax_mmb_dev"] = node(0o600, 0)
			m["usr/lib/udev/rules.d/70-axle.rules"] = file("")
		}, failed, pi, []string{"device nodes: problem: is overruled in"}, nil},
		{"ours, and this user is not of the group", func(m fstest.MapFS) {
			for _, n := range []string{"axcl_host", "msg_userdev", "ax_mmb_dev"} {
				m["dev/"+n] = node(0o660, 990)
			}
		}, failed, pi, []string{"device nodes: problem: /dev/msg_userdev (axle, 0660) is closed to this user, pi;",
			"device nodes: problem: sudo usermod -aG axle pi, and log in again"}, []string{"service"}},
		{"ours, and of the group", func(m fstest.MapFS) { m["dev/axcl_host"] = node(0o660, 990) }, working(),
			person{name: "pi", uid: 1000, gids: []uint32{1000, 990}}, nil, []string{"device nodes", "service"}},
		{"root's alone, asked by root", func(m fstest.MapFS) { m["dev/axcl_host"] = node(0o600, 0) }, working(), person{name: "root"},
			[]string{"device nodes: problem: /dev/axcl_host (root, 0600) is closed to the service's, axle"}, nil},
		{"of a group of the service's", func(m fstest.MapFS) { m["dev/axcl_host"] = node(0o660, 44) }, working(), pi, nil,
			[]string{"device nodes"}},
		{"an old unit", func(m fstest.MapFS) { m["etc/systemd/system/axle.service"] = file(axleUnit) }, working(), pi,
			[]string{"service: problem: the unit /etc/systemd/system/axle.service does not let the server open /dev/msg_userdev and " +
				"/dev/ax_mmb_dev",
				"service: problem: DeviceAllow=/dev/msg_userdev rw, DeviceAllow=/dev/ax_mmb_dev rw"}, nil},
		{"an old unit and a drop-in", func(m fstest.MapFS) {
			m["etc/systemd/system/axle.service"] = file(axleUnit)
			m["etc/systemd/system/axle.service.d/card.conf"] = file("[Service]\nDeviceAllow=char-*mmb* rw\n" +
				"DeviceAllow=/dev/msg_userdev rw\n")
		}, working(), pi, nil, []string{"service"}},
		{"a drop-in that begins anew", func(m fstest.MapFS) {
			m["etc/systemd/system/axle.service.d/card.conf"] = file("[Service]\nDeviceAllow=\nDeviceAllow=/dev/axcl_host rw\n")
		}, working(), pi, []string{"service: problem: /dev/msg_userdev and /dev/ax_mmb_dev"}, nil},
		{"a node of several cards", func(m fstest.MapFS) { m["dev/ax_pcie_dma_transfer"] = node(0o666, 0) }, working(), pi,
			[]string{"service: problem: does not let the server open /dev/ax_pcie_dma_transfer"}, nil},
		{"no unit", func(m fstest.MapFS) {
			delete(m, "usr/lib/systemd/system/axle.service")
			m["dev/axcl_host"] = node(0o660, 44)
		}, working(), pi, nil, []string{"service", "device nodes"}},
		{"real-time priority", func(m fstest.MapFS) {
			m["proc/self/limits"] = file("Limit                     Soft Limit           Hard Limit           Units\nMax realtime " +
				"priority     0                    0\n")
		}, working(), pi, []string{"real-time priority: note: go on without", "real-time priority: note: pi - rtprio 99"}, nil},
		{"real-time priority allowed", func(m fstest.MapFS) {
			m["proc/self/limits"] = file("Max realtime priority     99                   99\n")
		}, working(), pi, nil, []string{"real-time priority"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine(map[string]string{"usr/lib/systemd/system/axle.service": all,
				"etc/passwd": "root:x:0:0:root:/root:/bin/sh\naxle:x:990:990::/var/lib/axle:/usr/sbin/nologin\n",
				"etc/group":  "root:x:0:\nvideo:x:44:pi,axle\naxle:x:990:\n"})
			tt.change(m)
			r := inspect(m, []Library{tt.lib}, tt.me)
			r.blame()
			for _, want := range tt.say {
				part := strings.SplitN(want, ": ", 3)
				found := false
				for _, f := range r.Findings {
					found = found || f.Name == part[0] && string(f.State) == part[1] && strings.Contains(f.Text+" "+f.Fix, part[2])
				}
				if !found {
					t.Errorf("no finding %q in %+v", want, r.Findings)
				}
			}
			for _, f := range r.Findings {
				for _, n := range tt.not {
					if f.Name == n {
						t.Errorf("finding %+v", f)
					}
				}
			}
			if tt.lib.Err != nil && count(r, Problem) != 1 {
				t.Errorf("%d problems for one cause: %+v", count(r, Problem), r.Findings)
			}
			if tt.lib.Err == nil && !r.Usable {
				t.Error("not usable")
			}
		})
	}
}

// node is a file of /dev that belongs to root and a group.
func node(perm fs.FileMode, gid uint32) *fstest.MapFile {
	return &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | perm, Sys: &syscall.Stat_t{Uid: 0, Gid: gid}}
}
