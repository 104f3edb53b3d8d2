//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
)

// TestDeaf: no signal reaches a thread that the library started, and one that is sent to each
// breaks no copy.
func TestDeaf(t *testing.T) {
	//proves:D18
	onCard(t, "hazards=strict,eintr", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		const own = 1<<(unix.SIGSEGV-1) | 1<<(unix.SIGBUS-1) | 1<<(unix.SIGFPE-1) | 1<<(unix.SIGILL-1) | 1<<(unix.SIGTRAP-1) |
			1<<(unix.SIGSYS-1) | 1<<(unix.SIGABRT-1) | 1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1) | 3<<31 // and two of the C library's own
		var names []string
		tasks, _ := filepath.Glob("/proc/self/task/*")
		for _, task := range tasks {
			comm, err := os.ReadFile(task + "/comm")
			name := strings.TrimSpace(string(comm))
			if err != nil || !strings.HasPrefix(name, "axcl-") {
				continue
			}
			names = append(names, name)
			status, err := os.ReadFile(task + "/status")
			if err != nil {
				t.Fatal(err)
			}
			_, mask, _ := strings.Cut(string(status), "SigBlk:\t")
			var blocked uint64
			if _, err := fmt.Sscanf(mask, "%x", &blocked); err != nil || blocked|own != 1<<64-1 {
				t.Errorf("%s lets signals through: %016x blocked, %v", name, blocked, err)
			}
			var id int
			if _, err := fmt.Sscanf(filepath.Base(task), "%d", &id); err != nil {
				t.Fatal(err)
			}
			if err := unix.Tgkill(os.Getpid(), id, unix.SIGURG); err != nil {
				t.Error(err)
			}
		}
		if !slices.Contains(names, "axcl-listener") || k == AXCL && !slices.Contains(names, "axcl-stream") {
			t.Errorf("the library's threads are %q", names)
		}
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(rowPass(m.Shape(), 3)); err != nil {
			t.Error(err)
		}
	})
}

// TestNotInherited: a child process has no descriptor of the card's nodes, whenever the library
// opened them.
func TestNotInherited(t *testing.T) {
	//proves:D18
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		child := func(when string, want ...string) {
			t.Helper()
			var have []string
			for _, to := range descriptors() {
				have = append(have, to)
			}
			for _, node := range want {
				if !strings.Contains(strings.Join(have, " "), "memfd:"+node) {
					t.Errorf("%s: this process has no %s", when, node)
				}
			}
			out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
			if err != nil || strings.Contains(string(out), "memfd:") {
				t.Errorf("%s: a child has %s, %v", when, out, err)
			}
		}
		child("open", "axcl_host", "msg_userdev")
		if _, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny())); err != nil {
			t.Fatal(err)
		}
		if k == AXCL {
			child("loaded", "axcl_host", "msg_userdev", "ax_mmb_dev")
		}
	})
}

// TestOfflineCard: once no message reaches the card, whatever is asked next loses it, and nothing
// more is asked.
func TestOfflineCard(t *testing.T) {
	for name, ask := range map[string]func(d *device, m axcl.Model, spec axcl.LoadSpec) error{
		"a pass": func(_ *device, m axcl.Model, _ axcl.LoadSpec) error { return m.Run(rowPass(m.Shape(), 3)) },
		"a load": func(d *device, _ axcl.Model, spec axcl.LoadSpec) error {
			_, err := axcl.Load(context.Background(), d, spec)
			return err
		},
		"its state": func(d *device, _ axcl.Model, _ axcl.LoadSpec) error { _, err := d.Info(); return err },
		"an unload": func(_ *device, m axcl.Model, _ axcl.LoadSpec) error { return m.Close() },
	} {
		onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
			if k == Engine {
				t.Skip("it is no message away")
			}
			d := open(t, k)
			spec := write(t, axcltest.DefaultTiny())
			m, err := axcl.Load(context.Background(), d, spec)
			if err != nil {
				t.Fatal(err)
			}
			configure(t, sim, "hazards=strict,offline")
			err = ask(d, m, spec)
			var e *axcl.Error
			if !axcl.Fatal(err) || !errors.Is(err, axcl.ErrLost) || !errors.As(err, &e) || e.Code != 0x8030040c {
				t.Errorf("%s: %v", name, err)
			}
			calls := sim.Calls("")
			if err := d.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
			if n := sim.Calls(""); n != calls {
				t.Errorf("%s: %d calls after it was lost", name, n-calls)
			}
		})
	}
}

// TestSlowState: a card that takes long to tell its state, and hears nothing meanwhile, loads and
// runs.
func TestSlowState(t *testing.T) {
	onCard(t, "hazards=strict,properties", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(rowPass(m.Shape(), 3)); err != nil {
			t.Error(err)
		}
		if i, err := d.Info(); err != nil || k == AXCL && i.TotalCMM == 0 {
			t.Errorf("%+v, %v", i, err)
		}
	})
}
