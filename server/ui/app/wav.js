// Wav files, as far as the page needs them: it writes mono of 16 bits, and reads what the server speaks.

// written is a wav of pieces of 16-bit samples.
export function written(pieces, rate) {
  const size = 2 * pieces.reduce((n, p) => n + p.length, 0);
  const head = new DataView(new ArrayBuffer(44));
  const name = (at, s) => [...s].forEach((c, i) => head.setUint8(at + i, c.charCodeAt(0)));
  name(0, 'RIFF');
  head.setUint32(4, 36 + size, true);
  name(8, 'WAVEfmt ');
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true); // PCM
  head.setUint16(22, 1, true);
  head.setUint32(24, rate, true);
  head.setUint32(28, 2 * rate, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  name(36, 'data');
  head.setUint32(40, size, true);
  return new Blob([head, ...pieces], { type: 'audio/wav' });
}

// samples reads a wav of 16-bit PCM: {rate, channels}, one array of numbers from -1 to 1 for each channel. A length that is more than there is,
// as a wav has that is sent while it is made, means all that follows. null: it is no such file.
export function samples(buffer) {
  const b = new DataView(buffer);
  const is = (at, s) => at + s.length <= b.byteLength && [...s].every((c, i) => b.getUint8(at + i) === c.charCodeAt(0));
  if (!is(0, 'RIFF') || !is(8, 'WAVE')) return null;
  let rate = 0, channels = 0;
  for (let at = 12; at + 8 <= b.byteLength;) {
    const size = b.getUint32(at + 4, true), from = at + 8;
    if (is(at, 'fmt ') && from + 16 <= b.byteLength) {
      if (b.getUint16(from, true) !== 1 || b.getUint16(from + 14, true) !== 16) return null;
      channels = b.getUint16(from + 2, true);
      rate = b.getUint32(from + 4, true);
    } else if (is(at, 'data')) {
      if (!rate || !channels) return null;
      const n = Math.floor(Math.min(size, b.byteLength - from) / 2 / channels);
      return { rate, channels: Array.from({ length: channels }, (_, c) => Float32Array.from({ length: n }, (_, i) => b.getInt16(from + 2 * (i * channels + c), true) / 32768)) };
    }
    at = from + size + (size & 1);
  }
  return null;
}
