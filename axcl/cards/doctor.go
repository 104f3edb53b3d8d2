package cards

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// Library is what one of the vendor's libraries says without a card being opened.
type Library struct {
	Kind    string      // "axcl" or "axengine"
	Path    string      // empty when there is none
	Version string      // empty when it does not say
	Missing []string    // optional calls it lacks
	Devices []axcl.Info // the cards it lists
	// Simulated: it is axle's own simulated card, which computes the software card's models.
	Simulated bool
	Err       error // why no card can be used; nil when one can be tried
}

// Libraries asks both libraries. Without cgo each says so.
func Libraries() []Library { return []Library{look("axcl"), look("axengine")} }

// State of a Finding.
type State string

// States, best first.
const (
	OK      State = "ok"
	Note    State = "note"    // worth knowing, nothing is broken
	Problem State = "problem" // keeps a card from being used
)

// Finding is one thing that was looked at.
type Finding struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
	// Mend is what of Fix a program can do, in order; empty: it is for people.
	Mend []Action `json:"mend,omitempty"`
}

// Link is a card's place on the PCIe bus, from sysfs.
type Link struct {
	Bus      string `json:"bus"`
	Width    string `json:"width"` // lanes
	Speed    string `json:"speed"`
	MaxWidth string `json:"max_width"`
	MaxSpeed string `json:"max_speed"`
	Lost     bool   `json:"lost"` // the card does not answer
}

// Report is what is known about the cards of this machine.
type Report struct {
	Kernel    string
	CMATotal  int64 // bytes; 0: none or not known
	CMAFree   int64
	Links     []Link // Axera devices on the bus, by address
	Libraries []Library
	Findings  []Finding
	Usable    bool // some card can be used
}

// errPure is why a build without cgo has no card.
var errPure = errors.New("this build is pure Go and cannot open the vendor's libraries (made with CGO_ENABLED=0, with -tags fake, or " +
	"not for Linux)")

const axeraVendor = "0x1f4b"

// Examine looks at the machine, whose file system root is (os.DirFS("/")), and at what the
// libraries said of it, for the user of this process. What keeps every card from being used is one
// finding that is a Problem, the one to begin with; what follows from it, or comes after it, is a
// Note.
func Examine(root fs.FS, libs []Library) Report {
	r := inspect(root, libs, whoami())
	r.blame()
	return r
}

func inspect(root fs.FS, libs []Library, me person) Report {
	r := Report{Libraries: libs, Kernel: text(root, "proc/sys/kernel/osrelease")}
	r.CMATotal, r.CMAFree = meminfo(root, "CmaTotal"), meminfo(root, "CmaFree")
	devices, _ := fs.Glob(root, "sys/bus/pci/devices/*/vendor")
	for _, v := range devices {
		dir := path.Dir(v)
		if text(root, v) != axeraVendor {
			continue
		}
		r.Links = append(r.Links, Link{Bus: path.Base(dir), Width: text(root, dir+"/current_link_width"),
			Speed:    text(root, dir+"/current_link_speed"),
			MaxWidth: text(root, dir+"/max_link_width"), MaxSpeed: text(root, dir+"/max_link_speed"), Lost: silent(root, dir)})
	}
	for _, l := range libs {
		if l.Err == nil && len(l.Devices) > 0 {
			r.Usable = true
		}
	}
	if len(libs) > 0 && errors.Is(libs[0].Err, errPure) {
		r.add("this build", Problem, errPure.Error(), "use the release for this machine, or build on Linux with gcc: make build")
		r.links()
		return r
	}
	for _, l := range libs {
		// A machine has one of the two. The on-board library is only worth a word where it is, or
		// where nothing else works.
		if l.Kind == "axengine" && l.Path == "" && errors.Is(l.Err, axcl.ErrNoDevice) && (r.Usable || len(r.Links) > 0) {
			continue
		}
		r.library(l)
		if l.Kind == "axcl" {
			r.driver(root, l, me)
		}
		for _, d := range l.Devices {
			r.device(d)
		}
	}
	r.links()
	r.slowLink(root)
	r.cma()
	if text(root, cmdline) != "" && len(r.Findings) > 0 && r.Findings[len(r.Findings)-1].Name == "CMA" && r.CMAFree < 24<<20 {
		r.mend(Action{File: "/" + cmdline, Words: []string{"cma=128M"}, After: Reboot})
	}
	r.sleep(root)
	r.governor(root)
	r.idle(root)
	return r
}

// blame leaves one problem where no card can be used: the first of those that lead to all others.
func (r *Report) blame() {
	if r.Usable {
		return
	}
	first := -1
	for _, is := range []func(Finding) bool{
		func(f Finding) bool { return f.Name == "PCIe link" },
		func(f Finding) bool { return f.Name == "this build" },
		func(f Finding) bool { return f.Name == boardName && !r.without("axengine") },
		func(f Finding) bool { return f.Name == runtimeName && r.without("axcl") },
		func(f Finding) bool { return f.Name == "driver" },
		func(f Finding) bool { return f.Name == "device nodes" },
		func(f Finding) bool { return f.Name == runtimeName },
		func(f Finding) bool { return f.Name == boardName },
	} {
		for i, f := range r.Findings {
			if f.State != Problem || !is(f) {
				continue
			}
			if first < 0 {
				first = i
			} else if i != first {
				//rule:D1 ./cmd/axle TestDoctorOneProblem drop
				r.Findings[i].State = Note
			}
		}
	}
}

// without: there is no library of that kind.
func (r *Report) without(kind string) bool {
	return slices.ContainsFunc(r.Libraries, func(l Library) bool { return l.Kind == kind && l.Path == "" })
}

// The libraries' names in findings.
const runtimeName, boardName = "AXCL runtime", "on-board engine"

func (r *Report) add(name string, s State, text, fix string) {
	r.Findings = append(r.Findings, Finding{Name: name, State: s, Text: text, Fix: fix})
}

func (r *Report) library(l Library) {
	name, fix := runtimeName,
		"install the vendor's package ('sudo apt install axclhost', from the repository that axle's docs/getting-started.md names) "+
			"and start again, or name the library in AXLE_AXCL_LIB"
	if l.Kind == "axengine" {
		name, fix = boardName, "only boards whose own CPU is the AX650's have it; name the library in AXLE_AXENGINE_LIB if it is elsewhere"
	}
	if l.Path == "" {
		r.add(name, Problem, reason(l.Err), fix)
		return
	}
	version := "version unknown"
	if l.Version != "" {
		version = "version " + strings.TrimPrefix(strings.TrimPrefix(l.Version, "V"), "v")
	}
	if l.Err == nil {
		r.add(name, OK, l.Path+", "+version, "")
	} else {
		r.add(name, Problem, fmt.Sprintf("%s, %s: %s", l.Path, version, reason(l.Err)), fixFor(l.Err))
	}
	if len(l.Missing) > 0 {
		r.add(name+", optional calls", Note, "lacks "+strings.Join(l.Missing, ", "), "nothing depends on them; newer runtimes have them")
	}
}

// reload gives the card its firmware anew, and frees what processes that are gone hold of it.
const reload = "load the driver anew (sudo modprobe -r axcl_host ax_pcie_p2p_rc ax_pcie_mmb ax_pcie_msg ax_pcie_host_dev, then sudo " +
	"modprobe axcl_host and wait ten seconds)"

// Wedged is what helps where a card answers and does not work.
const Wedged = "the card is wedged: end every program that uses it, then " + reload + "; then reboot; then turn the power off and on"

// fixFor says what to do about an error of the library.
func fixFor(err error) string {
	var e *axcl.Error
	if errors.As(err, &e) {
		switch {
		case e.Op == "axclInit" && e.Code == axcl.NoCard:
			return "the driver is there and sees no card: check that the card is seated and has power (27 W on a Raspberry Pi 5), and " +
				"that lspci lists it; then sudo modprobe -r axcl_host, sudo modprobe axcl_host, or reboot"
		case e.Code == axcl.NoPorts:
			return "too many processes use the card (26 at most), or attempts that failed still hold their places until the driver is " +
				"loaded anew: end what uses the card, then " + reload
		case e.Op == "axclrtSetDevice" && e.Code == axcl.Taken:
			return "another process has the card: end it ('sudo systemctl stop axle' where it is axle's service)"
		case e.Op == "axclrtSetDevice" && e.Code == axcl.NoWorker:
			return "the card did not start its side of this process within 5 s, most often because another process hangs in it: end " +
				"every program that uses the card, then " + reload + "; if that does not help, turn the power off and on"
		}
	}
	switch {
	case errors.Is(err, axcl.ErrMemory):
		return "another process holds the card's memory, or one died: stop it, or wait and try again; reboot the machine if the " +
			"memory stays taken"
	case errors.Is(err, axcl.ErrTimeout), errors.Is(err, axcl.ErrLost):
		return "the card does not answer: stop every program that uses it, then " + reload + "; if that does not help, turn the power " +
			"off and on (a reboot may not be enough)"
	}
	return "see the driver and the link below"
}

func (r *Report) driver(root fs.FS, l Library, me person) {
	if exists(root, "dev/axcl_host") {
		r.nodes(root, me)
		return
	}
	if l.Err == nil && len(l.Devices) > 0 {
		r.add("driver", Note, "/dev/axcl_host is missing, and yet the library lists a card", "")
		return
	}
	if l.Path == "" && len(r.Links) == 0 {
		return // the library's finding says it all
	}
	state := Problem
	if r.Usable {
		state = Note
	}
	modules := "lib/modules/" + r.Kernel
	if len(r.Links) > 0 && !exists(root, "sys/module/axcl_host") && secureBoot(root) {
		r.add("Secure Boot", Note, "Secure Boot is on: the kernel loads signed modules only, and the vendor's are not",
			"turn Secure Boot off in the firmware's setup, or sign the modules with a key that is enrolled (mokutil)")
	}
	switch {
	case len(r.Links) == 0:
		r.add("driver", state, "/dev/axcl_host is missing, and no Axera device is on the PCIe bus",
			"check that the card is seated and has power; on a Raspberry Pi 5 put dtparam=pciex1 into /boot/firmware/config.txt (some "+
				"boards also need dtoverlay=pciex1-compat-pi5,no-mip), update the EEPROM (sudo rpi-eeprom-update -a) and use a 27 W "+
				"supply; then lspci must list it")
		r.mend(pciexpress(root)...)
	case exists(root, "sys/module/axcl_host"):
		r.add("driver", state, "the driver is loaded and /dev/axcl_host is missing",
			"see `sudo dmesg | grep -i axcl`: firmware and driver may be of different releases, or the card did not start")
		r.mend(command("modprobe", append([]string{"-r"}, modulesOf...)...), command("modprobe", "axcl_host"))
	case hasModule(root, modules):
		r.add("driver", state, "the driver is built for kernel "+r.Kernel+" and not loaded", "sudo modprobe axcl_host")
		r.mend(command("modprobe", "axcl_host"))
	case exists(root, modules+"/build"):
		r.add("driver", state, "the driver is not built for the running kernel "+r.Kernel,
			"sudo dkms autoinstall, then sudo modprobe axcl_host")
		r.mend(command("dkms", "autoinstall"), command("modprobe", "axcl_host"))
	default:
		r.add("driver", state, "the driver is not built for the running kernel "+r.Kernel+", and the kernel's headers are missing",
			"sudo apt install linux-headers-"+r.Kernel+
				" (on Raspberry Pi OS: linux-headers-rpi-2712), sudo dkms autoinstall, sudo modprobe axcl_host")
		headers := "linux-headers-" + r.Kernel
		if strings.HasSuffix(r.Kernel, "-rpi-2712") {
			headers = "linux-headers-rpi-2712"
		}
		r.mend(command("apt-get", "install", "--yes", headers), command("dkms", "autoinstall"), command("modprobe", "axcl_host"))
	}
}

// hasModule looks where DKMS and the vendor's package put the module.
func hasModule(root fs.FS, modules string) bool {
	for _, pattern := range []string{"/updates/dkms/axcl_host.ko*", "/extra/axcl_host.ko*", "/updates/axcl_host.ko*", "/axcl/axcl_host.ko*",
		"/kernel/drivers/*/axcl_host.ko*"} {
		if m, _ := fs.Glob(root, modules+pattern); len(m) > 0 {
			return true
		}
	}
	return false
}

func (r *Report) device(d axcl.Info) {
	parts := []string{d.Name}
	if d.Bus != "" {
		parts = append(parts, d.Bus)
	}
	if !math.IsNaN(d.Temperature) {
		parts = append(parts, fmt.Sprintf("%.0f °C", d.Temperature))
	}
	if d.TotalCMM > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d MiB for models free", d.FreeCMM>>20, d.TotalCMM>>20))
	}
	if d.TotalMem > 0 {
		of := "its own Linux"
		if d.Host {
			of = "this machine's memory"
		}
		parts = append(parts, fmt.Sprintf("%d of %d MiB of %s free", d.FreeMem>>20, d.TotalMem>>20, of))
	}
	if !math.IsNaN(d.NPULoad) {
		parts = append(parts, fmt.Sprintf("NPU %.0f %%, CPU %.0f %%", d.NPULoad, d.CPULoad))
	}
	if d.Firmware != "" {
		parts = append(parts, "firmware "+d.Firmware)
	}
	r.add(d.ID, OK, strings.Join(parts, ", "), "")
	switch {
	case d.Temperature >= 100:
		r.add(d.ID+", heat", Problem, fmt.Sprintf("%.0f °C: the server admits no work above 100 °C, and the card resets itself at 120 °C",
			d.Temperature), "give it a heat sink and moving air")
	case d.Temperature >= 85:
		r.add(d.ID+", heat", Note, fmt.Sprintf("%.0f °C is warm: from 100 °C on the server admits no work", d.Temperature),
			"give it a heat sink and moving air")
	}
	if d.TotalCMM > 0 && d.TotalCMM-d.FreeCMM > 256<<20 {
		r.add(d.ID+", memory", Note, fmt.Sprintf("%d MiB are taken", (d.TotalCMM-d.FreeCMM)>>20),
			"another process uses the card, or one died and the driver has not noticed yet")
	}
}

func (r *Report) links() {
	for _, l := range r.Links {
		text := fmt.Sprintf("%s: ×%s at %s", l.Bus, cmp.Or(l.Width, "?"), cmp.Or(l.Speed, "unknown speed"))
		switch {
		case l.Lost:
			r.Usable = false
			r.add("PCIe link", Problem, l.Bus+": the card no longer answers on the bus",
				"turn the power off and on; if it happens again, look at power supply, cable and heat")
		case l.MaxSpeed != "" && l.Speed != "" && gigatransfers(l.Speed) < min(gigatransfers(l.MaxSpeed), 5):
			r.add("PCIe link", Note, text+"; the card can do "+l.MaxSpeed,
				"reseat card and cable; on a Raspberry Pi 5 the slot runs at 5.0 GT/s (Gen 2) without further settings")
		default:
			r.add("PCIe link", OK, text, "")
		}
	}
}

// cma looks at the memory for contiguous buffers, which runtimes before 3.10 pin theirs in.
func (r *Report) cma() {
	if r.CMATotal == 0 || len(r.Links) == 0 && !r.Usable || !slices.ContainsFunc(r.Libraries, pins) {
		return
	}
	text := fmt.Sprintf("%d MiB for contiguous buffers on this machine (CMA), %d MiB free", r.CMATotal>>20, r.CMAFree>>20)
	if r.CMAFree < 24<<20 {
		r.add("CMA", Note, text, "large pinned buffers may not fit: put cma=128M on the kernel's command line "+
			"(/boot/firmware/cmdline.txt on a Raspberry Pi) and reboot")
		return
	}
	r.add("CMA", OK, text, "")
}

// pins: a runtime that pins host memory, as those before 3.10 do, or may: it does not say its
// version.
func pins(l Library) bool {
	if l.Kind != "axcl" || l.Path == "" {
		return false
	}
	var major, minor int
	if n, _ := fmt.Sscanf(strings.TrimLeft(l.Version, "Vv"), "%d.%d", &major, &minor); n != 2 {
		return true
	}
	return major < 3 || major == 3 && minor < 10
}

// sleep warns of a machine that may suspend: it loses the card, which has no power management of
// its own.
func (r *Report) sleep(root fs.FS) {
	if len(r.Links) == 0 && !r.Usable || !strings.Contains(text(root, "sys/power/state"), "mem") {
		return
	}
	there := false
	for _, target := range []string{"sleep.target", "suspend.target"} {
		for _, dir := range units {
			if to, err := fs.ReadLink(root, dir+"/"+target); err == nil && to == "/dev/null" {
				return // masked, and one of them is enough
			}
			there = there || exists(root, dir+"/"+target)
		}
	}
	if there {
		r.add("suspend", Note, "this machine can suspend, and loses the card when it does",
			"sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target")
		r.mend(command("systemctl", "mask", "sleep.target", "suspend.target", "hibernate.target", "hybrid-sleep.target"))
	}
}

// secureBoot: the firmware lets the kernel load signed modules only.
func secureBoot(root fs.FS) bool {
	b, err := fs.ReadFile(root, "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c")
	return err == nil && len(b) == 5 && b[4] == 1 // behind four bytes of attributes
}

// silent: nothing answers on the bus where a device was found. The kernel's file vendor says what
// was read then; config is read as it is now, and begins with the same number, or with ones where
// nothing drives the lines.
func silent(root fs.FS, dir string) bool {
	f, err := root.Open(dir + "/config")
	if err != nil {
		return false
	}
	defer f.Close()
	var id [2]byte
	_, err = io.ReadFull(f, id[:])
	return err == nil && id == [2]byte{0xff, 0xff}
}

func text(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// gigatransfers reads the kernel's "5.0 GT/s PCIe".
func gigatransfers(s string) float64 {
	num, _, _ := strings.Cut(s, " ")
	f, _ := strconv.ParseFloat(num, 64)
	return f
}

// meminfo reads a line of /proc/meminfo, in bytes; 0 where there is none.
func meminfo(root fs.FS, key string) int64 {
	for line := range strings.SplitSeq(text(root, "proc/meminfo"), "\n") {
		k, v, _ := strings.Cut(line, ":")
		if k == key {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
