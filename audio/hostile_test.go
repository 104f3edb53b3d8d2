package audio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	bitlen "math/bits"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

// sounds are the names of the files that are read.
var sounds = []string{"s16.wav", "f64.wav", "alaw.wav", "rf64.wav", "stereo.flac", "mono8.flac", "joint44.mp3",
	"stereo22.mp3", "mono24k.mp3", "stereo.ogg", "mono16.ogg", "silk.opus", "hybrid.opus", "celt.opus", "stereo60.opus"}

// TestHostileSounds: each is refused with an error of its kind, in bounded memory and time.
func TestHostileSounds(t *testing.T) {
	//proves:G5 hostile bytes of sound
	opusHead := read(t, "silk.opus")
	at := func(b []byte, i int, with string) []byte {
		b = bytes.Clone(b)
		copy(b[i:], with)
		fixPage(b)
		return b
	}
	vorbis := read(t, "mono16.ogg")
	wavHead := func(rate uint32, size uint32) []byte {
		return []byte("RIFF\xff\xff\xff\xffWAVE" + chunk("fmt ", fmtChunk(wavPCM, 1, rate, 16)) + "data" +
			string(binary.LittleEndian.AppendUint32(nil, size)))
	}
	for _, c := range []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"flac that claims 2³⁶−1 samples", flacHead(8000, 1, 16, 1<<36-1), ErrLimit, "1h0m0s"},
		{"flac of rate 0", flacHead(0, 1, 16, 0), ErrUnsupported, "0 samples a second"},
		{"flac of 655 kHz", flacHead(655350, 1, 16, 0), ErrUnsupported, "655350"},
		{"flac that ends", flacHead(8000, 1, 16, 100), ErrDamaged, "0 of 100"},
		{"flac with a block of 16 MiB",
			append(flacHead(8000, 1, 16, 0)[:4], "\x00\x00\x00\x22"+strings.Repeat("\x11", 34)+"\x04\xff\xff\xff"...),
			ErrDamaged, "header"},
		{"flac without its header", []byte("fLaC\x84\x00\x00\x22" + strings.Repeat("x", 34)), ErrDamaged, "begin with"},
		{"flac, another channel",
			slices.Concat(flacHead(8000, 2, 16, 0), AppendFLAC(nil, make([]float32, 10), 8000)[42:]), ErrUnsupported, "change"},
		{"flac, noise", append(flacHead(8000, 1, 16, 0), "no frame"...), ErrDamaged, "no frame"},
		{"wav of 2 GiB less a little", append(wavHead(8000, 0x7ffe0000), make([]byte, 100)...), nil, ""},
		{"wav of 4 GiB at 2³²−1", append(wavHead(1<<32-1, 1<<32-1), make([]byte, 100)...), ErrUnsupported, ""},
		{"ID3 of 256 MiB", []byte("ID3\x04\x00\x00\x7f\x7f\x7f\x7f" + strings.Repeat("x", 1000)), ErrDamaged, "tag"},
		{"ID3, then nothing", []byte("ID3\x04\x00\x00\x00\x00\x00\x00"), ErrDamaged, "no frame"},
		{"mp3's first bytes", []byte("\xff\xfb\x90\x64\x00"), ErrFormat, ""},
		{"mp3, one frame cut", read(t, "mono44.mp3")[:100], ErrFormat, ""},
		{"mp3 of zeros", bytes.Repeat(append([]byte("\xff\xfb\x90\x64"), make([]byte, 413)...), 3), nil, ""},
		{"mp3 of noise",
			bytes.Repeat(append([]byte("\xff\xfb\x90\x64\x00\x00"), bytes.Repeat([]byte("\xa7\x31\xff"), 137)...), 30),
			ErrDamaged, "in a row"},
		{"ogg without a stream", []byte("OggS\x00\x02" + strings.Repeat("\x00", 21)), ErrDamaged, "checksum"},
		{"ogg, another checksum", alter(opusHead, 22, "xxxx"), ErrDamaged, "checksum"},
		{"ogg, a page left out",
			slices.Delete(bytes.Clone(opusHead), oggPage(opusHead), oggPage(opusHead)+oggPage(opusHead[oggPage(opusHead):])),
			ErrDamaged, "page 2 follows"},
		{"opus of no channels", at(opusHead, 28+9, "\x00"), ErrDamaged, ""},
		{"opus of three", at(opusHead, 28+9, "\x03"), ErrUnsupported, "3 channels"},
		{"opus, family 1", at(opusHead, 28+18, "\x01"), ErrUnsupported, "family 1"},
		{"opus, version 16", at(opusHead, 28+8, "\x10"), ErrUnsupported, "version 16"},
		{"vorbis of no channels", at(vorbis, 28+11, "\x00"), ErrDamaged, ""},
		{"vorbis of 255", at(vorbis, 28+11, "\xff"), ErrUnsupported, "255 channels"},
		{"vorbis of rate 0", at(vorbis, 28+12, "\x00\x00\x00\x00"), ErrUnsupported, ""},
		{"vorbis with blocks of 32,768", at(vorbis, 28+28, "\xff"), ErrDamaged, ""},
		{"vorbis, a book of 2²⁴ entries", vorbisWith(t, 1, 1<<24-1, 1), ErrUnsupported, "entries"},
		{"vorbis, a book of 65,535 × 65,535", vorbisWith(t, 65535, 65535, 1), ErrUnsupported, "values"},
		{"vorbis, a book of nothing", vorbisWith(t, 1, 0, 1), ErrDamaged, "not complete"},
		{"vorbis, a book without dimensions", vorbisWith(t, 0, 16, 4), ErrDamaged, "not complete"},
		{"vorbis, a book that is not complete", vorbisWith(t, 1, 16, 9), ErrDamaged, "not complete"},
		{"vorbis, a book that is more than complete", vorbisWith(t, 1, 16, 2), ErrDamaged, "not complete"},
		{"vorbis, one book and no more", vorbisWith(t, 1, 16, 4), ErrDamaged, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			fuzzguard.Check(t, len(c.data), func() { _, _, err = Decode(c.data, 16000, Limits{}) })
			if !errors.Is(err, c.want) ||
				err != nil && (!strings.HasPrefix(err.Error(), "audio: ") || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v; want %v, %q", err, c.want, c.says)
			}
		})
	}
}

// flacHead is a flac file up to its first frame.
func flacHead(rate, channels, bits int, total uint64) []byte {
	w := bitWriter{b: []byte("fLaC")}
	w.put(0x80000022, 32)
	w.put(16<<16|65535, 32)
	w.put(0, 48)
	w.put(uint64(rate), 20)
	w.put(uint64(channels-1), 3)
	w.put(uint64(bits-1), 5)
	w.put(total, 36)
	return append(w.b, make([]byte, 16)...)
}

// flacFrame writes the header of a frame.
func (w *bitWriter) flacFrame(layout, number uint32, samples int) {
	start := len(w.b)
	w.put(0xfff8, 16)
	w.put(uint64(0x7000|layout<<4), 16)
	w.number(number)
	w.put(uint64(samples-1), 16)
	var c8 uint8
	for _, x := range w.b[start:] {
		c8 = crc8Table[c8^x]
	}
	w.put(uint64(c8), 8)
}

// alter gives b with the bytes at at replaced.
func alter(b []byte, at int, with string) []byte {
	b = bytes.Clone(b)
	copy(b[at:], with)
	return b
}

// vorbisWith is a Vorbis stream whose tables begin with a book that claims so many dimensions and
// entries, all of one length.
func vorbisWith(t testing.TB, dim, entries, length int) []byte {
	first := read(t, "mono16.ogg")
	first = first[:oggPage(first)]
	var bits uint64
	at := 0
	put := func(v, k int) {
		bits |= uint64(v) << at
		at += k
	}
	put(dim, 16)
	put(entries, 24)
	put(1, 1) // in order of their lengths
	put(length-1, 5)
	if entries < 1<<17 {
		put(entries, bitlen.Len(uint(entries))) // all of the first
	}
	p := binary.LittleEndian.AppendUint64([]byte("\x05vorbis\x00BCV"), bits)
	p = append(p, make([]byte, 200)...)
	serial := binary.LittleEndian.Uint32(first[14:])
	return slices.Concat(first, page(serial, 1, 0, 0, []byte("\x03vorbis")), page(serial, 2, 0, 0, p))
}

// page is a page of whole packets, shorter than 255 bytes each.
func page(serial, number uint32, flags byte, granule uint64, packets ...[]byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64([]byte("OggS\x00"+string(flags)), granule)
	b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, serial), number), 0)
	b = append(b, byte(len(packets)))
	for _, p := range packets {
		b = append(b, byte(len(p)))
	}
	b = append(b, bytes.Join(packets, nil)...)
	fixPage(b)
	return b
}

// opusBomb is Opus of n pages, each of 255 packets of one byte that stand for 60 ms of silence: 15
// s in 537 bytes.
func opusBomb(n int) []byte {
	b := slices.Concat(page(7, 0, oggFirst, 0, []byte("OpusHead\x01\x01\x00\x00\x80\xbb\x00\x00\x00\x00\x00")),
		page(7, 1, 0, 0, []byte("OpusTags\x00\x00\x00\x00\x00\x00\x00\x00")))
	packets := slices.Repeat([][]byte{{0x18}}, 255)
	for i := range n {
		b = append(b, page(7, uint32(2+i), 0, uint64(i+1)*255*2880, packets...)...)
	}
	return b
}

// flacBomb is flac of n frames of 65,535 samples of silence in 8 channels, 50 bytes each.
func flacBomb(n int) []byte {
	w := bitWriter{b: flacHead(8000, 8, 16, 0)}
	for i := range n {
		start := len(w.b)
		w.flacFrame(7, uint32(i), 65535)
		for range 8 {
			w.put(0, 24) // a constant
		}
		w.flacEnd(start)
	}
	return w.b
}

// TestBombs: a file of few bytes that stands for hours stops at the limit, and takes no more memory
// than the sound up to there. A Reader takes a few MiB whatever the length.
func TestBombs(t *testing.T) {
	//proves:T7 sound that unpacks to hours
	lane.NoRace(t)
	mp3 := read(t, "mono24k.mp3")
	silent := bytes.Repeat([]byte("\xff\xf3\x14\xc4"+strings.Repeat("\x00", 20)), 5000) // 8 kbit/s at 24 kHz: 24 ms in 24 bytes
	for _, c := range []struct {
		name string
		data []byte
		rate int
	}{
		{"opus", opusBomb(20), 48000}, {"flac", flacBomb(40), 8000}, {"mp3", silent, 24000},
		{"mp3 repeated", bytes.Repeat(mp3, 400), 24000},
	} {
		limits := Limits{Duration: 100 * time.Second}
		var err error
		samples := 100 * 16000
		most := fuzzguard.Peak(func() { _, _, err = Decode(c.data, 16000, limits) })
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "1m40s") || most > uint64(samples*4*3+16<<20) {
			t.Errorf("%s, %d bytes: %d MiB, %v", c.name, len(c.data), most>>20, err)
		}
		var n int
		most = fuzzguard.Peak(func() {
			var r *Reader
			if r, err = NewReader(bytes.NewReader(c.data), 16000, limits); err == nil {
				n, err = drain(r)
			}
		})
		if !errors.Is(err, ErrLimit) || n > samples || n < samples*9/10-16000*16 || most > 16<<20 {
			t.Errorf("%s in blocks: %d samples, %d MiB, %v", c.name, n, most>>20, err)
		}
	}
}

func drain(r *Reader) (n int, err error) {
	block := make([]float32, 4096)
	for err == nil {
		var k int
		k, err = r.Read(block)
		n += k
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// TestLongWAV: two hours are read in a few MiB.
func TestLongWAV(t *testing.T) {
	const rate, hours = 8000, 2
	file := io.MultiReader(bytes.NewReader(AppendWAVHeader(nil, rate, -1)), io.LimitReader(zeros{}, hours*3600*rate*2))
	var n int
	var err error
	most := fuzzguard.Peak(func() {
		var r *Reader
		if r, err = NewReader(file, 0, Limits{Duration: hours * time.Hour}); err == nil {
			n, err = drain(r)
		}
	})
	if err != nil || n != hours*3600*rate || most > 4<<20 {
		t.Errorf("%d samples, %d KiB, %v", n, most>>10, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestCut: of a file that ends early, at any byte, a wav and an mp3 give what is there, and the
// others are damaged, but where a page or the last frame ends.
func TestCut(t *testing.T) {
	for _, name := range sounds {
		data := read(t, name)
		whole, _, err := Decode(data, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		step := 1
		for n := 0; n < len(data); n += step {
			if n > 150 {
				step = 1 + len(data)/200 // a few hundred bytes are a frame
			}
			got, _, err := Decode(data[:n], 0, Limits{})
			switch {
			case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat):
				t.Errorf("%s after %d bytes: %v", name, n, err)
			case err != nil && strings.HasSuffix(name, ".wav") && n > 200:
				t.Errorf("%s after %d bytes: %v", name, n, err)
			case err == nil && len(got) > len(whole):
				t.Errorf("%s after %d bytes: %d samples of %d", name, n, len(got), len(whole))
			case err == nil && strings.HasSuffix(name, ".flac"):
				t.Errorf("%s after %d bytes: no error", name, n)
			}
		}
	}
}

// FuzzSound: no bytes take more memory than their limit allows, or hang, and every error is of a
// kind.
func FuzzSound(f *testing.F) {
	//proves:T7
	for _, name := range sounds {
		f.Add(read(f, name))
	}
	f.Add(opusBomb(1))
	f.Add(flacBomb(1))
	fuzzSound(f, func(data []byte) []byte { return data })
}

// FuzzMP3: frames that are not what the decoder expects.
func FuzzMP3(f *testing.F) {
	//proves:T7
	for _, seed := range fuzzguard.Seeds(f, 3000, "testdata/*.mp3") {
		f.Add(seed)
	}
	fuzzSound(f, func(data []byte) []byte { return append([]byte("ID3\x03\x00\x00\x00\x00\x00\x00"), data...) })
}

// FuzzOgg: the pages of a stream have the right checksum and order, so that what is wrong reaches
// the decoders.
func FuzzOgg(f *testing.F) {
	//proves:T7
	names, err := filepath.Glob("testdata/*.o[gp]*s*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(names, "testdata/mono16.ogg", "testdata/stereo.ogg") {
		f.Add(read(f, filepath.Base(name)))
	}
	fuzzSound(f, func(data []byte) []byte {
		data = bytes.Clone(data)
		for at, n := 0, uint32(0); len(data)-at > 27+255; n++ {
			page := data[at:]
			copy(page, "OggS\x00")
			binary.LittleEndian.PutUint32(page[14:], 1)
			binary.LittleEndian.PutUint32(page[18:], n)
			page[5] &^= oggFirst
			if n == 0 {
				page[5] = oggFirst
			}
			size := oggPage(page)
			if size > len(page) {
				break
			}
			fixPage(page)
			at += size
		}
		return data
	})
}

// FuzzFLAC: the header of a frame has the right checksum, so that what is wrong reaches the rest.
func FuzzFLAC(f *testing.F) {
	//proves:T7
	for name, s := range flacSounds() {
		if file := AppendFLAC(nil, s[:min(len(s), 4096)], 8000); len(file) > 50 {
			f.Add(append([]byte{byte(len(name)), 15, byte(len(s) >> 8), byte(len(s))}, file[50:]...))
		}
	}
	fuzzSound(f, func(data []byte) []byte {
		if len(data) < 4 {
			return data
		}
		layout := uint32(data[0]) % 11
		channels := int(layout) + 1
		if layout >= flacLeftSide {
			channels = 2
		}
		w := bitWriter{b: flacHead(8000, channels, int(data[1])%29+4, 0)}
		w.flacFrame(layout, 0, max(1, int(binary.BigEndian.Uint16(data[2:]))))
		return append(w.b, data[4:]...)
	})
}

// fuzzSound decodes what make makes of the fuzzer's bytes. A second of sound may take a second to
// decode, not more.
func fuzzSound(f *testing.F, make func([]byte) []byte) {
	limits := Limits{Bytes: 1 << 20, Duration: 2 * time.Second}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = make(data)
		var got []float32
		var info Info
		var err error
		fuzzguard.Check(t, len(data), func() { got, info, err = Decode(data, 16000, limits) })
		if err == nil {
			if len(got) > 2*16000 || info.Channels < 1 || info.Channels > maxChannels {
				t.Fatalf("%d samples, %+v", len(got), info)
			}
			for i, x := range got {
				if x != x || x > 1<<20 || x < -1<<20 {
					t.Fatalf("sample %d is %g", i, x)
				}
			}
			return
		}
		kinds := []error{ErrFormat, ErrLimit, ErrUnsupported, ErrDamaged}
		if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}

// FuzzResample: no rates and no blocks change how long the output is, or its sum.
func FuzzResample(f *testing.F) {
	f.Add(44100, 16000, 1000, 7)
	f.Add(191999, 8000, 2000, 1999)
	f.Fuzz(func(t *testing.T, from, to, n, block int) {
		if n < 0 || n > 5000 || block < 1 {
			return
		}
		r, err := NewResampler(from, to)
		if err != nil {
			return
		}
		in := slices.Repeat([]float32{0.5}, n)
		var out []float32
		for b := range slices.Chunk(in, block) {
			out = r.Append(out, b)
		}
		out = r.Flush(out)
		if want := (n*to + from - 1) / from; len(out) != want {
			t.Fatalf("%d to %d: %d samples become %d, not %d", from, to, n, len(out), want)
		}
		if k := len(out) / 2; n > 3*r.half && (out[k] < 0.4999 || out[k] > 0.5001) {
			t.Fatal(fmt.Errorf("%d to %d: a constant becomes %g", from, to, out[k]))
		}
	})
}
