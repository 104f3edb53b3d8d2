//go:build cgo && !fake && linux

package diagnosis

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/models"
)

// TestGivesUp: a library that hangs is given up, wherever it does, and what was found before is
// told, with what to do.
func TestGivesUp(t *testing.T) {
	//proves:D7 gives up on such a library, says what it knows, and ends with the first signal
	for _, tt := range []struct {
		name, fault, call string
		say               []string
		found             bool // the card had answered before
	}{
		{"as it starts", "axclInit:0:hang", "axclInit", []string{"the vendor's library did not answer within", "load the driver anew"},
			false},
		{"as it lists cards", "GetDeviceList:0:hang", "axclrtGetDeviceList", []string{"the vendor's library did not answer within"}, false},
		{"as it tells of the card", "GetDeviceProperties:1:hang", "axclrtGetDeviceProperties",
			[]string{"the vendor's library did not answer within"}, false},
		{"in a load", "LoadFromFile:0:hang", "axclrtEngineLoadFromFile", []string{"loading ", "did not answer within",
			"the card is wedged"}, true},
		{"in an execute", "ExecuteAsync:0:hang", "axclrtEngineExecuteAsync",
			[]string{"executing ", "which was loaded, did not answer within", "the card is wedged"}, true},
		{"in the suite", "ExecuteAsync:0:hang", "axclrtEngineExecuteAsync",
			[]string{`the check "`, `" did not answer within 40h`, "the card is wedged"}, true},
		{"as it is closed", "axclFinalize:0:hang", "axclFinalize", []string{"closing the card did not answer within", "the card is wedged"},
			true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := own(t, "fault="+tt.fault)
			enough := make(chan struct{})
			go func() {
				for sim.Calls(tt.call) == 0 || tt.call == "axclrtGetDeviceProperties" && sim.Calls(tt.call) < 2 { // its second
					<-time.After(time.Millisecond)
				}
				close(enough)
			}()
			o := Options{Device: "axcl", Model: tiny(t), Patience: time.Hour, enough: enough}
			if tt.name == "in the suite" {
				o.Conformance, o.Model = true, ""
			}
			d, err := Run(context.Background(), o)
			if err != nil || d.OK || (d.Device == "axcl:0") != tt.found {
				t.Fatalf("%+v, %v", d, err)
			}
			said := text(d)
			for _, want := range append(tt.say, "PROBLEM", "kernel ") {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q: %s", want, said)
				}
			}
			if n := strings.Count(said, "PROBLEM"); n != 1 {
				t.Errorf("%d problems for one: %s", n, said)
			}
			if err := sim.Reset(); err != nil { // ends the hang, and the goroutine
				t.Error(err)
			}
		})
	}
	t.Run("the time is over", func(t *testing.T) {
		sim := own(t, "fault=axclInit:0:hang")
		d, err := Run(context.Background(), Options{Device: "auto", Patience: time.Millisecond})
		if err != nil || d.OK || !strings.Contains(text(d), "within 1ms") {
			t.Errorf("%+v, %v", d, err)
		}
		hung(sim)
		if err := sim.Reset(); err != nil {
			t.Error(err)
		}
	})
	t.Run("told to end", func(t *testing.T) {
		sim := own(t, "fault=axclInit:0:hang")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if d, err := Run(ctx, Options{Device: "axcl", Patience: time.Hour}); !errors.Is(err, context.Canceled) || d != nil {
			t.Errorf("%+v, %v", d, err)
		}
		hung(sim)
		if err := sim.Reset(); err != nil {
			t.Error(err)
		}
	})
}

// TestTryLayer: with a model a layer is loaded and executed once, and a card that loads and does
// not execute is found.
func TestTryLayer(t *testing.T) {
	//proves:D7
	for _, tt := range []struct {
		name, fault string
		model       string
		ok          bool
		say         string
	}{
		{"a card that works", "", "", true, "loaded and executed once"},
		{"one that does not execute", "ExecuteAsync:0:0x8030070c", "", false, "it was loaded and does not execute"},
		{"one that does not load", "LoadFromFile:0:0x80300701", "", false, "axclrtEngineLoadFromFile"},
		{"no model", "", t.TempDir(), false, "PROBLEM conformance: a layer of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := own(t, "fault="+tt.fault)
			if tt.model == "" {
				tt.model = tiny(t)
			}
			named := func(name string) (*models.Package, error) { // as a store does
				if name != "a name" {
					t.Errorf("%q is opened", name)
				}
				return models.Open(tt.model)
			}
			d, err := Run(context.Background(), Options{Device: "axcl", Model: "a name", OpenPackage: named, Patience: time.Hour})
			if err != nil || d.OK != tt.ok || !strings.Contains(text(d), tt.say) || len(d.Conformance) != 1 {
				t.Errorf("%+v, %v", d, err)
			}
			if n := sim.Calls("axclrtEngineLoadFromFile"); tt.ok && n != 1 {
				t.Errorf("%d files were loaded", n)
			}
			if n := sim.Live(); n != (simhook.Counts{}) {
				t.Errorf("left on the card: %+v", n)
			}
		})
	}
}

// TestConformanceOffline: where no message reaches the card any more, the suite ends with the check
// that finds it, and says so.
func TestConformanceOffline(t *testing.T) {
	runtime.LockOSThread() // a device belongs to the thread that opened it
	defer runtime.UnlockOSThread()
	sim := own(t, "")
	d := Examine("axcl")
	if err := sim.Configure("hazards=strict,offline"); err != nil {
		t.Fatal(err)
	}
	if d.Conform(context.Background(), "axcl", "", time.Hour, func(string, time.Duration, string) {}) {
		t.Error("the suite was run to its end")
	}
	if len(d.Conformance) != 1 || d.OK || !strings.Contains(text(d), "device lost") {
		t.Errorf("%d checks, OK %v: %s", len(d.Conformance), d.OK, text(d))
	}
}

// hung waits until axclInit hangs: a reset before that would end no hang.
func hung(sim *simhook.Sim) {
	for sim.Calls("axclInit") == 0 {
		<-time.After(time.Millisecond)
	}
}

// own gives the test a simulated card of its own: a library that was given up cannot be used again
// in the same process.
func own(t *testing.T, config string) *simhook.Sim {
	t.Helper()
	b, err := os.ReadFile(simcardtest.Lib(t))
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(t.TempDir(), "libaxcl_rt.so")
	if err := os.WriteFile(lib, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(native.EnvAXCL, lib)
	sim, err := simhook.Attach(lib)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Configure(config); err != nil {
		t.Fatal(err)
	}
	return sim
}

func tiny(t *testing.T) string {
	t.Helper()
	dir, y := t.TempDir(), axcltest.DefaultTiny()
	if _, err := y.Write(dir, "qwen3"); err != nil {
		t.Fatal(err)
	}
	var table []byte
	for _, v := range axcltest.Rows(1, y.Vocab, y.Hidden) {
		table = binary.LittleEndian.AppendUint16(table, v)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.embed_tokens.weight.bfloat16.bin"), table, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func text(d *Diagnosis) string {
	var b strings.Builder
	d.Print(&b)
	return strings.Join(strings.Fields(b.String()), " ")
}
