//go:build cgo && !fake && linux

// sharedkv.c: layers that have no K and V of their own but use those of an earlier layer, and layer
// inputs beyond the hidden state.
//
//   cache of the earlier layer:  cells [0, T) │ rows of a call that sees all T cells
//   its cache for other calls:   a call's cells [0, h) │ rows of that call
//
// A layer that uses another's reads the call's new rows behind the cells that the call sees. Behind
// the last cell of the cache there is room for them, which serves the calls that see all cells:
// those of a token at least. Where a call sees fewer, cells that hold other rows would lie where it
// reads its own; so such calls have a cache apart, into which the cells that they see and their
// rows are copied. That is four copies for a layer whose K and V are shared. A model has one or two
// such layers, however many use them.
//
// A layer's inputs go to a buffer of their own: the library is not trusted to find a part of a
// larger one.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>
#include <string.h>

// Whether others use layer l's K and V, and the calls of g find their rows behind its cache.
bool axn_behind(const axn_model *m, const axn_group *g, uint32_t l) {
    return m->shared.source && m->shared.of[l] && g->cells == m->kv_rows;
}

const axn_mem *axn_shared_cache(axn_model *m, const axn_group *g, uint32_t l, bool v) {
    if (axn_behind(m, g, l)) return v ? &m->v[l] : &m->k[l];
    return v ? &m->shared.v[l] : &m->shared.k[l];
}

int axn_shared_alloc(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_shared *t = &m->shared;
    int rc = AXN_OK;
    for (uint32_t l = 0; !rc && t->source && l < m->layers; l++) {
        if (!t->of[l] || !t->apart) continue;
        c->layer = (int32_t)l;
        rc = p->alloc(c, &t->k[l], t->apart * axn_row(m, l));
        if (!rc) rc = p->alloc(c, &t->v[l], t->apart * axn_row(m, l));
    }
    for (uint32_t l = 0; !rc && m->inputs.width && l < m->layers; l++) {
        c->layer = (int32_t)l;
        rc = p->alloc(c, &m->inputs.dev[l], (size_t)m->rows * m->inputs.width * 2);
    }
    c->layer = AXN_NO_LAYER;
    size_t kv = (size_t)m->rows * m->kv * 2;
    if (!rc && t->source) rc = p->alloc(c, &t->k_out, kv);
    if (!rc && t->source) rc = p->alloc(c, &t->v_out, kv);
    return rc;
}

int axn_shared_close(axn_model *m) {
    const axn_provider *p = m->card->lib->provider;
    axn_shared *t = &m->shared;
    int rc = AXN_OK;
    for (uint32_t l = 0; t->source && l < m->layers; l++) {
        axn_also(&rc, p->free(m->card, &t->k[l]));
        axn_also(&rc, p->free(m->card, &t->v[l]));
    }
    for (uint32_t l = 0; m->inputs.width && l < m->layers; l++) axn_also(&rc, p->free(m->card, &m->inputs.dev[l]));
    axn_also(&rc, p->free(m->card, &t->k_out));
    axn_also(&rc, p->free(m->card, &t->v_out));
    return rc;
}

// The card leaves one row where it is told: a layer whose K and V are shared then leaves it behind
// its cache, once and for all, where others read it. It is copied from there to its cell.
int axn_share_placed(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = AXN_OK;
    for (uint32_t l = 0; m->place && l < m->layers; l++)
        for (uint32_t i = 0; !rc && i < m->groups; i++) {
            axn_group *g = &m->group[i];
            if (g->rows > 1 || !axn_behind(m, g, l)) continue;
            const axn_parts *t = &m->parts[l * m->groups + i];
            axn_io *io = &m->io[l * m->groups + i];
            size_t row = axn_row(m, l);
            c->layer = (int32_t)l;
            rc = p->bind(c, io, t->k_out, &m->k[l], g->cells * row, row);
            if (!rc) rc = p->bind(c, io, t->v_out, &m->v[l], g->cells * row, row);
        }
    return rc;
}

// Brings layer l's new rows, all that the group has, to where other layers read them, if any do.
int axn_share(axn_model *m, const axn_group *g, uint32_t l, axn_news new) {
    if (!m->shared.source || !m->shared.of[l]) return AXN_OK;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    const axn_mem *k = axn_shared_cache(m, g, l, false), *v = axn_shared_cache(m, g, l, true);
    size_t row = axn_row(m, l), cells = g->cells * row;
    if (k == new.k && cells == new.at) return AXN_OK; // they are there
    assert(cells + g->rows * row <= k->size);
    int rc = AXN_OK;
    if (k != &m->k[l] && cells) {
        rc = p->copy(c, k, 0, &m->k[l], 0, cells);
        if (!rc) rc = p->copy(c, v, 0, &m->v[l], 0, cells);
    }
    if (!rc) rc = p->copy(c, k, cells, new.k, new.at, g->rows * row);
    return rc ? rc : p->copy(c, v, cells, new.v, new.at, g->rows * row);
}

// Rows that fill a chunk up are the last one again, as their hidden state is.
int axn_inputs_upload(axn_model *m, const axn_pass *pass) {
    axn_card *c = m->card;
    const axn_group *g = &m->group[pass->group];
    uint32_t rows = pass->rows;
    size_t w = m->inputs.width;
    int rc = AXN_OK;
    for (uint32_t l = 0; !rc && w && l < m->layers; l++) {
        uint16_t *host = m->inputs.host + (size_t)l * m->rows * w;
        for (uint32_t r = 0; r < g->rows; r++)
            memcpy(host + r * w, pass->layer_inputs + ((size_t)(r < rows ? r : rows - 1) * m->layers + l) * w, w * 2);
        c->layer = (int32_t)l;
        rc = c->lib->provider->up(c, &m->inputs.dev[l], 0, host, g->rows * w * 2);
    }
    if (!rc) c->layer = AXN_NO_LAYER;
    return rc;
}
