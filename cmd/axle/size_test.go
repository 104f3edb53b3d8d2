package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestRAMSize: the flag wins over the environment, which wins over an eighth of the memory that a
// control group leaves, at most 4 GiB.
func TestRAMSize(t *testing.T) {
	machine := func(kb string) fstest.MapFS {
		return fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: " + kb + " kB\nMemAvailable: 1000 kB\n")}}
	}
	group := machine("8388608")
	group["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/a\n")}
	group["sys/fs/cgroup/a/memory.max"] = &fstest.MapFile{Data: []byte("1073741824\n")}
	for _, tt := range []struct {
		flag, env string
		fs        fstest.MapFS
		want      int64
		err       string
	}{
		{"", "", machine("8388608"), 1 << 30, ""},
		{"", "", machine("67108864"), 4 << 30, ""},
		{"", "", group, 128 << 20, ""},
		{"", "", fstest.MapFS{}, 0, ""},
		{"", "2GB", group, 2e9, ""},
		{"1GB", "2GB", group, 1e9, ""},
		{"0", "2GB", group, 0, ""},
		{"", "0", group, 0, ""},
		{"much", "", group, 0, "--cache-ram"},
		{"", "-1", group, 0, "AXLE_CACHE_RAM"},
	} {
		got, err := ramSize(tt.flag, func(name string) string { return map[string]string{"AXLE_CACHE_RAM": tt.env}[name] }, tt.fs)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q, %q: %d, %v; want %d, %q", tt.flag, tt.env, got, err, tt.want, tt.err)
		}
	}
}
