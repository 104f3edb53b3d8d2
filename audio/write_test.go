package audio

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"unicode/utf8"
)

// TestWriteWAV: what is written is what sox writes, and reads back; a header without a length is
// read to the end.
func TestWriteWAV(t *testing.T) {
	samples := tone(400, 8000, 440, 0.5)
	got := AppendPCM(AppendWAVHeader(nil, 8000, len(samples)), samples)
	want := read(t, "s16.wav")
	if len(got) != len(want) || !slices.Equal(got[:44], want[:44]) {
		t.Errorf("the header differs from sox's: %d bytes % x, %d bytes % x", len(got), got[:44], len(want), want[:44])
	}
	for _, n := range []int{len(samples), -1} {
		back, info, err := Decode(AppendPCM(AppendWAVHeader(nil, 8000, n), samples), 0, Limits{})
		if err != nil || info != (Info{"wav", 8000, 1}) || ratio(back, samples) < 80 {
			t.Errorf("%d samples: %d, %+v, %v", n, len(back), info, err)
		}
	}
	for n, want := range map[int]uint32{0: 0, 5: 10, -1: 1<<32 - 1, 1 << 31: 1<<32 - 1} {
		h := AppendWAVHeader([]byte("x"), 24000, n)[1:]
		if size := binary.LittleEndian.Uint32(h[40:]); len(h) != 44 || size != want {
			t.Errorf("%d samples: %d bytes of header, which says %d", n, len(h), size)
		}
	}
}

// TestPCM: rounding and clipping.
func TestPCM(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	in := []float32{0, 0.5, -0.5, 1, -1, 2, -2, nan, inf, -inf, 0.6 / 32768, -0.6 / 32768, 0.4 / 32768, 32767.0 / 32768}
	want := []int16{0, 16384, -16384, 32767, -32768, 32767, -32768, 0, 32767, -32768, 1, -1, 0, 32767}
	got := AppendPCM([]byte("ab"), in)
	for i, w := range want {
		if g := int16(binary.LittleEndian.Uint16(got[2+2*i:])); g != w {
			t.Errorf("%g: %d, want %d", in[i], g, w)
		}
	}
	if len(got) != 2+2*len(in) {
		t.Errorf("%d bytes", len(got))
	}
}

// TestWriteFLAC: what is written reads back to the bit, and is smaller than PCM where it can be. If
// flac is installed, it agrees: with the sound's checksum, too.
func TestWriteFLAC(t *testing.T) {
	for name, s := range flacSounds() {
		file := AppendFLAC([]byte("before"), s, 24000)
		if string(file[:6]) != "before" {
			t.Fatal("what was there before is gone")
		}
		got, info, err := Decode(file[6:], 0, Limits{})
		if err != nil || info != (Info{"flac", 24000, 1}) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		if want := AppendPCM(nil, s); !slices.Equal(AppendPCM(nil, got), want) {
			t.Errorf("%s: another sound, %d samples of %d", name, len(got), len(s))
		}
		if tool, err := exec.LookPath("flac"); err == nil {
			cmd := exec.Command(tool, "--test", "--warnings-as-errors", "--silent", "-")
			cmd.Stdin = bytes.NewReader(file[6:])
			if out, err := cmd.CombinedOutput(); err != nil && len(s) > 0 { // it warns that there is nothing
				t.Errorf("%s: flac: %v\n%s", name, err, out)
			}
		}
		for i := range (len(s) + flacBlock - 1) / flacBlock { // players seek by the numbers of frames
			if !bytes.Contains(file, utf8.AppendRune([]byte{0xff, 0xf8, 0x70, 0x08}, rune(i))) {
				t.Errorf("%s: frame %d has another number", name, i)
			}
		}
		pieces, in := NewFLAC(24000), s
		var whole []byte
		for n := 1; len(in) > n; n = n*3 + 1 {
			piece := slices.Clone(in[:n])
			whole, in = pieces.Append(whole, piece, false), in[n:]
			clear(piece) // it is the caller's
		}
		whole = pieces.Append(whole, in, true)
		const head = 4 + 4 + 34
		if !bytes.Equal(whole[head:], file[6+head:]) || !bytes.Equal(whole[:head-16-4], file[6:6+head-16-4]) ||
			!bytes.Equal(whole[head-16-4:head], make([]byte, 16+4)) {
			t.Errorf("%s: another file of pieces", name)
		}
		if got, _, err := Decode(whole, 0, Limits{}); err != nil || !slices.Equal(AppendPCM(nil, got), AppendPCM(nil, s)) {
			t.Errorf("%s: another sound of pieces: %d samples of %d, %v", name, len(got), len(s), err)
		}
		most := 2*len(s)*102/100 + 64
		if name == "tone" || name == "silence" {
			most = len(s) * 3 / 2
		}
		if len(file) > most {
			t.Errorf("%s: %d bytes for %d samples", name, len(file), len(s))
		}
	}
}

// flacSounds are the corners of the encoder: every predictor, none, blocks that cannot be split,
// the widest residuals, and more frames than a number of one byte counts.
func flacSounds() map[string][]float32 {
	random := rand.New(rand.NewPCG(3, 4))
	noise, square := make([]float32, 10001), make([]float32, 8192)
	for i := range noise {
		noise[i] = random.Float32()*2 - 1
	}
	for i := range square {
		square[i] = float32(i%2*2-1) * 2
	}
	return map[string][]float32{"tone": tone(24000, 24000, 440, 0.5), "noise": noise, "square": square, "silence": make([]float32, 5000),
		"nothing": nil, "one": {0.25}, "three": {1, -1, 1}, "sixteen": tone(16, 24000, 440, 0.5), "prime": tone(4096+4093, 24000, 100, 1),
		"long":    tone(130*4096+1, 24000, 60, 0.1),
		"impulse": append(make([]float32, 4000), 1, -1, 1)}
}
