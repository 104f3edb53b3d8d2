//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
)

// TestOffline (D5): a card to which no message can be sent any more ends the server with 75,
// whatever call it is found by.
func TestOffline(t *testing.T) {
	//proves:D5
	t.Parallel()
	p := newUnit(t).start("AXSIM_FAULT=MemcpyAsync:500:0x8030040c:sticky")
	path, body := question(0, prompts[0])
	for range 100 {
		if o := ask(context.Background(), http.DefaultClient, p.url+path, body); o.end != endWhole {
			break
		}
	}
	if c := p.code(); c != exitLost || !strings.Contains(p.said(), "the card is offline") {
		t.Errorf("exit code %d, want %d", c, exitLost)
	}
}

// TestTooOldRuntime: a runtime that refuses asynchronous executes ends the server with the code
// after which it is not started again.
func TestTooOldRuntime(t *testing.T) {
	//proves:D5
	t.Parallel()
	p := newUnit(t).start("AXSIM_FAULT=ExecuteAsync:*:4")
	path, body := question(0, prompts[0])
	if o := ask(context.Background(), http.DefaultClient, p.url+path, body); o.end != endRefused {
		t.Errorf("%+v", o)
	}
	if c := p.code(); c != exitUsage || !strings.Contains(p.said(), "too old: 3.6 or later") ||
		strings.Contains(p.said(), "must be restarted") {
		t.Errorf("exit code %d, want %d", c, exitUsage)
	}
	unit, err := os.ReadFile("../../packaging/axle.service")
	if err != nil || !strings.Contains(string(unit), "\nRestartPreventExitStatus=2\n") {
		t.Errorf("the unit starts the server again all the same: %v", err)
	}
}

// TestStarting (D1): while the device is being opened, health does not say that all is well.
func TestStarting(t *testing.T) {
	//proves:D1
	t.Parallel()
	p := newUnit(t).start("AXSIM_FAULT=axclInit:0:hang")
	res, err := http.Get(p.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var h struct{ Status string }
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil || res.StatusCode != http.StatusServiceUnavailable ||
		h.Status != "starting" && h.Status != "lost" { // the watchdog was quicker than this machine
		t.Errorf("%d %+v, %v", res.StatusCode, h, err)
	}
}

// TestDoctorEnds: the first signal ends doctor, though the library hangs.
func TestDoctorEnds(t *testing.T) {
	//proves:D7
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		state := t.TempDir()
		cmd := exec.Command(exe, "doctor", "--device", "axcl")
		cmd.Env = append(os.Environ(), "AXLE_TEST_MAIN=1", native.EnvAXCL+"="+simcardtest.Lib(t), "AXSIM_STATE="+state,
			"AXSIM_FAULT=GetDeviceList:0:hang")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for { // until it hangs
			if m, err := filepath.Glob(filepath.Join(state, "fault.*")); err != nil || len(m) > 0 {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if c := cmd.ProcessState.ExitCode(); c != exitInterrupted {
			t.Errorf("%v: %v, want exit code %d", sig, cmd.ProcessState, exitInterrupted)
		}
	}
}
