// Package ram tells how much memory this machine has for the process: what the kernel says, and
// what control groups leave of it. Functions may be called from any goroutine; nothing is held.
package ram

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Of is how much memory this machine has and how much of it may still be taken: what the kernel
// calls available, or what the control groups that the process is in leave, the tightest of them;
// pages of files, such as a model's weights, count as free. Both are 0 where the system does not
// say.
func Of(root fs.FS) (total, free int64) {
	mem := fields(root, "proc/meminfo")
	total, free = mem["MemTotal:"]<<10, mem["MemAvailable:"]<<10
	if total == 0 || free == 0 {
		return 0, 0
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		mount, limit, used, files := "sys/fs/cgroup", "memory.max", "memory.current", []string{"inactive_file", "active_file"}
		if strings.Contains(","+part[1]+",", ",memory,") {
			mount, limit, used, files = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				[]string{"total_inactive_file", "total_active_file"}
		} else if part[1] != "" {
			continue
		}
		// In a container its own group is the mount itself, whatever the path says.
		for dir := path.Join(mount, part[2]); ; dir = path.Dir(dir) {
			if most, ok := value(root, path.Join(dir, limit)); ok && most < total {
				left := most
				if n, ok := value(root, path.Join(dir, used)); ok {
					left -= n
					stat := fields(root, path.Join(dir, "memory.stat"))
					for _, f := range files {
						left += stat[f]
					}
				}
				total, free = most, min(free, max(left, 0), most)
			}
			if dir == mount || dir == "." || dir == "/" {
				break
			}
		}
	}
	return total, free
}

// Resident is how much the process has in memory that is no file's.
func Resident(root fs.FS) int64 { return fields(root, "proc/self/status")["RssAnon:"] << 10 }

// fields reads lines of a name and a number.
func fields(root fs.FS, name string) map[string]int64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	out := map[string]int64{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) >= 2 {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				out[f[0]] = min(n, 1<<50)
			}
		}
	}
	return out
}

// value reads a file that holds one number; "max" is none.
func value(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n >= 0
}
