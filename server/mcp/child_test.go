package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a server's process has: three streams, four variables, no privileges to gain, and neither
// the files that are hidden nor devices.
func TestChild(t *testing.T) {
	//proves:T22
	dir := shared(t)
	key, open := filepath.Join(dir, "keys"), filepath.Join(dir, "open")
	for _, f := range []string{key, open} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Chmod(open, 0o644)
	// What this process holds open, as a library holds a card: not marked to be closed.
	held, err := syscall.Open(key, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(held)
	card := "/dev/axcl_host"
	if os.Geteuid() == 0 {
		// A device that anyone may open: only what shuts devices keeps a child from it.
		card = filepath.Join("/dev", fmt.Sprintf("axle-test-%d", os.Getpid()))
		if err := syscall.Mknod(card, syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			card = "/dev/kmsg"
		} else {
			_ = os.Chmod(card, 0o666)
			defer os.Remove(card)
		}
	}
	for _, as := range []string{"as it is", "as ourselves"} {
		t.Run(as, func(t *testing.T) {
			tools := opened(t, strings.Replace(played("s", "good"), `"timeout"`, `"env": {"OF_THE_FILE": "1"}, "timeout"`, 1),
				func(o *Options) { o.Hide = []string{key} })
			if as == "as ourselves" {
				tools.place.as = nil
			}
			b, _ := json.Marshal(map[string]any{"files": []string{key, open, card, tools.o.File, "/dev/null",
				fmt.Sprintf("/proc/%d/environ", os.Getpid())}})
			var got seen
			if text := call(t, tools, "", "s__look", string(b)); json.Unmarshal([]byte(text), &got) != nil {
				t.Fatal(text)
			}
			for _, fd := range got.FDs {
				n, to, _ := strings.Cut(fd, " ")
				if n > "2" && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
					t.Errorf("it has %s", fd)
				}
			}
			if env := strings.Join(got.Env, " "); env != "HOME LANG OF_THE_FILE PATH" {
				t.Errorf("environment %s", env)
			}
			if got.NoNew != "1" {
				t.Errorf("NoNewPrivs %s", got.NoNew)
			}
			root := os.Geteuid() == 0
			if root && as == "as it is" && got.UID == 0 {
				t.Error("it runs as root")
			}
			shut := []string{key, tools.o.File, card}
			if !root || as == "as it is" { // who may measure performance, as root may, reads what any process has
				shut = append(shut, fmt.Sprintf("/proc/%d/environ", os.Getpid()))
			}
			if landlocks() == 0 && (!root || as == "as ourselves") {
				t.Skip("this kernel has no Landlock")
			}
			for _, f := range shut {
				if got.Opened[f] == "" {
					t.Errorf("it opened %s", f)
				}
			}
			if got.Opened["/dev/null"] != "" || got.Opened[open] != "" {
				t.Errorf("%+v", got.Opened)
			}
			if landlocks() >= 6 && got.Signals == "<nil>" {
				t.Error("it may send us signals")
			}
		})
	}
}

// A server that ends for nothing is killed with what it began, and nothing is left to be waited
// for.
func TestStubborn(t *testing.T) {
	file := filepath.Join(shared(t), "pids")
	tools := opened(t, played("s", "stubborn", file))
	if got := call(t, tools, "", "s__t", ""); got != "ok" {
		t.Fatal(got)
	}
	var pids [2]int
	if _, err := fmt.Sscan(until(t, file, " "), &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	if err := tools.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		tick := time.NewTicker(5 * time.Millisecond)
		for alive(pid) { // the second is waited for by another
			<-tick.C
		}
		tick.Stop()
	}
	if got := call(t, tools, "", "s__t", ""); !strings.Contains(got, "no tool server") {
		t.Error(got)
	}
}

// alive: a process is there, and not only its remains for someone else to collect.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") || strings.Contains(rest, fmt.Sprintf("Z %d ", os.Getpid()))
}
