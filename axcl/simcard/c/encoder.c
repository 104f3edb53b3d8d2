// An encoder of pictures. Data flow: bytes -> patches, each with its place -> the tower's blocks:
// norm -> q, k, v, turned by row and column -> every patch looks at every other -> o -> residual ->
// norm -> GELU MLP -> residual; after some blocks and at the end, merge x merge patches side by
// side -> norm -> merger -> rows of float32.
//
// It is computed patch by patch as the formulas are written; what is summed over a row is summed in
// double precision.
#include "compute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	const axm *m;
	size_t n, d, wide, most; // patches, their width, merge x merge of them, and the longest row there is
	uint32_t *y, *x;         // where each patch is
	float *h, *a, *qkv, *o, *mlp, *row, *buf, *k, *v, *score;
} easel;

// Rows `first` and on of a stacked matrix.
static axm_matrix part(const axm *m, int which, size_t first, size_t rows) {
	axm_matrix w = m->w[which];
	w.data = (const uint8_t *)w.data + first * w.cols * (w.type == 1 ? 4 : 2);
	w.rows = (uint32_t)rows;
	return w;
}

// y = W x + b for n rows, of the block-th W and b.
static void linear(const easel *e, int weight, int bias, size_t block, size_t rows, const float *x, size_t n, float *y) {
	axm_matrix w = part(e->m, weight, block * rows, rows), b = {0};
	if (bias >= 0) b = part(e->m, bias, block, 1);
	axm_project(&w, &b, x, (uint32_t)n, y, e->buf);
}

// Mean zero and deviation one over each `len` values, then the block-th factors and addends.
static void layer_norm(const easel *e, int weight, int bias, size_t block, const float *x, size_t rows, size_t len, float *y) {
	axm_matrix w = part(e->m, weight, block, 1), b = part(e->m, bias, block, 1);
	float *factor = e->buf, *addend = e->buf + len;
	axm_vector(&w, factor);
	axm_vector(&b, addend);
	for (size_t r = 0; r < rows; r++, x += len, y += len) {
		double sum = 0, squares = 0;
		for (size_t i = 0; i < len; i++) sum += x[i];
		double mean = sum / (double)len;
		for (size_t i = 0; i < len; i++) squares += (x[i] - mean) * (x[i] - mean);
		double k = 1 / sqrt(squares / (double)len + e->m->eps);
		for (size_t i = 0; i < len; i++) y[i] = (float)((x[i] - mean) * k) * factor[i] + addend[i];
	}
}

// Takes the patches out of the picture, gives each its place, and what stands in the table of
// positions for it.
static void look(const easel *e, const uint8_t *picture) {
	const axm *m = e->m;
	size_t line = (size_t)m->patch * 3, pixels = line * m->patch * (m->order ? 1 : 2), n = 0;
	for (uint32_t by = 0; by < m->down; by += m->merge)
		for (uint32_t bx = 0; bx < m->across; bx += m->merge)
			for (uint32_t dy = 0; dy < m->merge; dy++)
				for (uint32_t dx = 0; dx < m->merge; dx++, n++) {
					e->y[n] = by + dy;
					e->x[n] = bx + dx;
					const uint8_t *from = m->order ? picture + (((size_t)e->y[n] * m->patch) * m->across + e->x[n]) * line
						: picture + n * pixels;
					for (size_t i = 0; i < pixels; i++) {
						size_t at = m->order ? i / line * line * m->across + i % line : i;
						e->row[i] = (float)from[at] / 127.5f - 1;
					}
					linear(e, W_PATCH, W_PATCH_BIAS, 0, e->d, e->row, 1, e->h + n * e->d);
				}
	axm_add(e->h, m->w[W_POS].data, e->n * e->d);
}

// Turns a head of patch i by its row or column, frequency by frequency.
static void turn(const easel *e, float *x, size_t i) {
	uint32_t half = e->m->rotary / 2;
	const float *freq = e->m->w[W_INV_FREQ].data, *axis = e->m->w[W_ROPE_AXIS].data;
	for (uint32_t k = 0; k < half; k++) {
		float angle = (float)(axis[k] == 1 ? e->y[i] : e->x[i]) * freq[k];
		float c = cosf(angle), s = sinf(angle), a = x[k], b = x[k + half];
		x[k] = a * c - b * s;
		x[k + half] = b * c + a * s;
	}
}

static void attention(const easel *e) {
	size_t d = e->d, hd = e->m->head_dim;
	for (size_t head = 0; head < e->m->heads; head++) {
		for (size_t i = 0; i < e->n; i++) {
			float *q = e->qkv + i * 3 * d + head * hd;
			turn(e, q, i);
			turn(e, q + d, i);
			memcpy(e->k + i * hd, q + d, hd * sizeof *q);
			memcpy(e->v + i * hd, q + 2 * d, hd * sizeof *q);
		}
		for (size_t i = 0; i < e->n; i++) {
			const float *q = e->qkv + i * 3 * d + head * hd;
			float *o = e->o + i * d + head * hd, top = -INFINITY;
			double sum = 0;
			for (size_t j = 0; j < e->n; j++) {
				e->score[j] = axm_dot(q, e->k + j * hd, hd) * e->m->scale;
				if (e->score[j] > top) top = e->score[j];
			}
			memset(o, 0, hd * sizeof *o);
			for (size_t j = 0; j < e->n; j++) {
				float w = expf(e->score[j] - top);
				sum += w;
				for (size_t c = 0; c < hd; c++) o[c] += w * e->v[j * hd + c];
			}
			for (size_t c = 0; c < hd; c++) o[c] = (float)(o[c] / sum);
		}
	}
}

static void block(const easel *e, size_t b) {
	size_t n = e->n, d = e->d, inter = e->m->intermediate;
	layer_norm(e, W_NORM1, W_NORM1_BIAS, b, e->h, n, d, e->a);
	linear(e, W_QKV, W_QKV_BIAS, b, 3 * d, e->a, n, e->qkv);
	attention(e);
	linear(e, W_O, W_O_BIAS, b, d, e->o, n, e->a);
	axm_add(e->h, e->a, n * d);
	layer_norm(e, W_NORM2, W_NORM2_BIAS, b, e->h, n, d, e->a);
	linear(e, W_FC1, W_FC1_BIAS, b, inter, e->a, n, e->mlp);
	for (size_t i = 0; i < n * inter; i++) e->mlp[i] = axm_activate(1, e->mlp[i]);
	linear(e, W_FC2, W_FC2_BIAS, b, d, e->mlp, n, e->a);
	axm_add(e->h, e->a, n * d);
}

// Two matrices with an exact GELU between them, over each row of e->a.
static void merge(const easel *e, int fc1, int fc1_bias, int fc2, int fc2_bias, size_t which, float *out) {
	size_t rows = e->m->groups[0].rows;
	for (size_t r = 0; r < rows; r++) {
		linear(e, fc1, fc1_bias, which, e->wide, e->a + r * e->wide, 1, e->row);
		for (size_t i = 0; i < e->wide; i++) e->row[i] *= 0.5f * erfcf(-e->row[i] * 0.70710678f);
		linear(e, fc2, fc2_bias, which, e->m->out, e->row, 1, out + r * e->m->out);
	}
}

static void paint(const easel *e, const uint8_t *picture, void *const *out) {
	const axm *m = e->m;
	const float *deep = m->w[W_DEEP_AT].data;
	look(e, picture);
	for (uint32_t b = 0, k = 0; b < m->blocks; b++) {
		block(e, b);
		if (k == m->deep || deep[k] != (float)b) continue;
		if (out[1 + k]) {
			layer_norm(e, W_DEEP_NORM, W_DEEP_NORM_BIAS, k, e->h, e->m->groups[0].rows, e->wide, e->a);
			merge(e, W_DEEP_FC1, W_DEEP_FC1_BIAS, W_DEEP_FC2, W_DEEP_FC2_BIAS, k, out[1 + k]);
		}
		k++;
	}
	if (!out[0]) return;
	layer_norm(e, W_MERGE_NORM, W_MERGE_NORM_BIAS, 0, e->h, e->n, e->d, e->a);
	if (m->flags & AXM_MERGER)
		merge(e, W_MERGE_FC1, W_MERGE_FC1_BIAS, W_MERGE_FC2, W_MERGE_FC2_BIAS, 0, out[0]);
	else
		linear(e, W_MERGE_FC2, -1, 0, m->out, e->a, m->groups[0].rows, out[0]);
}

// Row r of a shape-only encoder spells the sum of the picture's bytes plus r.
static void spell(const axm *m, const uint8_t *picture, void *const *out) {
	uint32_t sum = 0;
	for (uint64_t i = 0; i < m->groups[0].in[0].size; i++) sum += picture[i];
	for (uint32_t k = 0; k < m->nout; k++)
		if (out[k]) memset(out[k], 0, m->groups[0].out[k].size);
	for (uint32_t r = 0; out[0] && r < m->groups[0].rows; r++)
		for (uint32_t bit = 0; bit < 24; bit++) ((float *)out[0])[(size_t)r * m->out + bit] = (sum + r) >> bit & 1 ? -1 : 1;
}

static void *take(uint8_t **p, size_t values) {
	void *at = *p;
	*p += (values * 4 + 63) / 64 * 64;
	return at;
}

// Two rounds over the same list: the first adds up, the second hands out.
static size_t lay_out(easel *e, uint8_t *base) {
	size_t n = e->n, d = e->d, hd = e->m->head_dim;
	uint8_t *p = base;
	e->y = take(&p, n);
	e->x = take(&p, n);
	e->h = take(&p, n * d);
	e->a = take(&p, n * d);
	e->qkv = take(&p, 3 * n * d);
	e->o = take(&p, n * d);
	e->mlp = take(&p, n * e->m->intermediate);
	e->row = take(&p, e->most);
	e->buf = take(&p, 2 * e->most);
	e->k = take(&p, n * hd);
	e->v = take(&p, n * hd);
	e->score = take(&p, n);
	return (size_t)(p - base);
}

int axm_encoder(const axm *m, const void *picture, void *const *out) {
	if (m->flags & AXM_SHAPE_ONLY) {
		spell(m, picture, out);
		return AXM_OK;
	}
	easel e = {.m = m, .n = (size_t)m->down * m->across, .d = m->hidden};
	e.wide = e.d * m->merge * m->merge;
	const size_t rows[] = {3 * e.d, e.wide, m->intermediate, m->out, (size_t)m->patch * m->patch * 6};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i] > e.most) e.most = rows[i];
	uint8_t probe[1]; // only an address to count from
	size_t bytes = lay_out(&e, probe);
	uint8_t *mem = aligned_alloc(64, bytes + 64);
	if (!mem) return AXM_E_MEMORY;
	lay_out(&e, mem);
	paint(&e, picture, out);
	free(mem);
	return AXM_OK;
}
