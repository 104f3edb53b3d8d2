package audio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestGoldens: each file decodes to what another program decodes it to. Two decoders of a lossless
// format agree in every bit that a float32 has; those of the others differ by their arithmetic, and
// mp3's by the 16 bits that its decoder rounds to.
func TestGoldens(t *testing.T) {
	for _, c := range []struct {
		name    string
		want    Info
		samples int
		snr     float64 // dB
	}{
		{"stereo.flac", Info{"flac", 48000, 2}, 3840, 300},
		{"mono24.flac", Info{"flac", 16000, 1}, 1280, 300},
		{"mono8.flac", Info{"flac", 24000, 1}, 1920, 300},
		{"stereo32.flac", Info{"flac", 8000, 2}, 640, 130},
		{"mono44.mp3", Info{"mp3", 44100, 1}, 22050, 70},
		{"joint44.mp3", Info{"mp3", 44100, 2}, 22050, 70},
		{"mono22.mp3", Info{"mp3", 22050, 1}, 12672, 70}, // its frames are too small for LAME's header
		{"stereo22.mp3", Info{"mp3", 22050, 2}, 11025, 70},
		{"burst22.mp3", Info{"mp3", 22050, 2}, 12352, 70},
		{"mono24k.mp3", Info{"mp3", 24000, 1}, 13248, 60},
		{"stereo.ogg", Info{"vorbis", 44100, 2}, 22050, 120},
		{"mono16.ogg", Info{"vorbis", 16000, 1}, 8000, 60}, // the other has 16 bits
		{"silk.opus", Info{"opus", 48000, 1}, 24000, 45},
		{"hybrid.opus", Info{"opus", 48000, 1}, 24000, 45},
		{"celt.opus", Info{"opus", 48000, 2}, 24000, 90},
		{"stereo60.opus", Info{"opus", 48000, 2}, 24000, 45},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, info, err := Decode(read(t, c.name), 0, Limits{})
			if err != nil || info != c.want || len(got) != c.samples {
				t.Fatalf("%d samples, %+v, %v; want %d, %+v", len(got), info, err, c.samples, c.want)
			}
			const every = 97
			ref := read(t, c.name+".ref")
			if n := int(binary.LittleEndian.Uint32(ref)); n != c.samples {
				t.Errorf("the other decoder has %d samples", n)
			}
			var want, have []float32
			for i := 0; i < len(got); i += every {
				have = append(have, got[i])
				want = append(want, math.Float32frombits(binary.LittleEndian.Uint32(ref[4+i/every*4:])))
			}
			if snr := ratio(have, want); snr < c.snr {
				t.Errorf("%.1f dB, want %.0f", snr, c.snr)
			}
		})
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ratio is how much louder want is than have's difference from it, in dB.
func ratio(have, want []float32) float64 {
	var signal, noise float64
	for i, w := range want {
		d := float64(have[i]) - float64(w)
		signal += float64(w) * float64(w)
		noise += d * d
	}
	if len(have) != len(want) || signal == 0 {
		return math.Inf(-1)
	}
	return 10 * math.Log10(signal/noise)
}

// tone is n samples of a tone of hz, at rate.
func tone(n, rate int, hz, loud float64) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(loud * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return s
}

// TestTone: a tone of half of full scale comes back in place: as long as it was, and not late. The
// best of a decoder that was a sample late would be 24 dB.
func TestTone(t *testing.T) {
	for _, c := range []struct {
		name string
		rate int
		loud float64
		snr  float64
	}{{"tone.mp3", 44100, 0.5 * 0.95, 40}, {"tone.ogg", 44100, 0.5, 30}, {"tone.opus", 48000, 0.5, 30}} { // LAME makes it softer
		got, info, err := Decode(read(t, c.name), 0, Limits{})
		want := tone(c.rate/4, c.rate, 440, c.loud)
		if err != nil || info.Rate != c.rate || len(got) != len(want) {
			t.Errorf("%s: %d samples, %+v, %v", c.name, len(got), info, err)
			continue
		}
		n := len(got) / 5
		if snr := ratio(got[n:4*n], want[n:4*n]); snr < c.snr {
			t.Errorf("%s: %.1f dB, want %.0f", c.name, snr, c.snr)
		}
	}
}

// TestBlocks: the samples are the same whatever the blocks that are read and the bytes that come,
// and [Decode]'s; at another rate they are a [Resampler]'s.
func TestBlocks(t *testing.T) {
	for _, name := range []string{"s24.wav", "stereo.flac", "joint44.mp3", "mono16.ogg", "silk.opus"} {
		for _, rate := range []int{0, 16000, 24000} {
			data := read(t, name)
			want, info, err := Decode(data, rate, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if rate != 0 {
				plain, _, err := Decode(data, 0, Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if other := resample(t, plain, info.Rate, rate, 1000); !slices.Equal(want, other) {
					t.Errorf("%s at %d: %d samples; resampled at once %d", name, rate, len(want), len(other))
				}
			}
			for how, in := range map[string]io.Reader{"bytes": iotest.OneByteReader(bytes.NewReader(data)),
				"halves": iotest.HalfReader(bytes.NewReader(data)), "end": iotest.DataErrReader(bytes.NewReader(data))} {
				got, err := readAll(in, rate, 77)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s at %d, %s: %d samples, %v; want %d", name, rate, how, len(got), err, len(want))
				}
			}
		}
	}
}

// readAll reads in blocks of n.
func readAll(in io.Reader, rate, n int) (all []float32, err error) {
	r, err := NewReader(in, rate, Limits{})
	if err != nil {
		return nil, err
	}
	block := make([]float32, n)
	for {
		k, err := r.Read(block)
		all = append(all, block[:k]...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// TestChained: streams of one file follow each other.
func TestChained(t *testing.T) {
	both := slices.Concat(read(t, "silk.opus"), read(t, "celt.opus"))
	a, _, err := Decode(read(t, "silk.opus"), 0, Limits{})
	b, _, err2 := Decode(read(t, "celt.opus"), 0, Limits{})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	got, info, err := Decode(both, 0, Limits{})
	if err != nil || info.Channels != 1 || !slices.Equal(got, slices.Concat(a, b)) {
		t.Errorf("%d samples, %+v, %v; want %d and %d", len(got), info, err, len(a), len(b))
	}
	a, _, err = Decode(read(t, "stereo.ogg"), 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err = Decode(slices.Concat(read(t, "stereo.ogg"), read(t, "stereo.ogg")), 0, Limits{})
	if err != nil || !slices.Equal(got, slices.Concat(a, a)) {
		t.Errorf("vorbis: %d samples, %v; want twice %d", len(got), err, len(a))
	}
	_, _, err = Decode(slices.Concat(read(t, "stereo.ogg"), read(t, "mono16.ogg")), 16000, Limits{})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "16000 samples a second follows one of 44100") {
		t.Errorf("another rate: %v", err)
	}
	// One that was cut at a page is followed by the next all the same.
	first := read(t, "stereo.ogg")
	cut := 0
	for next := oggPage(first); cut+next < len(first); next = oggPage(first[cut:]) {
		cut += next
	}
	part, _, err := Decode(first[:cut], 0, Limits{})
	if err != nil || len(part) == 0 {
		t.Fatal(len(part), err)
	}
	got, _, err = Decode(slices.Concat(first[:cut], alterSerial(first)), 0, Limits{})
	if err != nil || !slices.Equal(got, slices.Concat(part, a)) {
		t.Errorf("after a cut: %d samples, %v; want %d and %d", len(got), err, len(part), len(a))
	}
	// What follows the last stream and is none is nobody's.
	got, _, err = Decode(append(read(t, "stereo.ogg"), "TAG"+strings.Repeat(" ", 125)...), 0, Limits{})
	if err != nil || !slices.Equal(got, a) {
		t.Errorf("with a tag behind it: %d samples, %v", len(got), err)
	}
	// Another stream of the same file, as a film's, is passed over.
	other := bytes.Clone(read(t, "speex.ogg"))
	got, _, err = Decode(slices.Concat(other[:oggPage(other)], read(t, "stereo.ogg")), 0, Limits{})
	if err != nil || !slices.Equal(got, a) {
		t.Errorf("beside another: %d samples, %v", len(got), err)
	}
}

// alterSerial gives the pages another stream's number.
func alterSerial(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at < len(b); at += oggPage(b[at:]) {
		b[at+14]++
		fixPage(b[at:])
	}
	return b
}

// oggPage is the length of the first page.
func oggPage(b []byte) int {
	n := 27 + int(b[26])
	for _, l := range b[27:n] {
		n += int(l)
	}
	return n
}

// TestOpusGain: a header's gain is applied, to the decibel.
func TestOpusGain(t *testing.T) {
	data := read(t, "tone.opus")
	want, _, err := Decode(data, 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(data[28+16:], 0xfa00) // −6 dB, in 256ths
	fixPage(data)
	got, _, err := Decode(data, 0, Limits{})
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for i := range want {
		if d := float64(got[i]) - float64(want[i])*math.Pow(10, -6.0/20); math.Abs(d) > 1e-6 {
			t.Fatalf("sample %d: %g, was %g", i, got[i], want[i])
		}
	}
}

// fixPage gives the first page its checksum.
func fixPage(b []byte) {
	n := oggPage(b)
	clear(b[22:26])
	binary.LittleEndian.PutUint32(b[22:], oggCRC(0, b[:n]))
}

// TestCutMP3: a stream that begins and ends anywhere is read, without a frame that it lacks the
// beginning of.
func TestCutMP3(t *testing.T) {
	data := read(t, "mono44.mp3")
	whole, _, err := Decode(data, 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1000, 1001, 2500} {
		got, info, err := Decode(append([]byte("ID3\x03\x00\x00\x00\x00\x00\x02xx"), data[at:len(data)-100]...), 0, Limits{})
		if err != nil || info.Rate != 44100 || len(got) < 5*1152 {
			t.Errorf("from %d: %d samples, %+v, %v", at, len(got), info, err)
			continue
		}
		// What is decoded is the same sound, as far from the end as it was.
		late := len(got) - 4*1152
		best := math.Inf(-1)
		for shift := range len(whole) - 1152 {
			if whole[shift+500] == got[late+500] {
				best = max(best, ratio(got[late:late+1152], whole[shift:shift+1152]))
			}
		}
		if best < 60 {
			t.Errorf("from %d: the sound is another: %.0f dB", at, best)
		}
	}
	// A frame that is noise is silence, and the rest goes on.
	damaged := bytes.Clone(data)
	for i := range 150 {
		damaged[2000+i] ^= byte(i*37 + 5)
	}
	got, _, err := Decode(damaged, 0, Limits{})
	if err != nil || len(got) < len(whole)-3*1152 {
		t.Errorf("damaged: %d samples, %v; want near %d", len(got), err, len(whole))
	}
}

// TestJoinedMP3: a file that is joined to another is read, too, though the first one's header
// counts its own frames alone. Between them is the second one's header, which decodes to silence,
// and the delay of its encoder and of the decoder. The padding may be longer than a frame.
func TestJoinedMP3(t *testing.T) {
	data := read(t, "mono44.mp3")
	for _, more := range []int{0, 2000} {
		data := slices.Clone(data)
		pad := data[bytes.Index(data, []byte("LAME"))+22:]
		binary.BigEndian.PutUint16(pad, binary.BigEndian.Uint16(pad)+uint16(more))
		one, _, err := Decode(data, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		two, _, err := Decode(slices.Concat(data, data), 0, Limits{})
		const between = 1152 + 576 + mp3Delay
		if err != nil || len(two) < 2*len(one)+between {
			t.Fatalf("%d samples, %v; one has %d", len(two), err, len(one))
		}
		if !slices.Equal(two[:len(one)], one) {
			t.Errorf("padding of %d more: the first sound is another", more)
		}
		if snr := ratio(two[len(one)+between:][:len(one)], one); snr < 60 {
			t.Errorf("padding of %d more: the second sound is another: %.0f dB", more, snr)
		}
	}
}

// TestID3: tags before any format are passed over, with the footer that one may have.
func TestID3(t *testing.T) {
	data := read(t, "s16.wav")
	want, _, err := Decode(data, 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	tags := "ID3\x03\x00\x00\x00\x00\x01\x02" + strings.Repeat("x", 130) + "ID3\x04\x00\x10\x00\x00\x00\x00" +
		"3DI\x04\x00\x10\x00\x00\x00\x00"
	got, _, err := Decode(append([]byte(tags), data...), 0, Limits{})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d samples, %v; want %d", len(got), err, len(want))
	}
}

// TestRefused: what is not read is refused by name, with a way out.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, says string
		want       error
	}{
		{"aac.m4a", "m4a", ErrFormat}, {"adts.aac", "AAC", ErrFormat}, {"opus.webm", "webm", ErrFormat},
		{"tone.aiff", "aiff", ErrFormat}, {"layer2.mp2", "mp2", ErrFormat}, {"sound.wma", "wma", ErrFormat},
		{"speex.ogg", "Speex", ErrUnsupported}, {"mpeg25.mp3", "MPEG 2.5 at 11025", ErrUnsupported},
	} {
		s, _, err := Decode(read(t, c.name), 16000, Limits{})
		if !errors.Is(err, c.want) || s != nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "ffmpeg -i") ||
			c.want == ErrFormat && !strings.Contains(err.Error(), "wav, flac, mp3, ogg vorbis or ogg opus") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for in, says := range map[string]string{"#!AMR\n": "AMR", "": "no sound", "hello, world": "no sound",
		"RIFX\x00\x00\x00\x00WAVE": "RIFX"} {
		if _, _, err := Decode([]byte(in), 0, Limits{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, rate := range []int{-1, 7999, 192001} {
		if _, err := NewReader(bytes.NewReader(read(t, "s16.wav")), rate, Limits{}); err == nil || !strings.Contains(err.Error(), "8000") {
			t.Errorf("a rate of %d: %v", rate, err)
		}
	}
}

// TestUnderneath: what the reader underneath fails with is what is reported, at the beginning and
// in the middle, and it stays.
func TestUnderneath(t *testing.T) {
	gone := errors.New("the line was cut")
	for _, name := range []string{"s16.wav", "stereo.flac", "joint44.mp3", "stereo.ogg", "celt.opus"} {
		data := read(t, name)
		for _, n := range []int{0, 5, 30, len(data) / 2, len(data) * 3 / 4} {
			r, err := NewReader(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(gone)), 16000, Limits{})
			for range 10000 {
				if err != nil {
					break
				}
				_, err = r.Read(make([]float32, 100))
			}
			if !errors.Is(err, gone) {
				t.Errorf("%s after %d bytes: %v", name, n, err)
			}
			if r != nil {
				if _, again := r.Read(make([]float32, 100)); again != err {
					t.Errorf("%s: then %v", name, again)
				}
			}
		}
	}
}

// TestLimits: what is just within a limit is read, and what is just over it is not, with an error
// that names the limit. Where the header says how long it is, nothing is decoded.
func TestLimits(t *testing.T) {
	for name, claims := range map[string]bool{"s16.wav": true, "soxpipe.wav": false, "ffpipe.wav": false, "stereo.flac": true,
		"mono44.mp3": true, "stereo.ogg": false, "celt.opus": false} {
		data := read(t, name)
		all, info, err := Decode(data, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		exact := time.Duration(float64(len(all)) / float64(info.Rate) * 1e9)
		if _, _, err := Decode(data, 16000, Limits{Bytes: int64(len(data)), Duration: exact + time.Microsecond}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		short := Limits{Duration: exact - time.Millisecond}
		_, _, err = Decode(data, 16000, short)
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), short.Duration.String()) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NewReader(bytes.NewReader(data), 16000, short); claims && !errors.Is(err, ErrLimit) {
			t.Errorf("%s: begun, %v", name, err)
		}
		_, _, err = Decode(data, 16000, Limits{Bytes: int64(len(data)) / 2})
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("%s, half of its bytes: %v", name, err)
		}
	}
}
