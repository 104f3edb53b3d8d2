package diagnosis

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
)

const (
	bus     = "sys/bus/pci/devices/0001:01:00.0/"
	onBus   = bus + "vendor"
	card    = "0x1f4b\n"
	release = "6.12.1-rpi-2712\n"
	kernel  = "proc/sys/kernel/osrelease"
	modules = "lib/modules/6.12.1-rpi-2712"
	pi5     = "Raspberry Pi 5 Model B Rev 1.0\x00"
)

// Each finding's steps are shown, asked for, done, and done once: a second look finds nothing.
func TestMend(t *testing.T) {
	yes := func(m *Mender) { m.Yes = true }
	for _, c := range []struct {
		name  string
		files map[string]string
		ran   []string
		after []string
		has   map[string]string // files as they are then
	}{
		{"the driver is not loaded", map[string]string{onBus: card, kernel: release, modules + "/extra/axcl_host.ko": ""},
			[]string{"modprobe axcl_host"}, nil, nil},
		{"the driver is not built", map[string]string{onBus: card, kernel: release, modules + "/build": ""},
			[]string{"dkms autoinstall", "modprobe axcl_host"}, nil, nil},
		{"the headers are missing", map[string]string{onBus: card, kernel: release},
			[]string{"apt-get install --yes linux-headers-rpi-2712", "dkms autoinstall", "modprobe axcl_host"}, nil, nil},
		{"a Raspberry Pi 5 that does not look at its slot", map[string]string{kernel: release, "proc/device-tree/model": pi5,
			"boot/firmware/config.txt": "dtparam=audio=on\n[cm4]\ndtparam=pciex1\n# dtparam=pciex1"}, nil, []string{cards.Reboot},
			map[string]string{
				"boot/firmware/config.txt": "dtparam=audio=on\n[cm4]\ndtparam=pciex1\n# dtparam=pciex1\n" +
					"[all]\ndtparam=pciex1\n",
				"boot/firmware/config.txt.axle-20261128-010203": "dtparam=audio=on\n[cm4]\ndtparam=pciex1\n# dtparam=pciex1"}},
		{"and one that does and finds nothing", map[string]string{kernel: release, "proc/device-tree/model": pi5,
			"boot/firmware/config.txt": "dtparam=pciex1\n"}, nil, []string{cards.Reboot},
			map[string]string{"boot/firmware/config.txt": "dtparam=pciex1\ndtoverlay=pciex1-compat-pi5,no-mip\n"}},
		{"the machine can suspend", with(map[string]string{
			"sys/power/state": "freeze mem\n", "usr/lib/systemd/system/sleep.target": ""}),
			[]string{"systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target"}, nil, nil},
		{"the processor's clock is low", with(map[string]string{
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave\n",
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors": "performance powersave ondemand\n"}),
			[]string{"sh -c echo ondemand | tee /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"}, nil, nil},
		{"the unit shuts the nodes out", with(map[string]string{
			"etc/systemd/system/axle.service": "[Service]\nUser=root\nDevicePolicy=closed\nDeviceAllow=/dev/axcl_host rw\n"}),
			[]string{"systemctl daemon-reload", "systemctl restart axle"}, nil, map[string]string{
				"etc/systemd/system/axle.service.d/devices.conf": "[Service]\nDeviceAllow=/dev/msg_userdev rw\n" +
					"DeviceAllow=/dev/ax_mmb_dev rw\n"}},
		{"a Gen 1 link that was asked for", with(map[string]string{
			bus + "current_link_speed": "2.5 GT/s PCIe", bus + "max_link_speed": "8.0 GT/s PCIe",
			"proc/device-tree/model": pi5, "boot/firmware/config.txt": "dtparam=pciex1\ndtparam=pciex1_gen=1\n"}),
			nil, []string{cards.Reboot},
			map[string]string{"boot/firmware/config.txt": "dtparam=pciex1\ndtparam=pciex1_gen=1\ndtparam=pciex1_gen=2\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, c.files)
			before := map[string]string{}
			for name := range c.files {
				before[name] = m.read(name)
			}
			// Shown, not done: to one who is not root, to no one, and for a look only.
			for said, change := range map[string]func(*Mender){
				"sudo axle doctor --fix":  func(m *Mender) { m.Superuser = false },
				"axle doctor --fix --yes": func(*Mender) {},
				"":                        func(m *Mender) { m.Dry, m.Yes = true, true },
			} {
				if res, out, err := m.mend(change); err != nil || res.Offered != 1 || res.Done != 0 || !strings.Contains(out, said) {
					t.Errorf("%q: %+v, %v\n%s", said, res, err, out)
				}
			}
			if _, out, err := m.mend(func(m *Mender) { m.Ask = func(string) (bool, error) { return false, nil } }); err != nil ||
				!strings.Contains(out, "left as it is") {
				t.Errorf("%v\n%s", err, out)
			}
			for name, text := range before {
				if m.read(name) != text || len(m.ran) > 0 {
					t.Fatalf("%s was changed, or %q ran, without a yes", name, m.ran)
				}
			}
			res, out, err := m.mend(yes)
			if err != nil || res.Done != 1 || !slices.Equal(m.ran, c.ran) || !slices.Equal(res.After, c.after) {
				t.Errorf("%+v, %v, ran %q\n%s", res, err, m.ran, out)
			}
			for _, l := range c.ran {
				if !strings.Contains(strings.ReplaceAll(out, "'", ""), "$ "+l) {
					t.Errorf("%q was not shown:\n%s", l, out)
				}
			}
			for name, want := range c.has {
				if got := m.read(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(m.root, "*/*/*.axle-new")); left != nil {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// What was mended is found no more, and nothing is offered twice.
func TestMendVerified(t *testing.T) {
	m := newMachine(t, map[string]string{onBus: card, kernel: release, modules + "/extra/axcl_host.ko": ""})
	m.then["modprobe axcl_host"] = func() error {
		for _, n := range []string{"axcl_host", "msg_userdev", "ax_mmb_dev"} {
			m.write("dev/"+n, "")
		}
		return nil
	}
	asked := ""
	if res, out, err := m.mend(func(m *Mender) {
		m.Ask = func(q string) (bool, error) { asked += q; return true, nil }
	}); err != nil || res.Done != 1 || asked != "Do this? [y/N] " {
		t.Fatalf("%+v, %v, asked %q\n%s", res, err, asked, out)
	}
	res, out, err := m.mend(func(m *Mender) { m.Yes = true })
	if err != nil || res.Offered != 0 || len(m.ran) != 1 || !strings.Contains(out, "nothing here that this command can mend") {
		t.Errorf("%+v, %v, ran %q\n%s", res, err, m.ran, out)
	}
}

// A step that fails ends its finding's, and its error has what the command wrote; a file that is
// none, or far too large, is left alone.
func TestMendFails(t *testing.T) {
	m := newMachine(t, map[string]string{onBus: card, kernel: release, modules + "/build": ""})
	m.then["dkms autoinstall"] = func() error { return errors.New("exit status 1") }
	res, out, err := m.mend(func(m *Mender) { m.Yes = true })
	if err == nil || res.Done != 0 || !slices.Equal(m.ran, []string{"dkms autoinstall"}) ||
		!strings.Contains(err.Error(), "driver: dkms autoinstall: exit status 1: modprobe: FATAL: [31m no") {
		t.Errorf("%+v, %v, ran %q\n%s", res, err, m.ran, out)
	}
	pi := map[string]string{"proc/device-tree/model": pi5, "boot/firmware/config.txt": strings.Repeat("#", mostFile+1)}
	_, _, err = newMachine(t, pi).mend(func(m *Mender) { m.Yes = true })
	if err == nil || !strings.Contains(err.Error(), "far too large for what it is") {
		t.Errorf("a large file: %v", err)
	}
	pi["boot/firmware/config.txt"] = ""
	linked := newMachine(t, pi)
	at := filepath.Join(linked.root, "boot/firmware/config.txt")
	if err := errors.Join(os.Rename(at, at+".real"), os.Symlink("config.txt.real", at)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := linked.mend(func(m *Mender) { m.Yes = true }); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a link: %v", err)
	}
	// a copy that is there already is not written over
	kept := newMachine(t, map[string]string{"proc/device-tree/model": pi5, "boot/firmware/config.txt": "a\n",
		"boot/firmware/config.txt.axle-20261128-010203": "first\n"})
	if _, _, err := kept.mend(func(m *Mender) { m.Yes = true }); err == nil || kept.read("boot/firmware/config.txt") != "a\n" ||
		kept.read("boot/firmware/config.txt.axle-20261128-010203") != "first\n" {
		t.Errorf("a copy: %v, %q", err, kept.read("boot/firmware/config.txt"))
	}
}

// The words of a kernel's command line.
func TestMendWords(t *testing.T) {
	a := cards.Action{File: "/x", Words: []string{"cma=128M"}}
	for had, want := range map[string]string{"": "cma=128M\n", "a b\n": "a b cma=128M\n", "a cma=64M b\n": "a b cma=128M\n",
		"cma=128M a\n": "cma=128M a\n"} {
		if got := string(changed([]byte(had), a)); got != want {
			t.Errorf("%q becomes %q, want %q", had, got, want)
		}
	}
}

// machine is a machine in a folder: its files, and what commands did to it.
type machine struct {
	t    *testing.T
	root string
	ran  []string
	then map[string]func() error // what a command does
}

func newMachine(t *testing.T, files map[string]string) *machine {
	m := &machine{t: t, root: t.TempDir(), then: map[string]func() error{}}
	for name, text := range files {
		m.write(name, text)
	}
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	at := filepath.Join(m.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(m.root, name))
	return string(b)
}

func (m *machine) run(_ context.Context, argv []string) ([]byte, error) {
	l := strings.Join(argv, " ")
	m.ran = append(m.ran, l)
	if f := m.then[l]; f != nil {
		if err := f(); err != nil {
			return []byte("modprobe: FATAL:\x1b[31m no"), err
		}
	}
	return nil, nil
}

// findings are those of the machine, with a library that sees no card.
func (m *machine) findings() []cards.Finding {
	return cards.Examine(os.DirFS(m.root), []cards.Library{{Kind: "axcl", Path: "/usr/lib/axcl/libaxcl_rt.so", Version: "3.16.0",
		Err: axcl.ErrNoDevice}}).Findings
}

func (m *machine) mend(change func(*Mender)) (Mended, string, error) {
	m.t.Helper()
	var out bytes.Buffer
	x := Mender{Root: m.root, Run: m.run, Superuser: true, Again: "axle doctor --fix",
		Now: func() time.Time { return time.Date(2026, 11, 28, 1, 2, 3, 0, time.UTC) }}
	change(&x)
	res, err := x.Mend(m.t.Context(), &out, m.findings())
	return res, out.String(), err
}

// with is a machine whose card is on the bus and whose nodes are there, and more.
func with(more map[string]string) map[string]string {
	more[onBus] = card
	for _, n := range []string{"dev/axcl_host", "dev/msg_userdev", "dev/ax_mmb_dev"} {
		more[n] = ""
	}
	return more
}
