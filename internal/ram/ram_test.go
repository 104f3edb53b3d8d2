package ram

import (
	"testing"
	"testing/fstest"
)

// TestHostMemory: what may be taken is what the kernel calls available, or what the tightest
// control group above the process leaves.
func TestHostMemory(t *testing.T) {
	//proves:D3
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		fs          fstest.MapFS
		total, free int64
	}{
		"nothing known": {fstest.MapFS{}, 0, 0},
		"a machine":     {system("8192", "4096", nil), 8 * mib, 4 * mib},
		"a group": {system("8192", "4096", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "3145728\n",
			"sys/fs/cgroup/a/b/memory.current": "2097152\n",
			"sys/fs/cgroup/a/b/memory.stat":    "anon 5\ninactive_file 524288\nactive_file 262144\n"}), 3 * mib, mib + 3*mib/4},
		"the group above it": {system("8192", "4096", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "2097152\n",
			"sys/fs/cgroup/a/memory.current": "1048576\n"}), 2 * mib, mib},
		"in a container": {system("8192", "4096", map[string]string{"proc/self/cgroup": "0::/elsewhere/x\n",
			"sys/fs/cgroup/memory.max": "1048576\n", "sys/fs/cgroup/memory.current": "1\n"}), mib, mib - 1},
		"a group larger than the machine": {system("8192", "4096",
			map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "9999999999\n"}), 8 * mib, 4 * mib},
		"the older groups": {system("8192", "4096", map[string]string{"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/a/memory.stat":           "inactive_file 7\ntotal_inactive_file 1048576\n"}), 2 * mib, mib},
		"over its limit": {system("8192", "4096",
			map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1048576\n",
				"sys/fs/cgroup/a/memory.current": "2097152\n"}), mib, 0},
		"nonsense": {system("eight", "-1", map[string]string{"proc/self/cgroup": ":::\nx"}), 0, 0},
	} {
		if total, free := Of(tt.fs); total != tt.total || free != tt.free {
			t.Errorf("%s: %d of %d, want %d of %d", name, free, total, tt.free, tt.total)
		}
	}
}

// system is a machine of this many MiB, with further files.
func system(total, free string, more map[string]string) fstest.MapFS {
	m := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: " + total + " kB\nMemFree: 1 kB\nMemAvailable: " + free + " kB\n")}}
	for name, text := range more {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}
