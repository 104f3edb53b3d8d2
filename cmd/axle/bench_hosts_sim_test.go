//go:build cgo && !fake && !scripted && linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/lane"
)

// TestBenchHosts: a conversation of Qwen3-4B's shape that moves to another machine over 1 GbE has
// its first token within 1.3 times what the network and the passes of its new rows take. All of it
// is on the virtual clock.
func TestBenchHosts(t *testing.T) {
	lane.Slow(t)
	unraced(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "bench", "qwen3-4b", "--device", "axcl", "--conversations", "2", "--turns", "1", "-p", "900", "-n", "2",
		"--cache-ram", "0", "--hosts", "2", "--json")
	cmd.Env = append(os.Environ(), "AXLE_TEST_MAIN=1", native.EnvAXCL+"="+simcardtest.Lib(t), "AXSIM_ROOT="+t.TempDir(),
		"AXSIM_CLOCK=virtual", "AXLE_MODELS="+t.TempDir(), "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(out, &r); err != nil || len(r.Models) != 1 || len(r.Models[0].Talks) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	c, ways := &r.Models[0].Talks[0], map[string]*bench.TalkWay{}
	for i := range c.Ways {
		ways[c.Ways[i].Kept] = &c.Ways[i]
	}
	alone, fetched, stayed := ways[bench.KeptNowhere], ways[bench.KeptOther], ways[bench.KeptCard]
	if alone == nil || fetched == nil || stayed == nil || fetched.Far == 0 || alone.Far != 0 {
		t.Fatalf("%+v", c.Ways)
	}
	const row = 2 * 36 * 8 * 128 * 2 // bytes: K and V of 36 layers, 8 heads of 128, in bf16
	network := float64(fetched.Far) * row / 117e6 * 1e3 / float64(len(fetched.First.Values))
	passes := stayed.First.Median // the same turn where the rows are: its new rows alone are evaluated
	t.Logf("first token %.0f ms at another machine, %.0f fetched; network %.0f ms, passes %.0f ms", alone.First.Median,
		fetched.First.Median, network, passes)
	if most := 1.3 * (network + passes); fetched.First.Median > most || fetched.First.Median < network {
		t.Errorf("the first token comes after %.0f ms; the network takes %.0f and the passes of new rows %.0f, %.0f may be",
			fetched.First.Median, network, passes, most)
	}
	if fetched.First.Median > 0.5*alone.First.Median {
		t.Errorf("%.0f ms fetched, %.0f evaluated", fetched.First.Median, alone.First.Median)
	}
}
