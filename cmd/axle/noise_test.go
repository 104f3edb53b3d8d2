//go:build cgo && !fake && !scripted && linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestJSONUnderNoise: what --json prints is JSON and nothing else, whatever a vendor's library
// writes meanwhile and whenever: one that keeps to what it is told, with and without a driver, and
// one that nothing keeps quiet.
func TestJSONUnderNoise(t *testing.T) {
	//proves:D17 every command that has it
	unraced(t)
	t.Parallel()
	noisy := noisyLib(t)
	pocket := pocketDir(t)
	u := newUnit(t)
	u.lib = noisy
	place := t.TempDir()
	if err := (modelstest.Detector{Seed: 1, Layout: "heads"}).Write(filepath.Join(place, "eyes")); err != nil {
		t.Fatal(err)
	}
	server := u.start("AXLE_MODEL_PATH=" + place)
	lines := map[string]struct {
		args  []string
		loads bool // the library
		code  int
	}{
		"doctor":  {[]string{"--device", "axcl", "--conformance", "--model", tinyPackage(t, 1)}, true, 0},
		"bench":   {[]string{pocket, "--device", "axcl", "-p", "8", "-n", "2", "-r", "1", "-c", "1"}, true, 0},
		"plan":    {[]string{"qwen3-0.6b"}, false, 0},
		"inspect": {[]string{pocket}, false, 0},
		"top":     {[]string{"--once"}, false, 0},
		"detect":  {[]string{"../../docs/ui.png"}, false, 0},
	}
	for _, c := range newRootCmd().Commands() {
		if c.Flag("json") == nil {
			continue
		}
		line, ok := lines[c.Name()]
		if !ok {
			t.Errorf("axle %s has --json and is not tried here", c.Name())
			continue
		}
		for name, env := range map[string][]string{
			"a library that is told":              {native.EnvAXCL + "=" + simcardtest.Lib(t), "AXSIM_NOISE=both"},
			"a library that is told, no driver":   {native.EnvAXCL + "=" + simcardtest.Lib(t), "AXSIM_NOISE=stdout", "AXSIM_DEVICES=none"},
			"a library that nothing keeps silent": {native.EnvAXCL + "=" + noisy},
		} {
			if strings.Contains(name, "no driver") && c.Name() != "doctor" {
				continue
			}
			t.Run(c.Name()+"/"+name, func(t *testing.T) {
				host := u.addr
				if line.loads { // its own card, which no other process holds
					host = "127.0.0.1:1"
				}
				out, said, code := axleAlone(t, append(env, "AXLE_HOST="+host, "AXSIM_ROOT="+t.TempDir()),
					append([]string{c.Name(), "--json"}, line.args...)...)
				n := 0
				for dec := json.NewDecoder(strings.NewReader(out)); ; n++ {
					var v any
					if err := dec.Decode(&v); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatalf("%v in:\n%.1000s", err, out)
					}
				}
				if want := line.code; n == 0 || code != want && !strings.Contains(name, "no driver") {
					t.Errorf("%d values, exit %d:\n%.1000s\n%.1000s", n, code, out, said)
				}
				if line.loads && strings.Contains(name, "nothing") && !strings.Contains(said, "still here") {
					t.Errorf("there was no noise:\n%.1000s", said)
				}
			})
		}
	}
	if code := server.stop(); code != 0 || server.out.Len() > 0 {
		t.Errorf("the server ended with %d, and printed %.200q", code, server.out.String())
	}
}

// noisyLib is the simulated card behind a library that writes to standard output whenever it likes.
func noisyLib(t *testing.T) string {
	t.Helper()
	sim := simcardtest.Lib(t)
	dir := t.TempDir()
	lib := filepath.Join(dir, "libnoisy.so")
	if err := os.Symlink(sim, filepath.Join(dir, filepath.Base(sim))); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("gcc", "-std=gnu11", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", lib, "testdata/noisy.c", sim,
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return lib
}

// axleAlone runs a command line in a process of its own, as a program that reads its output does.
func axleAlone(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "AXLE_MODELS=" + t.TempDir(), "AXLE_TEST_MAIN=1"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
