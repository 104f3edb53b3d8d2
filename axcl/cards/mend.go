package cards

import (
	"io/fs"
	"slices"
	"strings"
)

// Action is one step that mends a finding: a command, or lines or words that a file must have.
type Action struct {
	Run   []string `json:"run,omitempty"`   // the command and its arguments; root runs it
	File  string   `json:"file,omitempty"`  // the file that is changed, or made
	Lines []string `json:"lines,omitempty"` // each must stand in File, in this order where they are new
	Words []string `json:"words,omitempty"` // each must stand in File's one line; NAME=VALUE replaces another value
	After string   `json:"after,omitempty"` // what is left to do then
}

// What is left to do after an Action.
const Reboot, LogIn = "reboot", "log in again"

func command(name string, args ...string) Action { return Action{Run: append([]string{name}, args...)} }

// mend gives the last finding the actions that mend it.
func (r *Report) mend(actions ...Action) { r.Findings[len(r.Findings)-1].Mend = actions }

// modulesOf are the driver's modules, in the order in which they can be unloaded.
var modulesOf = []string{"axcl_host", "ax_pcie_p2p_rc", "ax_pcie_mmb", "ax_pcie_msg", "ax_pcie_host_dev"}

// The files by which a Raspberry Pi is set up, and where our rules for a machine go: after those of
// the package, which stay as they are.
const (
	config     = "boot/firmware/config.txt"
	cmdline    = "boot/firmware/cmdline.txt"
	localRules = "/etc/udev/rules.d/71-axle-local.rules"
)

// isPi5: the machine is a Raspberry Pi 5 (or 500, or a Compute Module 5) with its config.txt.
func isPi5(root fs.FS) bool {
	model := text(root, "proc/device-tree/model")
	return (strings.Contains(model, "Raspberry Pi 5") || strings.Contains(model, "Compute Module 5")) && exists(root, config)
}

// set says whether config.txt has a line that counts on a Raspberry Pi 5.
func set(root fs.FS, lines ...string) bool {
	counts := true
	for line := range strings.Lines(text(root, config)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			counts = line == "[all]" || line == "[pi5]"
		} else if counts && slices.Contains(lines, strings.ReplaceAll(line, " ", "")) {
			return true
		}
	}
	return false
}

// pciexpress is what makes a Raspberry Pi 5 look at its slot: the parameter, and, where that is
// there and no card is, the overlay that some cards need.
func pciexpress(root fs.FS) []Action {
	const slot, overlay = "dtparam=pciex1", "dtoverlay=pciex1-compat-pi5,no-mip"
	switch {
	case !isPi5(root):
		return nil
	case !set(root, slot, slot+"=on", "dtparam=nvme"):
		return []Action{{File: "/" + config, Lines: []string{"[all]", slot}, After: Reboot}}
	case !set(root, overlay):
		return []Action{{File: "/" + config, Lines: []string{"[all]", overlay}, After: Reboot}}
	}
	return nil
}

// slowLink offers Gen 2 where config.txt asks a Raspberry Pi 5 for less.
func (r *Report) slowLink(root fs.FS) {
	if !isPi5(root) || !set(root, "dtparam=pciex1_gen=1") {
		return
	}
	for i, f := range r.Findings {
		if f.Name == "PCIe link" && f.State == Note {
			r.Findings[i].Fix = "/" + config + " asks for Gen 1: put dtparam=pciex1_gen=2 there, and reboot"
			r.Findings[i].Mend = []Action{{File: "/" + config, Lines: []string{"[all]", "dtparam=pciex1_gen=2"}, After: Reboot}}
		}
	}
}

// opened gives the nodes to the server's group, and the user to it.
func opened(root fs.FS, rules, names []string, mine bool, me person) []Action {
	var list []Action
	group := false
	for line := range strings.Lines(text(root, "etc/group")) {
		group = group || strings.HasPrefix(line, serviceName+":")
	}
	if !group {
		list = append(list, command("groupadd", "--system", serviceName))
	}
	if len(rules) > 0 {
		list = append(list, Action{File: localRules, Lines: rules}, command("udevadm", "control", "--reload"),
			command("udevadm", append([]string{"trigger"}, names...)...))
	}
	if mine && me.uid != 0 {
		add := command("usermod", "-aG", serviceName, me.name)
		add.After = LogIn
		list = append(list, add)
	}
	return list
}

// governor looks at how the processor's clock is set: between a card's passes it has work of its
// own.
func (r *Report) governor(root fs.FS) {
	const dir = "sys/devices/system/cpu/cpu0/cpufreq/"
	if len(r.Links) == 0 && !r.Usable || text(root, dir+"scaling_governor") != "powersave" ||
		text(root, dir+"scaling_driver") == "intel_pstate" || text(root, dir+"scaling_driver") == "amd-pstate-epp" {
		return // these two save power and are quick under the same name
	}
	better := ""
	for _, name := range []string{"schedutil", "ondemand", "performance"} {
		if slices.Contains(strings.Fields(text(root, dir+"scaling_available_governors")), name) {
			better = name
			break
		}
	}
	if better == "" {
		return
	}
	const all = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
	r.add("processor clock", Note, "the governor powersave holds the processor at its lowest clock: each token waits for it",
		"echo "+better+" | sudo tee "+all+" (until the next start of the machine)")
	r.mend(command("sh", "-c", "echo "+better+" | tee "+all))
}

// idle tells of a service that is installed and does not run, where a card can be used.
func (r *Report) idle(root fs.FS) {
	if !r.Usable || !exists(root, "run/systemd/system") {
		return
	}
	s, installed := readService(root)
	if !installed || exists(root, "sys/fs/cgroup/system.slice/"+serviceName+".service") {
		return
	}
	if to, err := fs.ReadLink(root, s.file[1:]); err == nil && to == "/dev/null" {
		return // its owner wants it so
	}
	r.add("service", Note, "the service "+serviceName+" is installed and does not run", "sudo systemctl enable --now "+serviceName)
	r.mend(command("systemctl", "enable", "--now", serviceName))
}
