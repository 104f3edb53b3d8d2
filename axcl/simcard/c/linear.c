// A layer that keeps a state: a gated delta-net. Data flow: input rows -> norm -> qkv, z, b, a ->
// convolution over this row and those before it (the first state) -> queries and keys of length one
// -> each value head forgets, corrects and is asked (the second state) -> norm, gate -> o ->
// residual -> norm -> gated MLP -> residual -> output rows. Padding, a mask of 0, leaves both
// states as they are.
//
// It is computed head by head in double precision, by the formulas as they are written, a row after
// the other.
#include "compute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double state_at(const axm *m, const void *p, size_t i) {
	switch (m->state) {
	case 0:
		return axm_from_bf16(((const uint16_t *)p)[i]);
	case 1:
		return axm_from_f16(((const uint16_t *)p)[i]);
	default:
		return ((const float *)p)[i];
	}
}

static void state_put(const axm *m, void *p, size_t i, double v) {
	switch (m->state) {
	case 0:
		((uint16_t *)p)[i] = axm_to_bf16((float)v);
		break;
	case 1:
		((uint16_t *)p)[i] = axm_to_f16((float)v);
		break;
	default:
		((float *)p)[i] = (float)v;
	}
}

typedef struct {
	float *x, *a, *u, *z, *b, *decay, *y, *g, *up, *buf;
	double *c, *s, *d, *past; // the convolution's result of one row; one head's state and what is written; rows of u before the call
} scratch;

static void *take(uint8_t **p, size_t bytes) {
	void *at = *p;
	*p += (bytes + 63) / 64 * 64;
	return at;
}

static size_t lay_out(const axm *m, size_t n, scratch *s, uint8_t *base) {
	size_t h = m->hidden, values = (size_t)m->heads * m->value_dim, channels = 2 * (size_t)m->kv_heads * m->head_dim + values;
	size_t inter = m->intermediate, wide = h > inter ? h : inter;
	if (channels > wide) wide = channels;
	uint8_t *p = base;
	s->x = take(&p, n * h * 4);
	s->a = take(&p, n * h * 4);
	s->u = take(&p, n * channels * 4);
	s->z = take(&p, n * values * 4);
	s->b = take(&p, n * m->heads * 4);
	s->decay = take(&p, n * m->heads * 4);
	s->y = take(&p, n * values * 4);
	s->g = take(&p, n * inter * 4);
	s->up = take(&p, n * inter * 4);
	s->buf = take(&p, wide * 4);
	s->c = take(&p, n * channels * 8);
	s->past = take(&p, channels * (m->conv - 1) * 8);
	s->s = take(&p, (size_t)m->head_dim * m->value_dim * 8);
	s->d = take(&p, m->value_dim * 8);
	return (size_t)(p - base);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// c of row r: each channel alone, over the rows of u that are there, of this call and before it.
static void convolve(const axm *m, const scratch *s, uint32_t r, size_t channels) {
	uint32_t w = m->conv;
	const float *weight = m->w[W_CONV].data;
	for (size_t i = 0; i < channels; i++) {
		double sum = 0;
		for (uint32_t j = 0; j < w; j++) {
			int64_t row = (int64_t)r - w + 1 + j;
			double u = row >= 0 ? (double)s->u[(size_t)row * channels + i] : s->past[i * (w - 1) + (size_t)(row + w - 1)];
			sum += (double)weight[i * w + j] * u;
		}
		s->c[r * channels + i] = sum * sigmoid(sum);
	}
}

static void unit(double *x, size_t n, double length) {
	double sum = 1e-6;
	for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
	for (size_t i = 0; i < n; i++) x[i] *= length / sqrt(sum);
}

static void head(const axm *m, const scratch *s, uint32_t v, uint32_t rows, size_t channels, const void *in, bool cold, void *out) {
	size_t dk = m->head_dim, dv = m->value_dim, keys = m->kv_heads * dk, key = v / (m->heads / m->kv_heads) * dk;
	const float *factor = m->w[W_NORM].data;
	for (size_t i = 0; i < dk * dv; i++) s->s[i] = cold ? 0 : state_at(m, in, v * dk * dv + i);
	double rate = exp((double)((const float *)m->w[W_A_LOG].data)[v]), bias = ((const float *)m->w[W_DT_BIAS].data)[v];
	for (uint32_t r = 0; r < rows; r++) {
		const double *q = s->c + r * channels + key, *k = q + keys, *val = s->c + r * channels + 2 * keys + v * dv;
		double t = (double)s->decay[r * m->heads + v] + bias;
		double keep = exp(-rate * (t > 30 ? t : log1p(exp(t)))), beta = sigmoid(s->b[r * m->heads + v]);
		for (size_t i = 0; i < dk * dv; i++) s->s[i] *= keep;
		for (size_t j = 0; j < dv; j++) {
			double recalled = 0;
			for (size_t i = 0; i < dk; i++) recalled += s->s[i * dv + j] * k[i];
			s->d[j] = beta * (val[j] - recalled);
		}
		for (size_t i = 0; i < dk; i++)
			for (size_t j = 0; j < dv; j++) s->s[i * dv + j] += k[i] * s->d[j];
		double square = 0;
		for (size_t j = 0; j < dv; j++) {
			double o = 0;
			for (size_t i = 0; i < dk; i++) o += s->s[i * dv + j] * q[i];
			s->d[j] = o;
			square += o * o;
		}
		for (size_t j = 0; j < dv; j++) {
			double z = s->z[(r * m->heads + v) * dv + j];
			s->y[(r * m->heads + v) * dv + j] =
				(float)(s->d[j] / sqrt(square / (double)dv + (double)m->eps) * (double)factor[j] * z * sigmoid(z));
		}
	}
	for (size_t i = 0; out && i < dk * dv; i++) state_put(m, out, v * dk * dv + i, s->s[i]);
}

static void layer(const axm *m, uint32_t n, uint32_t valid, const void *const *in, bool cold, void *const *out, scratch *s) {
	const axm_matrix *w = m->w;
	size_t h = m->hidden, inter = m->intermediate, dk = m->head_dim, keys = m->kv_heads * dk;
	size_t channels = 2 * keys + (size_t)m->heads * m->value_dim, past = m->conv - 1;
	axm_widen(s->x, in[m->at[IN_INPUT]], n * h);
	axm_norm(m, &w[W_INPUT_NORM], s->x, s->a, n, h, s->buf);
	axm_project(&w[W_QKV], NULL, s->a, n, s->u, s->buf);
	axm_project(&w[W_Z], NULL, s->a, n, s->z, s->buf);
	axm_project(&w[W_B], NULL, s->a, n, s->b, s->buf);
	axm_project(&w[W_A], NULL, s->a, n, s->decay, s->buf);
	for (size_t i = 0; i < channels * past; i++) s->past[i] = cold ? 0 : state_at(m, in[m->at[IN_K]], i);
	memset(s->y, 0, (size_t)n * m->heads * m->value_dim * sizeof *s->y);
	for (uint32_t r = 0; r < valid; r++) {
		convolve(m, s, r, channels);
		for (size_t i = 0; i < m->kv_heads; i++) {
			unit(s->c + r * channels + i * dk, dk, 1 / sqrt((double)dk));
			unit(s->c + r * channels + keys + i * dk, dk, 1);
		}
	}
	for (uint32_t v = 0; v < m->heads; v++) head(m, s, v, valid, channels, in[m->at[IN_V]], cold, out[OUT_V]);
	// Of each channel the last rows of u before the padding, the newest last.
	for (size_t i = 0; out[OUT_K] && i < channels; i++)
		for (size_t j = 0; j < past; j++) {
			size_t row = valid + j; // counted from the oldest row before the call
			state_put(m, out[OUT_K], i * past + j, row < past ? s->past[i * past + row] : (double)s->u[(row - past) * channels + i]);
		}
	axm_project(&w[W_O], NULL, s->y, n, s->a, s->buf);
	axm_add(s->x, s->a, n * h);
	axm_norm(m, &w[W_POST_NORM], s->x, s->a, n, h, s->buf);
	axm_project(&w[W_GATE], NULL, s->a, n, s->g, s->buf);
	axm_project(&w[W_UP], NULL, s->a, n, s->up, s->buf);
	for (size_t i = 0; i < n * inter; i++) s->g[i] = axm_activate(0, s->g[i]) * s->up[i];
	axm_project(&w[W_DOWN], NULL, s->g, n, s->a, s->buf);
	axm_add(s->x, s->a, n * h);
	if (out[OUT_OUTPUT]) axm_narrow(out[OUT_OUTPUT], s->x, n * h);
}

// The first group of several rows is the one that only a sequence's beginning goes through.
static bool first_wide(const axm *m, uint32_t group) {
	for (uint32_t g = 0; g < group; g++)
		if (m->groups[g].rows > 1) return false;
	return m->groups[group].rows > 1;
}

int axm_linear(const axm *m, uint32_t group, const void *const *in, void *const *out, const axm_quirks *quirks) {
	const axm_group *g = &m->groups[group];
	if (m->flags & AXM_SHAPE_ONLY) {
		for (int o = 0; o < OUT_OUTPUT; o++)
			if (out[o]) memset(out[o], 0, g->out[o].size);
		if (out[OUT_OUTPUT]) memmove(out[OUT_OUTPUT], in[m->at[IN_INPUT]], g->out[OUT_OUTPUT].size);
		return AXM_OK;
	}
	const uint16_t *mask = in[m->at[IN_MASK]];
	uint32_t valid = 0;
	while (valid < g->rows && (axm_from_bf16(mask[valid]) > 0 || (g->rows > 1 && quirks->state_padding))) valid++;
	scratch s;
	uint8_t probe[1]; // only an address to count from
	size_t bytes = lay_out(m, g->rows, &s, probe);
	uint8_t *mem = aligned_alloc(64, bytes + 64);
	if (!mem) return AXM_E_MEMORY;
	lay_out(m, g->rows, &s, mem);
	layer(m, g->rows, valid, in, quirks->state_cold && first_wide(m, group), out, &s);
	free(mem);
	return AXM_OK;
}
