//go:build !scripted

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/singlenet"
	"github.com/axle-llm/axle/internal/npy"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestRunNet: a net is called with arrays from files, what it gives is printed and written, and the
// files go in again; what does not fit is told with both sides. Its calls are timed.
func TestRunNet(t *testing.T) {
	t.Setenv("AXLE_HOST", "http://127.0.0.1:1")
	e := modelstest.TextEncoder{Seed: 5, Length: 128, Dims: 16, Layers: 1}
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	net, ids, out := e.Path(dir), filepath.Join(dir, "ids.npy"), filepath.Join(dir, "out", "of it")
	array := func(kind string, n int, first int32) {
		a := &npy.Array{Type: kind, Dims: []int{n}, Data: make([]byte, 4*n)}
		binary.LittleEndian.PutUint32(a.Data, uint32(first))
		var b bytes.Buffer
		if err := npy.Write(&b, a); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ids, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	array("<i4", 128, 2)
	soft := func(args ...string) (string, error) {
		text, _, err := command(t, append(args, "--device", "soft")...)
		return text, err
	}
	text, err := soft("run-net", net, "--input", "input_ids="+ids, "--out", out)
	if err != nil || !strings.Contains(text, "dense_vecs    fp32  [1 16]") || !strings.Contains(text, "the call took") {
		t.Errorf("%v\n%s", err, text)
	}
	b, err := os.ReadFile(filepath.Join(out, "colbert_vecs.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := npy.Read(bytes.NewReader(b), 1<<20); err != nil || a.Type != "<f4" || !slices.Equal(a.Dims, []int{1, 127, 16}) {
		t.Errorf("%+v %v", a, err)
	}
	if list, err := os.ReadDir(out); err != nil || len(list) != 3 {
		t.Errorf("%v %v", list, err)
	}
	zeros, err := soft("run-net", net, "--zeros")
	if err != nil || strings.Split(zeros, "\n")[1] == strings.Split(text, "\n")[1] {
		t.Errorf("zeros give what the ids gave: %v %s", err, zeros)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if text, err := soft(append([]string{"run-net", net}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v\n%s", args, err, text)
		}
	}
	refused("input input_ids is not given: --input 'input_ids=FILE.npy' of int32 [1 128], or --zeros")
	refused("the net has no input x; it takes input_ids (int32 [1 128])", "--input", "x="+ids)
	refused("NAME=FILE.npy is expected", "--input", "input_ids")
	refused("is given twice", "--input", "input_ids="+ids, "--input", "input_ids="+ids)
	refused("there is no group 1", "--group", "1", "--zeros")
	refused("there is no group -1", "--group", "-1", "--zeros")
	refused("no such file", "--input", "input_ids="+ids+"x")
	array("<f4", 128, 0)
	refused("holds <f4 [128], input input_ids is int32 [1 128]: <i4", "--input", "input_ids="+ids)
	array("<i4", 127, 0)
	refused("holds <i4 [127]", "--input", "input_ids="+ids)
	array("<i4", 129, 0)
	refused("takes more than the 512 bytes allowed", "--input", "input_ids="+ids)
	if _, err := soft("run-net", ids, "--zeros"); err == nil {
		t.Error("a .npy file is run as a net")
	}

	text, err = soft("bench", net, "-r", "4")
	if err != nil || !strings.Contains(text, "MEDIAN") || !strings.Contains(text, "input_ids (int32 [1 128])") ||
		!strings.Contains(text, "on soft") || !strings.Contains(text, ", loaded in ") || strings.Contains(text, "card memory") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = soft("bench", net, "-r", "4", "--json")
	var all singlenet.Report
	if jerr := json.Unmarshal([]byte(text), &all); err != nil || jerr != nil || all.Net != net || all.Device == "" || all.Load <= 0 ||
		all.Card != 0 || all.Warm != 3 || len(all.Groups) != 1 {
		t.Fatalf("%v %v %+v", err, jerr, all)
	}
	if g := all.Groups[0]; g.Calls != 4 || g.Least <= 0 || g.Least > g.Median || g.Median > g.Largest || g.Mean < g.Least ||
		g.Mean > g.Largest || g.Bytes != 4*(128+16+128+127*16) {
		t.Errorf("%+v", g)
	}
	if _, err := soft("bench", net, "-r", "0"); err == nil || !strings.Contains(err.Error(), "between 1 and 100000") {
		t.Errorf("no calls: %v", err)
	}
}
