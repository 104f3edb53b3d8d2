//go:build cgo && !fake && linux

// rows.c: rows of cells are saved to the host, restored, and copied from cell to cell.
//
//   caller's memory, row by row  ─ memcpy ─  staging, pinned, part by part  ─ a copy a run ─  the caches
//
// A part is what one buffer keeps of a row: of the nth layer that keeps rows part 2n is its K, part
// 2n+1 its V, as long as that layer's rows are. On the host a row's parts lie one after another; in
// staging the same part of all rows does, so that a run of consecutive cells is one copy.
// Everything is queued on the stream of the passes, with one synchronisation at the end; Go has
// checked cells and sizes.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>
#include <string.h>

static const axn_mem *part(const axn_model *m, uint32_t p) {
    uint32_t l = m->full[p / 2];
    return p % 2 ? &m->v[l] : &m->k[l];
}

static size_t width(const axn_model *m, uint32_t p) { return axn_row(m, m->full[p / 2]); }

// Where a part begins in a row on the host.
static size_t place(const axn_model *m, uint32_t p) { return m->row_at[p / 2] + p % 2 * width(m, p); }

static uint8_t *staged(const axn_model *m, uint32_t p, uint32_t row, uint32_t rows) {
    return m->rows_host + place(m, p) * rows + row * width(m, p);
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
    int rc = start(m, cells);
    for (uint32_t p = 0; !rc && p < 2 * m->whole; p++) {
        size_t w = width(m, p);
        c->layer = (int32_t)m->full[p / 2];
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            n = run(cell, i, cells);
            rc = c->lib->provider->down(c, staged(m, p, i, cells), part(m, p), cell[i] * w, n * w);
        }
    }
    rc = finish(m, rc);
    for (uint32_t p = 0; !rc && p < 2 * m->whole; p++)
        for (uint32_t i = 0; i < cells; i++) memcpy(to + i * m->row_bytes + place(m, p), staged(m, p, i, cells), width(m, p));
    return rc;
}

// While one part is on its way the next is staged.
int axn_restore(axn_model *m, const uint32_t *cell, uint32_t cells, const uint8_t *from) {
    axn_card *c = m->card;
    int rc = start(m, cells);
    for (uint32_t p = 0; !rc && p < 2 * m->whole; p++) {
        size_t w = width(m, p);
        c->layer = (int32_t)m->full[p / 2];
        for (uint32_t i = 0; i < cells; i++) memcpy(staged(m, p, i, cells), from + i * m->row_bytes + place(m, p), w);
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            n = run(cell, i, cells);
            rc = c->lib->provider->up(c, part(m, p), cell[i] * w, staged(m, p, i, cells), n * w);
        }
    }
    return finish(m, rc);
}

int axn_copy(axn_model *m, const uint32_t *to, const uint32_t *from, uint32_t cells) {
    axn_card *c = m->card;
    int rc = start(m, cells);
    for (uint32_t p = 0; !rc && p < 2 * m->whole; p++) {
        size_t w = width(m, p);
        c->layer = (int32_t)m->full[p / 2];
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            uint32_t a = run(to, i, cells), b = run(from, i, cells);
            n = a < b ? a : b;
            rc = c->lib->provider->copy(c, part(m, p), to[i] * w, part(m, p), from[i] * w, n * w);
        }
    }
    return finish(m, rc);
}

// A slot's bytes are, of each layer that keeps a state in turn, K_cache and then V_cache. each
// calls f for what lies in [at, at + size).
typedef int mover(axn_model *, const axn_mem *, size_t offset, size_t staged, size_t size);

static int each_part(axn_model *m, uint32_t slot, size_t at, size_t size, mover *f) {
    axn_states *s = &m->state;
    size_t layer = s->k_bytes + s->v_bytes, end = at + size;
    int rc = AXN_OK;
    for (uint32_t l = 0, nth = 0; !rc && l < m->layers; l++) {
        if (!s->of[l]) continue;
        m->card->layer = (int32_t)l;
        size_t base = nth * layer;
        const axn_mem *mem[] = {&s->k[nth * s->slots + s->where[slot]], &s->v[nth * s->slots + s->where[slot]]};
        const size_t first[] = {base, base + s->k_bytes}, last[] = {base + s->k_bytes, base + layer};
        for (int i = 0; !rc && i < 2; i++) {
            size_t from = first[i] > at ? first[i] : at, to = last[i] < end ? last[i] : end;
            if (from < to) rc = f(m, mem[i], from - first[i], from - at, to - from);
        }
        nth++;
    }
    return rc;
}

static int part_down(axn_model *m, const axn_mem *mem, size_t offset, size_t staged_at, size_t size) {
    return m->card->lib->provider->down(m->card, m->rows_host + staged_at, mem, offset, size);
}

static int part_up(axn_model *m, const axn_mem *mem, size_t offset, size_t staged_at, size_t size) {
    return m->card->lib->provider->up(m->card, mem, offset, m->rows_host + staged_at, size);
}

int axn_save_state(axn_model *m, uint32_t slot, size_t at, uint8_t *to, size_t size) {
    assert(size <= m->state_piece);
    int rc = axn_enter(m->card);
    if (!rc) rc = finish(m, each_part(m, slot, at, size, part_down));
    if (!rc) memcpy(to, m->rows_host, size);
    return rc;
}

int axn_restore_state(axn_model *m, uint32_t slot, size_t at, const uint8_t *from, size_t size) {
    assert(size <= m->state_piece);
    int rc = axn_enter(m->card);
    if (rc) return rc;
    memcpy(m->rows_host, from, size);
    return finish(m, each_part(m, slot, at, size, part_up));
}
