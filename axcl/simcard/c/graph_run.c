// Running a net's graph. Data flow: inputs' bytes -> float32 and integers of 32 bits -> the nodes
// in order, each into memory of its own, which goes once it is not needed -> outputs' bytes. What
// is not a product is computed value by value, as the formulas are written; what is summed over a
// row is summed in double precision.
#include "compute.h"
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool room(axg_tensor *t) {
	t->f = malloc((size_t)t->is->n * sizeof *t->f);
	t->i = (int32_t *)(void *)t->f;
	return t->f;
}

static void receive(axg_tensor *t, uint32_t type, const void *from) {
	size_t n = (size_t)t->is->n;
	const uint16_t *half = from;
	switch (type) {
	case TYPE_U8:
		for (size_t i = 0; i < n; i++) t->i[i] = ((const uint8_t *)from)[i];
		break;
	case TYPE_BF16:
		axm_widen(t->f, half, n);
		break;
	case TYPE_F16:
		for (size_t i = 0; i < n; i++) t->f[i] = (float)axm_from_f16(half[i]);
		break;
	default:
		memcpy(t->f, from, n * 4);
	}
}

static void send(const axg_tensor *t, uint32_t type, void *to) {
	size_t n = (size_t)t->is->n;
	uint16_t *half = to;
	switch (type) {
	case TYPE_U8:
		for (size_t i = 0; i < n; i++) ((uint8_t *)to)[i] = (uint8_t)t->i[i];
		break;
	case TYPE_BF16:
		axm_narrow(half, t->f, n);
		break;
	case TYPE_F16:
		for (size_t i = 0; i < n; i++) half[i] = axm_to_f16(t->f[i]);
		break;
	default:
		memcpy(to, t->f, n * 4);
	}
}

static float function(int32_t f, float alpha, float x) {
	switch (f) {
	case AXG_RELU:
		return x > 0 ? x : 0;
	case AXG_LEAKY:
		return x > 0 ? x : alpha * x;
	case AXG_SIGMOID:
		return 1 / (1 + expf(-x));
	case AXG_TANH:
		return tanhf(x);
	case AXG_SILU:
		return x / (1 + expf(-x));
	case AXG_GELU:
		return 0.5f * x * erfcf(-0.70710678f * x);
	case AXG_GELU_TANH:
		return axm_activate(1, x);
	case AXG_GELU_FAST:
		return x / (1 + expf(-1.702f * x));
	case AXG_SQRT:
		return sqrtf(x);
	case AXG_SIN:
		return sinf(x);
	default:
		return cosf(x);
	}
}

static float number(int32_t f, float a, float b) {
	switch (f) {
	case AXG_ADD:
		return a + b;
	case AXG_SUB:
		return a - b;
	case AXG_MUL:
		return a * b;
	case AXG_DIV:
		return a / b;
	case AXG_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

static int32_t integer(int32_t f, int32_t a, int32_t b) { // wraps around
	switch (f) {
	case AXG_ADD:
		return (int32_t)((uint32_t)a + (uint32_t)b);
	case AXG_SUB:
		return (int32_t)((uint32_t)a - (uint32_t)b);
	case AXG_MUL:
		return (int32_t)((uint32_t)a * (uint32_t)b);
	case AXG_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

// A place in a shape, and where that is in memories that go through it by steps of their own.
typedef struct {
	uint32_t rank, at[AXG_RANK];
	const uint32_t *dims;
	size_t step[2][AXG_RANK], pos[2];
} odometer;

static void tick(odometer *o) {
	for (uint32_t i = o->rank; i-- > 0;) {
		for (int k = 0; k < 2; k++) o->pos[k] += o->step[k][i];
		if (++o->at[i] < o->dims[i]) return;
		for (int k = 0; k < 2; k++) o->pos[k] -= o->step[k][i] * o->dims[i];
		o->at[i] = 0;
	}
}

// The steps by which v goes through a shape that it goes together with.
static void steps_of(odometer *o, int k, const axg_value *v) {
	size_t step = 1;
	for (uint32_t i = v->rank; i-- > 0; step *= v->dims[i])
		if (v->dims[i] > 1) o->step[k][i + o->rank - v->rank] = step;
}

static odometer over(const axg_value *y) { return (odometer){.rank = y->rank, .dims = y->dims}; }

static void binary(const axg_node *n, const axg_tensor *a, const axg_tensor *b, axg_tensor *y) {
	odometer o = over(y->is);
	steps_of(&o, 0, a->is);
	steps_of(&o, 1, b->is);
	for (uint64_t i = 0; i < y->is->n; i++, tick(&o)) {
		if (y->is->integer)
			y->i[i] = integer(n->attr[0], a->i[o.pos[0]], b->i[o.pos[1]]);
		else
			y->f[i] = number(n->attr[0], a->f[o.pos[0]], b->f[o.pos[1]]);
	}
}

static void cast(const axg_tensor *x, axg_tensor *y) {
	if (x->is->integer == y->is->integer) {
		memcpy(y->f, x->f, (size_t)y->is->n * 4);
		return;
	}
	for (uint64_t i = 0; i < y->is->n; i++) {
		if (!y->is->integer)
			y->f[i] = (float)x->i[i];
		else if (x->f[i] >= 2147483648.0f)
			y->i[i] = INT32_MAX;
		else if (x->f[i] <= -2147483648.0f)
			y->i[i] = INT32_MIN;
		else
			y->i[i] = isnan(x->f[i]) ? 0 : (int32_t)x->f[i];
	}
}

// Softmax and norms of rows of `len`: mean and root over a row, then each value's own factor and
// addend, which go by `each` values.
static void softmax(const axg_tensor *x, axg_tensor *y) {
	size_t len = x->is->dims[x->is->rank - 1];
	for (size_t r = 0; r < x->is->n; r += len) {
		float top = x->f[r];
		double sum = 0;
		for (size_t i = r; i < r + len; i++) top = fmaxf(top, x->f[i]);
		for (size_t i = r; i < r + len; i++) sum += y->f[i] = expf(x->f[i] - top);
		for (size_t i = r; i < r + len; i++) y->f[i] = (float)(y->f[i] / sum);
	}
}

static void norm(const axg_tensor *x, const axg_tensor *w, const axg_tensor *b, axg_tensor *y, size_t len, size_t each, size_t channels,
	bool centred, float eps) {
	for (size_t r = 0; r < x->is->n; r += len) {
		double mean = 0, square = 0;
		for (size_t i = r; centred && i < r + len; i++) mean += x->f[i];
		mean /= (double)len;
		for (size_t i = r; i < r + len; i++) square += (x->f[i] - mean) * (x->f[i] - mean);
		double root = sqrt(square / (double)len + (double)eps);
		for (size_t i = r; i < r + len; i++) {
			size_t c = i / each % channels;
			float v = (float)((x->f[i] - mean) / root);
			if (w) v *= w->f[c];
			y->f[i] = b ? v + b->f[c] : v;
		}
	}
}

static bool reduce(const axg_node *n, const axg_tensor *x, axg_tensor *y) {
	double *sum = calloc((size_t)y->is->n, sizeof *sum);
	if (!sum) return false;
	odometer o = over(x->is);
	steps_of(&o, 0, y->is);
	for (uint64_t i = 0; i < y->is->n; i++) y->f[i] = -INFINITY;
	for (uint64_t i = 0; i < x->is->n; i++, tick(&o)) {
		sum[o.pos[0]] += x->f[i];
		y->f[o.pos[0]] = fmaxf(y->f[o.pos[0]], x->f[i]);
	}
	double each = (double)x->is->n / (double)y->is->n;
	for (uint64_t i = 0; n->attr[0] < 2 && i < y->is->n; i++) y->f[i] = (float)(n->attr[0] ? sum[i] / each : sum[i]);
	free(sum);
	return true;
}

static void pool(const axg_node *n, const axg_tensor *x, axg_tensor *y) {
	const axg_value *xv = x->is, *yv = y->is;
	bool plane = xv->rank == 4;
	int64_t ih = plane ? xv->dims[2] : 1, iw = xv->dims[xv->rank - 1], oh = plane ? yv->dims[2] : 1, ow = yv->dims[yv->rank - 1];
	const int32_t *a = n->attr;
	for (uint64_t i = 0; i < yv->n; i++) {
		int64_t oy = (int64_t)i / ow % oh, ox = (int64_t)i % ow;
		const float *from = x->f + (int64_t)i / ow / oh * ih * iw;
		double sum = 0;
		float top = -INFINITY;
		int64_t seen = 0;
		for (int64_t py = oy * a[3] - a[5]; py < oy * a[3] - a[5] + a[1]; py++)
			for (int64_t px = ox * a[4] - a[6]; px < ox * a[4] - a[6] + a[2]; px++) {
				if (py < 0 || py >= ih || px < 0 || px >= iw) continue;
				sum += from[py * iw + px];
				top = fmaxf(top, from[py * iw + px]);
				seen++;
			}
		y->f[i] = a[0] ? (float)(sum / (double)seen) : top;
	}
}

// Of n places along an axis of `of` values, where place i lies: at `low` and, as much as `part`, at
// the one after it.
static void centre(uint32_t i, uint32_t of, uint32_t n, uint32_t *low, uint32_t *high, double *part) {
	double at = (i + 0.5) * of / n - 0.5;
	if (at < 0) at = 0;
	if (at > of - 1) at = of - 1;
	*low = (uint32_t)at;
	*high = *low + 1 < of ? *low + 1 : *low;
	*part = at - *low;
}

static void resize(const axg_node *n, const axg_tensor *x, axg_tensor *y) {
	const axg_value *xv = x->is, *yv = y->is;
	bool plane = xv->rank == 4;
	uint32_t ih = plane ? xv->dims[2] : 1, iw = xv->dims[xv->rank - 1], oh = plane ? yv->dims[2] : 1, ow = yv->dims[yv->rank - 1];
	for (uint64_t i = 0; i < yv->n; i++) {
		uint32_t oy = (uint32_t)(i / ow % oh), ox = (uint32_t)(i % ow), top, bottom, left, right;
		const float *from = x->f + i / ow / oh * ih * iw;
		if (!n->attr[0]) {
			y->f[i] = from[(uint64_t)oy * ih / oh * iw + (uint64_t)ox * iw / ow];
			continue;
		}
		double down, across;
		centre(oy, ih, oh, &top, &bottom, &down);
		centre(ox, iw, ow, &left, &right, &across);
		y->f[i] = (float)((1 - down) * ((1 - across) * from[(size_t)top * iw + left] + across * from[(size_t)top * iw + right]) +
			down * ((1 - across) * from[(size_t)bottom * iw + left] + across * from[(size_t)bottom * iw + right]));
	}
}

static void gather(const axg_node *n, const axg_tensor *x, const axg_tensor *ids, axg_tensor *y) {
	uint32_t axis = (uint32_t)n->attr[0], of = x->is->dims[axis];
	size_t inner = 1, many = (size_t)ids->is->n;
	for (uint32_t i = axis + 1; i < x->is->rank; i++) inner *= x->is->dims[i];
	for (size_t i = 0; i < y->is->n / inner; i++) {
		int32_t id = ids->i[i % many];
		if (id < 0) id = 0;
		if ((uint32_t)id >= of) id = (int32_t)of - 1;
		memcpy(y->f + i * inner, x->f + (i / many * of + (uint32_t)id) * inner, inner * 4);
	}
}

static void transpose(const axg_node *n, const axg_tensor *x, axg_tensor *y) {
	odometer o = over(y->is);
	size_t step[AXG_RANK], at = 1;
	for (uint32_t i = x->is->rank; i-- > 0; at *= x->is->dims[i]) step[i] = at;
	for (uint32_t i = 0; i < o.rank; i++) o.step[0][i] = step[n->attr[i]];
	for (uint64_t i = 0; i < y->is->n; i++, tick(&o)) y->i[i] = x->i[o.pos[0]];
}

static void expand(const axg_tensor *x, axg_tensor *y) {
	odometer o = over(y->is);
	steps_of(&o, 0, x->is);
	for (uint64_t i = 0; i < y->is->n; i++, tick(&o)) y->i[i] = x->i[o.pos[0]];
}

static void concat(const axg_node *n, const axg_tensor *const *x, axg_tensor *y) {
	uint32_t axis = (uint32_t)n->attr[0];
	size_t outer = 1, row = 1, at = 0;
	for (uint32_t i = 0; i < axis; i++) outer *= y->is->dims[i];
	row = (size_t)y->is->n / outer;
	for (uint32_t k = 0; k < n->nin; k++) {
		size_t part = (size_t)x[k]->is->n / outer;
		for (size_t r = 0; r < outer; r++) memcpy(y->f + r * row + at, x[k]->f + r * part, part * 4);
		at += part;
	}
}

// A part of x, or x with something around it: value by value, where it lies in x along each axis.
static void cut(const axg_node *n, const axg_tensor *x, axg_tensor *y) {
	odometer o = over(y->is);
	uint32_t rank = o.rank;
	bool slice = n->op == AXG_SLICE, mirror = !slice && n->attr[0] == 1;
	for (uint64_t i = 0; i < y->is->n; i++, tick(&o)) {
		int64_t at = 0;
		bool there = true;
		for (uint32_t d = 0; d < rank; d++) {
			int64_t len = x->is->dims[d], p = (int64_t)o.at[d] + (slice ? n->attr[d] : -(int64_t)n->attr[2 + d]);
			if (mirror && p < 0) p = -p;
			if (mirror && p >= len) p = 2 * len - 2 - p;
			if (p < 0 || p >= len) there = false;
			at = at * len + p;
		}
		y->i[i] = there ? x->i[at] : n->attr[1];
	}
}

// Through time in one direction: gates are input, forget, cell, output.
static void through(const axg_tensor *const *x, const axg_node *n, uint32_t dir, float *y, float *state, float *cell, float *gate) {
	uint32_t batch = x[0]->is->dims[0], steps = x[0]->is->dims[1], in = x[0]->is->dims[2], h = x[2]->is->dims[2];
	uint32_t dirs = (uint32_t)n->attr[0];
	const float *w = x[1]->f + (size_t)dir * 4 * h * in, *r = x[2]->f + (size_t)dir * 4 * h * h;
	const float *bias = x[3] ? x[3]->f + (size_t)dir * 4 * h : NULL;
	for (uint32_t b = 0; b < batch; b++, state += h, cell += h)
		for (uint32_t s = 0; s < steps; s++) {
			size_t t = (size_t)b * steps + (dir ? steps - 1 - s : s);
			for (size_t k = 0; k < 4 * (size_t)h; k++)
				gate[k] = axm_dot(w + k * in, x[0]->f + t * in, in) + axm_dot(r + k * h, state, h) + (bias ? bias[k] : 0);
			for (size_t k = 0; k < h; k++) {
				float i = function(AXG_SIGMOID, 0, gate[k]), f = function(AXG_SIGMOID, 0, gate[h + k]);
				cell[k] = f * cell[k] + i * tanhf(gate[2 * (size_t)h + k]);
				state[k] = function(AXG_SIGMOID, 0, gate[3 * (size_t)h + k]) * tanhf(cell[k]);
			}
			memcpy(y + (t * dirs + dir) * h, state, h * sizeof *state);
		}
}

static bool lstm(const axg_node *n, const axg_tensor *const *x, axg_tensor *y) {
	size_t each = (size_t)x[0]->is->dims[0] * x[2]->is->dims[2];
	float *gate = malloc(4 * (size_t)x[2]->is->dims[2] * sizeof *gate);
	if (!gate) return false;
	for (uint32_t k = 0; k < 2; k++) {
		if (x[4 + k])
			memcpy(y[1 + k].f, x[4 + k]->f, (size_t)y[1 + k].is->n * 4);
		else
			memset(y[1 + k].f, 0, (size_t)y[1 + k].is->n * 4);
	}
	for (uint32_t dir = 0; dir < (uint32_t)n->attr[0]; dir++) through(x, n, dir, y->f, y[1].f + dir * each, y[2].f + dir * each, gate);
	free(gate);
	return true;
}

static bool run_node(const axg_node *n, const axg_tensor *const *x, axg_tensor *y) {
	const axg_value *v = x[0]->is;
	size_t last = v->dims[v->rank - 1];
	switch (n->op) {
	case AXG_CONV:
		return axg_conv(n, x[0], x[1], x[2], y);
	case AXG_CONV_TRANSPOSE:
		return axg_conv_transpose(n, x[0], x[1], x[2], y);
	case AXG_MATMUL:
		return axg_matmul(n, x[0], x[1], x[2], y);
	case AXG_ATTENTION:
		return axg_attention(n, x[0], x[1], x[2], x[3], y);
	case AXG_LAYER_NORM:
		norm(x[0], x[1], x[2], y, last, 1, last, true, axg_float(n->attr[0]));
		return true;
	case AXG_RMS_NORM:
		norm(x[0], x[1], NULL, y, last, 1, last, false, axg_float(n->attr[0]));
		return true;
	case AXG_GROUP_NORM:
		norm(x[0], x[1], x[2], y, (size_t)(v->n / v->dims[0] / (uint32_t)n->attr[0]), (size_t)(v->n / v->dims[0] / v->dims[1]), v->dims[1],
			true, axg_float(n->attr[1]));
		return true;
	case AXG_UNARY:
		for (uint64_t i = 0; i < v->n; i++) y->f[i] = function(n->attr[0], axg_float(n->attr[1]), x[0]->f[i]);
		return true;
	case AXG_BINARY:
		binary(n, x[0], x[1], y);
		return true;
	case AXG_CAST:
		cast(x[0], y);
		return true;
	case AXG_SOFTMAX:
		softmax(x[0], y);
		return true;
	case AXG_REDUCE:
		return reduce(n, x[0], y);
	case AXG_POOL:
		pool(n, x[0], y);
		return true;
	case AXG_RESIZE:
		resize(n, x[0], y);
		return true;
	case AXG_GATHER:
		gather(n, x[0], x[1], y);
		return true;
	case AXG_RESHAPE:
		memcpy(y->f, x[0]->f, (size_t)v->n * 4);
		return true;
	case AXG_TRANSPOSE:
		transpose(n, x[0], y);
		return true;
	case AXG_CONCAT:
		concat(n, x, y);
		return true;
	case AXG_EXPAND:
		expand(x[0], y);
		return true;
	case AXG_LSTM:
		return lstm(n, x, y);
	default:
		cut(n, x[0], y);
		return true;
	}
}

static void done(axg_tensor *t) {
	if (--t->to_use || t->borrowed) return;
	free(t->f);
	t->f = NULL;
}

// A constant's memory: the file's own, or a copy as float32.
static bool constant(const axg_constant *c, axg_tensor *t) {
	if (c->type == TYPE_BF16) {
		if (!room(t)) return false;
		axm_widen(t->f, c->data, (size_t)t->is->n);
		return true;
	}
	t->f = (float *)(uintptr_t)c->data;
	t->i = (int32_t *)(uintptr_t)c->data;
	t->borrowed = true;
	return true;
}

static bool compute(const axg *g, axg_tensor *t, const void *const *in) {
	for (uint32_t i = 0; i < g->nin; i++) {
		if (!room(&t[i])) return false;
		receive(&t[i], g->in[i].type, in[i]);
	}
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const axg_node *n = &g->nodes[i];
		const axg_tensor *x[AXG_OPERANDS] = {0};
		for (uint32_t k = 0; k < n->nin; k++) {
			if (n->in[k] < 0) continue;
			uint32_t c = (uint32_t)n->in[k] - g->nin;
			x[k] = &t[n->in[k]];
			if ((uint32_t)n->in[k] >= g->nin && c < g->nconst && !x[k]->f && !constant(&g->constants[c], &t[n->in[k]])) return false;
		}
		for (uint32_t k = 0; k < n->nout; k++)
			if (!room(&t[n->out + k])) return false;
		if (!run_node(n, x, &t[n->out])) return false;
		for (uint32_t k = 0; k < n->nin; k++)
			if (n->in[k] >= 0) done(&t[n->in[k]]);
		for (uint32_t k = 0; k < n->nout; k++) done(&t[n->out + k]); // the node's own
	}
	return true;
}

int axg_run(const axg *g, const void *const *in, void *const *out) {
	axg_tensor *t = calloc(g->nvalues, sizeof *t);
	if (!t) return AXG_MEMORY;
	for (uint32_t i = 0; i < g->nvalues; i++) {
		t[i].is = &g->values[i];
		t[i].to_use = i < g->nin + g->nconst ? 0 : 1; // its own node is done with it once it is there
	}
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; k < g->nodes[i].nin; k++)
			if (g->nodes[i].in[k] >= 0) t[g->nodes[i].in[k]].to_use++;
	for (uint32_t i = 0; i < g->nout; i++) t[g->out[i].value].to_use++; // to the end
	bool ok = compute(g, t, in);
	for (uint32_t i = 0; ok && i < g->nout; i++) {
		axg_tensor *v = &t[g->out[i].value];
		uint32_t c = g->out[i].value - g->nin;
		if (g->out[i].value >= g->nin && c < g->nconst && !v->f) ok = constant(&g->constants[c], v);
		if (ok && out[i]) send(v, g->out[i].type, out[i]);
	}
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (!t[i].borrowed) free(t[i].f);
	free(t);
	return ok ? AXG_OK : AXG_MEMORY;
}
