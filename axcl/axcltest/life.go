package axcltest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

func checkBadModels(t TB, d axcl.Device) {
	before, err := d.Info()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	spec := write(t, DefaultTiny())
	dir := t.TempDir()
	other := DefaultTiny()
	other.KVHeads = 4
	otherSpec, err := other.Write(dir, "other")
	if err != nil {
		t.Fatalf("making a model: %v", err)
	}
	wide := DefaultTiny()
	wide.Hidden = 128
	wideSpec, err := wide.Write(dir, "wide")
	if err != nil {
		t.Fatalf("making a model: %v", err)
	}
	file := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatalf("%v", err)
		}
		return p
	}
	whole, err := os.ReadFile(spec.Layers[1])
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, x := range []struct {
		name string
		spec axcl.LoadSpec
		say  []string // each in the error's text
	}{
		{"no layers", axcl.LoadSpec{}, []string{"no layers"}},
		{"missing file", axcl.LoadSpec{Layers: []string{spec.Layers[0], filepath.Join(dir, "none.axmodel")}}, []string{"none.axmodel"}},
		{"empty file", axcl.LoadSpec{Layers: []string{file("empty.axmodel", nil)}}, []string{"empty.axmodel"}},
		{"LFS pointer", axcl.LoadSpec{Layers: []string{file("lfs.axmodel",
			[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"))}}, []string{"lfs.axmodel", "LFS"}},
		{"cut short", axcl.LoadSpec{Layers: []string{spec.Layers[0], file("cut.axmodel", whole[:len(whole)/2])}}, []string{"cut.axmodel"}},
		{"layers that disagree", axcl.LoadSpec{Layers: []string{spec.Layers[0], otherSpec.Layers[1]}, Head: spec.Head},
			[]string{filepath.Base(otherSpec.Layers[1])}},
		{"a head as a layer", axcl.LoadSpec{Layers: []string{spec.Head}}, []string{filepath.Base(spec.Head)}},
		{"a layer as a head", axcl.LoadSpec{Layers: spec.Layers, Head: spec.Layers[0]}, []string{filepath.Base(spec.Layers[0])}},
		{"a head of another model", axcl.LoadSpec{Layers: spec.Layers, Head: wideSpec.Head}, []string{filepath.Base(wideSpec.Head)}},
	} {
		m, err := axcl.Load(context.Background(), d, x.spec)
		if err == nil {
			_ = m.Close()
			t.Errorf("%s: loaded", x.name)
			continue
		}
		if !errors.Is(err, axcl.ErrModel) || axcl.Fatal(err) {
			t.Errorf("%s: %v is not ErrModel, or is fatal", x.name, err)
		}
		for _, s := range x.say {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not name %s", x.name, err, s)
			}
		}
	}
	if after, err := d.Info(); err != nil || after.FreeCMM != before.FreeCMM {
		t.Errorf("%d bytes were free before, %d after (%v)", before.FreeCMM, after.FreeCMM, err)
	}
	_ = load(t, d, spec)
}

func checkCancel(t TB, d axcl.Device) {
	spec := write(t, DefaultTiny())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	spec.Progress = func(_, done, _ int) {
		if done == 1 {
			cancel()
		}
	}
	before, _ := d.Info()
	if _, err := axcl.Load(ctx, d, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled load gave %v", err)
	}
	if after, err := d.Info(); err != nil || after.FreeCMM != before.FreeCMM {
		t.Errorf("%d bytes were free before, %d after (%v)", before.FreeCMM, after.FreeCMM, err)
	}
	spec.Progress = nil
	_ = load(t, d, spec)
}

// checkLoader loads a model file by file beside one that runs meanwhile, and gives one up halfway.
func checkLoader(t TB, d axcl.Device) {
	spec, ctx := write(t, DefaultTiny()), context.Background()
	beside := load(t, d, spec)
	before, _ := d.Info()
	say := func(m axcl.Model) any {
		out, err := play(m, script{passes: prompt(1, 0, 3, 1, func(i int) uint32 { return uint32(i) })}, false,
			func(token uint64) []uint16 { return Rows(token, 1, m.Shape().Hidden) })
		if err != nil {
			t.Fatalf("a pass: %v", err)
		}
		return out
	}
	want := say(beside)
	begin := func() axcl.Loader {
		l, err := d.Loader(spec)
		if err != nil {
			t.Fatalf("loader: %v", err)
		}
		return l
	}
	over := func(what string, l axcl.Loader) {
		if _, err := l.Next(ctx); !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s, and then another file: %v", what, err)
		}
		if err := l.Close(); !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s, and then closed: %v", what, err)
		}
	}
	l := begin()
	for n := 0; ; n++ {
		if l.Model() != nil {
			t.Errorf("there is a model after %d of %d files", n, len(l.Order()))
		}
		done, err := l.Next(ctx)
		if err != nil {
			t.Fatalf("file %d: %v", n, err)
		}
		if got := say(beside); !reflect.DeepEqual(got, want) {
			t.Errorf("the model beside it says something else after file %d", n)
		}
		if done != (n == len(l.Order())) {
			t.Fatalf("after %d of %d files: done %v", n+1, len(l.Order()), done)
		}
		if done {
			break
		}
	}
	m := l.Model()
	if m == nil {
		t.Fatalf("no model")
	}
	over("done", l)
	if got := say(m); !reflect.DeepEqual(got, want) {
		t.Errorf("loaded by files it says something else")
	}
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, how := range []string{"given up", "cancelled"} {
		l := begin()
		if _, err := l.Next(ctx); err != nil {
			t.Fatalf("the first file: %v", err)
		}
		if how == "given up" {
			if err := l.Close(); err != nil {
				t.Errorf("giving up: %v", err)
			}
		} else if _, err := l.Next(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		over(how, l)
		if after, err := d.Info(); err != nil || after.FreeCMM != before.FreeCMM {
			t.Errorf("%s: %d bytes were free before, %d after (%v)", how, before.FreeCMM, after.FreeCMM, err)
		}
	}
	if got := say(beside); !reflect.DeepEqual(got, want) {
		t.Errorf("the model beside them says something else")
	}
	l = begin()
	if _, err := l.Next(ctx); err != nil {
		t.Fatalf("the first file: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing the device with a load under way: %v", err)
	}
	over("the device closed", l)
}

func checkNet(t TB, d axcl.Device) {
	const in, out = 24, 10
	path := filepath.Join(t.TempDir(), "affine.axmodel")
	w, b, err := WriteAffine(path, 5, in, out)
	if err != nil {
		t.Fatalf("making a model: %v", err)
	}
	n, err := d.LoadNet(path)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if n.Groups() != 2 {
		t.Fatalf("%d groups, not 2", n.Groups())
	}
	for g, rows := range []int{1, 4} {
		x, y := n.Inputs(g), n.Outputs(g)
		if len(x) != 1 || len(y) != 1 || x[0].Name != "x" || y[0].Name != "y" || x[0].Size != rows*in*4 || y[0].Size != rows*out*4 ||
			x[0].Type != axcl.FP32 {
			t.Fatalf("group %d: %+v, %+v", g, x, y)
		}
		xs, ys := make([]byte, x[0].Size), make([]byte, y[0].Size)
		for i := range rows * in {
			binary.LittleEndian.PutUint32(xs[i*4:], math.Float32bits(float32(i%7-3)))
		}
		if err := n.Run(g, map[string][]byte{"x": xs}, map[string][]byte{"y": ys}); err != nil {
			t.Fatalf("run: %v", err)
		}
		for r := range rows {
			for o := range out {
				want := b[o]
				for i := range in {
					want += w[o*in+i] * float32((r*in+i)%7-3)
				}
				if got := math.Float32frombits(binary.LittleEndian.Uint32(ys[(r*out+o)*4:])); got != want {
					t.Fatalf("group %d, row %d: y[%d] is %v, not %v", g, r, o, got, want)
				}
			}
		}
		if err := n.Run(g, map[string][]byte{"x": xs}, nil); err != nil {
			t.Errorf("run without outputs: %v", err)
		}
		for name, io := range map[string][2]map[string][]byte{
			"no input":        {{}, {"y": ys}},
			"unknown input":   {{"x": xs, "z": xs}, {"y": ys}},
			"misnamed input":  {{"z": xs}, {"y": ys}},
			"short input":     {{"x": xs[1:]}, {"y": ys}},
			"unknown output":  {{"x": xs}, {"z": ys}},
			"too long output": {{"x": xs}, {"y": append(ys, 0)}},
		} {
			if err := n.Run(g, io[0], io[1]); !errors.Is(err, axcl.ErrPass) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, g := range []int{-1, 2} {
		if err := n.Run(g, nil, nil); !errors.Is(err, axcl.ErrPass) || n.Inputs(g) != nil || n.Outputs(g) != nil {
			t.Errorf("group %d: %v, %v, %v", g, err, n.Inputs(g), n.Outputs(g))
		}
	}
	if err := n.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := n.Close(); !errors.Is(err, axcl.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if err := n.Run(0, nil, nil); !errors.Is(err, axcl.ErrClosed) {
		t.Errorf("run after close: %v", err)
	}
	if _, err := d.LoadNet(path + ".none"); !errors.Is(err, axcl.ErrModel) {
		t.Errorf("a missing file: %v", err)
	}
}

// checkLayerNet calls a layer by its tensors, as one would any model, and compares with what the
// software card gives.
func checkLayerNet(t TB, d axcl.Device) {
	y := DefaultTiny()
	y.Layers = 1
	path := write(t, y).Layers[0]
	other, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatalf("software card: %v", err)
	}
	defer other.Close()
	var outs [2][]map[string][]byte
	for k, dev := range []axcl.Device{other, d} {
		n, err := dev.LoadNet(path)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		for g := range n.Groups() {
			in, out := map[string][]byte{}, map[string][]byte{}
			for _, x := range n.Inputs(g) {
				b := make([]byte, x.Size)
				if x.Name == "input" || x.Name == "K_cache" || x.Name == "V_cache" {
					for i, v := range Rows(uint64(g)+9, x.Size/2, 1) {
						binary.LittleEndian.PutUint16(b[i*2:], v)
					}
				}
				in[x.Name] = b
			}
			for _, x := range n.Outputs(g) {
				out[x.Name] = make([]byte, x.Size)
			}
			if err := n.Run(g, in, out); err != nil {
				t.Fatalf("group %d: %v", g, err)
			}
			outs[k] = append(outs[k], out)
		}
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	for g, want := range outs[0] {
		if len(want) != 3 {
			t.Errorf("group %d: %d outputs", g, len(want))
		}
		for name, w := range want {
			if c := Cosine(halves(outs[1][g][name]), halves(w)); !(c >= Same) {
				t.Errorf("group %d, %s: cosine %.6f", g, name, c)
			}
		}
	}
}

func halves(b []byte) []uint16 {
	v := make([]uint16, len(b)/2)
	for i := range v {
		v[i] = binary.LittleEndian.Uint16(b[i*2:])
	}
	return v
}

func checkClose(t TB, d axcl.Device) {
	spec := write(t, DefaultTiny())
	m := load(t, d, spec)
	n, err := d.LoadNet(spec.Head)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	embed := func(token uint64) []uint16 { return Rows(token, 1, m.Shape().Hidden) }
	_, infoErr := d.Info()
	_, loadErr := axcl.Load(context.Background(), d, spec)
	_, netErr := d.LoadNet(spec.Head)
	_, runErr := play(m, script{passes: prompt(1, 0, 1, 1, func(int) uint32 { return 0 })}, false, embed)
	for what, err := range map[string]error{"close": d.Close(), "info": infoErr, "load": loadErr, "load net": netErr, "run": runErr,
		"close model": m.Close(), "close net": n.Close(), "run net": n.Run(0, nil, nil)} {
		if !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("%s after close: %v", what, err)
		}
	}
}
