package cards

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

func TestOpenSpecs(t *testing.T) {
	//proves:D1
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.Setenv("AXLE_AXCL_LIB", t.TempDir()+"/none.so")
	t.Setenv("AXLE_AXENGINE_LIB", t.TempDir())
	for _, tt := range []struct{ spec, kind, text string }{
		{"", "soft", "software card computes"},
		{"auto", "soft", "no card can be used ("},
		{"soft", "soft", "asked for"},
		{"soft:threads=2,cmm=4G", "soft", "asked for"},
		{"soft:kernels=go", "soft", "was asked for: it computes with Go"},
		{"soft:kernels=abacus", "", `kernels "abacus" are not among those that this processor can run: go`},
		{"soft:cmm=9G9", "", `"9G9" is no number for cmm`},
		{"soft:threads=5000", "", `"5000" is no number for threads`},
		{"soft:cmm=9223372036854775807G", "", "is no number for cmm"},
		{"soft:speed=9", "", `unknown option "speed"`},
		{"axcl:x", "", "the number of a card is expected"},
		{"axcl:-1", "", "the number of a card is expected"},
		{"auto:1", "", "unknown device"},
		{"axengine:1", "", "unknown device"},
		{"gpu", "", `unknown device "gpu"`},
		{"axcl", "", "no device"},
		{"axcl:1", "", "no device"},
		{"axengine", "", "no device"},
	} {
		t.Run(tt.spec, func(t *testing.T) {
			d, why, err := Open(tt.spec)
			if tt.kind == "" {
				if err == nil || d != nil {
					t.Fatalf("Open gave %v, %v", d, err)
				}
				if tt.text == "no device" {
					if !errors.Is(err, axcl.ErrNoDevice) {
						t.Fatalf("%v is not ErrNoDevice", err)
					}
				} else if !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("%v, want %q", err, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			i, err := d.Info()
			if err != nil || i.Kind != tt.kind || !strings.Contains(why, tt.text) || strings.Contains(why, "\n") {
				t.Fatalf("kind %q, why %q, err %v", i.Kind, why, err)
			}
		})
	}
}

func TestSoftOptions(t *testing.T) {
	d, err := openSoft("cmm=3M")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if i, _ := d.Info(); i.TotalCMM != 3<<20 {
		t.Errorf("TotalCMM %d", i.TotalCMM)
	}
	if _, ok := d.(*soft.Device); !ok {
		t.Errorf("%T", d)
	}
}
