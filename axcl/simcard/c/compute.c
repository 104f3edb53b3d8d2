// What a model computes. Data flow of a layer: input rows -> norm -> q, k, v -> RoPE -> scores over
// cached cells and the call's own rows, mask added -> softmax -> o -> residual -> norm -> gated MLP
// -> residual -> output rows. bf16 at the borders, float32 inside. The rows of the call take part
// as the bf16 values that a later call will read from the cache.
#include "compute.h"
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Rotates the first `rotary` values of every head of every row (rotate-half form). Positions come a
// component at a time; each frequency takes the component that its axis says.
static void rope(const axm *m, float *x, uint32_t rows, uint32_t heads, const uint32_t *pos) {
	uint32_t half = m->rotary / 2, hd = m->head_dim;
	const float *freq = m->w[W_INV_FREQ].data, *axis = m->w[W_ROPE_AXIS].data;
	for (uint32_t r = 0; r < rows; r++) {
		float *p = x + (size_t)r * heads * hd;
		for (uint32_t i = 0; i < half; i++) {
			float angle = (float)pos[(axis ? (size_t)axis[i] : 0) * rows + r] * freq[i];
			float c = cosf(angle) * m->rope_magnitude, s = sinf(angle) * m->rope_magnitude;
			for (uint32_t h = 0; h < heads; h++) {
				float a = p[(size_t)h * hd + i], b = p[(size_t)h * hd + i + half];
				p[(size_t)h * hd + i] = a * c - b * s;
				p[(size_t)h * hd + i + half] = b * c + a * s;
			}
		}
	}
}

static bool finite_row(const uint16_t *p, size_t n) {
	unsigned bad = 0;
	for (size_t i = 0; i < n; i++) bad |= (p[i] & 0x7f80u) == 0x7f80u;
	return !bad;
}

enum { NEVER = -30000, BIG = 10000 };

// Everything one call of a layer needs beyond its tensors.
typedef struct {
	float *x, *a, *q, *qg, *k, *v, *o, *g, *u, *buf, *kf, *vf, *score, *per;
	uint16_t *k16, *v16, *mask;
	uint32_t *pos, *cols;
	uint8_t *bad;
} scratch;

// One row's attention for one head, over the columns listed. Returns false when a score is so large
// that a hidden column might count.
static bool attend(const float *q, const float *kf, const float *vf, const uint16_t *mask, const uint32_t *cols, uint32_t n, size_t hd,
	float scale,
                   float *score, float *out, bool all) {
	float max = -INFINITY, sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		float s = axm_dot(q, kf + (size_t)cols[i] * hd, hd) * scale;
		if (!all && fabsf(s) > BIG) return false;
		score[i] = s + axm_from_bf16(mask[cols[i]]);
		if (score[i] > max) max = score[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		score[i] = expf(score[i] - max); // a NaN score stays a NaN, whatever the mask says
		sum += score[i];
	}
	memset(out, 0, hd * sizeof *out);
	for (uint32_t i = 0; i < n; i++) {
		const float *v = vf + (size_t)cols[i] * hd;
		float w = score[i];
		for (size_t d = 0; d < hd; d++) out[d] += w * v[d];
	}
	for (size_t d = 0; d < hd; d++) out[d] /= sum;
	return true;
}

// In the caches a row comes this many values after the one before.
static void attention(const axm *m, const axm_group *g, const uint16_t *kc, const uint16_t *vc, size_t step, scratch *s) {
	uint32_t n = g->rows, h = g->cells, total = h + n;
	size_t hd = m->head_dim, kv = (size_t)m->kv_heads * hd;
	// A hidden column weighs exactly nothing unless it holds a NaN or an infinity: those are kept,
	// the card does not skip them.
	for (uint32_t j = 0; j < total; j++) {
		const uint16_t *k = j < h ? kc + (size_t)j * step : s->k16 + (size_t)(j - h) * kv;
		const uint16_t *v = j < h ? vc + (size_t)j * step : s->v16 + (size_t)(j - h) * kv;
		s->bad[j] = !finite_row(k, kv) || !finite_row(v, kv);
	}
	for (uint32_t kh = 0; kh < m->kv_heads; kh++) {
		for (uint32_t j = 0; j < total; j++) {
			size_t at = (j < h ? (size_t)j * step : (size_t)(j - h) * kv) + kh * hd;
			axm_widen(s->kf + (size_t)j * hd, (j < h ? kc : s->k16) + at, hd);
			axm_widen(s->vf + (size_t)j * hd, (j < h ? vc : s->v16) + at, hd);
		}
		uint32_t share = m->heads / m->kv_heads;
		for (uint32_t r = 0; r < n; r++) {
			const uint16_t *mask = s->mask + (size_t)r * total;
			uint32_t cols = 0, seen = 0;
			for (uint32_t j = 0; j < total; j++) {
				bool hidden = axm_from_bf16(mask[j]) <= (float)NEVER;
				seen += !hidden;
				if (!hidden || s->bad[j]) s->cols[cols++] = j;
			}
			bool all = seen == 0;
			for (uint32_t i = 0; i < share; i++) {
				size_t head = (size_t)kh * share + i, at = ((size_t)r * m->heads + head) * hd;
				if (!all && attend(s->q + at, s->kf, s->vf, mask, s->cols, cols, hd, m->scale, s->score, s->o + at, false)) continue;
				for (uint32_t j = 0; j < total; j++) s->cols[j] = j;
				cols = total;
				all = true;
				attend(s->q + at, s->kf, s->vf, mask, s->cols, cols, hd, m->scale, s->score, s->o + at, true);
			}
		}
	}
}

// The mask and positions as a card without some ability reads them.
static void distort(const axm_group *g, scratch *s, uint32_t pos, const axm_quirks *quirks) {
	uint32_t n = g->rows, h = g->cells, total = h + n;
	const uint16_t hidden = axm_to_bf16(-65536);
	if (quirks->positions_first)
		for (uint32_t k = 0; k < pos; k++)
			for (uint32_t r = 1; r < n; r++) s->pos[k * n + r] = s->pos[k * n] + r;
	if (quirks->mask_shared)
		for (uint32_t r = 1; r < n; r++) {
			memcpy(s->mask + (size_t)r * total, s->mask, h * sizeof *s->mask);
			for (uint32_t c = 0; c < n; c++) s->mask[(size_t)r * total + h + c] = c <= r ? 0 : hidden;
		}
	if (quirks->cells_ordered)
		for (uint32_t r = 0; r < n; r++) {
			uint16_t *mask = s->mask + (size_t)r * total;
			uint32_t seen = 0;
			for (uint32_t j = 0; j < h; j++) seen += axm_from_bf16(mask[j]) > (float)NEVER;
			for (uint32_t j = 0; j < h; j++) mask[j] = j < seen ? 0 : hidden;
		}
}

// A row is in use when it sees anything, or has a position: padding that hides everything at
// position 0 is not.
static bool enough_rows(const axm_group *g, const scratch *s) {
	uint32_t n = g->rows, total = g->cells + n, used = 0;
	for (uint32_t r = 0; r < n; r++) {
		bool use = s->pos[r] != 0;
		for (uint32_t j = 0; j < total && !use; j++) use = axm_from_bf16(s->mask[(size_t)r * total + j]) > (float)NEVER;
		used += use;
	}
	return used >= (n < 64 ? n : 64);
}

static void *take(uint8_t **p, size_t bytes) {
	void *at = *p;
	*p += (bytes + 63) / 64 * 64;
	return at;
}

// Two rounds over the same list: the first adds up, the second hands out.
static size_t lay_out(const axm *m, const axm_group *g, scratch *s, uint8_t *base) {
	size_t n = g->rows, total = g->cells + n, h = m->hidden, hd = m->head_dim, q = m->heads * hd, kv = m->kv_heads * hd,
		i = m->intermediate;
	size_t wide = h > i ? h : i;
	if (m->flags & AXM_GEMMA4 && m->out > wide) wide = m->out;
	if (q > wide) wide = q;
	uint8_t *p = base;
	s->x = take(&p, n * h * 4);
	s->a = take(&p, n * h * 4);
	s->q = take(&p, n * q * 4);
	s->qg = take(&p, m->flags & AXM_GATE ? 2 * n * q * 4 : 0);
	s->k = take(&p, n * kv * 4);
	s->v = take(&p, n * kv * 4);
	s->o = take(&p, n * q * 4);
	s->g = take(&p, n * i * 4);
	s->u = take(&p, n * i * 4);
	s->per = take(&p, m->flags & AXM_GEMMA4 ? n * m->out * 4 : 0);
	s->buf = take(&p, wide * 4);
	s->kf = take(&p, total * hd * 4);
	s->vf = take(&p, total * hd * 4);
	s->score = take(&p, total * 4);
	s->k16 = take(&p, n * kv * 2);
	s->v16 = take(&p, n * kv * 2);
	s->mask = take(&p, n * total * 2);
	s->pos = take(&p, n * m->pos * 4);
	s->cols = take(&p, total * 4);
	s->bad = take(&p, total);
	return (size_t)(p - base);
}

// Of each head's values the first half are its query.
static void part(float *q, const float *qg, size_t heads, size_t hd) {
	for (size_t i = 0; i < heads; i++) memcpy(q + i * hd, qg + 2 * i * hd, hd * sizeof *q);
}

// The other half says how much of the head's output passes.
static void gate(float *o, const float *qg, size_t heads, size_t hd) {
	for (size_t i = 0; i < heads; i++)
		for (size_t d = 0; d < hd; d++) o[i * hd + d] /= 1 + expf(-qg[(2 * i + 1) * hd + d]);
}

// Gemma-4 normalises values by a norm without weights.
static void unit(float *x, size_t rows, size_t len, float eps) {
	for (size_t r = 0; r < rows; r++, x += len) {
		float k = 1 / sqrtf(axm_dot(x, x, len) / (float)len + eps);
		for (size_t i = 0; i < len; i++) x[i] *= k;
	}
}

// A layer's inputs of each row pass a gate and are added; then the row is scaled.
static void layer_inputs(const axm *m, uint32_t n, const uint16_t *inputs, const axm_quirks *quirks, scratch *s) {
	const axm_matrix *w = m->w;
	size_t h = m->hidden, width = m->out;
	axm_project(&w[W_PER_GATE], NULL, s->x, n, s->per, s->buf);
	for (size_t i = 0; i < n * width; i++)
		s->per[i] = axm_activate(1, s->per[i]) * (quirks->inputs_ignored ? 0 : axm_from_bf16(inputs[quirks->inputs_first ? i % width : i]));
	axm_project(&w[W_PER_PROJ], NULL, s->per, n, s->a, s->buf);
	axm_norm(m, &w[W_PER_NORM], s->a, s->a, n, h, s->buf);
	axm_add(s->x, s->a, n * h);
	float scalar;
	axm_vector(&w[W_SCALAR], &scalar);
	for (size_t i = 0; i < n * h; i++) s->x[i] *= scalar;
}

// What an adapter adds to a product: B·(A·x) of n rows of x.
static void adapt(const axm *m, uint32_t part, const void *const *in, const axm_group *g, const float *x, uint32_t n, float *y) {
	if (!(m->flags & AXM_LORA)) return;
	const uint16_t *a = in[IN_LORA + 2 * part], *b = in[IN_LORA + 2 * part + 1];
	size_t rank = m->rank, from = (size_t)g->in[IN_LORA + 2 * part].dims[1], to = (size_t)g->in[IN_LORA + 2 * part + 1].dims[0];
	for (size_t r = 0; r < n; r++, x += from, y += to)
		for (size_t k = 0; k < rank; k++) {
			float sum = 0;
			for (size_t i = 0; i < from; i++) sum += axm_from_bf16(a[k * from + i]) * x[i];
			for (size_t o = 0; o < to; o++) y[o] += axm_from_bf16(b[o * rank + k]) * sum;
		}
}

// K and V of the call: the layer's own, or, where it shares those of another, what stands behind
// the cells of its cache.
static void keys_values(const axm *m, const axm_group *g, const void *const *in, const axm_quirks *quirks, scratch *s) {
	const axm_matrix *w = m->w;
	uint32_t n = g->rows;
	size_t kv = (size_t)m->kv_heads * m->head_dim;
	if (m->flags & AXM_SHARES) {
		size_t from = quirks->share_stale && n == 1 && g->cells ? (size_t)g->cells - 1 : g->cells;
		memcpy(s->k16, (const uint16_t *)in[IN_K] + from * kv, n * kv * 2);
		memcpy(s->v16, (const uint16_t *)in[IN_V] + from * kv, n * kv * 2);
		if (quirks->share_ignored) {
			memset(s->k16, 0, n * kv * 2);
			memset(s->v16, 0, n * kv * 2);
		}
		return;
	}
	axm_project(&w[W_K], &w[W_K_BIAS], s->a, n, s->k, s->buf);
	axm_project(&w[W_V], &w[W_V_BIAS], s->a, n, s->v, s->buf);
	adapt(m, LORA_K, in, g, s->a, n, s->k);
	adapt(m, LORA_V, in, g, s->a, n, s->v);
	if (m->flags & AXM_QK_NORM) axm_norm(m, &w[W_K_NORM], s->k, s->k, (size_t)n * m->kv_heads, m->head_dim, s->buf);
	if (m->flags & AXM_GEMMA4) unit(s->v, (size_t)n * m->kv_heads, m->head_dim, m->eps);
	if (m->rotary) rope(m, s->k, n, m->kv_heads, s->pos);
	axm_narrow(s->k16, s->k, n * kv);
	axm_narrow(s->v16, s->v, n * kv);
}

static void layer(const axm *m, const axm_group *g, const void *const *in, void *const *out, const axm_quirks *quirks, scratch *s) {
	uint32_t n = g->rows;
	size_t h = m->hidden, kv = (size_t)m->kv_heads * m->head_dim, inter = m->intermediate;
	const axm_matrix *w = m->w;
	memcpy(s->pos, in[IN_INDICES], g->in[IN_INDICES].size);
	if (m->flags & AXM_ONE_POS && n == 1) s->pos[1] = s->pos[2] = s->pos[0]; // one stands for three
	memcpy(s->mask, in[IN_MASK], (size_t)n * (g->cells + n) * sizeof *s->mask);
	bool write = n == 1 || !quirks->short_chunks || enough_rows(g, s);
	distort(g, s, m->pos, quirks);

	axm_widen(s->x, in[IN_INPUT], n * h);
	axm_norm(m, &w[W_INPUT_NORM], s->x, s->a, n, h, s->buf);
	axm_project(&w[W_Q], &w[W_Q_BIAS], s->a, n, m->flags & AXM_GATE ? s->qg : s->q, s->buf);
	adapt(m, LORA_Q, in, g, s->a, n, s->q);
	if (m->flags & AXM_GATE) part(s->q, s->qg, n * m->heads, m->head_dim);
	if (m->flags & AXM_QK_NORM) axm_norm(m, &w[W_Q_NORM], s->q, s->q, (size_t)n * m->heads, m->head_dim, s->buf);
	if (m->rotary) rope(m, s->q, n, m->heads, s->pos);
	keys_values(m, g, in, quirks, s);
	bool blind = quirks->share_ignored && m->flags & AXM_SHARES;
	size_t step = quirks->width_first && quirks->width_first < kv ? quirks->width_first : kv;
	if (blind)
		attention(m, g, s->k16, s->v16, 0, s); // a row of zeros
	else
		attention(m, g, in[IN_K], in[IN_V], step, s);
	if (m->flags & AXM_GATE) gate(s->o, s->qg, n * m->heads, m->head_dim);

	axm_project(&w[W_O], NULL, s->o, n, s->a, s->buf);
	adapt(m, LORA_O, in, g, s->o, n, s->a);
	if (m->flags & AXM_EXTRA_NORMS) {
		axm_norm(m, &w[W_POST_NORM], s->a, s->a, n, h, s->buf);
		axm_add(s->x, s->a, n * h);
		axm_norm(m, &w[W_PRE_MLP_NORM], s->x, s->a, n, h, s->buf);
	} else {
		axm_add(s->x, s->a, n * h);
		axm_norm(m, &w[W_POST_NORM], s->x, s->a, n, h, s->buf);
	}
	axm_project(&w[W_GATE], NULL, s->a, n, s->g, s->buf);
	axm_project(&w[W_UP], NULL, s->a, n, s->u, s->buf);
	adapt(m, LORA_GATE, in, g, s->a, n, s->g);
	adapt(m, LORA_UP, in, g, s->a, n, s->u);
	for (size_t i = 0; i < n * inter; i++) s->g[i] = axm_activate(m->activation, s->g[i]) * s->u[i];
	axm_project(&w[W_DOWN], NULL, s->g, n, s->a, s->buf);
	adapt(m, LORA_DOWN, in, g, s->g, n, s->a);
	if (m->flags & AXM_EXTRA_NORMS) axm_norm(m, &w[W_POST_MLP_NORM], s->a, s->a, n, h, s->buf);
	axm_add(s->x, s->a, n * h);
	if (m->flags & AXM_GEMMA4) layer_inputs(m, n, in[IN_LAYER_INPUT], quirks, s);

	if (out[OUT_K]) memcpy(out[OUT_K], s->k16, n * kv * 2);
	if (out[OUT_V]) memcpy(out[OUT_V], s->v16, n * kv * 2);
	if (out[OUT_OUTPUT] && write) axm_narrow(out[OUT_OUTPUT], s->x, n * h);
}

// The lowest index of the largest logit as it was given out; 0 when all are NaN.
static uint32_t argmax(const axm *m, const void *logits) {
	bool wide = m->flags & AXM_F32_LOGITS;
	uint32_t best = 0;
	float top = -INFINITY;
	bool any = false;
	for (uint32_t i = 0; i < m->out; i++) {
		float v = wide ? ((const float *)logits)[i] : axm_from_bf16(((const uint16_t *)logits)[i]);
		if (v > top || (!any && v == top)) {
			top = v;
			best = i;
			any = true;
		}
	}
	return best;
}

static void give(const axm *m, void *logits, uint32_t i, float v) {
	if (m->scale > 0 && !(m->flags & AXM_SHAPE_ONLY)) v = m->scale * tanhf(v / m->scale);
	if (m->flags & AXM_F32_LOGITS)
		((float *)logits)[i] = v;
	else
		((uint16_t *)logits)[i] = axm_to_bf16(v);
}

static void shape_head(const axm *m, const uint16_t *x, void *logits) {
	uint64_t id = 0, next;
	for (int i = 0; i < 24; i++)
		if (axm_from_bf16(x[i]) < 0) id |= (uint64_t)1 << i;
	next = id + 1;
	if (m->period && next % m->period == 0) next -= m->period;
	next %= m->out;
	memset(logits, 0, (size_t)m->out * (m->flags & AXM_F32_LOGITS ? 4 : 2));
	give(m, logits, (uint32_t)((next + 1) % m->out), 8);
	give(m, logits, (uint32_t)next, 16);
}

static int head(const axm *m, const void *const *in, void *const *out) {
	size_t elem = m->flags & AXM_F32_LOGITS ? 4 : 2, h = m->hidden;
	bool shape_only = m->flags & AXM_SHAPE_ONLY;
	uint8_t *mem = malloc(h * 12 + m->out * elem + 64);
	if (!mem) return AXM_E_MEMORY;
	float *x = (float *)(void *)mem, *a = x + h, *buf = a + h;
	void *logits = out[0] ? out[0] : (void *)(buf + h);
	if (shape_only) {
		shape_head(m, in[0], logits);
	} else {
		const axm_matrix *w = &m->w[W_WEIGHT];
		const float *bias = m->flags & AXM_BIAS ? m->w[W_BIAS].data : NULL;
		axm_widen(x, in[0], h);
		axm_norm(m, &m->w[W_NORM], x, a, 1, h, buf);
		for (uint32_t o = 0; o < w->rows; o++)
			give(m, logits, o, axm_dot(a, axm_row(w, o, buf), h) + (bias ? bias[o] : 0));
	}
	if (m->nout > 1 && out[1]) {
		uint32_t best = argmax(m, logits);
		memcpy(out[1], &best, sizeof best);
	}
	free(mem);
	return AXM_OK;
}

static int embed(const axm *m, const void *const *in, void *const *out) {
	size_t h = m->hidden;
	if (!out[0]) return AXM_OK;
	if (m->flags & AXM_SHAPE_ONLY) {
		memmove(out[0], in[0], h * 2);
		return AXM_OK;
	}
	float *x = calloc(h * 2, sizeof *x);
	if (!x) return AXM_E_MEMORY;
	axm_widen(x, in[0], h);
	axm_norm(m, &m->w[W_NORM], x, x, 1, h, x + h);
	axm_narrow(out[0], x, h);
	free(x);
	return AXM_OK;
}

static int affine(const axm *m, const axm_group *g, const void *const *in, void *const *out) {
	if (!out[0]) return AXM_OK;
	if (m->flags & AXM_SHAPE_ONLY) {
		memset(out[0], 0, g->out[0].size);
		return AXM_OK;
	}
	float *buf = malloc((m->hidden > m->out ? m->hidden : m->out) * sizeof *buf);
	if (!buf) return AXM_E_MEMORY;
	axm_project(&m->w[W_WEIGHT], &m->w[W_BIAS], in[0], g->rows, out[0], buf);
	free(buf);
	return AXM_OK;
}

// All layers, a row of buffers turn about between them, and the head for each row, or for the last.
static int decoder(const axm *m, uint32_t group, const void *const *in, void *const *out, const axm_quirks *quirks) {
	const axm_group *g = &m->groups[group];
	size_t n = g->rows, h = m->hidden, kv = (size_t)m->kv_heads * m->head_dim, elem = m->flags & AXM_F32_LOGITS ? 4 : 2;
	uint16_t *x = calloc(2 * n * h, sizeof *x);
	if (!x) return AXM_E_MEMORY;
	memcpy(x, in[IN_INPUT], n * h * sizeof *x);
	int code = AXM_OK;
	uint32_t layers = m->parts - 1;
	for (uint32_t l = 0; !code && l < layers; l++) {
		const void *to[IN_MAX] = {[IN_INPUT] = x + (l % 2) * n * h, [IN_INDICES] = in[IN_INDICES], [IN_MASK] = in[IN_MASK],
			[IN_K] = (const uint16_t *)in[IN_K] + l * g->cells * kv, [IN_V] = (const uint16_t *)in[IN_V] + l * g->cells * kv};
		void *from[OUT_MAX] = {[OUT_K] = out[OUT_K] ? (uint16_t *)out[OUT_K] + l * n * kv : NULL,
			[OUT_V] = out[OUT_V] ? (uint16_t *)out[OUT_V] + l * n * kv : NULL, [OUT_OUTPUT] = x + (1 - l % 2) * n * h};
		code = axm_run(&m->part[l], group, to, from, quirks);
	}
	for (size_t r = m->flags & AXM_LAST ? n - 1 : 0, i = 0; !code && out[OUT_OUTPUT] && r < n; r++, i++) {
		const void *row[] = {x + (layers % 2) * n * h + r * h};
		void *logits[OUT_MAX] = {(uint8_t *)out[OUT_OUTPUT] + i * m->out * elem};
		code = head(&m->part[layers], row, logits);
	}
	free(x);
	return code;
}

int axm_run(const axm *m, uint32_t group, const void *const *in, void *const *out, const axm_quirks *quirks) {
	const axm_group *g = &m->groups[group];
	switch (m->kind) {
	case AXM_HEAD:
		return head(m, in, out);
	case AXM_EMBED:
		return embed(m, in, out);
	case AXM_AFFINE:
		return affine(m, g, in, out);
	case AXM_LINEAR:
		return axm_linear(m, group, in, out, quirks);
	case AXM_ENCODER:
		return axm_encoder(m, in[0], out);
	case AXM_DECODER:
		return decoder(m, group, in, out, quirks);
	case AXM_NET:
		return axg_run(m->graph[group], in, out) == AXG_OK ? AXM_OK : AXM_E_MEMORY;
	}
	if (m->flags & AXM_SHAPE_ONLY) {
		if (out[OUT_K]) memset(out[OUT_K], 0, g->out[OUT_K].size);
		if (out[OUT_V]) memset(out[OUT_V], 0, g->out[OUT_V].size);
		if (out[OUT_OUTPUT]) memmove(out[OUT_OUTPUT], in[IN_INPUT], g->out[OUT_OUTPUT].size);
		return AXM_OK;
	}
	scratch s;
	uint8_t probe[1]; // only an address to count from
	size_t bytes = lay_out(m, g, &s, probe);
	uint8_t *mem = aligned_alloc(64, bytes + 64);
	if (!mem) return AXM_E_MEMORY;
	lay_out(m, g, &s, mem);
	layer(m, g, in, out, quirks, &s);
	free(mem);
	return AXM_OK;
}
