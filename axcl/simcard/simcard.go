// Package simcard holds a simulated card: C sources that build into libaxcl_rt.so, libax_sys.so and
// libax_engine.so, the vendor's libraries by their own binary interface. Tests and benchmarks open
// them as they would open the real ones.
//
// The package itself is plain Go without cgo: it carries the sources and calls a C compiler. Build
// may be called from any goroutine and any number of processes at once; nothing needs closing. What
// the card can be told is in README.md.
package simcard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

//go:embed c/*.c c/*.h c/*.def profiles/*.profile
var sources embed.FS

// ErrNoCompiler is what Build's error wraps when there is no C compiler: $CC, or gcc.
var ErrNoCompiler = errors.New("simcard: no C compiler")

// Libs are the paths of the built libraries, all in one folder.
type Libs struct {
	AXCL   string // libaxcl_rt.so, the runtime of a card on PCIe
	Sys    string // libax_sys.so, the on-board pair
	Engine string // libax_engine.so; finds its libax_sys.so beside it
}

var warnings = []string{"-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"}

// Only the on-board pair has board.c; engine_so.c is the whole of libax_engine.so.
const (
	boardOnly  = "board.c"
	engineOnly = "engine_so.c"
)

// Build compiles the libraries into dir, or with dir empty into the user's cache folder
// (axle/sim-HASH, reused while sources, compiler and flags stay the same). In the cache they are
// for this machine's processor, elsewhere for any of its kind. Extra flags go to every compile and
// link: -fsanitize=address, -DAXSIM_WITHOUT_WORKER (a runtime older than the worker calls), or
// -DaxclrtMemcpy=axsim_absent_memcpy to build a library that lacks a symbol.
//
// Errors: ErrNoCompiler (wrapped), the compiler's own words, or what the file system says. A failed
// build leaves nothing behind.
func Build(dir string, flags ...string) (Libs, error) {
	cc, err := compiler()
	if err != nil {
		return Libs{}, err
	}
	cached := dir == ""
	if cached {
		flags = slices.Concat(thisMachine(), flags)
		base, err := os.UserCacheDir()
		if err != nil {
			return Libs{}, fmt.Errorf("simcard: no folder to build in: %w", err)
		}
		sum, err := digest(cc, flags)
		if err != nil {
			return Libs{}, err
		}
		dir = filepath.Join(base, "axle", "sim-"+sum)
		if libs := in(dir); libs.there() {
			return libs, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return Libs{}, fmt.Errorf("simcard: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), ".sim-*")
	if err != nil {
		return Libs{}, fmt.Errorf("simcard: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := compile(cc, tmp, flags); err != nil {
		return Libs{}, err
	}
	return place(tmp, dir, cached)
}

// thisMachine are flags for what this machine's processor can. Sums keep their order: the card says
// the same on every machine.
func thisMachine() []string {
	if cpu.X86.HasAVX2 {
		return []string{"-mavx2"}
	}
	return nil
}

// place moves finished libraries where they belong: a whole folder at once for the cache, where
// another process may have been faster, and file by file into a folder that may hold other things.
func place(tmp, dir string, cached bool) (Libs, error) {
	out := filepath.Join(tmp, "out")
	libs := in(dir)
	if cached {
		err := os.Rename(out, dir)
		if err != nil && !libs.there() {
			return Libs{}, fmt.Errorf("simcard: %w", err)
		}
		return libs, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Libs{}, fmt.Errorf("simcard: %w", err)
	}
	from := in(out)
	for _, p := range [][2]string{{from.AXCL, libs.AXCL}, {from.Sys, libs.Sys}, {from.Engine, libs.Engine}} {
		if err := os.Rename(p[0], p[1]); err != nil {
			return Libs{}, fmt.Errorf("simcard: %w", err)
		}
	}
	return libs, nil
}

func in(dir string) Libs {
	return Libs{filepath.Join(dir, "libaxcl_rt.so"), filepath.Join(dir, "libax_sys.so"), filepath.Join(dir, "libax_engine.so")}
}

func (l Libs) there() bool {
	for _, p := range []string{l.AXCL, l.Sys, l.Engine} {
		if st, err := os.Stat(p); err != nil || !st.Mode().IsRegular() {
			return false
		}
	}
	return true
}

func compiler() (string, error) {
	name := os.Getenv("CC")
	if name == "" {
		name = "gcc"
	}
	if _, err := exec.LookPath(strings.Fields(name)[0]); err != nil {
		return "", fmt.Errorf("%w: %s is not there; install gcc or set CC", ErrNoCompiler, name)
	}
	return name, nil
}

func digest(cc string, flags []string) (string, error) {
	h := sha256.New()
	version, err := exec.Command(strings.Fields(cc)[0], "--version").Output()
	if err != nil {
		return "", fmt.Errorf("simcard: %s --version: %w", cc, err)
	}
	fmt.Fprintf(h, "%q %q %q\n", cc, flags, version)
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

func compile(cc, tmp string, flags []string) error {
	if err := os.CopyFS(tmp, sources); err != nil {
		return fmt.Errorf("simcard: %w", err)
	}
	if err := os.Mkdir(filepath.Join(tmp, "out"), 0o755); err != nil {
		return fmt.Errorf("simcard: %w", err)
	}
	files, err := fs.Glob(sources, "c/*.c")
	if err != nil {
		return err
	}
	var core []string
	for _, f := range files {
		if b := filepath.Base(f); b != boardOnly && b != engineOnly {
			core = append(core, f)
		}
	}
	out := in("out")
	if err := link(cc, tmp, out.AXCL, flags, append(core, "-lm")...); err != nil {
		return err
	}
	if err := link(cc, tmp, out.Sys, flags, append(slices.Clone(core), "c/"+boardOnly, "-DAXSIM_BOARD", "-lm")...); err != nil {
		return err
	}
	return link(cc, tmp, out.Engine, flags, "c/"+engineOnly, "-Lout", "-lax_sys", "-Wl,-rpath,$ORIGIN")
}

// link makes one library. -z nodelete: streams have threads of their own, so the code must outlive
// a dlclose.
func link(cc, dir, lib string, flags []string, args ...string) error {
	words := strings.Fields(cc)
	all := slices.Concat(words[1:], warnings, []string{
		"-O3", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wa,-Iprofiles", "-shared", "-o", lib,
		"-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,-soname," + filepath.Base(lib),
	}, flags, args)
	cmd := exec.Command(words[0], all...)
	cmd.Dir = dir
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("simcard: %s for %s: %w\n%s", cc, filepath.Base(lib), err, text.Bytes())
	}
	return nil
}
