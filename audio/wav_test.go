package audio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWAVForms: what sox and ffmpeg write is the tone that it was made from, in every form.
func TestWAVForms(t *testing.T) {
	want := tone(400, 8000, 440, 0.5)
	for _, c := range []struct {
		name     string
		channels int
		off      float64 // at most
	}{
		{"u8.wav", 1, 1.0 / 128}, {"s16.wav", 1, 1.0 / 32768}, {"s24.wav", 1, 2e-7}, {"s32.wav", 1, 1e-7},
		{"f32.wav", 1, 1e-7}, {"f64.wav", 1, 1e-7}, {"alaw.wav", 1, 0.5 / 32}, {"mulaw.wav", 1, 0.5 / 32}, {"six.wav", 6, 1.0 / 32768},
		{"soxpipe.wav", 1, 1.0 / 32768}, {"ffpipe.wav", 1, 1.0 / 32768}, {"rf64.wav", 1, 1.0 / 32768}, {"list.wav", 1, 1.0 / 32768},
	} {
		got, info, err := Decode(read(t, c.name), 0, Limits{})
		if err != nil || info != (Info{"wav", 8000, c.channels}) || len(got) != len(want) {
			t.Errorf("%s: %d samples, %+v, %v", c.name, len(got), info, err)
			continue
		}
		var most float64
		for i := range want {
			most = max(most, math.Abs(float64(got[i])-float64(want[i])))
		}
		if most > c.off {
			t.Errorf("%s: off by %g, at most %g", c.name, most, c.off)
		}
	}
}

// TestWAVHeaders: what is read of a header, and what is refused.
func TestWAVHeaders(t *testing.T) {
	//proves:T7 sizes in headers of sound
	pcm := []byte{0, 0x40, 0, 0xc0, 0xff, 0x7f} // 0.5, −0.5, nearly 1
	all := []float32{0.5, -0.5, 32767.0 / 32768}
	form := fmtChunk(wavPCM, 1, 16000, 16)
	ext := func(kind uint16, guid string, bits uint16) []byte {
		b := fmtChunk(wavExtensible, 1, 16000, bits)
		b = append(binary.LittleEndian.AppendUint16(b, 22), 16, 0, 0, 0, 0, 0)
		return append(binary.LittleEndian.AppendUint16(b, kind), guid...)
	}
	const guid = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
	f32 := func(x ...float32) (b []byte) {
		for _, x := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		return b
	}
	data := func(size uint32) string {
		return "data" + string(binary.LittleEndian.AppendUint32(nil, size)) + string(pcm)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name string
		riff int64 // −1: what is right
		body string
		want []float32
		err  error
		says string
	}{
		{"plain", -1, chunk("fmt ", form) + chunk("data", pcm), all, nil, ""},
		{"a chunk of odd size before",
			-1, chunk("LIST", []byte("abc")) + chunk("fmt ", form) + chunk("odd ", []byte("x")) + chunk("data", pcm), all, nil, ""},
		{"chunks after", -1, chunk("fmt ", form) + chunk("data", pcm) + chunk("LIST", []byte("abcdefgh")), all, nil, ""},
		{"a format of 18 bytes", -1, chunk("fmt ", append(slices.Clone(form), 0, 0)) + chunk("data", pcm), all, nil, ""},
		{"a format of 17 bytes", -1, chunk("fmt ", append(slices.Clone(form), 0)) + chunk("data", pcm), all, nil, ""},
		{"extensible", -1, chunk("fmt ", ext(wavPCM, guid, 16)) + chunk("data", pcm), all, nil, ""},
		{"both sizes 0", 0, chunk("fmt ", form) + data(0), all, nil, ""},
		{"size 0, header's size all ones", 1<<32 - 1, chunk("fmt ", form) + data(0), all, nil, ""},
		{"size 0, header's size right", 36, chunk("fmt ", form) + data(0), all, nil, ""},
		{"both sizes all ones", 1<<32 - 1, chunk("fmt ", form) + data(1<<32-1), all, nil, ""},
		{"2 GiB", 0x7fffffff, chunk("fmt ", form) + data(0x7fffffdb), all, nil, ""},
		{"the file's size wrong", 7, chunk("fmt ", form) + chunk("data", pcm), all, nil, ""},
		{"a little more than there is", -1, chunk("fmt ", form) + data(100), all, nil, ""},
		{"a sample cut", -1, chunk("fmt ", form) + data(6)[:8+5], all[:2], nil, ""},
		{"empty", -1, chunk("fmt ", form) + chunk("data", nil), nil, nil, ""},
		{"empty, with a chunk after", -1, chunk("fmt ", form) + chunk("data", nil) + chunk("LIST", []byte("abcd")), nil, nil, ""},
		{"12 bits in two bytes", -1, chunk("fmt ", fmtChunk(wavPCM, 1, 16000, 12)) + chunk("data", pcm), all, nil, ""},
		{"no numbers", -1, chunk("fmt ", fmtChunk(wavFloat, 1, 16000, 32)) + chunk("data", f32(1.5, inf, -inf, nan, 70000, -2)),
			[]float32{1.5, 0, 0, 0, 0, -2}, nil, ""},
		{"two channels",
			-1, chunk("fmt ", fmtChunk(wavFloat, 2, 16000, 32)) + chunk("data", f32(1, 0, 0.5, -1)), []float32{0.5, -0.25}, nil, ""},
		{"no channels", -1, chunk("fmt ", fmtChunk(wavPCM, 0, 16000, 16)) + chunk("data", pcm), nil, ErrDamaged, "0 channels"},
		{"33 channels", -1, chunk("fmt ", fmtChunk(wavPCM, 33, 16000, 16)) + chunk("data", pcm), nil, ErrUnsupported, "33 channels"},
		{"no rate", -1, chunk("fmt ", fmtChunk(wavPCM, 1, 0, 16)) + chunk("data", pcm), nil, ErrUnsupported, "0 samples a second"},
		{"a rate of 2³²−1", -1, chunk("fmt ", fmtChunk(wavPCM, 1, 1<<32-1, 16)) + chunk("data", pcm), nil, ErrUnsupported, "192000"},
		{"a rate of 7999", -1, chunk("fmt ", fmtChunk(wavPCM, 1, 7999, 16)) + chunk("data", pcm), nil, ErrUnsupported, "7999"},
		{"no bits", -1, chunk("fmt ", fmtChunk(wavPCM, 1, 16000, 0)) + chunk("data", pcm), nil, ErrUnsupported, "0 bits"},
		{"64 bits", -1, chunk("fmt ", fmtChunk(wavPCM, 1, 16000, 64)) + chunk("data", pcm), nil, ErrUnsupported, "64 bits"},
		{"ADPCM", -1, chunk("fmt ", fmtChunk(2, 1, 16000, 4)) + chunk("data", pcm), nil, ErrUnsupported, "format 2"},
		{"mp3 in it", -1, chunk("fmt ", fmtChunk(0x55, 1, 16000, 0)) + chunk("data", pcm), nil, ErrUnsupported, "format 85"},
		{"extensible of its own",
			-1, chunk("fmt ", ext(wavPCM, strings.Repeat("x", 14), 16)) + chunk("data", pcm), nil, ErrUnsupported, "name of its own"},
		{"bytes that do not fit",
			-1, chunk("fmt ", append(slices.Clone(form[:12]), 3, 0, 16, 0)) + chunk("data", pcm), nil, ErrDamaged, "3 bytes hold"},
		{"sound before its format", -1, chunk("data", pcm) + chunk("fmt ", form), nil, ErrDamaged, "before its format"},
		{"no sound", -1, chunk("fmt ", form), nil, ErrDamaged, "before its sound"},
		{"a format of 4 bytes", -1, chunk("fmt ", form[:4]) + chunk("data", pcm), nil, ErrDamaged, "4 bytes"},
		{"a chunk of 4 GiB", -1, chunk("fmt ", form) + "LIST\xff\xff\xff\xff", nil, ErrDamaged, "LIST"},
		{"cut in the format", -1, chunk("fmt ", form)[:15], nil, ErrDamaged, "header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			riff := c.riff
			if riff < 0 {
				riff = int64(4 + len(c.body))
			}
			file := "RIFF" + string(binary.LittleEndian.AppendUint32(nil, uint32(riff))) + "WAVE" + c.body
			got, _, err := Decode([]byte(file), 0, Limits{})
			if !errors.Is(err, c.err) || !slices.Equal(got, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want %v, %v %q", got, err, c.want, c.err, c.says)
			}
		})
	}
}

// TestRF64: the size in the chunk of 64 bits ends the sound, where the other size is all ones.
func TestRF64(t *testing.T) {
	sizes := binary.LittleEndian.AppendUint64(make([]byte, 8), 4)
	file := "RF64\xff\xff\xff\xffWAVE" + chunk("ds64", append(sizes, make([]byte, 12)...)) + chunk("fmt ", fmtChunk(wavPCM, 1, 16000, 16)) +
		"data\xff\xff\xff\xff\x00\x40\x00\xc0" + chunk("LIST", []byte("abcd"))
	got, _, err := Decode([]byte(file), 0, Limits{})
	if err != nil || !slices.Equal(got, []float32{0.5, -0.5}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSomeCame: a reader whose Len is what has come by now is read to the sound's end.
func TestSomeCame(t *testing.T) {
	sound := tone(200000, 8000, 440, 0.5)
	file := AppendPCM(AppendWAVHeader(nil, 8000, len(sound)), sound)
	if got, err := readAll(some{bytes.NewReader(file)}, 8000, 77); err != nil || len(got) != len(sound) {
		t.Errorf("%d samples, %v", len(got), err)
	}
}

// some is a reader that says that ten bytes have come.
type some struct{ r *bytes.Reader }

func (s some) Read(b []byte) (int, error) { return s.r.Read(b) }
func (s some) Len() int                   { return 10 }

// TestWAVComes: what has come of a sound is there before more does, also where it ends in the
// middle of a frame.
func TestWAVComes(t *testing.T) {
	out, in := io.Pipe()
	defer out.Close()
	go func() {
		_, _ = io.WriteString(in, "RIFF\xff\xff\xff\xffWAVE"+chunk("fmt ", fmtChunk(wavPCM, 2, 16000, 16))+
			"data\xff\xff\xff\xff\x00\x40\x00\x40\x00\x20")
		_, _ = io.WriteString(in, "\x00\x20")
		_, _ = io.WriteString(in, "\x00\x10\x00\x10\x00")
		_ = in.Close()
	}()
	r, err := NewReader(out, 16000, Limits{Bytes: 1 << 20, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var got []float32
	for b := make([]float32, 100); ; {
		n, err := r.Read(b)
		if got = append(got, b[:n]...); err != nil {
			break
		}
		got = append(got, -1)
	}
	if want := []float32{0.5, 0.25, -1, 0.125, -1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func fmtChunk(kind, channels uint16, rate uint32, bits uint16) []byte {
	le := binary.LittleEndian
	align := channels * ((bits + 7) / 8)
	b := le.AppendUint32(le.AppendUint16(le.AppendUint16(nil, kind), channels), rate)
	return le.AppendUint16(le.AppendUint16(le.AppendUint32(b, rate*uint32(align)), align), bits)
}

func chunk(name string, body []byte) string {
	s := name + string(binary.LittleEndian.AppendUint32(nil, uint32(len(body)))) + string(body)
	if len(body)%2 == 1 {
		s += "\x00"
	}
	return s
}

// TestCompanded: the two tables of G.711, at their ends and around 0.
func TestCompanded(t *testing.T) {
	for _, c := range []struct {
		name string
		got  float64
		want int // of 16 bits
	}{
		{"A 0xd5", ALaw(0xd5), 8}, {"A 0x55", ALaw(0x55), -8}, {"A 0xaa", ALaw(0xaa), 32256}, {"A 0x2a", ALaw(0x2a), -32256},
		{"A 0x85", ALaw(0x85), 4224}, {"µ 0xff", MuLaw(0xff), 0}, {"µ 0x7f", MuLaw(0x7f), 0}, {"µ 0x80", MuLaw(0x80), 32124},
		{"µ 0x00", MuLaw(0x00), -32124}, {"µ 0xf0", MuLaw(0xf0), 120}, {"µ 0xef", MuLaw(0xef), 132},
	} {
		if got := c.got * 32768; got != float64(c.want) {
			t.Errorf("%s: %g, want %d", c.name, got, c.want)
		}
	}
}
