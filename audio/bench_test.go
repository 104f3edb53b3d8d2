package audio

import (
	"slices"
	"testing"
)

// BenchmarkDecode decodes each format at its own rate. x/s is how many seconds of sound a second
// gives.
func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"s24.wav", "stereo.flac", "joint44.mp3", "mono24k.mp3", "stereo.ogg", "silk.opus", "hybrid.opus",
		"celt.opus"} {
		b.Run(name, func(b *testing.B) {
			data := read(b, name)
			all, info, err := Decode(data, 0, Limits{})
			if err != nil {
				b.Fatal(err)
			}
			seconds := float64(len(all)) / float64(info.Rate)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Decode(data, 0, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(seconds*float64(b.N)/b.Elapsed().Seconds(), "x/s")
		})
	}
}

// BenchmarkResample is a second of sound at a time.
func BenchmarkResample(b *testing.B) {
	for name, p := range map[string][2]int{"44100-16000": {44100, 16000}, "48000-16000": {48000, 16000}, "24000-48000": {24000, 48000},
		"44101-16000": {44101, 16000}} {
		b.Run(name, func(b *testing.B) {
			r, err := NewResampler(p[0], p[1])
			if err != nil {
				b.Fatal(err)
			}
			in := tone(p[0], p[0], 440, 0.5)
			var out []float32
			b.ReportAllocs()
			for b.Loop() {
				out = r.Append(out[:0], in)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x/s")
		})
	}
}

// BenchmarkWrite is a second of sound at a time.
func BenchmarkWrite(b *testing.B) {
	s := slices.Concat(tone(12000, 24000, 440, 0.5), tone(12000, 24000, 1000, 0.1))
	var out []byte
	b.Run("flac", func(b *testing.B) {
		for b.Loop() {
			out = AppendFLAC(out[:0], s, 24000)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x/s")
	})
	b.Run("pcm", func(b *testing.B) {
		for b.Loop() {
			out = AppendPCM(out[:0], s)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x/s")
	})
}

// BenchmarkNewResampler is what the table of a filter takes.
func BenchmarkNewResampler(b *testing.B) {
	for b.Loop() {
		if _, err := NewResampler(44100, 16000); err != nil {
			b.Fatal(err)
		}
	}
}
