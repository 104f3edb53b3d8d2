//go:build cgo && !fake && linux

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl/simcard"
	"github.com/axle-llm/axle/cmd/internal/diagnosis"
	"github.com/axle-llm/axle/internal/lane"
)

func TestDoctorSimulator(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t) // axcl/native runs the suite on the simulated card under it
	libs, err := simcard.Build("")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_AXCL_LIB", libs.AXCL)
	t.Setenv("AXLE_AXENGINE_LIB", filepath.Dir(libs.Engine))
	var d diagnosis.Diagnosis
	t.Run("two cards", func(t *testing.T) {
		t.Setenv("AXSIM_DEVICES", "2")
		t.Setenv("AXSIM_TEMPERATURE", "87")
		out, code := doctor(t, "--json", "--device", "axcl:1", "--conformance")
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 || !d.OK || d.Device != "axcl:1" || len(d.Devices) != 2 ||
			d.Devices[0].TotalCMM != 7040<<20 ||
			d.Devices[0].Temperature == nil || len(d.Libraries) != 1 || !d.Libraries[0].Simulated || len(d.Conformance) < 10 {
			t.Errorf("exit %d, %v:\n%s", code, err, out)
		}
	})
	t.Run("on board", func(t *testing.T) {
		if out, code := doctor(t, "--device", "axengine"); code != 0 || !strings.Contains(out, "axengine can be used") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
	t.Run("auto", func(t *testing.T) {
		if out, code := doctor(t); code != 0 || !strings.Contains(out, "axcl:0 can be used: an AXCL card is there.") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
	// The vendor's library on a machine without a card: axclInit fails, the version is known all
	// the same.
	t.Run("no driver", func(t *testing.T) {
		t.Setenv("AXSIM_DEVICES", "none")
		out, code := doctor(t, "--device", "axcl")
		for _, want := range []string{"version 3.10.2", "device: open failed (0x8030010b)", "No card can be used."} {
			if words := strings.Join(strings.Fields(out), " "); code != 1 || !strings.Contains(words, want) {
				t.Errorf("exit %d, no %q in:\n%s", code, want, out)
			}
		}
		if n := strings.Count(out, "PROBLEM"); n != 1 {
			t.Errorf("%d problems for one missing driver:\n%s", n, out)
		}
		narrow(t, out)
	})
	t.Run("a card that does not do what it must", func(t *testing.T) {
		t.Setenv("AXSIM_HAZARDS", "strict,mask-shared")
		out, code := doctor(t, "--device", "axcl", "--conformance")
		if code != 1 || !strings.Contains(out, "rows of several sequences in one pass") ||
			!strings.Contains(out, "does not do what it must") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	})
}
