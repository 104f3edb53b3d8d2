// Package audio turns the bytes of a sound file into mono samples at a wanted rate, and samples
// into files: it recognises and decodes wav, flac, mp3, Ogg Vorbis and Ogg Opus, mixes the
// channels, changes the rate, and writes wav, flac and raw PCM. It knows no card, no model and no
// HTTP, fetches nothing and opens no file.
//
// [NewReader] reads a file of any length in blocks, in bounded memory; [Decode] reads a whole one.
// [Resampler] changes the rate of samples that are there already. [AppendWAVHeader], [AppendPCM]
// and [AppendFLAC] write. A [Reader] and a [Resampler] belong to one goroutine at a time; the
// functions may be called from any. Nothing holds a resource, so nothing is closed.
//
// # Samples
//
// A sample is a float32; −1 and 1 are the ends of an integer format's range. Mono is the mean of
// all channels. Samples of a floating-point wav keep their value; what is no number, or is beyond
// ±65,536, becomes 0.
//
// # Limits
//
// The bytes that are read and the seconds of sound are checked against [Limits]. A file whose
// header claims too many seconds is refused before it is decoded; one that does not say so is
// refused where it passes the limit. What a block of a file makes its decoder allocate is checked
// before: a few MiB at most.
//
// # What is read
//
//   - wav, and its form of 64 bits (RF64): PCM of 8 to 32 bits, floating point of 32 and 64 bits,
//     A-law and µ-law. The sizes in the header may be 0 or too large, as programs leave them that
//     write to a pipe: then all that follows is sound.
//   - flac of 4 to 32 bits, checked against its checksums. Not in Ogg.
//   - mp3: layer III of MPEG 1 and 2, 16 to 48 kHz; MPEG 2.5 (8 to 12 kHz) is refused. What LAME's
//     header says of silence at the ends is cut away. A frame that cannot be decoded is silence, as
//     in players. Files that were joined are one sound.
//   - Ogg Vorbis, and Ogg Opus of one or two channels: chained streams too. Pre-skip and the length
//     of the last page are kept to the sample.
//
// The format is told by the content. A wav or an mp3 that ends early is read as far as it goes,
// since streams of these are cut anywhere; flac and Ogg say where a frame or page ends, and one
// that is cut in the middle of it is damaged. Everything else is refused by name.
package audio
