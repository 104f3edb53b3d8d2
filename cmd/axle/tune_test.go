//go:build !scripted

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTune(t *testing.T) {
	root := board(t, 2)
	state := filepath.Join(t.TempDir(), "axle", "tune.json")
	governor := filepath.Join(root, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor")
	irq := filepath.Join(root, "proc/irq/101/smp_affinity_list")
	is := func(path, want string) {
		t.Helper()
		if b, _ := os.ReadFile(path); strings.TrimSpace(string(b)) != want {
			t.Errorf("%s holds %q, want %q", path, b, want)
		}
	}
	out, err := tuneRun(t, "--root", root, "--state", state, "--dry-run")
	if err != nil || !strings.Contains(out, "MaxReadReq is 512, as it must be") || !strings.Contains(out, "0-3 → 3") ||
		!strings.Contains(out, "and 3 more like it") || !strings.Contains(out, "priority: 0 → -10") {
		t.Errorf("dry run: %v\n%s", err, out)
	}
	is(governor, "ondemand")
	if _, err := os.Stat(state); err == nil {
		t.Error("a dry run left a state file")
	}
	if out, err = tuneRun(t, "--root", root, "--state", state); err != nil || !strings.Contains(out, "6 settings changed") {
		t.Errorf("tune: %v\n%s", err, out)
	}
	is(governor, "performance")
	is(irq, "3")
	nice := filepath.Join(root, "proc/777/nice")
	is(nice, "-10")
	if out, err = tuneRun(t, "--root", root, "--state", state); err != nil || !strings.Contains(out, "Nothing to change") {
		t.Errorf("again: %v\n%s", err, out)
	}
	if out, err = tuneRun(t, "--root", root, "--state", state, "--undo"); err != nil || !strings.Contains(out, "6 settings put back") {
		t.Errorf("undo: %v\n%s", err, out)
	}
	is(governor, "ondemand")
	is(irq, "0-3")
	is(nice, "0")
	if out, err = tuneRun(t, "--root", root, "--state", state, "--undo"); err != nil || !strings.Contains(out, "Nothing to undo") {
		t.Errorf("undo again: %v\n%s", err, out)
	}
}

// board makes a copy of the parts of /sys and /proc that tune looks at: a host of two little and
// two big cores with a card.
func board(t *testing.T, readReq byte) string {
	t.Helper()
	root := t.TempDir()
	put := func(name string, b []byte) {
		t.Helper()
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range []string{"1800000", "1800000", "2400000", "2400000"} {
		dir := "sys/devices/system/cpu/cpu" + string(rune('0'+i)) + "/cpufreq/"
		put(dir+"scaling_governor", []byte("ondemand\n"))
		put(dir+"scaling_available_governors", []byte("ondemand performance powersave\n"))
		put(dir+"cpuinfo_max_freq", []byte(f+"\n"))
	}
	put("proc/interrupts", []byte("           CPU0       CPU1\n  12:          1          2   GICv3 timer\n 101:      5000          0   "+
		"ITS-MSI axcl_pcie\n"))
	put("proc/irq/101/smp_affinity_list", []byte("0-3\n"))
	put("proc/777/cmdline", []byte("/usr/bin/axle\x00serve\x00--device\x00auto\x00"))
	put("proc/777/stat", []byte("777 (axle (x) y) S 1 777 777 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 100\n"))
	put("proc/778/cmdline", []byte("axle\x00run\x00serve\x00"))
	dev := "sys/bus/pci/devices/0001:01:00.0/"
	put(dev+"vendor", []byte("0x1f4b\n"))
	put(dev+"current_link_speed", []byte("5.0 GT/s PCIe\n"))
	put(dev+"current_link_width", []byte("1\n"))
	config := make([]byte, 256)
	config[0x34], config[0x50], config[0x51], config[0x70] = 0x50, 0x01, 0x70, 0x10
	config[0x79] = readReq << 4
	put(dev+"config", config)
	return root
}

func tuneRun(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := newTuneCmd()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	c.SilenceUsage = true
	err := c.Execute()
	return out.String(), err
}

// TestTuneGone: a server that has ended, and an interrupt that is no more, have nothing to put
// back; a priority out of range is refused.
func TestTuneGone(t *testing.T) {
	root := board(t, 2)
	state := filepath.Join(t.TempDir(), "tune.json")
	if out, err := tuneRun(t, "--root", root, "--state", state); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, gone := range []string{"proc/777", "proc/irq"} {
		if err := os.RemoveAll(filepath.Join(root, gone)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := tuneRun(t, "--root", root, "--state", state, "--undo"); err != nil || !strings.Contains(out, "put back") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(state, []byte(`[{"path":"/proc/777/nice","from":"-99"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tuneRun(t, "--root", root, "--state", state, "--undo"); err == nil || !strings.Contains(err.Error(), "no priority") {
		t.Error(err)
	}
}

func TestTuneExplains(t *testing.T) {
	root := board(t, 5)
	out, err := tuneRun(t, "--root", root, "--dry-run")
	if err != nil || !strings.Contains(out, "MaxReadReq is 4096 and should be 512") {
		t.Errorf("%v\n%s", err, out)
	}
	state := filepath.Join(t.TempDir(), "tune.json")
	if err := os.WriteFile(state, []byte(`[{"path":"/etc/passwd","from":"x"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tuneRun(t, "--root", root, "--state", state, "--undo"); err == nil || !strings.Contains(err.Error(), "/etc/passwd") {
		t.Errorf("a state file may write anywhere: %v", err)
	}
	if _, err := tuneRun(t, "--undo", "--dry-run"); err == nil {
		t.Error("--undo --dry-run was taken")
	}
}
