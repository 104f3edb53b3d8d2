package benchmark

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/engine/bench/report"
)

func factsOf(i axcl.Info, why string) report.Card {
	f := report.Card{Kind: i.Kind, Name: i.Name, ID: i.ID, Why: why, Bus: i.Bus, Driver: i.Version, Firmware: i.Firmware,
		Memory: i.TotalCMM}
	if !math.IsNaN(i.Temperature) {
		f.Temperature = &i.Temperature
	}
	if i.Kind == "axcl" {
		for _, l := range cards.Examine(os.DirFS("/"), nil).Links {
			if strings.HasSuffix(l.Bus, i.Bus) && i.Bus != "" {
				f.Link = new(report.Link(l))
			}
		}
	}
	return f
}

// heldBack says what a Raspberry Pi's firmware held the machine back for, now or since it was
// switched on; "" where there was nothing, or no firmware tells.
func heldBack(root fs.FS) string {
	files, _ := fs.Glob(root, "sys/devices/platform/soc*/soc*firmware/get_throttled")
	for _, name := range files {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(b)), "0x"), 16, 32)
		if err != nil {
			continue
		}
		var said []string
		for i, what := range []string{"under-voltage", "a capped frequency", "throttling", "the soft temperature limit"} {
			switch {
			case bits&(1<<i) != 0:
				said = append(said, what+" now")
			case bits&(1<<(16+i)) != 0:
				said = append(said, what+" since it was switched on")
			}
		}
		return strings.Join(said, ", ")
	}
	// Other kernels tell of the voltage alone.
	alarms, _ := fs.Glob(root, "sys/class/hwmon/hwmon*/in0_lcrit_alarm")
	for _, name := range alarms {
		kind, _ := fs.ReadFile(root, strings.TrimSuffix(name, "in0_lcrit_alarm")+"name")
		if b, _ := fs.ReadFile(root, name); strings.TrimSpace(string(kind)) == "rpi_volt" && strings.TrimSpace(string(b)) == "1" {
			return "under-voltage"
		}
	}
	return ""
}

// hostFacts reads what Linux tells of the machine; what it does not tell stays empty.
func hostFacts(version string, root fs.FS) report.Machine {
	read := func(name string) string {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.Trim(strings.TrimSpace(string(b)), "\x00")
	}
	f := report.Machine{Axle: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: read("proc/sys/kernel/osrelease"),
		Board:  read("proc/device-tree/model"), Cores: runtime.NumCPU(),
		Governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")}
	for _, l := range strings.Split(read("proc/cpuinfo"), "\n") {
		if k, v, ok := strings.Cut(l, ":"); ok && (strings.TrimSpace(k) == "model name" || strings.TrimSpace(k) == "Model" && f.CPU == "") {
			f.CPU = strings.TrimSpace(v)
			if strings.TrimSpace(k) == "model name" {
				break
			}
		}
	}
	if w := strings.Fields(read("proc/loadavg")); len(w) > 2 {
		f.Load = strings.Join(w[:3], " ")
	}
	for _, l := range strings.Split(read("proc/meminfo"), "\n") {
		if w := strings.Fields(l); len(w) > 1 && w[0] == "MemTotal:" {
			kb, _ := strconv.ParseInt(w[1], 10, 64)
			f.Memory = kb << 10
		}
	}
	return f
}
