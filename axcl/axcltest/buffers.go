package axcltest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/graph"
)

// stepNet keeps a state from call to call: next is half the state and x, y is next and one. All its
// numbers are exact.
func stepNet(width int) *graph.Graph {
	g := graph.New()
	state, x := g.Input("state", axcl.FP32, 1, width), g.Input("x", axcl.FP32, 1, width)
	next := g.Add(g.Mul(state, g.Scalar(0.5)), x)
	g.Output("next", axcl.FP32, next)
	g.Output("y", axcl.FP32, g.Add(next, g.Scalar(1)))
	return g
}

// doubleNet gives twice what it is given.
func doubleNet(width int) *graph.Graph {
	g := graph.New()
	g.Output("twice", axcl.FP32, g.Mul(g.Input("once", axcl.FP32, 1, width), g.Scalar(2)))
	return g
}

func floats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

func floatBytes(v ...float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// checkBuffers: what is written to a buffer is read from it, whole or in part; a net goes on from a
// state that stays on the card, gives its output to another net there, and has its own memory again
// once a tensor is unbound; and what may not be is refused before the card is touched, and changes
// nothing.
func checkBuffers(t TB, d axcl.Device) {
	checkBufferBytes(t, d)
	widths := []int{3, 8}
	dir := t.TempDir()
	load := func(name string, of func(int) *graph.Graph) axcl.Net {
		path := filepath.Join(dir, name)
		if err := of(widths[0]).Save(path, of(widths[1])); err != nil {
			t.Fatalf("making a net: %v", err)
		}
		n, err := d.LoadNet(path)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		return n
	}
	step, double := load("step.axmodel", stepNet), load("double.axmodel", doubleNet)
	buffer := func(width int) axcl.Buffer {
		b, err := d.NewBuffer(4 * width)
		if err != nil {
			t.Fatalf("a buffer: %v", err)
		}
		return b
	}
	bind := func(n axcl.Net, g int, tensor string, b axcl.Buffer) {
		if err := n.Bind(g, tensor, b); err != nil {
			t.Fatalf("binding %s: %v", tensor, err)
		}
	}
	turns, y := [2]axcl.Buffer{buffer(widths[1]), buffer(widths[1])}, buffer(widths[1])
	var state [8]float32 // as it must be
	calls := 0
	for g, w := range widths {
		if g > 0 { // the wider group goes on from what the narrower one left
			bind(step, 0, "state", nil)
			bind(step, 0, "next", nil)
		}
		bind(step, g, "y", y)
		bind(double, g, "once", y)
		for range 3 {
			bind(step, g, "state", turns[calls%2])
			bind(step, g, "next", turns[(calls+1)%2])
			calls++
			var x, want []float32
			for i := range w {
				x = append(x, float32(calls*10+i))
				state[i] = state[i]/2 + x[i]
				want = append(want, 2*(state[i]+1))
			}
			twice := map[string][]byte{"twice": make([]byte, 4*w)}
			if err := errors.Join(step.Run(g, map[string][]byte{"x": floatBytes(x...)}, nil), double.Run(g, nil, twice)); err != nil {
				t.Fatalf("group %d: %v", g, err)
			}
			if got := floats(twice["twice"]); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("group %d, call %d: twice is %v, not %v", g, calls, got, want)
			}
		}
		if g == 0 { // what a narrower group's next call writes next to its state is not its own
			tail := make([]byte, 4*(widths[1]-w))
			if err := turns[calls%2].Read(4*w, tail); err != nil || !bytes.Equal(tail, make([]byte, len(tail))) {
				t.Errorf("behind a narrow state: %x, %v", tail, err)
			}
		}
	}
	// A part of a state is written; the rest of it stays.
	if err := turns[calls%2].Write(4, floatBytes(100)); err != nil {
		t.Fatalf("writing a part: %v", err)
	}
	state[1] = 100
	bind(step, 1, "state", turns[calls%2])
	bind(step, 1, "next", nil)
	out := map[string][]byte{"next": make([]byte, 4*widths[1])}
	if err := step.Run(1, map[string][]byte{"x": make([]byte, 4*widths[1])}, out); err != nil {
		t.Fatalf("with an output unbound: %v", err)
	}
	for i, v := range floats(out["next"]) {
		if v != state[i]/2 {
			t.Errorf("value %d of next is %v, not %v", i, v, state[i]/2)
		}
	}
	checkBindings(t, d, step, turns[calls%2], widths[1])
	for _, c := range []interface{ Close() error }{step, y, double, turns[0], turns[1]} { // a bound buffer may go first
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := step.Bind(0, "x", nil); !errors.Is(err, axcl.ErrClosed) {
		t.Errorf("binding a closed net: %v", err)
	}
}

// checkBufferBytes: bytes of the host, to the card and back.
func checkBufferBytes(t TB, d axcl.Device) {
	for _, size := range []int{0, -1} {
		if _, err := d.NewBuffer(size); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("a buffer of %d bytes: %v", size, err)
		}
	}
	const size = 5<<19 + 3
	b, err := d.NewBuffer(size)
	if err != nil {
		t.Fatalf("a buffer: %v", err)
	}
	if b.Size() != size {
		t.Errorf("it has %d bytes, not %d", b.Size(), size)
	}
	sent, got := make([]byte, size), make([]byte, size)
	if err := b.Read(0, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("a new buffer is not zero (%v)", err)
	}
	for i := range sent {
		sent[i] = byte(i*7 + i>>9)
	}
	if err := errors.Join(b.Write(0, sent), b.Read(0, got)); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what was written is not what is read (%v)", err)
	}
	part := got[size-9 : size-2]
	if err := errors.Join(b.Write(1<<20-1, []byte{1, 2, 3}), b.Read(1<<20-2, part)); err != nil ||
		!bytes.Equal(part, append(append([]byte{sent[1<<20-2]}, 1, 2, 3), sent[1<<20+2:1<<20+5]...)) {
		t.Errorf("a part: %x, %v", part, err)
	}
	for _, at := range []int{-1, size, size + 1, math.MaxInt} {
		if err := errors.Join(b.Write(at, []byte{1})); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("a byte written at %d: %v", at, err)
		}
		if err := errors.Join(b.Read(at, part)); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("bytes read at %d: %v", at, err)
		}
	}
	if err := errors.Join(b.Write(size, nil), b.Close()); err != nil {
		t.Errorf("nothing, and then close: %v", err)
	}
	for _, err := range []error{b.Close(), b.Write(0, part), b.Read(0, part)} {
		if !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	}
}

// checkBindings: what Bind and Run refuse. The state of the net is bound to b, in a group of that
// width.
func checkBindings(t TB, d axcl.Device, step axcl.Net, b axcl.Buffer, width int) {
	other, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatalf("software card: %v", err)
	}
	defer other.Close()
	theirs, err := other.NewBuffer(4 * width)
	if err != nil {
		t.Fatalf("a buffer of the software card: %v", err)
	}
	small, err := d.NewBuffer(4*width - 1)
	if err != nil {
		t.Fatalf("a buffer: %v", err)
	}
	gone, err := d.NewBuffer(4 * width)
	if err == nil {
		err = errors.Join(step.Bind(1, "x", gone), gone.Close())
	}
	if err != nil {
		t.Fatalf("a buffer that goes: %v", err)
	}
	pass := func(what string, err error) {
		if !errors.Is(err, axcl.ErrPass) {
			t.Errorf("%s: %v", what, err)
		}
	}
	x := map[string][]byte{"x": make([]byte, 4*width)}
	pass("a net bound to a buffer that is closed", step.Run(1, nil, nil))
	pass("binding to it", step.Bind(1, "y", gone))
	if err := step.Bind(1, "x", nil); err != nil {
		t.Errorf("unbinding a buffer that is closed: %v", err)
	}
	pass("a group there is not", step.Bind(2, "x", nil))
	pass("a group before the first", step.Bind(-1, "x", nil))
	pass("a tensor there is not", step.Bind(1, "z", nil))
	pass("a buffer of another device", step.Bind(1, "x", theirs))
	pass("a buffer that is too small", step.Bind(1, "x", small))
	pass("an input that is missing", step.Run(1, nil, nil))
	pass("an input that is bound and given", step.Run(1, map[string][]byte{"x": x["x"], "state": x["x"]}, nil))
	if err := step.Bind(1, "next", b); err != nil {
		t.Errorf("binding an output to what an input is bound to: %v", err)
	}
	pass("an input and an output of one buffer", step.Run(1, x, nil))
	if err := step.Bind(1, "next", nil); err != nil {
		t.Errorf("unbinding it: %v", err)
	}
	before, after := make([]byte, 4*width), make([]byte, 4*width)
	if err := errors.Join(b.Read(0, before), step.Run(1, x, nil), b.Read(0, after)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("after all that was refused, a run leaves %x of %x in its input (%v)", after, before, err)
	}
	pass("an output that is bound and asked for", step.Run(1, x, map[string][]byte{"y": before}))
	if err := small.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
