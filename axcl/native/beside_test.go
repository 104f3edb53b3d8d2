//go:build cgo && !fake && linux

package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestNeighbours: a library finds what lies beside it and what those need, wherever the folder is
// and without LD_LIBRARY_PATH; what lies there and cannot be loaded is named.
func TestNeighbours(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for k, env := range map[Kind]string{AXCL: EnvAXCL, Engine: EnvEngine} {
		for _, broken := range []bool{false, true} {
			dir := t.TempDir()
			name := func(what string) string { // names of their own: the loader keeps what it has loaded
				return "lib" + strings.ToLower(string(k)) + map[bool]string{true: "_broken_", false: "_"}[broken] + what
			}
			build := func(out, soname, code string, needs ...string) {
				t.Helper()
				args := []string{"-std=c11", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,--no-as-needed", "-Wl,-soname," + soname, "-o",
					filepath.Join(dir, out)}
				for _, c := range strings.Fields(code) {
					args = append(args, c)
				}
				for _, n := range needs {
					args = append(args, filepath.Join(dir, n))
				}
				if b, err := exec.Command(compiler(), args...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, b)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "none.c"), []byte("int "+name("symbol")+"(void) { return 1; }\n"),
				0o600); err != nil {
				t.Fatal(err)
			}
			none := filepath.Join(dir, "none.c")
			build(name("spdlog.so.1.14"), name("spdlog.so.1.14"), none)
			build(name("logger.so"), name("logger.so"), none, name("spdlog.so.1.14"))
			build(name("pkg.so"), name("pkg.so"), none, name("logger.so"), name("spdlog.so.1.14"))
			odd := "testdata/odd.c testdata/odd_stubs.c"
			if k == AXCL {
				build("libaxcl_rt.so", name("rt.so"), odd, name("pkg.so"))
			} else {
				build("libax_sys.so", name("sys.so"), odd, name("pkg.so"))
				build("libax_engine.so", name("engine.so"), odd, "libax_sys.so")
			}
			bad := filepath.Join(dir, name("logger.so"))
			if broken {
				if err := os.WriteFile(bad, []byte("no library"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			// A C library that lies there is not loaded beside the one that everything runs on.
			if err := os.WriteFile(filepath.Join(dir, "libc.so.6"), []byte("no library"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, lacks := loadNeighbours(filepath.Join(dir, name("pkg.so"))); !broken && lacks != "" {
				t.Errorf("neighbours that are loaded already:%s", lacks)
			}
			t.Setenv(env, dir)
			d, err := Open(k, 0)
			if broken {
				if err == nil || !strings.Contains(err.Error(), bad) {
					t.Errorf("%s over a neighbour that is none: %v", k, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", k, err)
				continue
			}
			closeAll(t, d.(*device))
		}
	}
	if n := neighbours("libaxcl_rt.so"); n != nil {
		t.Errorf("neighbours of a name that the loader looks for: %q", n)
	}
}

// TestUnnamedNeighbour: libaxcl_pcie_dma.so needs a symbol of libaxcl_pcie_msg.so, names it
// nowhere, and is needed first.
func TestUnnamedNeighbour(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	build := func(out, code string, flags ...string) {
		t.Helper()
		src := filepath.Join(dir, out+".c")
		if err := os.WriteFile(src, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-shared", "-fPIC", "-Wl,--no-as-needed", "-Wl,-soname," + out, "-o", filepath.Join(dir, out), src},
			flags...)
		if b, err := exec.Command(compiler(), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	build("libaxcl_pcie_msg.so", "int axle_test_msg(void) { return 7; }")
	build("libaxcl_pcie_dma.so", "int axle_test_msg(void);\nint axle_test_dma(void) { return axle_test_msg(); }")
	build("libaxle_test_rt.so", "int axle_test_dma(void);\nint axle_test_rt(void) { return axle_test_dma(); }",
		filepath.Join(dir, "libaxcl_pcie_dma.so"), "-Wl,--allow-shlib-undefined")
	var order []string
	for _, p := range neighbours(filepath.Join(dir, "libaxle_test_rt.so")) {
		order = append(order, filepath.Base(p))
	}
	if got := strings.Join(order, " "); got != "libaxcl_pcie_msg.so libaxcl_pcie_dma.so" {
		t.Fatalf("loaded in the order %q", got)
	}
	if _, lacks := loadNeighbours(filepath.Join(dir, "libaxle_test_rt.so")); lacks != "" {
		t.Error(lacks)
	}
}
