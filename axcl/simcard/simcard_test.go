package simcard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// TestForeign runs programs that know only the ABI: plainly, and with the sanitizers in card and
// program.
func TestForeign(t *testing.T) {
	//proves:G15
	lane.Slow(t)
	for _, lane := range []struct {
		name  string
		flags []string
		cases []string
	}{
		// wrap takes 80 GiB in turn: minutes under a sanitizer
		{"plain", nil, slices.Concat(cases, []string{"wrap", "loops", "state-loops"})},
		{"asan", []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}, cases},
		{"tsan", []string{"-g", "-fsanitize=thread"}, []string{"contexts", "streams", "lanes", "crowd", "faults", "hang", "clock",
			"worker"}},
	} {
		t.Run(lane.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && lane.flags != nil {
				t.Skip("short: only without sanitizers")
			}
			libs := build(t, lane.flags...)
			dir := filepath.Dir(libs.AXCL)
			abi := program(t, "abi_test.c", append(lane.flags, "-L"+dir, "-laxcl_rt", "-Wl,-rpath,"+dir, "-lm")...)
			for _, name := range lane.cases {
				t.Run(name, func(t *testing.T) {
					if text := run(t, abi, name, t.TempDir()); strings.HasSuffix(name, "loops") {
						documented(t, text)
					}
				})
			}
			t.Run("board", func(t *testing.T) {
				run(t, program(t, "board_test.c", append(lane.flags, "-ldl", "-lm")...), dir, t.TempDir())
			})
		})
	}
}

// build makes the libraries with extra flags, or skips where no compiler is.
func build(t *testing.T, flags ...string) Libs {
	t.Helper()
	libs, err := Build("", flags...)
	if errors.Is(err, ErrNoCompiler) {
		t.Skipf("the simulated card is not tested: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return libs
}

// program compiles a foreign C program from testdata.
func program(t *testing.T, source string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	cc, err := compiler()
	if err != nil {
		t.Skip(err)
	}
	args = append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-o", out,
		filepath.Join("testdata", source)}, args...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", source, err, text)
	}
	return out
}

// documented holds docs/performance.md to the times of a token that a loop printed.
func documented(t *testing.T, text string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`([\d.]+) ms, ([\d.]+) tokens/s`).FindAllStringSubmatch(text, -1)
	if len(all) != 2 {
		t.Errorf("%d loops in %q", len(all), text)
	}
	for _, m := range all {
		ms, err1 := strconv.ParseFloat(m[1], 64)
		rate, err2 := strconv.ParseFloat(m[2], 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("| %.1f ms | %.1f |", ms, rate); !strings.Contains(string(doc), want) {
			t.Errorf("docs/performance.md has no loop with %q", want)
		}
	}
}

// run executes a program with an environment free of AXSIM_ settings, and gives what it says.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "AXSIM_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, text)
	} else if testing.Verbose() && len(text) > 0 {
		t.Logf("%s", text)
	}
	return string(text)
}

var cases = []string{
	"life", "devices", "contexts", "memory", "segv", "streams", "lanes", "crowd", "engine", "hostile", "layer", "head", "shape", "hazards",
	"faults",
	"hang", "clock", "profile", "trace", "worker", "state", "share", "exclusive", "noise",
	"options", "counted", "settings", "shared", "bare", "beyond",
	"groups", "staging", "firmware", "latch", "rawcode", "nomem", "message", "pages",
}

// exported lists the symbols a library shows.
func exported(t *testing.T, lib string) []string {
	t.Helper()
	nm, err := exec.LookPath("nm")
	if err != nil {
		t.Skip("symbols are not looked at: no nm")
	}
	text, err := exec.Command(nm, "-D", "--defined-only", lib).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Fields(line)
		names = append(names, f[len(f)-1])
	}
	return names
}

// TestSymbols: a library shows the ABI and axsim_ names, nothing else; every call of calls.def is
// there.
func TestSymbols(t *testing.T) {
	libs := build(t)
	def, err := sources.ReadFile("c/calls.def")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for lib, prefixes := range map[string][]string{libs.AXCL: {"axcl", "axsim_"}, libs.Sys: {"AX_SYS_", "axsim_"},
		libs.Engine: {"AX_ENGINE_"}} {
		for _, name := range exported(t, lib) {
			have[name] = true
			ok := false
			for _, p := range prefixes {
				ok = ok || strings.HasPrefix(name, p)
			}
			if !ok {
				t.Errorf("%s shows %s", filepath.Base(lib), name)
			}
		}
	}
	calls := 0
	for _, line := range strings.Split(string(def), "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "X("), ","); ok && strings.HasPrefix(line, "X(") {
			calls++
			if !have[name] {
				t.Errorf("no library has %s", name)
			}
		}
	}
	if calls < 135 {
		t.Errorf("only %d calls in calls.def", calls)
	}
}

// TestAbsent: a library can be built as an older runtime, or without one symbol.
func TestAbsent(t *testing.T) {
	libs := build(t, "-DAXSIM_WITHOUT_WORKER", "-DaxclrtMemcmp=axsim_absent_memcmp")
	for _, name := range exported(t, libs.AXCL) {
		if strings.Contains(name, "Worker") || name == "axclrtTransferFile" || name == "axclrtMemcmp" {
			t.Errorf("%s is still there", name)
		}
	}
}

// TestHazardsListed: each hazard of config.c stands with its default in README.md and in
// docs/promises.md, and no other does.
func TestHazardsListed(t *testing.T) {
	read := func(name, from, to string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(b), from)
		part, _, ended := strings.Cut(rest, to)
		if !found || !ended {
			t.Fatalf("%s has nothing between %q and %q", name, from, to)
		}
		return part
	}
	code := map[string]bool{}
	for _, m := range regexp.MustCompile(`\[HZ_\w+\] = \{"([a-z-]+)", (true|false)\}`).FindAllStringSubmatch(
		read("c/config.c", "hazard_table[HAZARDS] = {", "};"), -1) {
		code[m[1]] = m[2] == "true"
	}
	if n := strings.Count(read("c/sim.h", "enum {\n\tHZ_UNBOUND", "HAZARDS"), "HZ_") + 1; n != len(code) {
		t.Errorf("sim.h has %d hazards, config.c's table %d", n, len(code))
	}
	names := regexp.MustCompile("`([a-z-]+)`")
	for _, doc := range []struct {
		name, from, to string
		on             int // the column of the default
	}{
		{"README.md", "| name | rule of axcl-abi | default |", "## Faults", 3},
		{"../../docs/promises.md", "| hazard | default |", "## The long forms", 2},
	} {
		listed := map[string]bool{}
		for line := range strings.Lines(read(doc.name, doc.from, doc.to)) {
			f := strings.Split(line, "|")
			if len(f) <= doc.on {
				continue
			}
			for _, m := range names.FindAllStringSubmatch(f[1], -1) {
				listed[m[1]] = strings.HasPrefix(strings.TrimSpace(f[doc.on]), "on")
			}
		}
		if !maps.Equal(listed, code) {
			t.Errorf("%s has %v, the code %v", doc.name, listed, code)
		}
	}
}

func TestBuildErrors(t *testing.T) {
	// Each build takes gcc ten seconds; what is looked at here is what becomes of its files.
	plays := func(t *testing.T, script string) {
		t.Helper()
		cc := filepath.Join(t.TempDir(), "cc")
		if err := os.WriteFile(cc, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CC", cc)
	}
	t.Run("no compiler", func(t *testing.T) {
		t.Setenv("CC", "no-such-compiler")
		if _, err := Build(t.TempDir()); !errors.Is(err, ErrNoCompiler) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("compiler fails", func(t *testing.T) {
		plays(t, "echo 'rows.c:7: error: no such thing' >&2; exit 1")
		dir := filepath.Join(t.TempDir(), "out")
		_, err := Build(dir)
		if err == nil || !strings.Contains(err.Error(), "libaxcl_rt.so") || !strings.Contains(err.Error(), "rows.c:7") {
			t.Errorf("got %v", err)
		}
		if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	t.Run("into a folder", func(t *testing.T) {
		plays(t, `for word; do [ "$last" = -o ] && echo library >"$word"; last=$word; done`)
		dir := filepath.Join(t.TempDir(), "a", "b")
		libs, err := Build(dir, "-O0")
		if err != nil || !libs.there() || filepath.Dir(libs.Engine) != dir {
			t.Errorf("got %v, %v", libs, err)
		}
		if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}
