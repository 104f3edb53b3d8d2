//go:build cgo && !fake && linux

// rows.c: rows of cells that travel, to the host, back, and from cell to cell.
//
//   caller's memory, row by row  ─ memcpy ─  staging, pinned, part by part  ─ a copy a run ─  the caches
//
// A part is what one buffer keeps of a row: of layer l part 2l is its K, part 2l+1 its V. On the host a row's parts lie one after another;
// in staging the same part of all rows does, so that a run of consecutive cells is one copy. Everything is queued on the stream of the
// passes, with one synchronisation at the end; Go has checked cells and sizes.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>
#include <string.h>

static const axn_mem *part(const axn_model *m, uint32_t p) { return p % 2 ? &m->v[p / 2] : &m->k[p / 2]; }

static size_t width(const axn_model *m) { return (size_t)m->kv * 2; }

static uint8_t *staged(const axn_model *m, uint32_t p, uint32_t row, uint32_t rows) {
    return m->rows_host + ((size_t)p * rows + row) * width(m);
}

// How many from the i-th on are consecutive.
static uint32_t run(const uint32_t *cell, uint32_t i, uint32_t cells) {
    uint32_t n = 1;
    while (i + n < cells && cell[i + n] == cell[i] + n) n++;
    return n;
}

static int start(axn_model *m, uint32_t cells) {
    assert(cells <= m->piece);
    (void)cells;
    return axn_enter(m->card);
}

static int finish(axn_model *m, int rc) {
    if (rc) return rc;
    m->card->layer = AXN_NO_LAYER;
    return m->card->lib->provider->sync(m->card, m->timeout_ms);
}

int axn_save(axn_model *m, const uint32_t *cell, uint32_t cells, uint8_t *to) {
    axn_card *c = m->card;
    size_t w = width(m), row = w * 2 * m->layers;
    int rc = start(m, cells);
    for (uint32_t p = 0; !rc && p < 2 * m->layers; p++) {
        c->layer = (int32_t)(p / 2);
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            n = run(cell, i, cells);
            rc = c->lib->provider->down(c, staged(m, p, i, cells), part(m, p), cell[i] * w, n * w);
        }
    }
    rc = finish(m, rc);
    for (uint32_t p = 0; !rc && p < 2 * m->layers; p++)
        for (uint32_t i = 0; i < cells; i++) memcpy(to + i * row + p * w, staged(m, p, i, cells), w);
    return rc;
}

// While one part is on its way the next is staged.
int axn_restore(axn_model *m, const uint32_t *cell, uint32_t cells, const uint8_t *from) {
    axn_card *c = m->card;
    size_t w = width(m), row = w * 2 * m->layers;
    int rc = start(m, cells);
    for (uint32_t p = 0; !rc && p < 2 * m->layers; p++) {
        c->layer = (int32_t)(p / 2);
        for (uint32_t i = 0; i < cells; i++) memcpy(staged(m, p, i, cells), from + i * row + p * w, w);
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            n = run(cell, i, cells);
            rc = c->lib->provider->up(c, part(m, p), cell[i] * w, staged(m, p, i, cells), n * w);
        }
    }
    return finish(m, rc);
}

int axn_copy(axn_model *m, const uint32_t *to, const uint32_t *from, uint32_t cells) {
    axn_card *c = m->card;
    size_t w = width(m);
    int rc = start(m, cells);
    for (uint32_t p = 0; !rc && p < 2 * m->layers; p++) {
        c->layer = (int32_t)(p / 2);
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            uint32_t a = run(to, i, cells), b = run(from, i, cells);
            n = a < b ? a : b;
            rc = c->lib->provider->copy(c, part(m, p), to[i] * w, part(m, p), from[i] * w, n * w);
        }
    }
    return finish(m, rc);
}
