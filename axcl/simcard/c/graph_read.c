// Reading a net's program. Data flow: bytes -> counts -> inputs -> constants -> nodes, which add
// the values they give -> outputs. Shapes follow from operands and attributes by the rules of
// docs/axmodel-format.md; what does not fit them is refused.
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_CONSTANTS = 1 << 12,
	MAX_NODES = 1 << 14,
	MAX_DIMENSION = 1 << 24,
	MAX_ELEMENTS = 1 << 28,
	MAX_PROGRAM = 4 << 20,
	MAX_NAME = 59,
	MAX_SPAN = 1 << 16,
	MAX_MATRICES = 1 << 14,
	MAX_HEADS = 4096,
	U8 = 4, I32 = 7, U32 = 8, F16 = 13, BF16 = 14, F32 = 15,
};

typedef struct {
	const uint8_t *p;
	uint64_t left;
	bool bad;
} cursor;

static uint32_t word(const uint8_t *p) {
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static const uint8_t *bytes(cursor *c, uint64_t n) {
	static const uint8_t nothing[128];
	if (c->bad || n > c->left) {
		c->bad = true;
		return nothing;
	}
	const uint8_t *p = c->p;
	c->p += n;
	c->left -= n;
	return p;
}

static uint32_t next(cursor *c) { return word(bytes(c, 4)); }

// Counts a shape's elements; false for one that cannot be.
static bool size_up(axg_value *v) {
	if (v->rank < 1 || v->rank > AXG_RANK) return false;
	v->n = 1;
	for (uint32_t i = 0; i < v->rank; i++) {
		if (v->dims[i] < 1 || v->dims[i] > MAX_DIMENSION) return false;
		v->n *= v->dims[i];
		if (v->n > MAX_ELEMENTS) return false;
	}
	return true;
}

static bool dims(axg_value *v, const uint8_t *p) {
	v->rank = word(p);
	for (uint32_t i = 0; i < AXG_RANK; i++) v->dims[i] = word(p + 4 + 4 * i);
	return size_up(v);
}

static bool is_integer(uint32_t type) { return type == U8 || type == I32 || type == U32; }
static bool is_number(uint32_t type) { return type == F32 || type == BF16 || type == F16; }

static bool port(axg_port *ports, uint32_t i, const uint8_t *p) {
	if (!p[0] || !memchr(p, 0, MAX_NAME + 1)) return false;
	strcpy(ports[i].name, (const char *)p);
	ports[i].type = word(p + 64);
	for (uint32_t k = 0; k < i; k++)
		if (!strcmp(ports[k].name, ports[i].name)) return false;
	return is_integer(ports[i].type) || is_number(ports[i].type);
}

// ---- shapes

typedef struct {
	const axg_node *n;
	const axg_value *x[AXG_OPERANDS]; // NULL: left out
	axg_value *y;
	double *work;
} shaping;

static int32_t attr(const shaping *s, uint32_t i) { return s->n->attr[i]; }

static bool between(const shaping *s, uint32_t from, uint32_t to, int32_t low, int32_t high) {
	for (uint32_t i = from; i <= to; i++)
		if (attr(s, i) < low || attr(s, i) > high) return false;
	return true;
}

static bool vector_of(const axg_value *v, uint64_t n) { return !v || (v->rank == 1 && v->dims[0] == n); }

static bool epsilon(int32_t bits) {
	float e = axg_float(bits);
	return e >= 0 && e <= 1;
}

// The shape of two that go together, of which each may have axes left out in front. False where
// they do not.
static bool together(const axg_value *a, uint32_t arank, const axg_value *b, uint32_t brank, axg_value *y) {
	y->rank = arank > brank ? arank : brank;
	for (uint32_t i = 0; i < y->rank; i++) {
		uint32_t da = i + arank < y->rank ? 1 : a->dims[i + arank - y->rank], db = i + brank < y->rank ? 1 : b->dims[i + brank - y->rank];
		if (da != db && da != 1 && db != 1) return false;
		y->dims[i] = da == 1 ? db : da;
	}
	return true;
}

static bool same(const axg_value *a, const axg_value *b) {
	return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static bool conv(const shaping *s, bool back) {
	const axg_value *x = s->x[0], *w = s->x[1];
	uint32_t r = x->rank;
	if ((r != 3 && r != 4) || w->rank != r) return false;
	if (!between(s, 0, 1, 1, MAX_SPAN) || !between(s, 2, 5, 0, MAX_SPAN) || !between(s, 6, 7, 1, MAX_SPAN)) return false;
	int64_t groups = attr(s, 8), channels;
	if (groups < 1 || groups > x->dims[1] || x->dims[1] % groups) return false;
	if (r == 3 && (attr(s, 0) != 1 || attr(s, 2) || attr(s, 4) || attr(s, 6) != 1)) return false;
	if (back) {
		if (w->dims[0] != x->dims[1]) return false;
		for (uint32_t i = 0; i < 2; i++) {
			int32_t most = attr(s, i) > attr(s, 6 + i) ? attr(s, i) : attr(s, 6 + i);
			if (attr(s, 9 + i) < 0 || attr(s, 9 + i) >= most) return false;
		}
		if (r == 3 && attr(s, 9)) return false;
		channels = w->dims[1] * groups;
	} else {
		if (w->dims[1] != x->dims[1] / groups || w->dims[0] % groups) return false;
		channels = w->dims[0];
	}
	if (channels > MAX_DIMENSION || !vector_of(s->x[2], (uint64_t)channels)) return false;
	s->y->rank = r;
	s->y->dims[0] = x->dims[0];
	s->y->dims[1] = (uint32_t)channels;
	for (uint32_t i = 2; i < r; i++) {
		uint32_t a = i + 2 - r; // 0 down, 1 across
		int64_t in = x->dims[i], k = w->dims[i], stride = attr(s, a), pad = (int64_t)attr(s, 2 + a) + attr(s, 4 + a);
		if (k > MAX_SPAN) return false;
		int64_t reach = attr(s, 6 + a) * (k - 1) + 1, out;
		if (back)
			out = (in - 1) * stride - pad + reach + attr(s, 9 + a);
		else if (in + pad < reach)
			return false;
		else
			out = (in + pad - reach) / stride + 1;
		if (out < 1 || out > MAX_DIMENSION) return false;
		s->y->dims[i] = (uint32_t)out;
	}
	if (!size_up(s->y)) return false;
	*s->work += back ? (double)x->n * (double)w->n / x->dims[1] : (double)s->y->n * (double)w->n / w->dims[0];
	return true;
}

static bool matmul(const shaping *s) {
	const axg_value *a = s->x[0], *b = s->x[1];
	if (a->rank < 2 || b->rank < 2 || attr(s, 0) < 0 || attr(s, 0) > 1) return false;
	uint32_t k = b->dims[b->rank - (attr(s, 0) ? 1 : 2)], cols = b->dims[b->rank - (attr(s, 0) ? 2 : 1)];
	if (a->dims[a->rank - 1] != k || !together(a, a->rank - 2, b, b->rank - 2, s->y)) return false;
	uint64_t matrices = 1;
	for (uint32_t i = 0; i < s->y->rank; i++)
		if ((matrices *= s->y->dims[i]) > MAX_MATRICES) return false;
	s->y->dims[s->y->rank] = a->dims[a->rank - 2];
	s->y->dims[s->y->rank + 1] = cols;
	s->y->rank += 2;
	if (!vector_of(s->x[2], cols) || !size_up(s->y)) return false;
	*s->work += (double)s->y->n * k;
	return true;
}

static bool attention(const shaping *s) {
	const axg_value *q = s->x[0], *k = s->x[1], *v = s->x[2], *mask = s->x[3];
	if (q->rank != 3 || k->rank != 3 || v->rank != 3 || k->dims[0] != q->dims[0] || v->dims[0] != q->dims[0]) return false;
	if (k->dims[2] != q->dims[2] || v->dims[1] != k->dims[1] || !between(s, 0, 0, 1, MAX_HEADS)) return false;
	uint32_t heads = (uint32_t)attr(s, 0);
	if (q->dims[2] % heads || v->dims[2] % heads || !(fabs((double)axg_float(attr(s, 1))) < 1e9)) return false;
	axg_value scores = {.rank = 4, .dims = {q->dims[0], heads, q->dims[1], k->dims[1]}}, met;
	if (mask && (mask->rank > 4 || !together(mask, mask->rank, &scores, 4, &met) || !same(&met, &scores))) return false;
	*s->y = (axg_value){.rank = 3, .dims = {q->dims[0], q->dims[1], v->dims[2]}};
	*s->work += (double)q->n * k->dims[1] + (double)q->dims[1] * (double)v->n;
	return true;
}

static bool pool(const shaping *s) {
	const axg_value *x = s->x[0];
	if ((x->rank != 3 && x->rank != 4) || !between(s, 0, 0, 0, 1) || !between(s, 1, 4, 1, MAX_SPAN) || !between(s, 5, 8, 0, MAX_SPAN))
		return false;
	if (x->rank == 3 && (attr(s, 1) != 1 || attr(s, 3) != 1)) return false;
	*s->y = *x;
	for (uint32_t a = 0; a < 2; a++) {
		int64_t k = attr(s, 1 + a), stride = attr(s, 3 + a), before = attr(s, 5 + a), after = attr(s, 7 + a);
		if (before >= k || after >= k) return false;
		if (x->rank == 3 && a == 0) continue;
		uint32_t i = x->rank - 2 + a;
		int64_t in = x->dims[i];
		if (in + before + after < k) return false;
		s->y->dims[i] = (uint32_t)((in + before + after - k) / stride + 1);
	}
	return true;
}

static bool concat(const shaping *s) {
	*s->y = *s->x[0];
	if (!between(s, 0, 0, 0, (int32_t)s->y->rank - 1)) return false;
	uint32_t axis = (uint32_t)attr(s, 0);
	uint64_t sum = s->y->dims[axis];
	for (uint32_t k = 1; k < s->n->nin; k++) {
		const axg_value *x = s->x[k];
		if (x->integer != s->y->integer || x->rank != s->y->rank) return false;
		for (uint32_t i = 0; i < x->rank; i++)
			if (i != axis && x->dims[i] != s->y->dims[i]) return false;
		sum += x->dims[axis];
	}
	if (sum > MAX_DIMENSION) return false;
	s->y->dims[axis] = (uint32_t)sum;
	return true;
}

static bool lstm(const shaping *s) {
	const axg_value *x = s->x[0], *w = s->x[1], *r = s->x[2];
	if (x->rank != 3 || w->rank != 3 || r->rank != 3 || !between(s, 0, 0, 1, 2)) return false;
	uint32_t dirs = (uint32_t)attr(s, 0), h = r->dims[2];
	if (w->dims[0] != dirs || r->dims[0] != dirs || w->dims[1] != 4 * h || r->dims[1] != 4 * h || w->dims[2] != x->dims[2]) return false;
	axg_value bias = {.rank = 2, .dims = {dirs, 4 * h}}, state = {.rank = 3, .dims = {dirs, x->dims[0], h}};
	if ((s->x[3] && !same(s->x[3], &bias)) || (s->x[4] && !same(s->x[4], &state)) || (s->x[5] && !same(s->x[5], &state))) return false;
	s->y[0] = (axg_value){.rank = 3, .dims = {x->dims[0], x->dims[1], dirs * h}};
	s->y[1] = s->y[2] = state;
	*s->work += (double)x->dims[0] * x->dims[1] * (double)(w->n + r->n);
	return size_up(&s->y[1]) && size_up(&s->y[2]);
}

// How many operands each operation takes, and attributes; -1: the operation says. Which may be
// integers: none, 1 any, 2 the second alone.
static const struct {
	uint8_t need, most;
	int8_t attrs, integers;
} forms[AXG_OPS] = {
	[AXG_CONV] = {2, 3, 9, 0}, [AXG_CONV_TRANSPOSE] = {2, 3, 11, 0}, [AXG_MATMUL] = {2, 3, 1, 0}, [AXG_ATTENTION] = {3, 4, 2, 0},
	[AXG_LAYER_NORM] = {1, 3, 1, 0}, [AXG_RMS_NORM] = {1, 2, 1, 0}, [AXG_GROUP_NORM] = {1, 3, 2, 0}, [AXG_UNARY] = {1, 1, 2, 0},
	[AXG_BINARY] = {2, 2, 1, 1}, [AXG_CAST] = {1, 1, 1, 1}, [AXG_SOFTMAX] = {1, 1, 0, 0}, [AXG_REDUCE] = {1, 1, 2, 0},
	[AXG_POOL] = {1, 1, 9, 0}, [AXG_RESIZE] = {1, 1, 3, 0}, [AXG_GATHER] = {2, 2, 1, 2}, [AXG_RESHAPE] = {1, 1, -1, 1},
	[AXG_TRANSPOSE] = {1, 1, -1, 1}, [AXG_CONCAT] = {1, AXG_OPERANDS, 1, 1}, [AXG_SLICE] = {1, 1, -1, 1}, [AXG_PAD] = {1, 1, -1, 0},
	[AXG_EXPAND] = {1, 1, -1, 1}, [AXG_LSTM] = {3, 6, 1, 0},
};

static bool operands(const shaping *s) {
	const axg_node *n = s->n;
	if (n->nin < forms[n->op].need || n->nin > forms[n->op].most) return false;
	if (forms[n->op].attrs >= 0 && n->nattr != (uint32_t)forms[n->op].attrs) return false;
	for (uint32_t i = 0; i < n->nin; i++) {
		if (!s->x[i] && (i < forms[n->op].need || n->op == AXG_CONCAT)) return false;
		if (!s->x[i] || forms[n->op].integers == 1) continue;
		if (s->x[i]->integer != (forms[n->op].integers == 2 && i == 1)) return false;
	}
	return true;
}

static bool shape(const shaping *s) {
	const axg_value *x = s->x[0];
	axg_value *y = s->y;
	uint32_t rank = x->rank, last = x->dims[rank - 1], seen = 0;
	switch (s->n->op) {
	case AXG_CONV:
	case AXG_CONV_TRANSPOSE:
		return conv(s, s->n->op == AXG_CONV_TRANSPOSE);
	case AXG_MATMUL:
		return matmul(s);
	case AXG_ATTENTION:
		return attention(s);
	case AXG_LAYER_NORM:
	case AXG_RMS_NORM:
		*y = *x;
		return vector_of(s->x[1], last) && vector_of(s->x[2], last) && epsilon(attr(s, 0));
	case AXG_GROUP_NORM:
		*y = *x;
		return rank >= 3 && attr(s, 0) >= 1 && x->dims[1] % (uint32_t)attr(s, 0) == 0 && vector_of(s->x[1], x->dims[1]) &&
			vector_of(s->x[2], x->dims[1]) && epsilon(attr(s, 1));
	case AXG_UNARY:
		*y = *x;
		return between(s, 0, 0, 0, AXG_FUNCTIONS - 1);
	case AXG_BINARY:
		y->integer = x->integer;
		return between(s, 0, 0, 0, AXG_BINARIES - 1) && x->integer == s->x[1]->integer && !(x->integer && attr(s, 0) == AXG_DIV) &&
			together(x, rank, s->x[1], s->x[1]->rank, y);
	case AXG_CAST:
		*y = *x;
		y->integer = attr(s, 0) == 1;
		return between(s, 0, 0, 0, 1);
	case AXG_SOFTMAX:
		*y = *x;
		return true;
	case AXG_REDUCE:
		*y = *x;
		if (!between(s, 0, 0, 0, 2) || !between(s, 1, 1, 1, (1 << rank) - 1)) return false;
		for (uint32_t i = 0; i < rank; i++)
			if (attr(s, 1) >> i & 1) y->dims[i] = 1;
		return true;
	case AXG_POOL:
		return pool(s);
	case AXG_RESIZE:
		*y = *x;
		if ((rank != 3 && rank != 4) || !between(s, 0, 0, 0, 1) || !between(s, 1, 2, 1, MAX_DIMENSION)) return false;
		if (rank == 3 && attr(s, 1) != 1) return false;
		if (rank == 4) y->dims[2] = (uint32_t)attr(s, 1);
		y->dims[rank - 1] = (uint32_t)attr(s, 2);
		return true;
	case AXG_GATHER: {
		if (!between(s, 0, 0, 0, (int32_t)rank - 1)) return false;
		uint32_t axis = (uint32_t)attr(s, 0), n = s->x[1]->rank;
		y->rank = rank - 1 + n;
		if (y->rank > AXG_RANK) return false;
		for (uint32_t i = 0; i < y->rank; i++)
			y->dims[i] = i < axis ? x->dims[i] : i < axis + n ? s->x[1]->dims[i - axis] : x->dims[i + 1 - n];
		return true;
	}
	case AXG_RESHAPE:
	case AXG_EXPAND: {
		axg_value met;
		y->integer = x->integer;
		y->rank = s->n->nattr;
		if (y->rank < 1 || y->rank > AXG_RANK) return false;
		for (uint32_t i = 0; i < y->rank; i++) y->dims[i] = (uint32_t)attr(s, i);
		if (!size_up(y)) return false;
		return s->n->op == AXG_RESHAPE ? y->n == x->n : together(x, rank, y, y->rank, &met) && same(&met, y);
	}
	case AXG_TRANSPOSE:
		*y = *x;
		if (s->n->nattr != rank || !between(s, 0, rank - 1, 0, (int32_t)rank - 1)) return false;
		for (uint32_t i = 0; i < rank; i++) {
			y->dims[i] = x->dims[attr(s, i)];
			seen |= 1u << attr(s, i);
		}
		return seen == (1u << rank) - 1;
	case AXG_CONCAT:
		return concat(s);
	case AXG_SLICE:
		*y = *x;
		if (s->n->nattr != 2 * rank) return false;
		for (uint32_t i = 0; i < rank; i++) {
			int64_t from = attr(s, i), n = attr(s, rank + i);
			if (from < 0 || n < 1 || from + n > x->dims[i]) return false;
			y->dims[i] = (uint32_t)n;
		}
		return true;
	case AXG_PAD:
		*y = *x;
		if (s->n->nattr != 2 + 2 * rank || !between(s, 0, 0, 0, 1) || !between(s, 2, 1 + 2 * rank, 0, MAX_DIMENSION)) return false;
		for (uint32_t i = 0; i < rank; i++) {
			uint32_t before = (uint32_t)attr(s, 2 + i), after = (uint32_t)attr(s, 2 + rank + i);
			if (attr(s, 0) == 1 && (before >= x->dims[i] || after >= x->dims[i])) return false;
			y->dims[i] += before + after;
		}
		return true;
	default:
		return lstm(s);
	}
}

// ---- the program

static int node(axg *g, uint32_t i, cursor *c, int32_t **at) {
	axg_node *n = &g->nodes[i];
	shaping s = {.n = n, .y = &g->values[g->nvalues], .work = &g->work};
	n->op = next(c);
	n->nin = next(c);
	n->nattr = next(c);
	if (c->bad || n->op < AXG_CONV || n->op >= AXG_OPS || n->nin > AXG_OPERANDS || n->nattr > AXG_OPERANDS) return AXG_BAD;
	n->in = *at;
	n->attr = *at + n->nin;
	for (uint32_t k = 0; k < n->nin + n->nattr; k++) *(*at)++ = (int32_t)next(c);
	if (c->bad) return AXG_BAD;
	for (uint32_t k = 0; k < n->nin; k++) {
		if (n->in[k] < -1 || n->in[k] >= (int32_t)g->nvalues) return AXG_BAD;
		if (n->in[k] >= 0) s.x[k] = &g->values[n->in[k]];
	}
	n->out = g->nvalues;
	n->nout = n->op == AXG_LSTM ? 3 : 1;
	if (!operands(&s) || !shape(&s)) return AXG_BAD;
	for (uint32_t k = 0; k < n->nout; k++)
		if (!size_up(&s.y[k])) return AXG_BAD;
	g->work += (double)s.y->n;
	g->nvalues += n->nout;
	return AXG_OK;
}

static int program(axg *g, cursor *c, const uint8_t *file, uint64_t size, uint64_t first, bool weights) {
	for (uint32_t i = 0; i < g->nin; i++) {
		const uint8_t *p = bytes(c, 96);
		if (!port(g->in, i, p) || !dims(&g->values[i], p + 68)) return AXG_BAD;
		g->in[i].value = i;
		g->values[i].integer = is_integer(g->in[i].type);
	}
	g->nvalues = g->nin;
	for (uint32_t i = 0; i < g->nconst; i++) {
		const uint8_t *p = bytes(c, 40);
		axg_value *v = &g->values[g->nvalues++];
		uint64_t at = (uint64_t)word(p + 32) | (uint64_t)word(p + 36) << 32;
		g->constants[i].type = word(p);
		if ((word(p) != F32 && word(p) != BF16 && word(p) != I32) || !dims(v, p + 4)) return AXG_BAD;
		v->integer = word(p) == I32;
		uint64_t n = v->n * (word(p) == BF16 ? 2 : 4);
		if (at % 64 || at < first || at > size || n > size - at) return AXG_BAD;
		g->constants[i].data = weights ? file + at : NULL;
	}
	int32_t *at = g->words;
	for (uint32_t i = 0; i < g->nnodes; i++) {
		int code = node(g, i, c, &at);
		if (code != AXG_OK) return code;
	}
	for (uint32_t i = 0; i < g->nout; i++) {
		const uint8_t *p = bytes(c, 72);
		g->out[i].value = word(p + 68);
		if (!port(g->out, i, p) || g->out[i].value >= g->nvalues) return AXG_BAD;
		if (is_integer(g->out[i].type) != g->values[g->out[i].value].integer) return AXG_BAD;
	}
	return c->bad || c->left ? AXG_BAD : AXG_OK;
}

int axg_read(const uint8_t *file, uint64_t size, uint64_t at, uint64_t n, uint64_t first, bool weights, axg **out) {
	if (at % 8 || at < first || at > size || n > size - at || n > MAX_PROGRAM) return AXG_BAD;
	cursor c = {.p = file + at, .left = n};
	axg *g = calloc(1, sizeof *g);
	if (!g) return AXG_MEMORY;
	g->nin = next(&c);
	g->nout = next(&c);
	g->nconst = next(&c);
	g->nnodes = next(&c);
	int code = AXG_BAD;
	if (!c.bad && g->nin >= 1 && g->nin <= AXG_PORTS && g->nout >= 1 && g->nout <= AXG_PORTS && g->nconst <= MAX_CONSTANTS &&
		g->nnodes <= MAX_NODES) {
		g->values = calloc(g->nin + g->nconst + 3 * (size_t)g->nnodes, sizeof *g->values);
		g->constants = calloc(g->nconst + 1, sizeof *g->constants);
		g->nodes = calloc(g->nnodes + 1, sizeof *g->nodes);
		g->words = calloc((size_t)n / 4 + 1, sizeof *g->words);
		code = g->values && g->constants && g->nodes && g->words ? program(g, &c, file, size, first, weights) : AXG_MEMORY;
	}
	if (code != AXG_OK) {
		axg_free(g);
		return code;
	}
	*out = g;
	return AXG_OK;
}

void axg_free(axg *g) {
	if (!g) return;
	free(g->values);
	free(g->constants);
	free(g->nodes);
	free(g->words);
	free(g);
}
