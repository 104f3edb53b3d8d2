package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/cmd/internal/inspection"
)

func TestCompileAndInspect(t *testing.T) {
	from, out := t.TempDir(), filepath.Join(t.TempDir(), "tiny")
	if _, err := axmodeltest.RandomCheckpoint(from, "qwen3", 1); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := axleCompile(t, "compile", from, out, "--context", "127", "--chunk", "16", "--history", "0, 32,64", "--quant",
		"int8", "--name", "q")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout, "3 layers") || !strings.Contains(stderr, "100%") || !strings.Contains(stderr, " KB to write\n") ||
		!strings.Contains(stderr, "--model-path "+out+", and then: axle run tiny\n") {
		t.Errorf("printed %q and %q", stdout, stderr)
	}
	stdout, _, err = axleCompile(t, "inspect", out)
	if err != nil || !strings.Contains(stdout, "decode 1+127, prefill 16+0, prefill 16+32, prefill 16+64") ||
		!strings.Contains(stdout, "card memory") {
		t.Errorf("%v\n%s", err, stdout)
	}
	var p struct {
		Layers, Hidden, Vocab, Cells int
		Groups                       []string
		Memory                       map[string]int64
	}
	stdout, _, err = axleCompile(t, "inspect", "--json", out)
	if err != nil || json.Unmarshal([]byte(stdout), &p) != nil || p.Layers != 3 || p.Hidden != 64 || p.Vocab != 320 || p.Cells != 127 ||
		len(p.Groups) != 4 || p.Memory["card_bytes"] <= 0 {
		t.Errorf("%v, %+v\n%s", err, p, stdout)
	}

	layer := filepath.Join(out, "q_p16_l0_together.axmodel")
	var f inspection.File
	stdout, _, err = axleCompile(t, "inspect", layer, "--json")
	if err != nil || json.Unmarshal([]byte(stdout), &f) != nil || f.Kind != "layer" || f.Format != "soft" || f.Layer == nil ||
		len(f.Layer.Groups) != 4 || f.Groups[3].Inputs[2].Raw != "mask_3" {
		t.Errorf("%v, %+v", err, f)
	}
	if stdout, _, err = axleCompile(t, "inspect", filepath.Join(out, "q_post.axmodel")); err != nil ||
		!strings.Contains(stdout, "out 320 bf16, largest on the card") {
		t.Errorf("%v\n%s", err, stdout)
	}

	vendor := filepath.Join(t.TempDir(), "v.axmodel")
	b := axmodeltest.VendorLayer(64, 32, 3, 1000, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 16, Cells: 0}).Marshal()
	if err := os.WriteFile(vendor, b, 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, err = axleCompile(t, "inspect", vendor)
	if err != nil || !strings.Contains(stdout, "Pulsar2 1.6 d9911bc5") || !strings.Contains(stdout, "mask_1") ||
		!strings.Contains(stdout, "groups 1+63 16+0") {
		t.Errorf("%v\n%s", err, stdout)
	}

	b = axmodeltest.VendorState(64, 1000, axcl.Tensor{Type: axcl.BF16, Shape: []int{1, 48, 3}},
		axcl.Tensor{Type: axcl.FP32, Shape: []int{1, 2, 8, 8}}, true, 1, 16).Marshal()
	if err := os.WriteFile(vendor, b, 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, err = axleCompile(t, "inspect", vendor)
	if err != nil || !strings.Contains(stdout, "linear layer") || !strings.Contains(strings.Join(strings.Fields(stdout), " "),
		"hidden 64, bf16 [1 48 3] and fp32 [1 2 8 8], 800 B; groups of 1 16 rows, indices or mask not listed") {
		t.Errorf("%v\n%s", err, stdout)
	}
	var g inspection.File
	stdout, _, err = axleCompile(t, "inspect", vendor, "--json")
	if err != nil || json.Unmarshal([]byte(stdout), &g) != nil || g.Kind != "linear layer" || g.State == nil || g.State.V.Bytes != 512 {
		t.Errorf("%v, %+v", err, g)
	}
}

// TestCompileState: --state is the type of what layers keep instead of rows: fp32 unless another is
// asked for. Layers with rows have none.
func TestCompileState(t *testing.T) {
	from := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(from, axmodeltest.StateArchs()[0], 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		kind  string
		width int
	}{{nil, "fp32", 4}, {[]string{"--state", "fp32"}, "fp32", 4}, {[]string{"--state", "fp16"}, "fp16", 2},
		{[]string{"--state=bf16"}, "bf16", 2}} {
		out := filepath.Join(t.TempDir(), "tiny")
		args := append([]string{"compile", from, out, "--context", "63", "--chunk", "16", "--history", "0"}, c.args...)
		if _, _, err := axleCompile(t, args...); err != nil {
			t.Fatal(err)
		}
		for layer, linear := range map[string]bool{"0": true, "3": false} {
			var f inspection.File
			stdout, _, err := axleCompile(t, "inspect", "--json", filepath.Join(out, "qwen3_5_text_p16_l"+layer+"_together.axmodel"))
			if err != nil || json.Unmarshal([]byte(stdout), &f) != nil || (f.State != nil) != linear {
				t.Fatalf("layer %s: %v\n%s", layer, err, stdout)
			}
			if linear && (f.State.K.Type != c.kind || f.State.V.Type != c.kind || f.State.V.Bytes != 4*32*32*c.width) {
				t.Errorf("%q: %+v", c.args, f.State)
			}
		}
	}
}

// axleCompile runs a command line and gives what it printed.
func axleCompile(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRootCmd()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestCompileUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"compile"}, "usage: axle compile HF_DIR DIR"},
		{[]string{"compile", "x"}, "usage: axle compile HF_DIR DIR"},
		{[]string{"compile", "x", "y", "--out", "z"}, "y is given twice"},
		{[]string{"compile", "--from", "x", "--out", "y", "--history", "0,many"}, `"many"`},
		{[]string{"compile", "--from", "x", "--out", "y", "--context", "0"}, "--context"},
		{[]string{"compile", "--from", "x", "--out", "y", "--picture", "384"}, `"384" is not a size`},
		{[]string{"compile", "--from", "x", "--out", "y", "--picture", "384x-1"}, `"384x-1" is not a size`},
		{[]string{"compile", "--from", "x", "--out", "y", "--state", "int8"}, `--state is bf16, fp16 or fp32, got "int8"`},
		{[]string{"compile", "--from", "x", "--out", "y", "--state", ""}, `--state is bf16, fp16 or fp32, got ""`},
		{[]string{"compile", "--from", "x", "--out", "y", "--chunk", "0"}, "--chunk"},
		{[]string{"compile", "--from", filepath.Join(t.TempDir(), "x"), "--out", "y"}, "cannot be opened"},
		{[]string{"inspect"}, "arg"},
		{[]string{"inspect", filepath.Join(t.TempDir(), "x")}, "no such folder"},
		{[]string{"inspect", t.TempDir()}, ""},
	} {
		if _, _, err := axleCompile(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want an error that says %q", c.args, err, c.want)
		}
	}
}
