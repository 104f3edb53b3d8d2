// Package tune sets a host up for the card: the CPU governor, the core that takes the card's
// interrupt, a server's priority. It keeps what was there, so that it can be put back; PCIe
// settings it explains and never changes.
//
// A Host belongs to one goroutine and holds nothing that must be closed.
package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	_ "github.com/axle-llm/axle/internal/plain" // says which machines this cannot be built for
)

// Change is one setting: a file below /sys or /proc, and what it holds before and after.
type Change struct {
	What string `json:"what"`
	Why  string `json:"why"`
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Host is the machine to set up.
type Host struct {
	Root  string    // "/", or a folder that holds a copy of /sys and /proc, for trying it out
	State string    // the file that keeps the former settings
	Out   io.Writer // where it is told what was done
}

func (h *Host) read(path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(h.Root, path))
	return strings.TrimSpace(string(b)), err
}

func (h *Host) glob(pattern string) []string {
	list, _ := filepath.Glob(filepath.Join(h.Root, pattern))
	for i := range list {
		list[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(list[i], filepath.Clean(h.Root)), "/")
	}
	slices.Sort(list)
	return list
}

// Look finds what to change, and notes what cannot or should not be changed. It changes nothing.
func (h *Host) Look() (changes []Change, notes []string, err error) {
	for _, path := range h.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
		now, err := h.read(path)
		if err != nil || now == "performance" {
			continue
		}
		can, _ := h.read(filepath.Join(filepath.Dir(path), "scaling_available_governors"))
		if can != "" && !slices.Contains(strings.Fields(can), "performance") {
			notes = append(notes, fmt.Sprintf("%s: the kernel has no governor called performance", path))
			continue
		}
		changes = append(changes, Change{"CPU governor", "a core that sleeps between two calls wakes up slowly, and a token is " +
			"dozens of calls", path, now, "performance"})
	}
	if len(h.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq")) == 0 {
		notes = append(notes, "this kernel has no CPU frequency settings: nothing to do about the governor")
	}
	irqs, err := h.interrupts()
	if err != nil {
		return nil, nil, err
	}
	fast := h.fastest()
	for _, irq := range irqs {
		path := fmt.Sprintf("/proc/irq/%d/smp_affinity_list", irq)
		if now, err := h.read(path); err == nil && now != strconv.Itoa(fast) {
			changes = append(changes, Change{"the card's interrupt", "the core that takes the interrupt should be a fast one, and " +
				"always the same", path, now, strconv.Itoa(fast)})
		}
	}
	if len(irqs) == 0 {
		notes = append(notes, "no interrupt of a card in /proc/interrupts: is the driver loaded? 'axle doctor' says")
	}
	servers := h.servers()
	for _, pid := range servers {
		if now, err := h.nice(pid); err == nil && now > wantNice {
			changes = append(changes, Change{"the server's priority", "the loop that feeds the card should not wait behind other " +
				"work; it lasts until the server ends, Nice= in its unit for good",
				nicePath(pid), strconv.Itoa(now), strconv.Itoa(wantNice)})
		}
	}
	if len(servers) == 0 {
		notes = append(notes, "no 'axle serve' is running: nothing to do about its priority")
	}
	notes = append(notes, h.links()...)
	return changes, notes, nil
}

// wantNice is the priority that a server gets.
const wantNice = -10

// nicePath stands for a process's priority, which has no file that can be written.
func nicePath(pid int) string { return fmt.Sprintf("/proc/%d/nice", pid) }

var niceForm = regexp.MustCompile(`^/proc/(\d+)/nice$`)

// servers are the processes that run 'axle serve'.
func (h *Host) servers() (pids []int) {
	for _, path := range h.glob("/proc/[0-9]*/cmdline") {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if text, e := h.read(path); err == nil && e == nil {
			if w := strings.Split(text, "\x00"); len(w) > 1 && filepath.Base(w[0]) == "axle" && (w[1] == "serve" || w[1] == "start") {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// nice is a process's priority: the nineteenth field of its stat, counted behind the name in
// brackets.
func (h *Host) nice(pid int) (int, error) {
	if h.Root != "/" { // a copy for trying it out keeps in a file what renice set
		if text, err := h.read(nicePath(pid)); err == nil {
			return strconv.Atoi(text)
		}
	}
	text, err := h.read(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	w := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(w) < 17 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read", pid)
	}
	return strconv.Atoi(w[16])
}

// renice changes the priority of every thread of a server: for Linux each has its own, which those
// it starts inherit.
func (h *Host) renice(pid, n int) error {
	if !slices.Contains(h.servers(), pid) {
		return fs.ErrNotExist // it has ended, and its priority with it
	}
	if h.Root != "/" {
		return os.WriteFile(filepath.Join(h.Root, nicePath(pid)), []byte(strconv.Itoa(n)), 0o644)
	}
	var bad error
	for _, task := range h.glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid)) {
		if tid, err := strconv.Atoi(filepath.Base(task)); err == nil {
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, n); err != nil && !errors.Is(err, unix.ESRCH) {
				bad = err
			}
		}
	}
	return bad
}

var irqLine = regexp.MustCompile(`(?i)^\s*(\d+):.*(axcl|ax_pcie|axera)`)

func (h *Host) interrupts() (out []int, err error) {
	text, err := h.read("/proc/interrupts")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(text, "\n") {
		if m := irqLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			out = append(out, n)
		}
	}
	return out, nil
}

// fastest is the core with the highest top frequency, the last of equals: interrupts gather on the
// first.
func (h *Host) fastest() int {
	best, core := -1, 0
	for _, path := range h.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq") {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), "cpu"))
		if err != nil {
			continue
		}
		text, _ := h.read(path)
		if f, err := strconv.Atoi(text); err == nil && (f > best || f == best && n > core) {
			best, core = f, n
		}
	}
	return core
}

// links explains the PCIe settings of Axera devices. They are never changed: 128 and 256 bytes of
// MaxReadReq crash the driver, 4096 costs 30 %.
func (h *Host) links() (notes []string) {
	for _, vendor := range h.glob("/sys/bus/pci/devices/*/vendor") {
		if id, _ := h.read(vendor); !strings.EqualFold(id, "0x1f4b") {
			continue
		}
		dev := filepath.Dir(vendor)
		name := filepath.Base(dev)
		speed, _ := h.read(filepath.Join(dev, "current_link_speed"))
		width, _ := h.read(filepath.Join(dev, "current_link_width"))
		notes = append(notes, fmt.Sprintf("%s: link %s, x%s", name, speed, width))
		config, err := os.ReadFile(filepath.Join(h.Root, dev, "config"))
		if err != nil {
			continue
		}
		switch n := maxReadRequest(config); n {
		case 0:
			notes = append(notes, name+": MaxReadReq cannot be read without root")
		case 512:
			notes = append(notes, name+": MaxReadReq is 512, as it must be")
		default:
			notes = append(notes, fmt.Sprintf("%s: MaxReadReq is %d and should be 512 (128 and 256 crash the driver, 4096 costs 30 %%): "+
				"find what changed it, a setpci line or a kernel option pci=pcie_bus_…", name, n))
		}
	}
	return notes
}

// maxReadRequest reads the PCI Express capability's device control register; 0 when it is not to be
// found.
func maxReadRequest(config []byte) int {
	if len(config) < 256 {
		return 0
	}
	for at, hops := int(config[0x34]), 0; at >= 0x40 && at+10 <= 256 && hops < 48; at, hops = int(config[at+1]), hops+1 {
		if config[at] == 0x10 {
			control := int(config[at+8]) | int(config[at+9])<<8
			return 128 << (control >> 12 & 7)
		}
	}
	return 0
}

// Show prints the notes and the changes, alike ones together.
func (h *Host) Show(changes []Change, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(h.Out, "-", n)
	}
	if len(changes) == 0 {
		fmt.Fprintln(h.Out, "Nothing to change.")
		return
	}
	for i := 0; i < len(changes); {
		c, n := changes[i], 1
		for i+n < len(changes) && changes[i+n].What == c.What && changes[i+n].From == c.From && changes[i+n].To == c.To {
			n++
		}
		where := c.Path
		if n > 1 {
			where += fmt.Sprintf(" and %d more like it", n-1)
		}
		fmt.Fprintf(h.Out, "%s: %s → %s\n    %s\n    %s\n", c.What, c.From, c.To, where, c.Why)
		i += n
	}
}

// Apply keeps what was there, then changes it. A setting that cannot be made ends it; what was made
// by then is kept for undo.
func (h *Host) Apply(changes []Change) error {
	// An earlier tune's former settings are the ones to go back to.
	former, err := h.former()
	if err != nil {
		return err
	}
	for _, c := range changes {
		if !slices.ContainsFunc(former, func(o Change) bool { return o.Path == c.Path }) {
			former = append(former, c)
		}
	}
	if err := os.MkdirAll(filepath.Dir(h.State), 0o755); err != nil {
		return fmt.Errorf("the former settings cannot be kept, so nothing was changed: %w (run as root, or give --state)", err)
	}
	b, err := json.MarshalIndent(former, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(h.State, b, 0o644); err != nil {
		return fmt.Errorf("the former settings cannot be kept, so nothing was changed: %w (run as root, or give --state)", err)
	}
	for _, c := range changes {
		if err := h.write(c.Path, c.To); err != nil {
			return fmt.Errorf("%s: %w (run as root); --undo puts back what was changed", c.What, err)
		}
	}
	fmt.Fprintf(h.Out, "%d settings changed. 'axle tune --undo' puts them back; a reboot does too.\n", len(changes))
	return nil
}

func (h *Host) write(path, value string) error {
	if m := niceForm.FindStringSubmatch(path); m != nil {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < -20 || n > 19 {
			return fmt.Errorf("%q is no priority", value)
		}
		return h.renice(pid, n)
	}
	f, err := os.OpenFile(filepath.Join(h.Root, path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if h.Root != "/" {
		// A copy for trying it out is a plain file, which does not forget its old content by
		// itself.
		if err := f.Truncate(0); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (h *Host) former() (list []Change, err error) {
	b, err := os.ReadFile(h.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it to go on; a reboot restores the settings", h.State, err)
	}
	return list, nil
}

// Undo puts back what Apply kept, and forgets it.
func (h *Host) Undo() error {
	former, err := h.former()
	if err != nil {
		return err
	}
	if len(former) == 0 {
		fmt.Fprintln(h.Out, "Nothing to undo.")
		return nil
	}
	var bad []error
	for _, c := range former {
		// The file says where to write: only what tune itself would change is believed.
		if !strings.HasPrefix(c.Path, "/sys/devices/system/cpu/") && !strings.HasPrefix(c.Path, "/proc/irq/") &&
			!niceForm.MatchString(c.Path) || strings.Contains(c.Path, "..") {
			bad = append(bad, fmt.Errorf("%s names %s, which is no setting of ours", h.State, c.Path))
			continue
		}
		if err := h.write(c.Path, c.From); err != nil && !errors.Is(err, fs.ErrNotExist) { // what is gone has no setting to put back
			bad = append(bad, err)
		}
	}
	if len(bad) > 0 {
		return errors.Join(bad...)
	}
	fmt.Fprintf(h.Out, "%d settings put back.\n", len(former))
	return os.Remove(h.State)
}
