// Package features turns samples into what speech models read, and a vocoder's spectra into
// samples. It is arithmetic alone: it knows no card, no package and no HTTP, and opens no file.
//
//   - [Mel] is Whisper's log-mel spectrogram, which Qwen3-ASR reads too.
//   - [Fbank] is Kaldi's filter bank, as SenseVoice and the streaming Zipformer read it. Samples may come in blocks of any size.
//   - [AppendLFR] joins seven frames in one row for SenseVoice, and [CMVN] shifts and scales such rows.
//   - [STFT] is the short transform of Kokoro's vocoder, and its inverse.
//
// Samples are mono, from −1 to 1, and 16,000 a second but for [STFT], which does not ask. They must
// be finite: a frame with a sample that is not gives numbers without a meaning.
//
// A [Mel], [Fbank] or [STFT] holds buffers, so each serves one goroutine at a time. It allocates
// when it is made, and nothing for a frame. A [CMVN] may be shared. Nothing is closed.
//
// The sums are in float64, so a result is within a few roundings of float32 of its definition.
// Thirty seconds of sound take 11 to 25 ms, as mel or filter bank, on one core of an EPYC of 2023
// that also did other work.
package features

// SampleRate is how many samples a second the models of this package hear.
const SampleRate = 16000
