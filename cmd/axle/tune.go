//go:build !scripted

package main

import (
	"context"
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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/engine"
)

func init() { register(newTuneCmd) }

func newTuneCmd() *cobra.Command {
	var dry, undo, asJSON bool
	var root, state, model string
	c := &cobra.Command{
		Use:   "tune",
		Short: "Set a host up for the card: governor, interrupts, priority",
		Long: `Set this host up for the card: CPU governor to performance, the card's interrupt on the fastest core, the priority of a running
server raised; and check the PCIe settings, which it explains and never changes. Published measurements on a Raspberry Pi 5 saw 19 to
100 % more tokens a second.

--dry-run shows what would change. What was there before is kept in --state, and --undo puts it back. Settings last until the next boot.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t := tuner{root: root, state: state, out: c.OutOrStdout()}
			if asJSON {
				t.out = c.ErrOrStderr() // what is done is told beside the JSON
			}
			if undo {
				if dry {
					return usageError("--undo and --dry-run exclude each other")
				}
				return t.undo()
			}
			changes, notes, err := t.look()
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				if err := e.Encode(struct {
					Changes []tuneChange `json:"changes"`
					Notes   []string     `json:"notes"`
				}{append([]tuneChange{}, changes...), append([]string{}, notes...)}); err != nil || dry {
					return err
				}
			} else {
				t.show(changes, notes)
			}
			if dry && len(changes) > 0 && model == "" {
				fmt.Fprintln(t.out, "Nothing was changed. Without --dry-run, --measure MODEL tells what the changes bring.")
			}
			if dry || len(changes) == 0 {
				return nil
			}
			return t.measured(c.Context(), model, func() error { return t.apply(changes) })
		},
	}
	f := c.Flags()
	f.BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	f.BoolVar(&undo, "undo", false, "put back what was there before")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&state, "state", "/var/lib/axle/tune.json", "where the former settings are kept")
	f.StringVar(&model, "measure", "", "a `MODEL` whose decode rate is measured before and after")
	f.StringVar(&root, "root", "/", "look at a copy of /sys and /proc below this folder")
	_ = f.MarkHidden("root")
	return c
}

// tuneChange is one setting: a file below /sys or /proc, and what it holds before and after.
type tuneChange struct {
	What string `json:"what"`
	Why  string `json:"why"`
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

type tuner struct {
	root, state string
	out         io.Writer
}

func (t *tuner) read(path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.root, path))
	return strings.TrimSpace(string(b)), err
}

func (t *tuner) glob(pattern string) []string {
	list, _ := filepath.Glob(filepath.Join(t.root, pattern))
	for i := range list {
		list[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(list[i], filepath.Clean(t.root)), "/")
	}
	slices.Sort(list)
	return list
}

// look finds what to change, and what to say that cannot or should not be changed.
func (t *tuner) look() (changes []tuneChange, notes []string, err error) {
	for _, path := range t.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
		now, err := t.read(path)
		if err != nil || now == "performance" {
			continue
		}
		can, _ := t.read(filepath.Join(filepath.Dir(path), "scaling_available_governors"))
		if can != "" && !slices.Contains(strings.Fields(can), "performance") {
			notes = append(notes, fmt.Sprintf("%s: the kernel has no governor called performance", path))
			continue
		}
		changes = append(changes, tuneChange{"CPU governor", "a core that sleeps between two calls wakes up slowly, and a token is " +
			"dozens of calls", path, now, "performance"})
	}
	if len(t.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq")) == 0 {
		notes = append(notes, "this kernel has no CPU frequency settings: nothing to do about the governor")
	}
	irqs, err := t.interrupts()
	if err != nil {
		return nil, nil, err
	}
	fast := t.fastest()
	for _, irq := range irqs {
		path := fmt.Sprintf("/proc/irq/%d/smp_affinity_list", irq)
		if now, err := t.read(path); err == nil && now != strconv.Itoa(fast) {
			changes = append(changes, tuneChange{"the card's interrupt", "the core that takes the interrupt should be a fast one, and " +
				"always the same", path, now, strconv.Itoa(fast)})
		}
	}
	if len(irqs) == 0 {
		notes = append(notes, "no interrupt of a card in /proc/interrupts: is the driver loaded? 'axle doctor' says")
	}
	servers := t.servers()
	for _, pid := range servers {
		if now, err := t.nice(pid); err == nil && now > wantNice {
			changes = append(changes, tuneChange{"the server's priority", "the loop that feeds the card should not wait behind other " +
				"work; it lasts until the server ends, Nice= in its unit for good",
				nicePath(pid), strconv.Itoa(now), strconv.Itoa(wantNice)})
		}
	}
	if len(servers) == 0 {
		notes = append(notes, "no 'axle serve' is running: nothing to do about its priority")
	}
	notes = append(notes, t.links()...)
	return changes, notes, nil
}

// wantNice is the priority that a server gets.
const wantNice = -10

// nicePath stands for a process's priority, which has no file that can be written.
func nicePath(pid int) string { return fmt.Sprintf("/proc/%d/nice", pid) }

var niceForm = regexp.MustCompile(`^/proc/(\d+)/nice$`)

// servers are the processes that run 'axle serve'.
func (t *tuner) servers() (pids []int) {
	for _, path := range t.glob("/proc/[0-9]*/cmdline") {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if text, e := t.read(path); err == nil && e == nil {
			if w := strings.Split(text, "\x00"); len(w) > 1 && filepath.Base(w[0]) == "axle" && (w[1] == "serve" || w[1] == "start") {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return pids
}

// nice is a process's priority: the nineteenth field of its stat, counted behind the name in brackets.
func (t *tuner) nice(pid int) (int, error) {
	if t.root != "/" { // a copy for trying it out keeps in a file what renice set
		if text, err := t.read(nicePath(pid)); err == nil {
			return strconv.Atoi(text)
		}
	}
	text, err := t.read(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	w := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(w) < 17 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read", pid)
	}
	return strconv.Atoi(w[16])
}

// renice changes the priority of every thread of a server: for Linux each has its own, which those it starts inherit.
func (t *tuner) renice(pid, n int) error {
	if !slices.Contains(t.servers(), pid) {
		return fs.ErrNotExist // it has ended, and its priority with it
	}
	if t.root != "/" {
		return os.WriteFile(filepath.Join(t.root, nicePath(pid)), []byte(strconv.Itoa(n)), 0o644)
	}
	var bad error
	for _, task := range t.glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid)) {
		if tid, err := strconv.Atoi(filepath.Base(task)); err == nil {
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, n); err != nil && !errors.Is(err, unix.ESRCH) {
				bad = err
			}
		}
	}
	return bad
}

var irqLine = regexp.MustCompile(`(?i)^\s*(\d+):.*(axcl|ax_pcie|axera)`)

func (t *tuner) interrupts() (out []int, err error) {
	text, err := t.read("/proc/interrupts")
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

// fastest is the core with the highest top frequency, the last of equals: interrupts gather on the first.
func (t *tuner) fastest() int {
	best, core := -1, 0
	for _, path := range t.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq") {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), "cpu"))
		if err != nil {
			continue
		}
		text, _ := t.read(path)
		if f, err := strconv.Atoi(text); err == nil && (f > best || f == best && n > core) {
			best, core = f, n
		}
	}
	return core
}

// links explains the PCIe settings of Axera devices. They are never changed: 128 and 256 bytes of MaxReadReq crash the driver, 4096 costs
// 30 %.
func (t *tuner) links() (notes []string) {
	for _, vendor := range t.glob("/sys/bus/pci/devices/*/vendor") {
		if id, _ := t.read(vendor); !strings.EqualFold(id, "0x1f4b") {
			continue
		}
		dev := filepath.Dir(vendor)
		name := filepath.Base(dev)
		speed, _ := t.read(filepath.Join(dev, "current_link_speed"))
		width, _ := t.read(filepath.Join(dev, "current_link_width"))
		notes = append(notes, fmt.Sprintf("%s: link %s, x%s", name, speed, width))
		config, err := os.ReadFile(filepath.Join(t.root, dev, "config"))
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

// maxReadRequest reads the PCI Express capability's device control register; 0 when it is not to be found.
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

func (t *tuner) show(changes []tuneChange, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(t.out, "-", n)
	}
	if len(changes) == 0 {
		fmt.Fprintln(t.out, "Nothing to change.")
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
		fmt.Fprintf(t.out, "%s: %s → %s\n    %s\n    %s\n", c.What, c.From, c.To, where, c.Why)
		i += n
	}
}

// apply keeps what was there, then changes it. A setting that cannot be made ends it; what was made by then is kept for undo.
func (t *tuner) apply(changes []tuneChange) error {
	// An earlier tune's former settings are the ones to go back to.
	former, err := t.former()
	if err != nil {
		return err
	}
	for _, c := range changes {
		if !slices.ContainsFunc(former, func(o tuneChange) bool { return o.Path == c.Path }) {
			former = append(former, c)
		}
	}
	if err := os.MkdirAll(filepath.Dir(t.state), 0o755); err != nil {
		return fmt.Errorf("the former settings cannot be kept, so nothing was changed: %w (run as root, or give --state)", err)
	}
	b, err := json.MarshalIndent(former, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.state, b, 0o644); err != nil {
		return fmt.Errorf("the former settings cannot be kept, so nothing was changed: %w (run as root, or give --state)", err)
	}
	for _, c := range changes {
		if err := t.write(c.Path, c.To); err != nil {
			return fmt.Errorf("%s: %w (run as root); --undo puts back what was changed", c.What, err)
		}
	}
	fmt.Fprintf(t.out, "%d settings changed. 'axle tune --undo' puts them back; a reboot does too.\n", len(changes))
	return nil
}

func (t *tuner) write(path, value string) error {
	if m := niceForm.FindStringSubmatch(path); m != nil {
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < -20 || n > 19 {
			return fmt.Errorf("%q is no priority", value)
		}
		return t.renice(pid, n)
	}
	f, err := os.OpenFile(filepath.Join(t.root, path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if t.root != "/" {
		// A copy for trying it out is a plain file, which does not forget its old content by itself.
		if err := f.Truncate(0); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (t *tuner) former() (list []tuneChange, err error) {
	b, err := os.ReadFile(t.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it to go on; a reboot restores the settings", t.state, err)
	}
	return list, nil
}

func (t *tuner) undo() error {
	former, err := t.former()
	if err != nil {
		return err
	}
	if len(former) == 0 {
		fmt.Fprintln(t.out, "Nothing to undo.")
		return nil
	}
	var bad []error
	for _, c := range former {
		// The file says where to write: only what tune itself would change is believed.
		if !strings.HasPrefix(c.Path, "/sys/devices/system/cpu/") && !strings.HasPrefix(c.Path, "/proc/irq/") &&
			!niceForm.MatchString(c.Path) || strings.Contains(c.Path, "..") {
			bad = append(bad, fmt.Errorf("%s names %s, which is no setting of ours", t.state, c.Path))
			continue
		}
		if err := t.write(c.Path, c.From); err != nil && !errors.Is(err, fs.ErrNotExist) { // what is gone has no setting to put back
			bad = append(bad, err)
		}
	}
	if len(bad) > 0 {
		return errors.Join(bad...)
	}
	fmt.Fprintf(t.out, "%d settings put back.\n", len(former))
	return os.Remove(t.state)
}

// measured runs f, and with a model measures its decode rate before and after.
func (t *tuner) measured(ctx context.Context, model string, f func() error) error {
	if model == "" {
		return f()
	}
	before, err := decodeRate(ctx, model)
	if err != nil {
		return fmt.Errorf("measuring before: %w", err)
	}
	if err := f(); err != nil {
		return err
	}
	after, err := decodeRate(ctx, model)
	if err != nil {
		return fmt.Errorf("measuring after: %w", err)
	}
	fmt.Fprintf(t.out, "%s: %.1f tokens/s before, %.1f after (%+.0f %%)\n", model, before, after, 100*(after/before-1))
	return nil
}

// decodeRate is the median decode rate of a few short answers, in tokens a second.
func decodeRate(ctx context.Context, name string) (float64, error) {
	p, err := openPackage(name)
	if err != nil {
		return 0, err
	}
	m, err := engine.OpenPackage(ctx, p, engine.OpenOptions{})
	if err != nil {
		return 0, errors.Join(err, p.Close())
	}
	defer m.Close()
	var rates []float64
	for range 5 {
		r := engine.Request{Prompt: "Count to one hundred.", Raw: true, Limit: 32, Sampling: m.Sampling()}
		r.Sampling.Temperature = 0
		for e, err := range m.Generate(ctx, r) {
			if err != nil {
				return 0, err
			}
			if e.Done != nil && e.Done.Usage.Output > 1 {
				rates = append(rates, float64(e.Done.Usage.Output-1)/max(e.Done.Usage.Decode, time.Microsecond).Seconds())
			}
		}
	}
	if len(rates) == 0 {
		return 0, fmt.Errorf("%s ends its answers at once: nothing to measure", name)
	}
	slices.Sort(rates)
	return rates[len(rates)/2], nil
}
