//go:build linux

package cards

import (
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/axcl"
)

func TestExamine(t *testing.T) {
	none := fmt.Errorf("axcl: %w: the AXCL runtime is not installed", axcl.ErrNoDevice)
	noBoard := Library{Kind: "axengine", Err: fmt.Errorf("axcl: %w: no on-board engine library", axcl.ErrNoDevice)}
	failed := func(code uint32) Library {
		return Library{Kind: "axcl", Path: "/usr/lib/axcl/libaxcl_rt.so", Version: "3.10.2",
			Err: &axcl.Error{Op: "axclInit", Layer: axcl.NoLayer, Code: code}}
	}
	with := func(change func(*axcl.Info)) Library {
		l := working()
		change(&l.Devices[0])
		return l
	}
	of := func(version string) Library {
		l := working()
		l.Version = version
		return l
	}
	awake := map[string]string{"sys/power/state": "freeze mem disk\n", "usr/lib/systemd/system/sleep.target": "[Unit]",
		"usr/lib/systemd/system/suspend.target": "[Unit]"}
	masked := func(target string) fstest.MapFS {
		m := machine(awake)
		m[target] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/dev/null")}
		return m
	}
	const secureBootVar = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	lacking := working()
	lacking.Missing = []string{"axclrtExecWorker", "axclrtKillWorker"}
	for _, tt := range []struct {
		name   string
		root   fstest.MapFS
		lib    Library
		usable bool
		say    []string // "finding: state: words" each is there
		not    []string // findings that are not
	}{
		{"all is well", machine(nil), working(), true,
			[]string{"AXCL runtime: ok: version 3.6.5", "driver: ok: ", "axcl:0: ok: 51 °C", "axcl:0: ok: 7022 of 7040 MiB",
				"PCIe link: ok: ×1 at 5.0 GT/s", "CMA: ok: 64 MiB"}, []string{"on-board engine", "axcl:0, heat", "axcl:0, memory"}},
		{"a pure build", machine(nil), Library{Kind: "axcl", Err: fmt.Errorf("axcl: %w: %w", axcl.ErrNoDevice, errPure)}, false,
			[]string{"this build: problem: make build", "PCIe link: ok: "}, []string{"AXCL runtime", "driver"}},
		{"optional calls", machine(nil), lacking, true, []string{"AXCL runtime, optional calls: note: axclrtExecWorker, axclrtKillWorker"},
			nil},
		{"no library", machine(nil), Library{Kind: "axcl", Err: none}, false,
			[]string{"AXCL runtime: problem: not installed", "AXCL runtime: problem: axclhost", "PCIe link: ok: "}, nil},
		{"no library, no card", machine(nil, "sys/bus", "dev"), Library{Kind: "axcl", Err: none}, false,
			[]string{"AXCL runtime: problem: not installed", "on-board engine: note: "}, []string{"driver", "CMA", "PCIe link"}},
		{"a library and nothing else", machine(nil, "sys/bus", "dev"), failed(0x8030010b), false,
			[]string{"AXCL runtime: note: (0x8030010b)", "driver: problem: dtparam=pciex1"}, nil},
		{"driver not built", machine(nil, "dev", "sys/module", "lib/modules/6.12.25+rpt-rpi-2712/extra"), failed(0x8030010b), false,
			[]string{"driver: problem: dkms autoinstall"}, nil},
		{"no headers", machine(nil, "dev", "sys/module", "lib"), failed(0x8030010b), false,
			[]string{"driver: problem: linux-headers-6.12.25+rpt-rpi-2712"}, nil},
		{"driver not loaded", machine(nil, "dev", "sys/module"), failed(0x8030010b), false,
			[]string{"driver: problem: sudo modprobe axcl_host"}, nil},
		{"loaded, no node", machine(nil, "dev"), failed(0x8030010b), false, []string{"driver: problem: dmesg"}, nil},
		{"simulated", machine(nil, "dev", "sys/bus"), working(), true, []string{"driver: note: yet the library lists a card"}, nil},
		{"no card on the bus", machine(nil, "sys/bus"), failed(0x80300181), false,
			[]string{"AXCL runtime: problem: sees no card", "AXCL runtime: problem: lspci"}, nil},
		{"no ports", machine(nil), failed(0x80300186), false, []string{"AXCL runtime: problem: too many processes",
			"AXCL runtime: problem: modprobe -r axcl_host"}, nil},
		{"no worker", machine(nil), Library{Kind: "axcl", Path: "/usr/lib/axcl/libaxcl_rt.so", Version: "3.10.2",
			Err: &axcl.Error{Op: "axclrtSetDevice", Layer: axcl.NoLayer, Code: 0x8030010b}}, false,
			[]string{"AXCL runtime: problem: within 5 s", "AXCL runtime: problem: power off and on"}, nil},
		{"offline", machine(nil), failed(0x8030040c), false, []string{"AXCL runtime: problem: modprobe -r axcl_host"}, nil},
		{"time-out", machine(nil), failed(0x80300383), false, []string{"AXCL runtime: problem: power off and on"}, nil},
		{"CMA does not matter", machine(map[string]string{"proc/meminfo": "CmaTotal: 65536 kB\nCmaFree: 1024 kB\n"}), of("3.10.2"), true,
			nil, []string{"CMA"}},
		{"CMA, no version", machine(nil), of(""), true, []string{"CMA: ok: 64 MiB"}, nil},
		{"suspend", machine(awake), working(), true,
			[]string{"suspend: note: loses the card", "suspend: note: systemctl mask sleep.target"}, nil},
		{"suspend is masked", masked("etc/systemd/system/sleep.target"), working(), true, nil, []string{"suspend"}},
		{"suspend is masked until the next start", masked("run/systemd/system/suspend.target"), working(), true, nil,
			[]string{"suspend"}},
		{"the kernel cannot suspend", machine(map[string]string{"sys/power/state": "disk\n",
			"usr/lib/systemd/system/suspend.target": "[Unit]"}), working(), true, nil, []string{"suspend"}},
		{"suspend without a card", machine(awake, "sys/bus", "dev"), failed(0x8030010b), false, nil, []string{"suspend"}},
		{"Secure Boot", machine(map[string]string{secureBootVar: "\x06\x00\x00\x00\x01"}, "dev", "sys/module"), failed(0x8030010b), false,
			[]string{"Secure Boot: note: signed modules only", "Secure Boot: note: mokutil", "driver: problem: not loaded"}, nil},
		{"Secure Boot is off", machine(map[string]string{secureBootVar: "\x06\x00\x00\x00\x00"}, "dev", "sys/module"),
			failed(0x8030010b), false, nil, []string{"Secure Boot"}},
		{"Secure Boot and a module that is signed", machine(map[string]string{secureBootVar: "\x06\x00\x00\x00\x01"}), working(), true, nil,
			[]string{"Secure Boot"}},
		{"warm", machine(nil), with(func(i *axcl.Info) { i.Temperature = 88 }), true, []string{"axcl:0, heat: note: 88 °C"}, nil},
		{"hot", machine(nil), with(func(i *axcl.Info) { i.Temperature = 104 }), true, []string{"axcl:0, heat: problem: 120 °C"}, nil},
		{"taken", machine(nil), with(func(i *axcl.Info) { i.FreeCMM = 1 << 30 }), true, []string{"axcl:0, memory: note: another process"},
			nil},
		{"knows little", machine(nil), with(func(i *axcl.Info) {
			*i = axcl.Info{ID: "axcl:0", Name: "AX650N", Temperature: math.NaN(), NPULoad: math.NaN(), CPULoad: math.NaN()}
		}), true, []string{"axcl:0: ok: AX650N"}, []string{"axcl:0, heat", "axcl:0, memory"}},
		{"slow link", machine(map[string]string{"sys/bus/pci/devices/0001:01:00.0/current_link_speed": "2.5 GT/s PCIe\n"}), working(), true,
			[]string{"PCIe link: note: reseat"}, nil},
		{"lost link", machine(map[string]string{"sys/bus/pci/devices/0001:01:00.0/config": "\xff\xff\xff\xff"}), working(), false,
			[]string{"PCIe link: problem: no longer answers"}, nil},
		{"no config", machine(nil, "sys/bus/pci/devices/0001:01:00.0/config"), working(), true, []string{"PCIe link: ok: "}, nil},
		{"little CMA", machine(map[string]string{"proc/meminfo": "CmaTotal: 65536 kB\nCmaFree: 1024 kB\n"}), working(), true,
			[]string{"CMA: note: cma=128M"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Examine(tt.root, []Library{tt.lib, noBoard})
			if r.Usable != tt.usable {
				t.Errorf("usable: %v", r.Usable)
			}
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
			if n := count(r, Problem); !r.Usable && n != 1 {
				t.Errorf("%d problems, one to begin with is told: %+v", n, r.Findings)
			}
			for _, f := range r.Findings {
				for _, n := range tt.not {
					if f.Name == n {
						t.Errorf("finding %+v", f)
					}
				}
				if f.State == Problem && f.Fix == "" {
					t.Errorf("no way out of %+v", f)
				}
				if f.Text == "" || strings.Contains(f.Text+f.Fix, "\n") {
					t.Errorf("%+v is not one line", f)
				}
			}
		})
	}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// machine is a Raspberry Pi with a card in its slot.
func machine(more map[string]string, without ...string) fstest.MapFS {
	m := fstest.MapFS{
		"proc/sys/kernel/osrelease": file("6.12.25+rpt-rpi-2712\n"),
		"proc/meminfo": file("MemTotal:        8256000 kB\nCmaTotal:          65536 kB\nCmaFree: " +
			"          51200 kB\n"),
		"sys/bus/pci/devices/0001:01:00.0/vendor":              file("0x1f4b\n"),
		"sys/bus/pci/devices/0001:01:00.0/config":              file("\x4b\x1f\x50\x06"),
		"sys/bus/pci/devices/0001:01:00.0/current_link_width":  file("1\n"),
		"sys/bus/pci/devices/0001:01:00.0/current_link_speed":  file("5.0 GT/s PCIe\n"),
		"sys/bus/pci/devices/0001:01:00.0/max_link_width":      file("2\n"),
		"sys/bus/pci/devices/0001:01:00.0/max_link_speed":      file("5.0 GT/s PCIe\n"),
		"sys/bus/pci/devices/0002:01:00.0/vendor":              file("0x1de4\n"), // the Pi's own chip
		"sys/module/axcl_host/version":                         file("1\n"),
		"lib/modules/6.12.25+rpt-rpi-2712/build/Makefile":      file(""),
		"lib/modules/6.12.25+rpt-rpi-2712/extra/axcl_host.ko":  file(""),
		"lib/modules/6.12.25+rpt-rpi-2712/kernel/fs/ext4/a.ko": file(""),
		"dev/axcl_host":   node(0o666, 0),
		"dev/msg_userdev": node(0o666, 0),
		"dev/ax_mmb_dev":  node(0o666, 0),
	}
	for name, text := range more {
		m[name] = file(text)
	}
	for name := range m {
		for _, w := range without {
			if strings.HasPrefix(name, w) {
				delete(m, name)
			}
		}
	}
	return m
}

func card() axcl.Info {
	return axcl.Info{Kind: "axcl", Name: "AX650N", ID: "axcl:0", Bus: "0001:01:00.0", Temperature: 51, TotalCMM: 7040 << 20,
		FreeCMM: 7022 << 20, TotalMem: 945 << 20, FreeMem: 700 << 20, NPULoad: 0, CPULoad: 3, Firmware: "V3.6.5"}
}

func working() Library {
	return Library{Kind: "axcl", Path: "/usr/lib/axcl/libaxcl_rt.so", Version: "V3.6.5", Devices: []axcl.Info{card()}}
}

func count(r Report, s State) (n int) {
	for _, f := range r.Findings {
		if f.State == s {
			n++
		}
	}
	return n
}
