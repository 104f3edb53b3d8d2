// SHA-256, as pictures and versions are named by it. Browsers have their own only on pages of https.
const k = new Uint32Array(64), first = new Uint32Array(8);
for (let n = 2, found = 0; found < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
  if (!prime) continue;
  if (found < 8) first[found] = (Math.sqrt(n) % 1) * 2 ** 32;
  k[found++] = (Math.cbrt(n) % 1) * 2 ** 32;
}

// sha256 is the sum of bytes, in hexadecimal digits.
export function sha256(bytes) {
  const all = new Uint8Array((((bytes.length + 8) >> 6) + 1) * 64);
  all.set(bytes);
  all[bytes.length] = 0x80;
  const view = new DataView(all.buffer);
  view.setUint32(all.length - 8, bytes.length / 2 ** 29);
  view.setUint32(all.length - 4, bytes.length * 8);
  const h = first.slice(), w = new Uint32Array(64);
  for (let at = 0; at < all.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
    }
    let [a, b, c, d, e, f, g, j] = h;
    for (let i = 0; i < 64; i++) {
      const p = (j + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + ((e & f) ^ (~e & g)) + k[i] + w[i]) | 0;
      const q = (((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      j = g; g = f; f = e; e = (d + p) | 0; d = c; c = b; b = a; a = (p + q) | 0;
    }
    for (const [i, x] of [a, b, c, d, e, f, g, j].entries()) h[i] += x;
  }
  return [...h].map((x) => x.toString(16).padStart(8, '0')).join('');
}

const text = new TextEncoder();
export const sumOf = (s) => sha256(text.encode(s));
