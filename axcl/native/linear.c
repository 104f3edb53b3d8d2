//go:build cgo && !fake && linux

// linear.c: layers that keep a state instead of rows. Each reads the state of a slot and leaves the
// new one in another buffer:
//
//   buffer where[from] of every layer ─ layer ─> buffer where[to], or, where from is to, the buffer that no slot has, which then is its
//
// What a layer reads is never what it writes. A group's io of every such layer is bound to the two
// buffers of a pass before the layer is queued; two ios a group remember their buffers, so that a
// pair used turn about is bound once. Rows go through a group at once, or, where that is not to be
// (the layer has no such group, or the card does not do it right), one by one through the group of
// a single row, with the states between them in two buffers turn about.
//
// positions: valid rows', then 0. mask: 1 for a valid row, 0 for one that fills the chunk up; its
// first value is always 1, so the group of a single row reads the same. Both are given where the
// library lists them, and where it only knows them by name.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>
#include <string.h>

enum { ONE = 0x3f80 }; // 1.0 in bf16

static const axn_mem *k_of(const axn_states *s, uint32_t nth, uint32_t buffer) {
    return buffer == AXN_ZERO ? &s->zero_k : &s->k[nth * s->slots + buffer];
}

static const axn_mem *v_of(const axn_states *s, uint32_t nth, uint32_t buffer) {
    return buffer == AXN_ZERO ? &s->zero_v : &s->v[nth * s->slots + buffer];
}

static uint32_t most_rows(const axn_states *s) {
    uint32_t rows = 1;
    for (uint32_t g = 0; g < s->groups; g++)
        if (s->group[g].rows > rows) rows = s->group[g].rows;
    return rows;
}

uint32_t axn_unlisted(axn_card *c, axn_module *m, const char *name) {
    if (!c->lib->provider->unlisted) return AXN_NONE; // an input is known by its place among those listed, and by nothing else
    return axn_enter(c) ? AXN_NONE : c->lib->provider->unlisted(c, m, name);
}

int axn_state_alloc(axn_model *m) {
    axn_states *s = &m->state;
    if (!s->layers) return AXN_OK;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = AXN_OK;
    for (uint32_t l = 0, nth = 0; !rc && l < m->layers; l++) {
        if (!s->of[l]) continue;
        c->layer = (int32_t)l;
        for (uint32_t b = 0; !rc && b < s->slots; b++) {
            rc = p->alloc(c, &s->k[nth * s->slots + b], s->k_bytes);
            if (!rc) rc = p->alloc(c, &s->v[nth * s->slots + b], s->v_bytes);
        }
        nth++;
    }
    c->layer = AXN_NO_LAYER;
    uint32_t rows = most_rows(s);
    if (!rc) rc = p->alloc(c, &s->zero_k, s->k_bytes);
    if (!rc) rc = p->alloc(c, &s->zero_v, s->v_bytes);
    if (!rc) rc = p->alloc(c, &s->indices, (size_t)rows * 3 * 4);
    if (!rc) rc = p->alloc(c, &s->mask, (size_t)rows * 2);
    if (!rc) rc = p->alloc(c, &s->row_in, (size_t)m->hidden * 2);
    if (!rc) rc = p->alloc(c, &s->row_out, (size_t)m->hidden * 2);
    if (!rc) rc = p->alloc(c, &s->row_pos, 3 * 4);
    for (uint32_t i = 0; i < s->slots; i++) s->where[i] = i;
    return rc;
}

// Everything of an io but the states.
static int bind_rest(axn_model *m, axn_io *io, const axn_sgroup *g, const axn_mem *in, const axn_mem *out, const axn_mem *pos) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    size_t hidden = (size_t)g->rows * m->hidden * 2;
    int rc = p->bind(c, io, g->input, in, 0, hidden);
    if (!rc) rc = p->bind(c, io, g->output, out, 0, hidden);
    if (!rc && g->indices != AXN_NONE) rc = p->bind(c, io, g->indices, pos, 0, (size_t)g->rows * g->pos * 4);
    if (!rc && g->mask != AXN_NONE) rc = p->bind(c, io, g->mask, &m->state.mask, 0, (size_t)g->rows * 2);
    return rc;
}

static int bind_states(axn_model *m, axn_io *io, const axn_sgroup *g, uint32_t nth, uint32_t from, uint32_t to) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_states *s = &m->state;
    assert(from != to && to < s->slots);
    int rc = p->bind(c, io, g->k, k_of(s, nth, from), 0, s->k_bytes);
    if (!rc) rc = p->bind(c, io, g->v, v_of(s, nth, from), 0, s->v_bytes);
    if (!rc) rc = p->bind(c, io, g->k_out, k_of(s, nth, to), 0, s->k_bytes);
    if (!rc) rc = p->bind(c, io, g->v_out, v_of(s, nth, to), 0, s->v_bytes);
    return rc;
}

int axn_state_bind(axn_model *m) {
    axn_states *s = &m->state;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = AXN_OK;
    for (uint32_t l = 0, nth = 0; !rc && s->layers && l < m->layers; l++) {
        if (!s->of[l]) continue;
        c->layer = (int32_t)l;
        const axn_mem *in = &m->turn[l % 2], *out = &m->turn[(l + 1) % 2];
        for (uint32_t i = 0; !rc && i < 2 * s->groups; i++) {
            axn_io *io = &s->io[nth * 2 * s->groups + i];
            rc = p->io_new(c, &m->layer[l], io);
            if (!rc) rc = bind_rest(m, io, &s->group[i / 2], in, out, &s->indices);
        }
        for (uint32_t i = 0; !rc && i < AXN_SINGLES; i++) {
            axn_io *io = &s->single[nth * AXN_SINGLES + i];
            rc = p->io_new(c, &m->layer[l], io);
            if (!rc) rc = bind_rest(m, io, &s->group[s->one], &s->row_in, &s->row_out, &s->row_pos);
        }
        nth++;
    }
    for (uint32_t g = 0; g < s->groups; g++)
        for (int i = 0; i < 2; i++) s->group[g].from[i] = s->group[g].to[i] = AXN_UNBOUND;
    for (int i = 0; i < AXN_SINGLES; i++) s->single_from[i] = s->single_to[i] = AXN_UNBOUND;
    s->masked = AXN_UNBOUND;
    return rc;
}

int axn_state_close(axn_model *m) {
    axn_states *s = &m->state;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = AXN_OK;
    for (uint32_t i = 0; i < s->layers * 2 * s->groups; i++) axn_also(&rc, p->io_free(c, &s->io[i]));
    for (uint32_t i = 0; i < s->layers * AXN_SINGLES; i++) axn_also(&rc, p->io_free(c, &s->single[i]));
    for (uint32_t i = 0; i < s->layers * s->slots; i++) {
        axn_also(&rc, p->free(c, &s->k[i]));
        axn_also(&rc, p->free(c, &s->v[i]));
    }
    axn_mem *rest[] = {&s->zero_k, &s->zero_v, &s->indices, &s->mask, &s->row_in, &s->row_out, &s->row_pos};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) axn_also(&rc, p->free(c, rest[i]));
    return rc;
}

// Positions go up with every pass, the mask where another number of rows is there than the time
// before.
int axn_state_upload(axn_model *m, const axn_pass *pass) {
    axn_states *s = &m->state;
    uint32_t rows = pass->rows;
    const uint32_t *pos = pass->pos;
    if (!s->layers) return AXN_OK;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int32_t at = pass->slots.single ? -1 : s->beside[pass->group];
    const axn_sgroup *g = &s->group[at < 0 ? s->one : (uint32_t)at];
    // Where rows go one by one, row r's positions lie together, to be copied; else each component's
    // do, as the library wants them.
    uint32_t n = at < 0 ? rows : g->rows;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t k = 0; k < g->pos; k++)
            s->indices_host[at < 0 ? r * g->pos + k : k * n + r] = r < rows ? pos[(size_t)r * m->pos + (k < m->pos ? k : 0)] : 0;
    int rc = p->up(c, &s->indices, 0, s->indices_host, (size_t)n * g->pos * 4);
    uint32_t valid = at < 0 ? 1 : rows, most = most_rows(s);
    s->masking = s->masked;
    if (rc || s->masked == valid || (s->masked != AXN_UNBOUND && (at < 0 || g->rows == 1))) return rc;
    for (uint32_t r = 0; r < most; r++) s->mask_host[r] = r < valid ? ONE : 0;
    s->masking = valid;
    s->masked = AXN_UNBOUND; // until the sync has said that it is there
    return p->up(c, &s->mask, 0, s->mask_host, (size_t)most * 2);
}

// Chooses buffers and ios of the pass. Nothing is bound yet: that is each layer's turn, or, for
// rows one by one, done here for all of them, since an io must not change while a call that uses it
// is queued.
int axn_state_begin(axn_model *m, const axn_pass *pass, axn_way *w) {
    axn_states *s = &m->state;
    uint32_t rows = pass->rows;
    axn_slots slots = pass->slots;
    *w = (axn_way){.slots = slots, .rows = rows, .group = -1};
    if (!s->layers) return AXN_OK;
    w->group = slots.single ? -1 : s->beside[pass->group];
    bool same = slots.from == slots.to;
    w->from = slots.from ? s->where[slots.from] : AXN_ZERO;
    w->to = s->where[same ? 0 : slots.to];
    if (w->group >= 0) {
        axn_sgroup *g = &s->group[w->group];
        w->turn = 1 - g->last;
        for (uint32_t i = 0; i < 2; i++)
            if (g->from[i] == w->from && g->to[i] == w->to) w->turn = i;
        w->bind = g->from[w->turn] != w->from || g->to[w->turn] != w->to;
        g->from[w->turn] = g->to[w->turn] = AXN_UNBOUND; // until every layer is
        return AXN_OK;
    }
    // Rows one by one: the states between them lie in a and b, turn about, and the last one's in a
    // place that is its own.
    uint32_t a = w->to, b = same ? w->from : s->where[0];
    uint32_t first = rows % 2 || same ? a : b, second = first == a ? b : a;
    w->to = rows % 2 ? first : second;
    const uint32_t from[AXN_SINGLES] = {w->from, first, second}, to[AXN_SINGLES] = {first, second, first};
    axn_card *c = m->card;
    int rc = AXN_OK;
    for (uint32_t i = 0; i < AXN_SINGLES; i++) {
        if (s->single_from[i] == from[i] && s->single_to[i] == to[i]) continue;
        s->single_from[i] = s->single_to[i] = AXN_UNBOUND;
        for (uint32_t l = 0, nth = 0; !rc && l < m->layers; l++) {
            if (!s->of[l]) continue;
            c->layer = (int32_t)l;
            rc = bind_states(m, &s->single[nth * AXN_SINGLES + i], &s->group[s->one], nth, from[i], to[i]);
            nth++;
        }
        if (rc) return rc;
        s->single_from[i] = from[i], s->single_to[i] = to[i];
    }
    return AXN_OK;
}

static int run_singly(axn_model *m, uint32_t l, uint32_t nth, uint32_t rows) {
    axn_states *s = &m->state;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_sgroup *g = &s->group[s->one];
    size_t row = (size_t)m->hidden * 2, pos = (size_t)g->pos * 4;
    int rc = AXN_OK;
    for (uint32_t r = 0; !rc && r < rows; r++) {
        rc = p->copy(c, &s->row_in, 0, &m->turn[l % 2], r * row, row);
        if (!rc) rc = p->copy(c, &s->row_pos, 0, &s->indices, r * pos, pos);
        if (!rc) rc = p->run(c, &m->layer[l], s->one, &s->single[nth * AXN_SINGLES + (r ? 2 - r % 2 : 0)]);
        if (!rc) rc = p->copy(c, &m->turn[(l + 1) % 2], r * row, &s->row_out, 0, row);
    }
    return rc;
}

int axn_state_run(axn_model *m, uint32_t l, axn_way *w) {
    axn_states *s = &m->state;
    axn_card *c = m->card;
    uint32_t nth = w->nth++;
    c->layer = (int32_t)l;
    if (w->group < 0) return run_singly(m, l, nth, w->rows);
    axn_sgroup *g = &s->group[w->group];
    axn_io *io = &s->io[(nth * s->groups + (uint32_t)w->group) * 2 + w->turn];
    int rc = w->bind ? bind_states(m, io, g, nth, w->from, w->to) : AXN_OK;
    return rc ? rc : c->lib->provider->run(c, &m->layer[l], (uint32_t)w->group, io);
}

// Every layer is queued: what is bound stays bound. The slot has the new state once the pass has
// been waited for; a pass that fails leaves the slots as they were.
void axn_state_queued(axn_model *m, const axn_way *w) {
    if (!m->state.layers || w->group < 0) return;
    axn_sgroup *g = &m->state.group[w->group];
    g->from[w->turn] = w->from, g->to[w->turn] = w->to, g->last = w->turn;
}

void axn_state_done(axn_model *m, const axn_way *w) {
    axn_states *s = &m->state;
    if (!s->layers) return;
    s->masked = s->masking;
    if (w->slots.from != w->slots.to || s->where[w->slots.to] == w->to) return;
    s->where[0] = s->where[w->slots.to];
    s->where[w->slots.to] = w->to;
}
