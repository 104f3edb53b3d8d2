// Reading a software card's .axmodel. Data flow: bytes -> header -> groups -> directory -> matrices
// that point into the bytes. Every count, length and offset is checked against the file before it
// is used; products are taken in 64 bits after each factor was capped. Long because eight kinds of
// models have their own tensors and shapes; each is a few lines of the same functions.
#define _GNU_SOURCE
#include "model.h"
#include "graph.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	HEADER = 192,
	GROUP = 16,
	ENTRY = 64,
	MAX_GROUPS = 64,
	MAX_TENSORS = 64,
	MAX_DIM = 1 << 20,   // any of hidden, intermediate, head dim, rows, cells
	MAX_OUT = 1 << 24,   // vocabulary
	MAP_ABOVE = 64 << 20 // files above this are mapped, below they are copied: a small file may be rewritten while it is loaded
};

static uint32_t u32(const uint8_t *p) {
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t u64(const uint8_t *p) { return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32; }

static float f32(const uint8_t *p) {
	uint32_t bits = u32(p);
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

// What each matrix is called and how big it must be; a shape of 0 x 0 means this model has none of
// it.
typedef struct {
	const char *name;
	uint32_t rows, cols;
	bool f32_only;
} want;

static void wants(const axm *m, want w[W_COUNT]) {
	uint32_t h = m->hidden, q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, i = m->intermediate;
	memset(w, 0, sizeof(want) * W_COUNT);
	switch (m->kind) {
	case AXM_LAYER:
		w[W_INPUT_NORM] = (want){"input_norm", 1, h, false};
		w[W_Q] = (want){"q", m->flags & AXM_GATE ? 2 * q : q, h, false};
		if (!(m->flags & AXM_SHARES)) {
			w[W_K] = (want){"k", kv, h, false};
			w[W_V] = (want){"v", kv, h, false};
		}
		w[W_O] = (want){"o", h, q, false};
		w[W_POST_NORM] = (want){"post_norm", 1, h, false};
		w[W_GATE] = (want){"gate", i, h, false};
		w[W_UP] = (want){"up", i, h, false};
		w[W_DOWN] = (want){"down", h, i, false};
		if (m->flags & AXM_QKV_BIAS) {
			w[W_Q_BIAS] = (want){"q_bias", 1, q, false};
			w[W_K_BIAS] = (want){"k_bias", 1, kv, false};
			w[W_V_BIAS] = (want){"v_bias", 1, kv, false};
		}
		if (m->flags & AXM_QK_NORM) {
			w[W_Q_NORM] = (want){"q_norm", 1, m->head_dim, false};
			if (!(m->flags & AXM_SHARES)) w[W_K_NORM] = (want){"k_norm", 1, m->head_dim, false};
		}
		if (m->flags & AXM_EXTRA_NORMS) {
			w[W_PRE_MLP_NORM] = (want){"pre_mlp_norm", 1, h, false};
			w[W_POST_MLP_NORM] = (want){"post_mlp_norm", 1, h, false};
		}
		if (m->flags & AXM_GEMMA4) {
			w[W_PER_GATE] = (want){"per_gate", m->out, h, false};
			w[W_PER_PROJ] = (want){"per_proj", h, m->out, false};
			w[W_PER_NORM] = (want){"per_norm", 1, h, false};
			w[W_SCALAR] = (want){"scalar", 1, 1, false};
		}
		if (m->rotary) w[W_INV_FREQ] = (want){"inv_freq", 1, m->rotary / 2, true};
		if (m->rotary && m->pos == 3) w[W_ROPE_AXIS] = (want){"rope_axis", 1, m->rotary / 2, true};
		break;
	case AXM_LINEAR: {
		uint32_t values = m->heads * m->value_dim, channels = 2 * kv + values;
		w[W_INPUT_NORM] = (want){"input_norm", 1, h, false};
		w[W_QKV] = (want){"qkv", channels, h, false};
		w[W_Z] = (want){"z", values, h, false};
		w[W_B] = (want){"b", m->heads, h, false};
		w[W_A] = (want){"a", m->heads, h, false};
		w[W_CONV] = (want){"conv", channels, m->conv, true};
		w[W_DT_BIAS] = (want){"dt_bias", 1, m->heads, true};
		w[W_A_LOG] = (want){"a_log", 1, m->heads, true};
		w[W_NORM] = (want){"norm", 1, m->value_dim, true};
		w[W_O] = (want){"o", h, values, false};
		w[W_POST_NORM] = (want){"post_norm", 1, h, false};
		w[W_GATE] = (want){"gate", i, h, false};
		w[W_UP] = (want){"up", i, h, false};
		w[W_DOWN] = (want){"down", h, i, false};
		break;
	}
	case AXM_ENCODER: {
		uint32_t b = m->blocks, o = m->out, k = m->deep, wide = h * m->merge * m->merge;
		uint32_t pixels = m->patch * m->patch * (m->order ? 3 : 6);
		w[W_PATCH] = (want){"patch", h, pixels, false};
		w[W_PATCH_BIAS] = (want){"patch_bias", 1, h, false};
		w[W_POS] = (want){"pos", m->down * m->across, h, true};
		w[W_NORM1] = (want){"norm1", b, h, false};
		w[W_NORM1_BIAS] = (want){"norm1_bias", b, h, false};
		w[W_QKV] = (want){"qkv", b * 3 * h, h, false};
		w[W_QKV_BIAS] = (want){"qkv_bias", b, 3 * h, false};
		w[W_O] = (want){"o", b * h, h, false};
		w[W_O_BIAS] = (want){"o_bias", b, h, false};
		w[W_NORM2] = (want){"norm2", b, h, false};
		w[W_NORM2_BIAS] = (want){"norm2_bias", b, h, false};
		w[W_FC1] = (want){"fc1", b * i, h, false};
		w[W_FC1_BIAS] = (want){"fc1_bias", b, i, false};
		w[W_FC2] = (want){"fc2", b * h, i, false};
		w[W_FC2_BIAS] = (want){"fc2_bias", b, h, false};
		w[W_MERGE_NORM] = (want){"merge_norm", 1, h, false};
		w[W_MERGE_NORM_BIAS] = (want){"merge_norm_bias", 1, h, false};
		w[W_MERGE_FC2] = (want){"merge_fc2", o, wide, false};
		if (m->flags & AXM_MERGER) {
			w[W_MERGE_FC1] = (want){"merge_fc1", wide, wide, false};
			w[W_MERGE_FC1_BIAS] = (want){"merge_fc1_bias", 1, wide, false};
			w[W_MERGE_FC2_BIAS] = (want){"merge_fc2_bias", 1, o, false};
		}
		if (m->rotary) {
			w[W_INV_FREQ] = (want){"inv_freq", 1, m->rotary / 2, true};
			w[W_ROPE_AXIS] = (want){"rope_axis", 1, m->rotary / 2, true};
		}
		if (k) {
			w[W_DEEP_AT] = (want){"deep_at", 1, k, true};
			w[W_DEEP_NORM] = (want){"deep_norm", k, wide, false};
			w[W_DEEP_NORM_BIAS] = (want){"deep_norm_bias", k, wide, false};
			w[W_DEEP_FC1] = (want){"deep_fc1", k * wide, wide, false};
			w[W_DEEP_FC1_BIAS] = (want){"deep_fc1_bias", k, wide, false};
			w[W_DEEP_FC2] = (want){"deep_fc2", k * o, wide, false};
			w[W_DEEP_FC2_BIAS] = (want){"deep_fc2_bias", k, o, false};
		}
		break;
	}
	case AXM_HEAD:
		w[W_NORM] = (want){"norm", 1, h, false};
		w[W_WEIGHT] = (want){"weight", m->out, h, false};
		if (m->flags & AXM_BIAS) w[W_BIAS] = (want){"bias", 1, m->out, true};
		break;
	case AXM_EMBED:
		w[W_NORM] = (want){"norm", 1, h, false};
		break;
	case AXM_AFFINE:
		w[W_WEIGHT] = (want){"weight", m->out, h, false};
		w[W_BIAS] = (want){"bias", 1, m->out, false};
		break;
	}
}

static bool in_range(uint32_t v, uint32_t lo, uint32_t hi) { return v >= lo && v <= hi; }

// An encoder's own numbers lie where others have theirs.
static bool encoder_header(axm *m, const uint8_t *p) {
	m->patch = u32(p + 176);
	m->merge = u32(p + 180);
	m->order = u32(p + 184);
	m->blocks = u32(p + 188);
	m->deep = u32(p + 104);
	m->value_dim = m->conv = m->state = m->period = 0;
	if (m->ngroups != 1 || m->activation != 1 || (m->flags & ~(uint32_t)(AXM_SHAPE_ONLY | AXM_MERGER)) || m->order > 1) return false;
	if (!in_range(m->patch, 1, 256) || !in_range(m->merge, 1, 8) || !in_range(m->blocks, 1, 256)) return false;
	if (m->deep > 8 || m->deep > m->blocks || !in_range(m->out, m->flags & AXM_SHAPE_ONLY ? 24 : 1, MAX_DIM)) return false;
	if (!in_range(m->heads, 1, 4096) || !in_range(m->head_dim, 1, MAX_DIM) || !in_range(m->intermediate, 1, MAX_DIM << 2)) return false;
	if ((uint64_t)m->heads * m->head_dim != m->hidden || m->rotary % 2 || m->rotary > m->head_dim) return false;
	uint64_t wide = (uint64_t)m->hidden * m->merge * m->merge, most = 3 * (uint64_t)m->hidden;
	if (m->intermediate > most) most = m->intermediate;
	if (wide > MAX_DIM << 2 || m->blocks * most > MAX_OUT || m->deep * (wide > m->out ? wide : m->out) > MAX_OUT) return false;
	const uint8_t *group = p + HEADER;
	m->down = u32(group + 4);
	m->across = u32(group + 8);
	if (!in_range(m->down, 1, 1 << 16) || !in_range(m->across, 1, 1 << 16) || (uint64_t)m->down * m->across > 1 << 16) return false;
	if (m->down % m->merge || m->across % m->merge) return false;
	return u32(group) == m->down * m->across / m->merge / m->merge;
}

static bool header(axm *m, const uint8_t *p, uint64_t size, uint32_t *tensors) {
	if (u32(p + 8) != 1 || u64(p + 24) != size) return false;
	m->kind = u32(p + 12);
	m->ngroups = u32(p + 16);
	*tensors = u32(p + 20);
	m->file_bytes = size;
	m->weight_bytes = u64(p + 32) ? u64(p + 32) : size;
	m->flags = u32(p + 40);
	m->activation = u32(p + 44);
	m->hidden = u32(p + 48);
	m->heads = u32(p + 52);
	m->kv_heads = u32(p + 56);
	m->head_dim = u32(p + 60);
	m->intermediate = u32(p + 64);
	m->out = u32(p + 68);
	m->eps = f32(p + 72);
	m->scale = f32(p + 76);
	m->rotary = u32(p + 80);
	m->rope_magnitude = f32(p + 84);
	m->pos = u32(p + 92) ? u32(p + 92) : 1;
	m->period = u32(p + 104);
	m->value_dim = u32(p + 176);
	m->conv = u32(p + 180);
	m->state = u32(p + 184);
	memcpy(m->tool, p + 112, 64);
	if (!in_range(m->kind, AXM_LAYER, AXM_NET) || !in_range(m->ngroups, 1, MAX_GROUPS) || *tensors > MAX_TENSORS) return false;
	if (m->weight_bytes > (uint64_t)1 << 40) return false;
	if (HEADER + (uint64_t)m->ngroups * GROUP + (uint64_t)*tensors * ENTRY > size) return false;
	if (m->kind == AXM_NET) return *tensors == 0 && !(m->flags & ~(uint32_t)AXM_SUFFIX);
	if ((m->flags & ~(uint32_t)AXM_FLAGS) || m->activation > 1 || !in_range(m->hidden, 1, MAX_DIM)) return false;
	if (m->flags & AXM_BIAS && m->kind != AXM_HEAD) return false;
	if (m->flags & AXM_LORA && m->kind != AXM_LAYER) return false;
	bool shape_only = m->flags & AXM_SHAPE_ONLY;
	if (m->kind == AXM_ENCODER) return encoder_header(m, p);
	if (m->kind == AXM_DECODER) {
		if ((m->flags & ~(uint32_t)(AXM_F32_LOGITS | AXM_SUFFIX | AXM_LAST)) || m->pos != 1) return false;
		if (!in_range(*tensors, 2, MAX_TENSORS)) return false;
		if (!in_range(m->kv_heads, 1, 4096) || !in_range(m->head_dim, 1, 4096) || !in_range(m->out, 1, MAX_OUT)) return false;
	} else if (m->flags & AXM_LAST) {
		return false;
	} else if (m->kind != AXM_LAYER && m->flags & (AXM_GEMMA4 | AXM_SHARES)) {
		return false;
	} else if (m->kind == AXM_LAYER) {
		if (!in_range(m->heads, 1, 4096) || !in_range(m->kv_heads, 1, m->heads) || m->heads % m->kv_heads) return false;
		if (!in_range(m->head_dim, 1, 4096) || (!shape_only && !in_range(m->intermediate, 1, MAX_DIM))) return false;
		if (m->pos != 1 && m->pos != 3) return false;
		if (m->flags & AXM_ONE_POS && m->pos != 3) return false;
		if (m->flags & AXM_GEMMA4 && (!(m->flags & AXM_EXTRA_NORMS) || !in_range(m->out, 1, MAX_DIM))) return false;
		if (m->flags & AXM_SHARES && m->flags & (AXM_QKV_BIAS | AXM_GATE)) return false;
		if (m->rotary > m->head_dim || m->rotary % 2) return false;
		m->rank = u32(p + 188);
		if (m->flags & AXM_LORA) {
			if (m->flags & (AXM_GATE | AXM_SHARES | AXM_GEMMA4) || !in_range(m->rank, 1, 4096)) return false;
		} else if (m->rank) {
			return false;
		}
	} else if (m->kind == AXM_LINEAR) {
		if (!in_range(m->heads, 1, 4096) || !in_range(m->kv_heads, 1, m->heads) || m->heads % m->kv_heads) return false;
		if (!in_range(m->head_dim, 1, 4096) || !in_range(m->value_dim, 1, 4096) || !in_range(m->conv, 2, 64)) return false;
		if ((uint64_t)m->kv_heads * m->head_dim > MAX_DIM || (uint64_t)m->heads * m->value_dim > MAX_DIM) return false;
		if ((uint64_t)m->heads * m->head_dim * m->value_dim > (uint64_t)1 << 28) return false;
		if (m->state > 2 || m->rotary || (!shape_only && !in_range(m->intermediate, 1, MAX_DIM))) return false;
	} else if (m->kind != AXM_EMBED && !in_range(m->out, 1, MAX_OUT)) {
		return false;
	}
	return m->kind != AXM_HEAD || !shape_only || m->hidden >= 24; // a shape-only head reads 24 signs
}

static const int32_t state_types[] = {TYPE_BF16, TYPE_F16, TYPE_F32};

static void tensor(axm *m, axm_tensor *t, uint32_t group, const char *name, int32_t type, uint32_t elem, uint32_t a, uint32_t b,
	uint32_t c) {
	if ((m->flags & AXM_SUFFIX) && group)
		snprintf(t->name, sizeof t->name, "%s_%u", name, group);
	else
		snprintf(t->name, sizeof t->name, "%s", name);
	t->type = type;
	t->ndims = c ? 3 : 2;
	t->dims[0] = (int32_t)a;
	t->dims[1] = (int32_t)b;
	t->dims[2] = (int32_t)c;
	t->size = (uint64_t)a * b * (c ? c : 1) * elem;
}

// Puts a dimension of 1 before the others.
static void lead(axm_tensor *t) {
	memmove(t->dims + 1, t->dims, 3 * sizeof *t->dims);
	t->dims[0] = 1;
	t->ndims++;
}

static const char *const deep_names[8] = {"deepstack_feature_0", "deepstack_feature_1", "deepstack_feature_2",
	"deepstack_feature_3", "deepstack_feature_4", "deepstack_feature_5", "deepstack_feature_6", "deepstack_feature_7"};

// An input or output of a net, as its graph has it.
static void net_tensor(axm *m, axm_tensor *t, uint32_t group, const axg *of, const axg_port *p) {
	const axg_value *v = &of->values[p->value];
	uint32_t elem = p->type == TYPE_U8 ? 1 : p->type == TYPE_BF16 || p->type == TYPE_F16 ? 2 : 4;
	tensor(m, t, group, p->name, (int32_t)p->type, elem, 1, 1, 1);
	t->ndims = (int32_t)v->rank;
	for (uint32_t i = 0; i < v->rank; i++) t->dims[i] = (int32_t)v->dims[i];
	t->size = v->n * elem;
}

static bool alike(const axg_port *a, const axg_port *b, uint32_t n) {
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(a[i].name, b[i].name) || a[i].type != b[i].type) return false;
	return true;
}

// The graphs of a net's groups, which all have the same inputs and outputs in other shapes.
static int net(axm *m, const uint8_t *base, bool weights) {
	m->graph = calloc(m->ngroups, sizeof(*m->graph));
	if (!m->graph) return AXM_E_MEMORY;
	for (uint32_t g = 0; g < m->ngroups; g++) {
		const uint8_t *p = base + HEADER + (size_t)g * GROUP;
		int code = axg_read(base, m->file_bytes, u64(p), u64(p + 8), HEADER + (uint64_t)m->ngroups * GROUP, weights, &m->graph[g]);
		if (code != AXG_OK) return code == AXG_MEMORY ? AXM_E_MEMORY : AXM_E_BAD;
		const axg *a = m->graph[g], *first = m->graph[0];
		if (a->nin != first->nin || a->nout != first->nout) return AXM_E_BAD;
		if (!alike(a->in, first->in, a->nin) || !alike(a->out, first->out, a->nout)) return AXM_E_BAD;
		for (uint32_t i = 0; i < a->nin; i++) net_tensor(m, &m->groups[g].in[i], g, a, &a->in[i]);
		for (uint32_t i = 0; i < a->nout; i++) net_tensor(m, &m->groups[g].out[i], g, a, &a->out[i]);
	}
	m->nin = m->listed = m->graph[0]->nin;
	m->nout = m->graph[0]->nout;
	for (uint32_t i = 0; i < IN_MAX; i++) m->at[i] = i;
	return AXM_OK;
}

// The inputs of an adapter.
static void lora_inputs(axm *m, axm_group *s, uint32_t g) {
	uint32_t h = m->hidden, q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, i = m->intermediate;
	struct { const char *a, *b; uint32_t in, out; } parts[LORA_PARTS] = {
		[LORA_Q] = {"lora_q_proj_a", "lora_q_proj_b", h, q}, [LORA_K] = {"lora_k_proj_a", "lora_k_proj_b", h, kv},
		[LORA_V] = {"lora_v_proj_a", "lora_v_proj_b", h, kv}, [LORA_O] = {"lora_o_proj_a", "lora_o_proj_b", q, h},
		[LORA_GATE] = {"lora_gate_proj_a", "lora_gate_proj_b", h, i}, [LORA_UP] = {"lora_up_proj_a", "lora_up_proj_b", h, i},
		[LORA_DOWN] = {"lora_down_proj_a", "lora_down_proj_b", i, h},
	};
	for (uint32_t k = 0; k < LORA_PARTS; k++) {
		tensor(m, &s->in[IN_LORA + 2 * k], g, parts[k].a, TYPE_BF16, 2, m->rank, parts[k].in, 0);
		tensor(m, &s->in[IN_LORA + 2 * k + 1], g, parts[k].b, TYPE_BF16, 2, parts[k].out, m->rank, 0);
	}
	m->nin += 2 * LORA_PARTS;
}

static bool group(axm *m, uint32_t g, const uint8_t *p) {
	axm_group *s = &m->groups[g];
	s->rows = u32(p);
	s->cells = u32(p + 4);
	s->cache = u32(p + 8);
	if (!in_range(s->rows, 1, 65536) || s->cells > MAX_DIM || s->cache > MAX_DIM) return false;
	uint32_t n = s->rows, h = m->hidden, d = m->kv_heads * m->head_dim;
	switch (m->kind) {
	case AXM_LAYER:
		if (m->flags & AXM_SHARES) { // this call's rows stand behind the cells
			if (s->cache != s->cells + n) return false;
		} else if (s->cache != s->cells && !(s->cells == 0 && s->cache == 1)) {
			return false;
		}
		tensor(m, &s->in[IN_INPUT], g, "input", TYPE_BF16, 2, 1, n, h);
		tensor(m, &s->in[IN_INDICES], g, "indices", TYPE_U32, 4, m->flags & AXM_ONE_POS && n == 1 ? 1 : m->pos, n, 0);
		tensor(m, &s->in[IN_MASK], g, "mask", TYPE_BF16, 2, 1, n, s->cells + n);
		tensor(m, &s->in[IN_K], g, "K_cache", TYPE_BF16, 2, 1, s->cache, d);
		tensor(m, &s->in[IN_V], g, "V_cache", TYPE_BF16, 2, 1, s->cache, d);
		if (m->flags & AXM_GEMMA4) tensor(m, &s->in[IN_LAYER_INPUT], g, "per_layer_input", TYPE_BF16, 2, 1, n, m->out);
		tensor(m, &s->out[OUT_K], g, "K_cache_out", TYPE_BF16, 2, 1, n, d);
		tensor(m, &s->out[OUT_V], g, "V_cache_out", TYPE_BF16, 2, 1, n, d);
		tensor(m, &s->out[OUT_OUTPUT], g, "output", TYPE_BF16, 2, 1, n, h);
		m->nin = IN_LAYER;
		if (m->flags & AXM_GEMMA4) m->nin++;
		if (m->flags & AXM_LORA) lora_inputs(m, s, g);
		m->nout = OUT_LAYER;
		return true;
	case AXM_LINEAR: {
		if (s->cells || s->cache) return false;
		int32_t type = state_types[m->state];
		uint32_t elem = type == TYPE_F32 ? 4 : 2, channels = 2 * d + m->heads * m->value_dim;
		tensor(m, &s->in[IN_INPUT], g, "input", TYPE_BF16, 2, 1, n, h);
		tensor(m, &s->in[IN_INDICES], g, "indices", TYPE_U32, 4, 1, n, 0);
		tensor(m, &s->in[IN_MASK], g, "mask", TYPE_BF16, 2, 1, n, 0);
		tensor(m, &s->in[IN_K], g, "K_cache", type, elem, 1, channels, m->conv - 1);
		tensor(m, &s->out[OUT_K], g, "K_cache_out", type, elem, 1, channels, m->conv - 1);
		tensor(m, &s->in[IN_V], g, "V_cache", type, elem, m->heads, m->head_dim, m->value_dim);
		tensor(m, &s->out[OUT_V], g, "V_cache_out", type, elem, m->heads, m->head_dim, m->value_dim);
		lead(&s->in[IN_V]);
		lead(&s->out[OUT_V]);
		tensor(m, &s->out[OUT_OUTPUT], g, "output", TYPE_BF16, 2, 1, n, h);
		m->nin = IN_LAYER;
		m->nout = OUT_LAYER;
		return true;
	}
	case AXM_ENCODER:
		if (m->order)
			tensor(m, &s->in[0], g, "pixel_values", TYPE_U8, 1, m->down * m->patch, m->across * m->patch, 3);
		else
			tensor(m, &s->in[0], g, "hidden_states", TYPE_U8, 1, m->down * m->across, 2 * m->patch * m->patch, 3);
		lead(&s->in[0]);
		for (uint32_t k = 0; k <= m->deep; k++) {
			const char *rows = m->order ? "output" : "hidden_states_out";
			tensor(m, &s->out[k], g, k ? deep_names[k - 1] : rows, TYPE_F32, 4, n, m->out, 0);
			if (m->order) lead(&s->out[k]);
		}
		m->nin = 1;
		m->nout = 1 + m->deep;
		return true;
	case AXM_DECODER: {
		bool wide = m->flags & AXM_F32_LOGITS;
		if (s->cache != s->cells || s->cells < 1) return false;
		uint32_t layers = m->parts - 1;
		tensor(m, &s->in[IN_INPUT], g, "input_embeds", TYPE_BF16, 2, 1, n, h);
		tensor(m, &s->in[IN_INDICES], g, "indices", TYPE_U32, 4, 1, n, 0);
		tensor(m, &s->in[IN_MASK], g, "mask", TYPE_BF16, 2, 1, n, s->cells + n);
		tensor(m, &s->in[IN_K], g, "k_caches", TYPE_BF16, 2, layers, s->cache, d);
		tensor(m, &s->in[IN_V], g, "v_caches", TYPE_BF16, 2, layers, s->cache, d);
		tensor(m, &s->out[OUT_K], g, "k_cache", TYPE_BF16, 2, layers, n, d);
		tensor(m, &s->out[OUT_V], g, "v_cache", TYPE_BF16, 2, layers, n, d);
		tensor(m, &s->out[OUT_OUTPUT], g, "logits", wide ? TYPE_F32 : TYPE_BF16, wide ? 4 : 2, 1, m->flags & AXM_LAST ? 1 : n, m->out);
		axm_tensor *four[] = {&s->in[IN_K], &s->in[IN_V], &s->out[OUT_K], &s->out[OUT_V]};
		for (size_t i = 0; i < sizeof four / sizeof *four; i++) lead(four[i]);
		m->nin = IN_LAYER;
		m->nout = OUT_LAYER;
		return true;
	}
	case AXM_HEAD: {
		bool wide = m->flags & AXM_F32_LOGITS;
		if (n != 1 || m->ngroups != 1) return false;
		tensor(m, &s->in[0], g, "input", TYPE_BF16, 2, 1, 1, h);
		tensor(m, &s->out[0], g, "output", wide ? TYPE_F32 : TYPE_BF16, wide ? 4 : 2, 1, 1, m->out);
		tensor(m, &s->out[1], g, "indices", TYPE_U32, 4, 1, 1, 0);
		m->nin = 1;
		m->nout = m->flags & AXM_ARGMAX ? 2 : 1;
		return true;
	}
	case AXM_EMBED:
		if (n != 1 || m->ngroups != 1) return false;
		tensor(m, &s->in[0], g, "input", TYPE_BF16, 2, 1, 1, h);
		tensor(m, &s->out[0], g, "output", TYPE_BF16, 2, 1, 1, h);
		m->nin = m->nout = 1;
		return true;
	default:
		tensor(m, &s->in[0], g, "x", TYPE_F32, 4, n, h, 0);
		tensor(m, &s->out[0], g, "y", TYPE_F32, 4, n, m->out, 0);
		m->nin = m->nout = 1;
		return true;
	}
}

static bool fits(uint64_t offset, uint64_t bytes, uint64_t size) { return offset % 64 == 0 && offset <= size && bytes <= size - offset; }

static uint64_t fill(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static bool matrix(axm *m, const want w[W_COUNT], const uint8_t *base, const uint8_t *p, bool weights) {
	if (p[23]) return false; // the name must end
	for (int i = 0; i < W_COUNT; i++) {
		if (!w[i].name || strcmp(w[i].name, (const char *)p)) continue;
		uint32_t type = u32(p + 24), rows = u32(p + 28), cols = u32(p + 32);
		uint64_t values = u64(p + 40), scales = u64(p + 48);
		// What rows of each type are filled up to, and columns, and how many bits a value has.
		// Integers of 3 to 5 lay otherwise.
		static const uint8_t layout[][3] = {{0}, {1, 1, 32}, {1, 1, 16}, {0}, {0}, {0}, {4, 32, 16}, {8, 32, 8}, {8, 32, 4}};
		if (m->w[i].type || type > 8 || !layout[type][0] || rows != w[i].rows || cols != w[i].cols) return false;
		if ((w[i].f32_only && type != 1) || (m->kind == AXM_ENCODER && type > 2)) return false;
		uint64_t all = fill(rows, layout[type][0]);
		if (!fits(values, all * fill(cols, layout[type][1]) * layout[type][2] / 8, m->file_bytes)) return false;
		uint32_t group = u32(p + 36);
		if (type > 6 ? group != 32 && group != 128 : group != 0) return false;
		uint64_t scale = type > 6 ? ((uint64_t)cols + group - 1) / group * 2 : 0;
		if (scale && (scales == 0 || !fits(scales, all * scale, m->file_bytes))) return false;
		m->w[i] = (axm_matrix){type, rows, cols, group, weights ? base + values : NULL, weights && scale ? (const void *)(base + scales)
			: NULL};
		return true;
	}
	return false; // a tensor this kind does not have
}

static bool directory(axm *m, const uint8_t *base, uint32_t tensors, bool weights) {
	want w[W_COUNT];
	wants(m, w);
	if (m->flags & AXM_SHAPE_ONLY) return tensors == 0;
	const uint8_t *p = base + HEADER + (size_t)m->ngroups * GROUP;
	for (uint32_t t = 0; t < tensors; t++)
		if (!matrix(m, w, base, p + (size_t)t * ENTRY, weights)) return false;
	for (int i = 0; i < W_COUNT; i++)
		if (w[i].name && !m->w[i].type) return false;
	const float *axis = m->w[W_ROPE_AXIS].data;
	for (uint32_t i = 0; axis && i < m->rotary / 2; i++)
		if (!((axis[i] == 0 && m->kind != AXM_ENCODER) || axis[i] == 1 || axis[i] == 2)) return false;
	const float *at = m->w[W_DEEP_AT].data;
	for (uint32_t i = 0; at && i < m->deep; i++) // whole numbers that ascend
		if (!(at[i] >= 0 && at[i] < (float)m->blocks && at[i] == truncf(at[i])) || (i && at[i] <= at[i - 1])) return false;
	return true;
}

// A vendor's file is an ONNX container: a protobuf whose first field is ir_version (tag 8, a small
// number) followed by producer_name (tag 18).
static bool vendor(const uint8_t *p, uint64_t size) { return size > 4 && p[0] == 0x08 && p[1] < 0x20 && p[2] == 0x12; }

static int parse(axm *m, bool weights);

static bool belongs(const axm *m, const axm *p, bool last) {
	if (p->hidden != m->hidden || (p->flags & AXM_SHAPE_ONLY)) return false;
	if (last) return p->kind == AXM_HEAD && p->out == m->out && !((p->flags ^ m->flags) & AXM_F32_LOGITS);
	if (p->kind != AXM_LAYER || p->kv_heads != m->kv_heads || p->head_dim != m->head_dim || p->pos != 1 || p->ngroups != m->ngroups)
		return false;
	if (p->flags & (AXM_GEMMA4 | AXM_SHARES)) return false;
	for (uint32_t g = 0; g < m->ngroups; g++)
		if (p->groups[g].rows != m->groups[g].rows || p->groups[g].cells != m->groups[g].cells) return false;
	return true;
}

// The models within a whole decoder: complete files, each at a multiple of 64. None of them has
// parts.
static int parts(axm *m, const uint8_t *base, bool weights) {
	const uint8_t *p = base + HEADER + (size_t)m->ngroups * GROUP;
	for (uint32_t i = 0; i < m->parts; i++) {
		axm *part = &m->part[i];
		uint64_t at = u64(p + (size_t)i * ENTRY + 40), size = u64(p + (size_t)i * ENTRY + 48);
		if (!fits(at, size, m->file_bytes) || size < HEADER || u32(base + at + 12) == AXM_DECODER) return AXM_E_BAD;
		part->data = (void *)(uintptr_t)(base + at);
		part->data_size = (size_t)size;
		int code = parse(part, weights);
		part->data = NULL; // the whole's
		if (code != AXM_OK) return code;
		if (!belongs(m, part, i + 1 == m->parts)) return AXM_E_BAD;
	}
	return AXM_OK;
}

static int parse(axm *m, bool weights) {
	const uint8_t *p = m->data;
	uint64_t size = m->data_size;
	uint32_t tensors;
	if (size == 0) return AXM_E_EMPTY;
	if (size < HEADER || memcmp(p, "AXLESOFT", 8)) return vendor(p, size) ? AXM_E_VENDOR : AXM_E_BAD;
	if (!header(m, p, size, &tensors)) return AXM_E_BAD;
	m->groups = calloc(m->ngroups, sizeof *m->groups);
	if (!m->groups) return AXM_E_MEMORY;
	if (m->kind == AXM_NET) return net(m, p, weights);
	if (m->kind == AXM_DECODER) {
		m->part = calloc(tensors, sizeof *m->part);
		if (!m->part) return AXM_E_MEMORY;
		m->parts = tensors;
	}
	for (uint32_t g = 0; g < m->ngroups; g++)
		if (!group(m, g, p + HEADER + (size_t)g * GROUP)) return AXM_E_BAD;
	m->listed = m->nin;
	for (uint32_t i = 0; i < IN_MAX; i++) m->at[i] = i;
	if (m->kind == AXM_DECODER) return parts(m, p, weights);
	return directory(m, p, tensors, weights) ? AXM_OK : AXM_E_BAD;
}

static void drop_data(axm *m) {
	if (m->mapped)
		munmap(m->data, m->data_size);
	else
		free(m->data);
	m->data = NULL;
}

void axm_free(axm *m) {
	if (!m) return;
	drop_data(m);
	for (uint32_t i = 0; i < m->parts; i++) free(m->part[i].groups);
	free(m->part);
	for (uint32_t g = 0; m->graph && g < m->ngroups; g++) axg_free(m->graph[g]);
	free(m->graph);
	free(m->groups);
	free(m);
}

static int finish(axm *m, bool weights, axm **out) {
	int code = parse(m, weights);
	if (code != AXM_OK) {
		axm_free(m);
		return code;
	}
	if (!weights || (m->flags & AXM_SHAPE_ONLY)) drop_data(m);
	*out = m;
	return AXM_OK;
}

void axm_hide(axm *m) {
	if (m->kind != AXM_LINEAR || m->listed != IN_LAYER) return;
	static const uint32_t at[IN_MAX] = {[IN_INPUT] = 0, [IN_K] = 1, [IN_V] = 2, [IN_INDICES] = 3, [IN_MASK] = 4};
	m->listed = 3;
	memcpy(m->at, at, sizeof at);
	for (uint32_t g = 0; g < m->ngroups; g++) {
		axm_tensor was[IN_LAYER];
		memcpy(was, m->groups[g].in, sizeof was);
		for (uint32_t i = 0; i < IN_LAYER; i++) m->groups[g].in[at[i]] = was[i];
	}
}

static void *aligned(uint64_t size) {
	if (size > (uint64_t)1 << 40) return NULL;
	return aligned_alloc(64, (size_t)((size + 64) / 64 * 64));
}

int axm_open_mem(const void *mem, uint64_t size, axm **out) {
	axm *m = calloc(1, sizeof *m);
	if (!m) return AXM_E_MEMORY;
	m->data = aligned(size);
	if (!m->data) {
		free(m);
		return AXM_E_MEMORY;
	}
	m->data_size = (size_t)size;
	memcpy(m->data, mem, (size_t)size);
	return finish(m, true, out);
}

static bool read_all(int fd, uint8_t *p, size_t size) {
	while (size) {
		ssize_t n = read(fd, p, size);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return false;
		p += n;
		size -= (size_t)n;
	}
	return true;
}

int axm_open_file(const char *path, bool weights, axm **out) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return AXM_E_OPEN;
	struct stat st;
	int code = AXM_E_OPEN;
	axm *m = calloc(1, sizeof *m);
	if (!m) {
		close(fd);
		return AXM_E_MEMORY;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) goto bad;
	code = AXM_E_EMPTY;
	if (st.st_size == 0) goto bad;
	m->data_size = (size_t)st.st_size;
	if (st.st_size > MAP_ABOVE) {
		void *p = mmap(NULL, m->data_size, PROT_READ, MAP_PRIVATE, fd, 0);
		code = AXM_E_MEMORY;
		if (p == MAP_FAILED) goto bad;
		m->data = p;
		m->mapped = true;
	} else {
		m->data = aligned(m->data_size);
		code = AXM_E_MEMORY;
		if (!m->data) goto bad;
		code = AXM_E_OPEN;
		if (!read_all(fd, m->data, m->data_size)) goto bad;
	}
	close(fd);
	return finish(m, weights, out);
bad:
	close(fd);
	if (m->data) drop_data(m);
	free(m);
	return code;
}
