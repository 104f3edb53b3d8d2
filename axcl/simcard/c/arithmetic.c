// What layers and heads are computed with: bf16 to float32 and back, products of rows with a
// model's matrices, norms.
#include "compute.h"

#include <math.h>
#include <string.h>

enum { LANES = 8 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef uint16_t lanes16 __attribute__((vector_size(LANES * sizeof(uint16_t))));
typedef uint32_t lanes32 __attribute__((vector_size(LANES * sizeof(uint32_t))));

float axm_from_bf16(uint16_t b) {
	uint32_t bits = (uint32_t)b << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

// Round to nearest, ties to even; a NaN stays a NaN.
uint16_t axm_to_bf16(float f) {
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

double axm_from_f16(uint16_t h) {
	int exponent = h >> 10 & 31, fraction = h & 1023;
	double v = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
	return h & 0x8000 ? -v : v;
}

// Round to nearest, ties to even.
uint16_t axm_to_f16(float v) {
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	double a = fabs((double)v);
	if (isnan(v)) return (uint16_t)(sign | 0x7e00);
	int e = 0;
	frexp(a, &e); // a < 2^e
	int step = (e - 11 > -24 ? e - 11 : -24);
	double n = nearbyint(ldexp(a, -step)); // in units of the last place
	if (ldexp(n, step) >= 65536) return (uint16_t)(sign | 0x7c00);
	if (n == 0) return sign;
	frexp(ldexp(n, step), &e);
	if (e <= -14) return (uint16_t)(sign | (uint16_t)ldexp(ldexp(n, step), 24));
	return (uint16_t)(sign | (uint16_t)((e + 14) << 10) | ((uint16_t)ldexp(ldexp(n, step), 11 - e) & 1023));
}

void axm_widen(float *dst, const uint16_t *src, size_t n) {
	size_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		lanes16 s;
		memcpy(&s, src + i, sizeof s);
		lanes32 w = __builtin_convertvector(s, lanes32) << 16;
		memcpy(dst + i, &w, sizeof w);
	}
	for (; i < n; i++) dst[i] = axm_from_bf16(src[i]);
}

void axm_narrow(uint16_t *dst, const float *src, size_t n) {
	for (size_t i = 0; i < n; i++) dst[i] = axm_to_bf16(src[i]);
}

// A sum has sixteen parts in four vectors, which every processor has registers for; parts in wider
// ones would be kept in memory.
enum { QUAD = 4, PARTS = 4, STEP = QUAD * PARTS };
typedef float quad __attribute__((vector_size(QUAD * sizeof(float))));

static inline void dot_step(quad *sum, const float *a, const float *b) {
	for (size_t i = 0; i < PARTS; i++) {
		quad x, y;
		memcpy(&x, a + i * QUAD, sizeof x);
		memcpy(&y, b + i * QUAD, sizeof y);
		sum[i] += x * y;
	}
}

// The sixteen parts and what is left of both rows, from i on.
static inline float total(const quad *sum, const float *a, const float *b, size_t i, size_t n) {
	quad low = sum[0] + sum[2], high = sum[1] + sum[3];
	float s = 0;
	for (size_t k = 0; k < QUAD; k++) s += low[k];
	for (size_t k = 0; k < QUAD; k++) s += high[k];
	for (; i < n; i++) s += a[i] * b[i];
	return s;
}

float axm_dot(const float *a, const float *b, size_t n) {
	quad sum[PARTS] = {{0}};
	size_t i = 0;
	for (; i + STEP <= n; i += STEP) dot_step(sum, a + i, b + i);
	return total(sum, a, b, i, n);
}

// axm_dot of two rows of x, `cols` values each, with b: b is read once, and no row waits for its
// own sums.
static void dot2(const float *x, const float *b, size_t cols, float out[2]) {
	const float *x1 = x + cols;
	quad s0[PARTS] = {{0}}, s1[PARTS] = {{0}};
	size_t i = 0;
	for (; i + STEP <= cols; i += STEP) {
		dot_step(s0, x + i, b + i);
		dot_step(s1, x1 + i, b + i);
	}
	out[0] = total(s0, x, b, i, cols);
	out[1] = total(s1, x1, b, i, cols);
}

// Row r of a matrix in fours: of four rows, 32 values of each in turn.
static void four(const axm_matrix *w, size_t r, float *buf) {
	size_t n = w->cols, lines = (n + 31) / 32;
	const uint16_t *p = (const uint16_t *)w->data + (r / 4 * lines * 4 + r % 4) * 32;
	for (size_t i = 0; i < n; i += 32, p += 128) axm_widen(buf + i, p, n - i < 32 ? n - i : 32);
}

// Row r of a matrix of integers: of eight rows, blocks of 32 columns in turn, four values of each
// row after four, and the eight scales of each group in turn. Of four bits the second half of a
// block lies in the high bits of the first.
static void grouped(const axm_matrix *w, size_t r, float *buf) {
	size_t n = w->cols, blocks = (n + 31) / 32, groups = (n + w->group - 1) / w->group, bytes = w->type == 7 ? 256 : 128;
	const uint8_t *p = (const uint8_t *)w->data + r / 8 * blocks * bytes + r % 8 * 4;
	const uint16_t *scales = (const uint16_t *)w->scales + r / 8 * groups * 8 + r % 8;
	for (size_t i = 0; i < n; i += 32, p += bytes) {
		int8_t block[32];
		if (w->type == 7)
			for (size_t k = 0; k < 8; k++) memcpy(block + k * 4, p + k * 32, 4);
		else
			for (size_t k = 0; k < 16; k++) {
				uint8_t two = p[k / 4 * 32 + k % 4];
				block[k] = (int8_t)((two & 15) - 8);
				block[k + 16] = (int8_t)((two >> 4) - 8);
			}
		size_t end = n - i < 32 ? n - i : 32;
		for (size_t k = 0; k < end;) {
			size_t group = (i + k) / w->group, to = (group + 1) * w->group - i;
			float scale = axm_from_bf16(scales[group * 8]);
			for (to = to < end ? to : end; k < to; k++) buf[i + k] = (float)block[k] * scale;
		}
	}
}

// Row r of a matrix as float32.
const float *axm_row(const axm_matrix *w, uint32_t r, float *buf) {
	size_t n = w->cols, at = (size_t)r * n;
	switch (w->type) {
	case 1:
		return (const float *)w->data + at;
	case 2:
		axm_widen(buf, (const uint16_t *)w->data + at, n);
		return buf;
	case 6:
		four(w, r, buf);
		return buf;
	default:
		grouped(w, r, buf);
		return buf;
	}
}

// A vector's values.
void axm_vector(const axm_matrix *w, float *dst) {
	const float *p = axm_row(w, 0, dst);
	if (p != dst) memcpy(dst, p, w->cols * sizeof *dst);
}

// y[n x rows] = x[n x cols] . Wt (+ bias). buf holds one row of W and one of bias.
void axm_project(const axm_matrix *w, const axm_matrix *bias, const float *x, uint32_t n, float *y, float *buf) {
	for (uint32_t o = 0; o < w->rows; o++) {
		const float *p = axm_row(w, o, buf);
		uint32_t r = 0;
		for (; r + 2 <= n; r += 2) {
			float sums[2];
			dot2(x + (size_t)r * w->cols, p, w->cols, sums);
			for (uint32_t k = 0; k < 2; k++) y[(size_t)(r + k) * w->rows + o] = sums[k];
		}
		for (; r < n; r++) y[(size_t)r * w->rows + o] = axm_dot(x + (size_t)r * w->cols, p, w->cols);
	}
	if (!bias || !bias->type) return;
	axm_vector(bias, buf);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t o = 0; o < w->rows; o++) y[(size_t)r * w->rows + o] += buf[o];
}

// axm_norm(x, w) over rows of `len`, in place or not.
void axm_norm(const axm *m, const axm_matrix *w, const float *x, float *y, size_t rows, size_t len, float *buf) {
	axm_vector(w, buf);
	if (m->flags & AXM_NORM_PLUS_ONE)
		for (size_t i = 0; i < len; i++) buf[i] += 1;
	for (size_t r = 0; r < rows; r++, x += len, y += len) {
		float k = 1 / sqrtf(axm_dot(x, x, len) / (float)len + m->eps);
		for (size_t i = 0; i < len; i++) y[i] = x[i] * k * buf[i];
	}
}

float axm_activate(uint32_t kind, float x) {
	if (kind == 0) return x / (1 + expf(-x));
	return 0.5f * x * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

void axm_add(float *x, const float *y, size_t n) {
	for (size_t i = 0; i < n; i++) x[i] += y[i];
}
