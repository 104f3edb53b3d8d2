//go:build cgo && !fake && linux

// whole.c: a whole decoder, whose layers and head are one call.
//
//   rows, positions, mask ─ one execute ─> logits, and the call's K and V of all layers ─ copies ─> the caches of all layers
//
// K of all layers is one buffer, layer after layer, and so is V: each layer's part of it is what
// the model's k and v say, so that rows are copied and cleared as those of other models. A call's
// new rows cannot be bound on their cells, which lie far apart: they are copied.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>

static axn_mem part_of(const axn_mem *all, size_t at, size_t size) {
    return (axn_mem){.at = (char *)all->at + at, .phys = all->phys + at, .size = size};
}

int axn_whole_bind(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_whole *w = &m->decoder;
    size_t row = (size_t)m->kv * 2, layer = (size_t)m->kv_rows * row, news = (size_t)m->rows * m->layers * row;
    int rc = p->alloc(c, &w->k, m->layers * layer);
    if (!rc) rc = p->alloc(c, &w->v, m->layers * layer);
    if (!rc) rc = p->alloc(c, &w->k_new, news);
    if (!rc) rc = p->alloc(c, &w->v_new, news);
    if (!rc) rc = p->alloc(c, &w->out, m->rows * m->logits.size);
    for (uint32_t l = 0; !rc && l < m->layers; l++) {
        m->k[l] = part_of(&w->k, l * layer, layer);
        m->v[l] = part_of(&w->v, l * layer, layer);
    }
    for (uint32_t i = 0; !rc && i < m->groups; i++) {
        axn_group *g = &m->group[i];
        const axn_parts *t = &m->parts[i];
        axn_io *io = &m->io[i];
        assert(g->cache == m->kv_rows);
        c->layer = (int32_t)w->file[i];
        size_t kv = g->rows * m->layers * row;
        const struct { uint32_t slot; const axn_mem *mem; size_t size; } parts[] = {
            {t->input, &m->turn[0], (size_t)g->rows * m->hidden * 2},
            {t->indices, &m->indices, (size_t)g->rows * 4},
            {t->mask, &g->mask_dev, g->mask_dev.size},
            {t->k, &w->k, w->k.size},
            {t->v, &w->v, w->v.size},
            {t->k_out, &w->k_new, kv},
            {t->v_out, &w->v_new, kv},
            {t->output, &w->out, w->logits[i] * m->logits.size},
        };
        rc = p->io_new(c, &m->layer[w->file[i]], io);
        for (size_t n = 0; !rc && n < sizeof parts / sizeof *parts; n++) rc = p->bind(c, io, parts[n].slot, parts[n].mem, 0, parts[n].size);
    }
    c->layer = AXN_NO_LAYER;
    return rc;
}

// What is a part of another buffer is not the library's to free.
int axn_whole_close(axn_model *m) {
    const axn_provider *p = m->card->lib->provider;
    axn_whole *w = &m->decoder;
    int rc = AXN_OK;
    axn_mem *all[] = {&w->k, &w->v, &w->k_new, &w->v_new, &w->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) axn_also(&rc, p->free(m->card, all[i]));
    return rc;
}

int axn_whole_run(axn_model *m, const axn_pass *pass) {
    uint32_t group = pass->group, rows = pass->rows;
    const uint32_t *cell = pass->cell;
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_whole *w = &m->decoder;
    axn_group *g = &m->group[group];
    size_t row = (size_t)m->kv * 2;
    int rc = p->run(c, &m->layer[w->file[group]], w->at[group], &m->io[group]);
    for (uint32_t l = 0; l < m->layers; l++) {
        c->layer = (int32_t)l;
        for (uint32_t r = 0, n; !rc && r < rows; r += n) {
            for (n = 1; r + n < rows && cell[r + n] == cell[r] + n;) n++;
            size_t from = ((size_t)l * g->rows + r) * row;
            rc = p->copy(c, &m->k[l], cell[r] * row, &w->k_new, from, n * row);
            if (!rc) rc = p->copy(c, &m->v[l], cell[r] * row, &w->v_new, from, n * row);
        }
    }
    c->layer = AXN_NO_LAYER;
    return rc;
}

// The logits of wanted rows, from what the call gave, to the slots that a head's would be in.
int axn_whole_logits(axn_model *m, const int64_t *want, uint32_t n) {
    const axn_provider *p = m->card->lib->provider;
    size_t size = m->logits.size;
    int rc = AXN_OK;
    for (uint32_t i = 0; !rc && i < n; i++)
        rc = p->down(m->card, m->logits_host + i * size, &m->decoder.out, (size_t)want[i] * size, size);
    return rc;
}
