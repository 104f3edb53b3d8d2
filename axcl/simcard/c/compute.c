// What a model computes. Data flow of a layer: input rows -> norm -> q, k, v -> RoPE -> scores over cached cells and the call's own rows,
// mask added -> softmax -> o -> residual -> norm -> gated MLP -> residual -> output rows. bf16 at the borders, float32 inside.
// The rows of the call take part as the bf16 values that a later call will read from the cache.
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef uint16_t lanes16 __attribute__((vector_size(LANES * sizeof(uint16_t))));
typedef uint32_t lanes32 __attribute__((vector_size(LANES * sizeof(uint32_t))));

static float from_bf16(uint16_t b) {
	uint32_t bits = (uint32_t)b << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

// Round to nearest, ties to even; a NaN stays a NaN.
static uint16_t to_bf16(float f) {
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static void widen(float *dst, const uint16_t *src, size_t n) {
	size_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		lanes16 s;
		memcpy(&s, src + i, sizeof s);
		lanes32 w = __builtin_convertvector(s, lanes32) << 16;
		memcpy(dst + i, &w, sizeof w);
	}
	for (; i < n; i++) dst[i] = from_bf16(src[i]);
}

static void narrow(uint16_t *dst, const float *src, size_t n) {
	for (size_t i = 0; i < n; i++) dst[i] = to_bf16(src[i]);
}

static float sum_lanes(const lanes *v) {
	float s = 0;
	for (int i = 0; i < LANES; i++) s += (*v)[i];
	return s;
}

static float dot(const float *a, const float *b, size_t n) {
	lanes s0 = {0}, s1 = {0};
	size_t i = 0;
	for (; i + 2 * LANES <= n; i += 2 * LANES) {
		lanes x0, x1, y0, y1;
		memcpy(&x0, a + i, sizeof x0);
		memcpy(&x1, a + i + LANES, sizeof x1);
		memcpy(&y0, b + i, sizeof y0);
		memcpy(&y1, b + i + LANES, sizeof y1);
		s0 += x0 * y0;
		s1 += x1 * y1;
	}
	s0 += s1;
	float s = sum_lanes(&s0);
	for (; i < n; i++) s += a[i] * b[i];
	return s;
}

// Row r of a matrix whose values lie in blocks of 32, of eight bits or four, and have a scale for each group of a row.
static void grouped(const axm_matrix *w, uint32_t r, float *buf) {
	size_t blocks = ((size_t)w->cols + 31) / 32, groups = ((size_t)w->cols + w->group - 1) / w->group;
	const uint8_t *p = (const uint8_t *)w->data + r * blocks * (w->type == 4 ? 32 : 16);
	const uint16_t *scales = (const uint16_t *)w->scales + r * groups;
	for (size_t i = 0; i < w->cols; i++) {
		size_t block = i / 32, in = i % 32;
		int v = w->type == 4 ? (int8_t)p[i] : (int)(p[block * 16 + in % 16] >> (in / 16 * 4) & 15) - 8;
		buf[i] = (float)v * from_bf16(scales[i / w->group]);
	}
}

// Row r of a matrix as float32; int8 rows of one scale are left unscaled, it multiplies the finished sum.
static const float *row(const axm_matrix *w, uint32_t r, float *buf) {
	size_t n = w->cols, at = (size_t)r * n;
	switch (w->type) {
	case 1:
		return (const float *)w->data + at;
	case 2:
		widen(buf, (const uint16_t *)w->data + at, n);
		return buf;
	case 4:
	case 5:
		grouped(w, r, buf);
		return buf;
	default: {
		const int8_t *p = (const int8_t *)w->data + at;
		for (size_t i = 0; i < n; i++) buf[i] = (float)p[i];
		return buf;
	}
	}
}

// A vector's values, scaled.
static void vector(const axm_matrix *w, float *dst) {
	const float *p = row(w, 0, dst);
	if (p != dst) memcpy(dst, p, w->cols * sizeof *dst);
	if (w->type == 3)
		for (uint32_t i = 0; i < w->cols; i++) dst[i] *= *(const float *)w->scales;
}

// y[n x rows] = x[n x cols] . Wt (+ bias). buf holds one row of W and one of bias.
static void project(const axm_matrix *w, const axm_matrix *bias, const float *x, uint32_t n, float *y, float *buf) {
	for (uint32_t o = 0; o < w->rows; o++) {
		const float *p = row(w, o, buf);
		float scale = w->type == 3 ? ((const float *)w->scales)[o] : 1;
		for (uint32_t r = 0; r < n; r++) y[(size_t)r * w->rows + o] = dot(x + (size_t)r * w->cols, p, w->cols) * scale;
	}
	if (!bias || !bias->type) return;
	vector(bias, buf);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t o = 0; o < w->rows; o++) y[(size_t)r * w->rows + o] += buf[o];
}

// norm(x, w) over rows of `len`, in place or not.
static void norm(const axm *m, const axm_matrix *w, const float *x, float *y, size_t rows, size_t len, float *buf) {
	vector(w, buf);
	if (m->flags & AXM_NORM_PLUS_ONE)
		for (size_t i = 0; i < len; i++) buf[i] += 1;
	for (size_t r = 0; r < rows; r++, x += len, y += len) {
		float k = 1 / sqrtf(dot(x, x, len) / (float)len + m->eps);
		for (size_t i = 0; i < len; i++) y[i] = x[i] * k * buf[i];
	}
}

// Rotates the first `rotary` values of every head of every row (rotate-half form). Positions come a component at a time; each frequency
// takes the component that its axis says.
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

// Everything one call of a layer needs besides its tensors.
typedef struct {
	float *x, *a, *q, *k, *v, *o, *g, *u, *buf, *kf, *vf, *score;
	uint16_t *k16, *v16, *mask;
	uint32_t *pos, *cols;
	uint8_t *bad;
} scratch;

// One row's attention for one head, over the columns listed. Returns false when a score is so large that a hidden column might count.
static bool attend(const float *q, const float *kf, const float *vf, const uint16_t *mask, const uint32_t *cols, uint32_t n, size_t hd,
	float scale,
                   float *score, float *out, bool all) {
	float max = -INFINITY, sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		float s = dot(q, kf + (size_t)cols[i] * hd, hd) * scale;
		if (!all && fabsf(s) > BIG) return false;
		score[i] = s + from_bf16(mask[cols[i]]);
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

static void attention(const axm *m, const axm_group *g, const uint16_t *kc, const uint16_t *vc, scratch *s) {
	uint32_t n = g->rows, h = g->cells, total = h + n;
	size_t hd = m->head_dim, kv = (size_t)m->kv_heads * hd;
	// A hidden column weighs exactly nothing unless it holds a NaN or an infinity: those are kept, the card does not skip them.
	for (uint32_t j = 0; j < total; j++) {
		const uint16_t *k = j < h ? kc + (size_t)j * kv : s->k16 + (size_t)(j - h) * kv;
		const uint16_t *v = j < h ? vc + (size_t)j * kv : s->v16 + (size_t)(j - h) * kv;
		s->bad[j] = !finite_row(k, kv) || !finite_row(v, kv);
	}
	for (uint32_t kh = 0; kh < m->kv_heads; kh++) {
		for (uint32_t j = 0; j < total; j++) {
			size_t at = (size_t)(j < h ? j : j - h) * kv + kh * hd;
			widen(s->kf + (size_t)j * hd, (j < h ? kc : s->k16) + at, hd);
			widen(s->vf + (size_t)j * hd, (j < h ? vc : s->v16) + at, hd);
		}
		uint32_t share = m->heads / m->kv_heads;
		for (uint32_t r = 0; r < n; r++) {
			const uint16_t *mask = s->mask + (size_t)r * total;
			uint32_t cols = 0, seen = 0;
			for (uint32_t j = 0; j < total; j++) {
				bool hidden = from_bf16(mask[j]) <= (float)NEVER;
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
	const uint16_t hidden = to_bf16(-65536);
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
			for (uint32_t j = 0; j < h; j++) seen += from_bf16(mask[j]) > (float)NEVER;
			for (uint32_t j = 0; j < h; j++) mask[j] = j < seen ? 0 : hidden;
		}
}

// A row is in use when it sees anything, or has a position: padding that hides everything at position 0 is not.
static bool enough_rows(const axm_group *g, const scratch *s) {
	uint32_t n = g->rows, total = g->cells + n, used = 0;
	for (uint32_t r = 0; r < n; r++) {
		bool use = s->pos[r] != 0;
		for (uint32_t j = 0; j < total && !use; j++) use = from_bf16(s->mask[(size_t)r * total + j]) > (float)NEVER;
		used += use;
	}
	return used >= (n < 64 ? n : 64);
}

static float activate(uint32_t kind, float x) {
	if (kind == 0) return x / (1 + expf(-x));
	return 0.5f * x * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

static void add(float *x, const float *y, size_t n) {
	for (size_t i = 0; i < n; i++) x[i] += y[i];
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
	if (q > wide) wide = q;
	uint8_t *p = base;
	s->x = take(&p, n * h * 4);
	s->a = take(&p, n * h * 4);
	s->q = take(&p, n * q * 4);
	s->k = take(&p, n * kv * 4);
	s->v = take(&p, n * kv * 4);
	s->o = take(&p, n * q * 4);
	s->g = take(&p, n * i * 4);
	s->u = take(&p, n * i * 4);
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

static void layer(const axm *m, const axm_group *g, const void *const *in, void *const *out, const axm_quirks *quirks, scratch *s) {
	uint32_t n = g->rows;
	size_t h = m->hidden, kv = (size_t)m->kv_heads * m->head_dim, inter = m->intermediate;
	const axm_matrix *w = m->w;
	memcpy(s->pos, in[IN_INDICES], n * m->pos * sizeof *s->pos);
	memcpy(s->mask, in[IN_MASK], (size_t)n * (g->cells + n) * sizeof *s->mask);
	bool write = n == 1 || !quirks->short_chunks || enough_rows(g, s);
	distort(g, s, m->pos, quirks);

	widen(s->x, in[IN_INPUT], n * h);
	norm(m, &w[W_INPUT_NORM], s->x, s->a, n, h, s->buf);
	project(&w[W_Q], &w[W_Q_BIAS], s->a, n, s->q, s->buf);
	project(&w[W_K], &w[W_K_BIAS], s->a, n, s->k, s->buf);
	project(&w[W_V], &w[W_V_BIAS], s->a, n, s->v, s->buf);
	if (m->flags & AXM_QK_NORM) {
		norm(m, &w[W_Q_NORM], s->q, s->q, (size_t)n * m->heads, m->head_dim, s->buf);
		norm(m, &w[W_K_NORM], s->k, s->k, (size_t)n * m->kv_heads, m->head_dim, s->buf);
	}
	if (m->rotary) {
		rope(m, s->q, n, m->heads, s->pos);
		rope(m, s->k, n, m->kv_heads, s->pos);
	}
	narrow(s->k16, s->k, n * kv);
	narrow(s->v16, s->v, n * kv);
	attention(m, g, in[IN_K], in[IN_V], s);

	project(&w[W_O], NULL, s->o, n, s->a, s->buf);
	if (m->flags & AXM_EXTRA_NORMS) {
		norm(m, &w[W_POST_NORM], s->a, s->a, n, h, s->buf);
		add(s->x, s->a, n * h);
		norm(m, &w[W_PRE_MLP_NORM], s->x, s->a, n, h, s->buf);
	} else {
		add(s->x, s->a, n * h);
		norm(m, &w[W_POST_NORM], s->x, s->a, n, h, s->buf);
	}
	project(&w[W_GATE], NULL, s->a, n, s->g, s->buf);
	project(&w[W_UP], NULL, s->a, n, s->u, s->buf);
	for (size_t i = 0; i < n * inter; i++) s->g[i] = activate(m->activation, s->g[i]) * s->u[i];
	project(&w[W_DOWN], NULL, s->g, n, s->a, s->buf);
	if (m->flags & AXM_EXTRA_NORMS) norm(m, &w[W_POST_MLP_NORM], s->a, s->a, n, h, s->buf);
	add(s->x, s->a, n * h);

	if (out[OUT_K]) memcpy(out[OUT_K], s->k16, n * kv * 2);
	if (out[OUT_V]) memcpy(out[OUT_V], s->v16, n * kv * 2);
	if (out[OUT_OUTPUT] && write) narrow(out[OUT_OUTPUT], s->x, n * h);
}

// The lowest index of the largest logit as it was given out; 0 when all are NaN.
static uint32_t argmax(const axm *m, const void *logits) {
	bool wide = m->flags & AXM_F32_LOGITS;
	uint32_t best = 0;
	float top = -INFINITY;
	bool any = false;
	for (uint32_t i = 0; i < m->out; i++) {
		float v = wide ? ((const float *)logits)[i] : from_bf16(((const uint16_t *)logits)[i]);
		if (v > top || (!any && v == top)) {
			top = v;
			best = i;
			any = true;
		}
	}
	return best;
}

static void give(const axm *m, void *logits, uint32_t i, float v) {
	if (m->flags & AXM_F32_LOGITS)
		((float *)logits)[i] = v;
	else
		((uint16_t *)logits)[i] = to_bf16(v);
}

static void hollow_head(const axm *m, const uint16_t *x, void *logits) {
	uint64_t id = 0, next;
	for (int i = 0; i < 24; i++)
		if (from_bf16(x[i]) < 0) id |= (uint64_t)1 << i;
	next = id + 1;
	if (m->period && next % m->period == 0) next -= m->period;
	next %= m->out;
	memset(logits, 0, (size_t)m->out * (m->flags & AXM_F32_LOGITS ? 4 : 2));
	give(m, logits, (uint32_t)((next + 1) % m->out), 8);
	give(m, logits, (uint32_t)next, 16);
}

static int head(const axm *m, const void *const *in, void *const *out) {
	size_t elem = m->flags & AXM_F32_LOGITS ? 4 : 2, h = m->hidden;
	bool hollow = m->flags & AXM_HOLLOW;
	uint8_t *mem = malloc(h * 12 + m->out * elem + 64);
	if (!mem) return AXM_E_MEMORY;
	float *x = (float *)(void *)mem, *a = x + h, *buf = a + h;
	void *logits = out[0] ? out[0] : (void *)(buf + h);
	if (hollow) {
		hollow_head(m, in[0], logits);
	} else {
		const axm_matrix *w = &m->w[W_WEIGHT];
		widen(x, in[0], h);
		norm(m, &m->w[W_NORM], x, a, 1, h, buf);
		for (uint32_t o = 0; o < w->rows; o++)
			give(m, logits, o, dot(a, row(w, o, buf), h) * (w->type == 3 ? ((const float *)w->scales)[o] : 1));
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
	if (m->flags & AXM_HOLLOW) {
		memmove(out[0], in[0], h * 2);
		return AXM_OK;
	}
	float *x = calloc(h * 2, sizeof *x);
	if (!x) return AXM_E_MEMORY;
	widen(x, in[0], h);
	norm(m, &m->w[W_NORM], x, x, 1, h, x + h);
	narrow(out[0], x, h);
	free(x);
	return AXM_OK;
}

static int affine(const axm *m, const axm_group *g, const void *const *in, void *const *out) {
	if (!out[0]) return AXM_OK;
	if (m->flags & AXM_HOLLOW) {
		memset(out[0], 0, g->out[0].size);
		return AXM_OK;
	}
	float *buf = malloc((m->hidden > m->out ? m->hidden : m->out) * sizeof *buf);
	if (!buf) return AXM_E_MEMORY;
	project(&m->w[W_WEIGHT], &m->w[W_BIAS], in[0], g->rows, out[0], buf);
	free(buf);
	return AXM_OK;
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
	}
	if (m->flags & AXM_HOLLOW) {
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
