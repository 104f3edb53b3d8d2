// Running a model on bound device memory. Data flow: bindings -> checked against the group's sizes
// -> host pointers behind the spans, as the hazards would have them -> axm_run -> damage, where a
// hazard or a fault asks for it.
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static const axm_group *group_of(const exec *e) { return &e->m->m->groups[e->group]; }

int32_t exec_check(exec *e) {
	const axm_group *g = group_of(e);
	const int32_t failed = CODE(SUB_ENGINE, ID_EXECUTE);
	for (uint32_t i = 0; i < e->m->m->nin; i++) {
		if (g->in[i].size == 0) continue;
		if (!e->in[i].b) {
			if (hazard(HZ_UNBOUND)) return failed;
			continue;
		}
		if (e->in[i].b->dead || e->in[i].len / e->batch < g->in[i].size) return failed;
	}
	for (uint32_t i = 0; i < e->m->m->nout; i++) {
		if (!e->out[i].b) {
			if (hazard(HZ_UNBOUND)) return failed;
			continue;
		}
		if (e->out[i].b->dead || e->out[i].len / e->batch < g->out[i].size) return failed;
	}
	return 0;
}

void exec_drop(exec *e) {
	for (uint32_t i = 0; i < e->m->m->nin; i++) span_put(&e->in[i]);
	for (uint32_t i = 0; i < e->m->m->nout; i++) span_put(&e->out[i]);
	if (e->dev->running > 0) e->dev->running--; // an Init may have begun anew meanwhile
	model_unref(e->m);
	free(e);
}

static double exec_ns(const exec *e) { return profile_execute(&sim.cfg.prof, e->m->m, e->group) * e->batch; }

uint64_t exec_cost(const exec *e) { return sim.cfg.clock == CLOCK_OFF ? 0 : (uint64_t)exec_ns(e); }

static bool overlap(const span *a, const span *b) { return a->b && a->b == b->b && a->off < b->off + b->len && b->off < a->off + a->len; }

// Wrong in every element, and finite: the sign of each number, the last bit of each index.
static void garble(uint8_t *p, const axm_tensor *t) {
	for (uint64_t i = 0; i < t->size; i++) {
		if ((t->type == TYPE_BF16 || t->type == TYPE_F16) && i % 2 == 1) p[i] ^= 0x80;
		if (t->type == TYPE_F32 && i % 4 == 3) p[i] ^= 0x80;
		if ((t->type == TYPE_U32 || t->type == TYPE_I32) && i % 4 == 0) p[i] ^= 1;
		if (t->type == TYPE_U8) p[i] ^= 1;
	}
}

// Outputs that show by themselves that they are nonsense: not a number, or all the same.
static void spoil(uint8_t *p, const axm_tensor *t, int how) {
	if (t->type == TYPE_U32 || t->type == TYPE_I32 || t->type == TYPE_U8) return;
	memset(p, how == WRONG_NAN ? 0xff : 0, t->size);
}

// What the hazards make of the bindings: an offset that is not honoured, an output that reads its
// own input, a row that is not kept. Gives how the outputs are to be damaged.
static int bend(exec *e, bool lost[OUT_MAX]) {
	const axm *m = e->m->m;
	const axm_group *g = group_of(e);
	bool layer = m->kind == AXM_LAYER, spoiled = false;
	for (uint32_t o = 0; o < m->nout; o++) {
		bool keeps = layer && o != OUT_OUTPUT && g->rows == 1; // decode's K and V rows may lie in the cache
		for (uint32_t i = 0; i < m->nin; i++) {
			if (!overlap(&e->out[o], &e->in[i])) continue;
			bool own_cache = keeps && ((o == OUT_K && i == IN_K) || (o == OUT_V && i == IN_V));
			if (!own_cache && hazard(HZ_INPLACE)) spoiled = true;
		}
		if (keeps && hazard(HZ_KV_INPLACE) && e->out[o].b && e->out[o].off) lost[o] = true;
	}
	if (layer && hazard(HZ_OFFSET) && !e->board) {
		e->in[IN_MASK].off = e->in[IN_INDICES].off = e->in[IN_LAYER_INPUT].off = 0;
		if (g->rows > 1)
			for (int o = 0; o < OUT_MAX; o++) e->out[o].off = 0;
	}
	if (e->wrong) return e->wrong;
	return spoiled || e->m->garbage || (e->crossed && hazard(HZ_ONE_GROUP)) ? WRONG : WHOLE;
}

// A tensor's bytes at an address that is aligned for its elements: in place, or a copy in *spare.
static void *steady(const span *s, uint64_t at, uint64_t size, void **spare) {
	uint8_t *p = span_open(s, at, size, spare);
	if (*spare || (uintptr_t)p % 4 == 0) return p;
	*spare = malloc(size ? size : 1);
	if (*spare) memcpy(*spare, p, size);
	return *spare;
}

// Writes a copy that steady made to where it came from, if it is any good, and frees it.
static void keep(const span *s, uint64_t at, uint64_t size, void *copy, bool good) {
	void *spare;
	uint8_t *p = good ? span_open(s, at, size, &spare) : NULL;
	if (p && !spare) memcpy(p, copy, size);
	if (p && spare) memcpy(spare, copy, size);
	if (p) span_shut(s, at, size, spare, true);
	free(copy);
}

static int32_t run_one(exec *e, uint32_t batch, int damage, const bool lost[OUT_MAX], const axm_quirks *quirks) {
	const axm *m = e->m->m;
	const axm_group *g = group_of(e);
	const void *in[IN_MAX] = {0};
	void *out[OUT_MAX] = {0}, *spare_in[IN_MAX] = {0}, *spare_out[OUT_MAX] = {0};
	bool ok = true;
	for (uint32_t i = 0; i < m->nin; i++) {
		uint64_t size = g->in[i].size;
		if (e->in[i].b)
			in[i] = steady(&e->in[i], batch * size, size, &spare_in[i]);
		else
			in[i] = spare_in[i] = calloc(1, size ? size : 1);
		ok = ok && in[i];
	}
	for (uint32_t o = 0; o < m->nout; o++) {
		if (!e->out[o].b || lost[o]) continue;
		out[o] = steady(&e->out[o], batch * g->out[o].size, g->out[o].size, &spare_out[o]);
		ok = ok && out[o];
	}
	int code = ok ? axm_run(m, e->group, in, out, quirks) : AXM_E_MEMORY;
	for (uint32_t o = 0; o < m->nout; o++) {
		if (code == AXM_OK && damage == WRONG && out[o]) garble(out[o], &g->out[o]);
		if (code == AXM_OK && damage > WRONG && out[o]) spoil(out[o], &g->out[o], damage);
		if (spare_out[o]) keep(&e->out[o], batch * g->out[o].size, g->out[o].size, spare_out[o], code == AXM_OK);
	}
	for (uint32_t i = 0; i < m->nin; i++) free(spare_in[i]);
	return code == AXM_OK ? 0 : CODE(SUB_ENGINE, ID_NO_MEMORY);
}

// How long rows of K are in the first layer that ran since, where a hazard has all caches read so;
// 0 without it.
static uint32_t first_width(exec *e) {
	const axm *m = e->m->m;
	if (!hazard(HZ_WIDTH_FIRST) || m->kind != AXM_LAYER) return 0;
	if (!e->dev->width) e->dev->width = m->kv_heads * m->head_dim;
	return e->dev->width;
}

int32_t exec_run(exec *e) {
	bool lost[OUT_MAX] = {0};
	lock();
	int damage = bend(e, lost);
	axm_quirks quirks = {hazard(HZ_POSITIONS_FIRST), hazard(HZ_MASK_SHARED), hazard(HZ_SHORTCHUNK), hazard(HZ_CELLS_ORDERED),
		hazard(HZ_STATE_PADDING), hazard(HZ_STATE_COLD), hazard(HZ_SHARE_STALE), hazard(HZ_INPUTS_FIRST),
		hazard(HZ_SHARE_IGNORED), hazard(HZ_INPUTS_IGNORED), first_width(e)};
	unlock();
	pthread_mutex_lock(&e->dev->npu); // one execute at a time, as on the card
	int32_t code = 0;
	for (uint32_t b = 0; b < e->batch && !code; b++) code = run_one(e, b, damage, lost, &quirks);
	pthread_mutex_unlock(&e->dev->npu);
	return code;
}
