// Products in nets: convolutions, matrices, attention. All but the transposed convolution are one
// loop: sixteen columns of the right side are packed one beside the other (tile), and rows of the
// left side are multiplied with them, some at a time. A sum runs over its terms in order, in
// float32.
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Eight vectors of sums at once, which stay in registers: of wider ones the compiler would keep the
// sums in memory.
#ifdef __AVX__
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { WIDE = 16, ACROSS = WIDE / LANES, DOWN = 8 / ACROSS };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

// y[r][c] = a[r] . column c (+ bias), for `rows` rows of k values, `lda` apart, and the first
// `cols` columns of the tile. The bias is one a row, or one a column, or NULL.
static void multiply(const float *a, size_t lda, size_t rows, const float *tile, size_t k, size_t cols, float *y, size_t ldy,
	const float *row_bias, const float *col_bias) {
	for (size_t r = 0; r < rows; r += DOWN) {
		const float *p[DOWN];
		lanes sum[DOWN][ACROSS] = {{{0}}};
		for (size_t i = 0; i < DOWN; i++) p[i] = a + (r + i < rows ? r + i : r) * lda;
		for (size_t j = 0; j < k; j++)
			for (size_t h = 0; h < ACROSS; h++) {
				lanes b;
				memcpy(&b, tile + j * WIDE + h * LANES, sizeof b);
				for (size_t i = 0; i < DOWN; i++) sum[i][h] += p[i][j] * b;
			}
		for (size_t i = 0; i < DOWN && r + i < rows; i++) {
			float sums[WIDE];
			memcpy(sums, sum[i], sizeof sums);
			float *to = y + (r + i) * ldy;
			for (size_t c = 0; c < cols; c++) to[c] = sums[c] + (row_bias ? row_bias[r + i] : 0) + (col_bias ? col_bias[c] : 0);
		}
	}
}

static float *tile_new(size_t k) { return aligned_alloc(64, (k * WIDE * sizeof(float) + 63) / 64 * 64); }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// Packs columns from..from+cols of a matrix whose column c begins at b + c·across, and goes on
// `down` apart.
static void pack(float *tile, const float *b, size_t k, size_t from, size_t cols, size_t down, size_t across) {
	memset(tile, 0, k * WIDE * sizeof *tile);
	for (size_t c = 0; c < cols; c++) {
		const float *p = b + (from + c) * across;
		for (size_t j = 0; j < k; j++) tile[j * WIDE + c] = p[j * down];
	}
}

// y[m x n] = a[m x k] . b, with rows lda and ldy apart.
static void product(const float *a, size_t lda, size_t m, const float *b, size_t down, size_t across, size_t k, size_t n, float *y,
	size_t ldy, const float *bias, float *tile) {
	for (size_t from = 0; from < n; from += WIDE) {
		size_t cols = least(WIDE, n - from);
		pack(tile, b, k, from, cols, down, across);
		multiply(a, lda, m, tile, k, cols, y + from, ldy, NULL, bias ? bias + from : NULL);
	}
}

bool axg_matmul(const axg_node *node, const axg_tensor *a, const axg_tensor *b, const axg_tensor *bias, axg_tensor *y) {
	const axg_value *av = a->is, *bv = b->is, *yv = y->is;
	size_t m = yv->dims[yv->rank - 2], n = yv->dims[yv->rank - 1], k = av->dims[av->rank - 1], matrices = yv->n / m / n;
	bool turned = node->attr[0];
	float *tile = tile_new(k);
	if (!tile) return false;
	for (size_t i = 0; i < matrices; i++) {
		size_t rest = i, at = 0, bt = 0, an = 1, bn = 1; // from the last axis of the batch to the first
		for (uint32_t x = 0; x + 2 < yv->rank; x++) {
			size_t d = yv->dims[yv->rank - 3 - x], here = rest % d;
			rest /= d;
			if (x + 2 < av->rank) {
				uint32_t own = av->dims[av->rank - 3 - x];
				at += (own > 1 ? here : 0) * an;
				an *= own;
			}
			if (x + 2 < bv->rank) {
				uint32_t own = bv->dims[bv->rank - 3 - x];
				bt += (own > 1 ? here : 0) * bn;
				bn *= own;
			}
		}
		product(a->f + at * m * k, k, m, b->f + bt * k * n, turned ? 1 : n, turned ? k : 1, k, n, y->f + i * m * n, n,
			bias ? bias->f : NULL, tile);
	}
	free(tile);
	return true;
}

// A convolution's plane; a row of values is one of height 1.
typedef struct {
	size_t n, c, ih, iw, oh, ow, kh, kw, in, out, groups;
	ptrdiff_t sh, sw, top, left, dh, dw;
} walk;

static walk walk_of(const axg_node *n, const axg_value *x, const axg_value *w, const axg_value *y) {
	bool plane = x->rank == 4;
	const int32_t *a = n->attr;
	walk k = {.n = x->dims[0], .c = x->dims[1], .ih = plane ? x->dims[2] : 1, .iw = x->dims[x->rank - 1], .oh = plane ? y->dims[2] : 1,
		.ow = y->dims[y->rank - 1], .kh = plane ? w->dims[2] : 1, .kw = w->dims[w->rank - 1], .groups = (size_t)a[8], .sh = a[0],
		.sw = a[1], .top = a[2], .left = a[3], .dh = a[6], .dw = a[7]};
	k.in = k.c / k.groups;
	k.out = y->dims[1] / k.groups;
	return k;
}

// What sixteen places see of a group's channels.
static void see(const walk *w, const float *x, float *tile, size_t from, size_t places) {
	for (size_t c = 0; c < w->in; c++)
		for (size_t ky = 0; ky < w->kh; ky++)
			for (size_t kx = 0; kx < w->kw; kx++, tile += WIDE)
				for (size_t p = 0; p < WIDE; p++) {
					ptrdiff_t iy = (ptrdiff_t)((from + p) / w->ow) * w->sh - w->top + (ptrdiff_t)ky * w->dh;
					ptrdiff_t ix = (ptrdiff_t)((from + p) % w->ow) * w->sw - w->left + (ptrdiff_t)kx * w->dw;
					bool there = p < places && iy >= 0 && iy < (ptrdiff_t)w->ih && ix >= 0 && ix < (ptrdiff_t)w->iw;
					tile[p] = there ? x[(c * w->ih + (size_t)iy) * w->iw + (size_t)ix] : 0;
				}
}

bool axg_conv(const axg_node *n, const axg_tensor *x, const axg_tensor *w, const axg_tensor *b, axg_tensor *y) {
	walk k = walk_of(n, x->is, w->is, y->is);
	size_t terms = k.in * k.kh * k.kw, places = k.oh * k.ow;
	float *tile = tile_new(terms);
	if (!tile) return false;
	for (size_t i = 0; i < k.n * k.groups; i++) {
		size_t group = i % k.groups;
		for (size_t from = 0; from < places; from += WIDE) {
			size_t cols = least(WIDE, places - from);
			see(&k, x->f + i * k.in * k.ih * k.iw, tile, from, cols);
			multiply(w->f + group * k.out * terms, terms, k.out, tile, terms, cols, y->f + i * k.out * places + from, places,
				b ? b->f + group * k.out : NULL, NULL);
		}
	}
	free(tile);
	return true;
}

// Each value of x adds the weights, times itself, around its place.
bool axg_conv_transpose(const axg_node *n, const axg_tensor *x, const axg_tensor *w, const axg_tensor *b, axg_tensor *y) {
	walk k = walk_of(n, x->is, w->is, y->is);
	size_t area = k.oh * k.ow;
	for (size_t i = 0; i < k.n * k.groups * k.out; i++)
		for (size_t p = 0; p < area; p++) y->f[i * area + p] = b ? b->f[i % (k.groups * k.out)] : 0;
	for (size_t i = 0; i < k.n * k.c; i++) {
		const float *from = x->f + i * k.ih * k.iw;
		for (size_t o = 0; o < k.out; o++) {
			float *to = y->f + (i / k.in * k.out + o) * area;
			const float *weights = w->f + (i % k.c * k.out + o) * k.kh * k.kw;
			for (size_t p = 0; p < k.ih * k.iw; p++)
				for (size_t ky = 0; ky < k.kh; ky++) {
					ptrdiff_t oy = (ptrdiff_t)(p / k.iw) * k.sh - k.top + (ptrdiff_t)ky * k.dh;
					if (oy < 0 || oy >= (ptrdiff_t)k.oh) continue;
					for (size_t kx = 0; kx < k.kw; kx++) {
						ptrdiff_t ox = (ptrdiff_t)(p % k.iw) * k.sw - k.left + (ptrdiff_t)kx * k.dw;
						if (ox >= 0 && ox < (ptrdiff_t)k.ow) to[(size_t)oy * k.ow + (size_t)ox] += weights[ky * k.kw + kx] * from[p];
					}
				}
		}
	}
	return true;
}

// Where a mask's value for a score lies.
static size_t mask_at(const axg_value *m, const size_t at[4]) {
	size_t to = 0;
	for (uint32_t i = 0; i < m->rank; i++) to = to * m->dims[i] + (m->dims[i] > 1 ? at[4 - m->rank + i] : 0);
	return to;
}

static void softmax(float *x, size_t n) {
	float top = -INFINITY;
	double sum = 0;
	for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
	for (size_t i = 0; i < n; i++) sum += x[i] = expf(x[i] - top);
	for (size_t i = 0; i < n; i++) x[i] = (float)(x[i] / sum);
}

enum { SOME = 128 }; // queries whose scores are there at once

bool axg_attention(const axg_node *n, const axg_tensor *q, const axg_tensor *k, const axg_tensor *v, const axg_tensor *mask,
	axg_tensor *y) {
	size_t heads = (size_t)n->attr[0], batch = q->is->dims[0], rows = q->is->dims[1], keys = k->is->dims[1];
	size_t wide = q->is->dims[2], out = v->is->dims[2], d = wide / heads, e = out / heads;
	float scale = axg_float(n->attr[1]);
	float *tile = tile_new(keys > d ? keys : d), *scores = malloc(SOME * keys * sizeof *scores);
	for (size_t i = 0; tile && scores && i < batch * heads; i++) {
		size_t b = i / heads, h = i % heads;
		for (size_t from = 0; from < rows; from += SOME) {
			size_t some = least(SOME, rows - from);
			product(q->f + (b * rows + from) * wide + h * d, wide, some, k->f + b * keys * wide + h * d, 1, wide, d, keys, scores, keys,
				NULL, tile);
			for (size_t r = 0; r < some; r++) {
				float *row = scores + r * keys;
				for (size_t c = 0; c < keys; c++) {
					row[c] *= scale;
					if (mask) row[c] += mask->f[mask_at(mask->is, (size_t[]){b, h, from + r, c})];
				}
				softmax(row, keys);
			}
			product(scores, keys, some, v->f + b * keys * out + h * e, out, 1, keys, e, y->f + (b * rows + from) * out + h * e, out,
				NULL, tile);
		}
	}
	bool there = tile && scores;
	free(tile);
	free(scores);
	return there;
}
