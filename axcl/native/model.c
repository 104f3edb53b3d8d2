//go:build cgo && !fake && linux

// model.c: from files on the card to a model that is bound once, and back.
//
//   file ─ load ─> module ─ describe ─> Go decides which tensor is what ─ bind ─> buffers, one io per layer and shape group ─ probe
//
//   hidden buffers, turn about:  turn[0] ─ layer 0 ─> turn[1] ─ layer 1 ─> turn[0] … ─ head ─> logits
//
// A layer never reads the buffer it writes; what a layer reads and writes starts at the beginning
// of a buffer of its own, except a decode group's one new row of K and V, which is bound on its
// cell where axn_probe has seen that the card honours it.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>
#include <string.h>

static int model_error(axn_card *c, const char *what, uint32_t slot) {
    int rc = axn_fail(c, AXN_MODEL, what, 0, true);
    c->err.slot = slot;
    return rc;
}

int axn_load(axn_card *c, axn_module *m, int32_t layer, const char *path, const void *data, size_t size) {
    int rc = axn_enter(c);
    if (rc) return rc;
    c->layer = layer;
    if ((rc = c->lib->provider->load(c, m, path, data, size))) return rc;
    bool groups = m->groups >= 1 && m->groups <= AXN_GROUPS;
    if (groups && m->ins >= 1 && m->ins <= AXN_TENSORS && m->outs >= 1 && m->outs <= AXN_TENSORS) return AXN_OK;
    rc = groups ? model_error(c, "tensors", m->ins + m->outs) : model_error(c, "groups", m->groups);
    m->groups = m->ins = m->outs = 0; // its release goes by these
    return rc;
}

int axn_describe(axn_card *c, axn_module *m, int32_t layer, axn_tensor *all) {
    int rc = axn_enter(c);
    c->layer = layer;
    for (uint32_t g = 0; !rc && g < m->groups; g++)
        for (uint32_t s = 0; !rc && s < m->ins + m->outs; s++, all++) {
            if (g > 0) *all = all[-(ptrdiff_t)(m->ins + m->outs)];
            rc = c->lib->provider->describe(c, m, g, s, true, all);
        }
    return rc;
}

// The layers after the first must have its tensors: same names, types and sizes in every group.
int axn_same(axn_card *c, axn_module *m, int32_t layer, const axn_tensor *all) {
    int rc = axn_enter(c);
    c->layer = layer;
    for (uint32_t g = 0; !rc && g < m->groups; g++)
        for (uint32_t s = 0; !rc && s < m->ins + m->outs; s++, all++) {
            axn_tensor t = *all;
            rc = c->lib->provider->describe(c, m, g, s, false, &t);
            if (!rc && (strcmp(t.name, all->name) || t.type != all->type || t.size != all->size))
                rc = model_error(c, "differs", g * (m->ins + m->outs) + s);
        }
    return rc;
}

// The parts of the pinned block. With at == NULL only the size is found.
static size_t carve(axn_model *m, uint8_t *at) {
    size_t n = 0;
#define PART(field, bytes) do { if (at) (field) = (void *)(at + n); n += ((bytes) + 63) & ~(size_t)63; } while (0)
    PART(m->hidden_host, (size_t)m->rows * m->hidden * 2);
    PART(m->indices_host, (size_t)m->rows * m->pos * 4);
    PART(m->probe_host, (size_t)m->kv * 14 * 2);
    for (uint32_t g = 0; g < m->masks; g++)
        PART(m->group[g].mask_host, (size_t)m->group[g].rows * (m->group[g].cells + m->group[g].rows) * 2);
    size_t rows = m->piece * m->row_bytes;
    PART(m->rows_host, rows > m->state_piece ? rows : m->state_piece);
    PART(m->inputs.host, (size_t)m->layers * m->rows * m->inputs.width * 2);
    if (m->state.layers) {
        PART(m->state.indices_host, (size_t)m->rows * 3 * 4);
        PART(m->state.mask_host, (size_t)m->rows * 2);
    }
    if (m->head) {
        PART(m->logits_host, (size_t)AXN_SLOTS * m->out * (m->head_f32 ? 4 : 2));
        PART(m->argmax_host, (size_t)AXN_SLOTS * 4);
    }
#undef PART
    return n;
}

size_t axn_host_need(axn_model *m) { return carve(m, NULL); }

// Row r of a fresh mask sees itself and nothing else, as the rows that fill up a chunk always do: a
// row that saw nothing would be NaN.
static void blank_mask(axn_group *g) {
    size_t cols = g->cells + g->rows, row_words = axn_words(g->cells) + axn_words(g->rows);
    for (size_t r = 0; r < g->rows; r++) {
        for (size_t j = 0; j < cols; j++) g->mask_host[r * cols + j] = AXN_HIDE;
        g->mask_host[r * cols + g->cells + r] = 0;
        memset(g->seen + r * row_words, 0, row_words * 8);
        g->seen[r * row_words + axn_words(g->cells) + r / 64] = UINT64_C(1) << r % 64;
    }
}

static int bind_layer(axn_model *m, uint32_t l) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_module *mod = &m->layer[l];
    bool shares = axn_shares(m, l);
    for (uint32_t i = 0; i < m->groups; i++) {
        axn_group *g = &m->group[i];
        const axn_parts *t = &m->parts[l * m->groups + i];
        axn_io *io = &m->io[l * m->groups + i];
        size_t hidden = (size_t)g->rows * m->hidden * 2, kv = g->rows * axn_row(m, l);
        size_t cache = (shares ? g->cells + g->rows : g->cache) * axn_row(m, l);
        const axn_mem *k = &m->k[l], *v = &m->v[l], *k_out = &m->k_out, *v_out = &m->v_out; // as news in pass.c takes them
        if (g->rows > 1) k_out = &m->k_new[l], v_out = &m->v_new[l];
        if (shares) {
            k = axn_shared_cache(m, g, m->shared.source[l], false), v = axn_shared_cache(m, g, m->shared.source[l], true);
            k_out = &m->shared.k_out, v_out = &m->shared.v_out;
        }
        assert(cache <= k->size && kv <= k_out->size && hidden <= m->turn[0].size);
        struct { uint32_t slot; const axn_mem *mem; size_t size; } parts[] = {
            {t->input, &m->turn[l % 2], hidden},
            {t->indices, &m->indices, (size_t)g->rows * g->pos * 4},
            {t->mask, &m->group[m->local && m->local[l] ? m->groups + i : i].mask_dev, (size_t)g->rows * (g->cells + g->rows) * 2},
            {t->k, k, cache},
            {t->v, v, cache},
            {t->k_out, k_out, kv},
            {t->v_out, v_out, kv},
            {t->output, &m->turn[(l + 1) % 2], hidden},
        };
        int rc = p->io_new(c, mod, io);
        for (size_t n = 0; !rc && n < sizeof parts / sizeof *parts; n++) rc = p->bind(c, io, parts[n].slot, parts[n].mem, 0, parts[n].size);
        if (!rc && m->inputs.width) rc = p->bind(c, io, t->layer_input, &m->inputs.dev[l], 0, (size_t)g->rows * m->inputs.width * 2);
        if (!rc && m->lora.takes) rc = axn_lora_bind(m, l, i, 0);
        if (rc) return rc;
    }
    return AXN_OK;
}

static int bind_head(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    size_t row = (size_t)m->hidden * 2;
    int rc = p->alloc(c, &m->head_in, row);
    if (!rc) rc = p->alloc(c, &m->logits, (size_t)m->out * (m->head_f32 ? 4 : 2));
    if (!rc && m->head_argmax >= 0) rc = p->alloc(c, &m->argmax, 4);
    for (int i = 0; !rc && i < 2; i++) {
        axn_io *io = &m->head_io[i];
        rc = p->io_new(c, &m->head_module, io);
        if (!rc) rc = p->bind(c, io, 0, i ? &m->head_in : &m->turn[m->layers % 2], 0, row);
        if (!rc) rc = p->bind(c, io, (uint32_t)m->head_output, &m->logits, 0, m->logits.size);
        if (!rc && m->head_argmax >= 0) rc = p->bind(c, io, (uint32_t)m->head_argmax, &m->argmax, 0, 4);
    }
    return rc;
}

int axn_bind(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = axn_enter(c);
    bool one = m->decoder.files > 0;
    size_t hidden = (size_t)m->rows * m->hidden * 2;
    for (uint32_t i = 0; !rc && !one && i < m->whole; i++) {
        uint32_t l = m->full[i];
        size_t kv = m->rows * axn_row(m, l), cache = m->kv_rows * axn_row(m, l);
        if (m->shared.source && m->shared.of[l]) cache += m->shared.behind * axn_row(m, l);
        c->layer = (int32_t)l;
        rc = p->alloc(c, &m->k[l], cache);
        if (!rc) rc = p->alloc(c, &m->v[l], cache);
        if (!rc && m->rows > 1) rc = p->alloc(c, &m->k_new[l], kv);
        if (!rc && m->rows > 1) rc = p->alloc(c, &m->v_new[l], kv);
    }
    if (!rc) rc = axn_state_alloc(m);
    if (!rc) rc = axn_shared_alloc(m);
    if (!rc) rc = axn_lora_alloc(m);
    c->layer = AXN_NO_LAYER;
    if (!rc) rc = p->alloc(c, &m->turn[0], hidden);
    if (!rc) rc = p->alloc(c, &m->turn[1], hidden);
    if (!rc) rc = p->alloc(c, &m->indices, (size_t)m->rows * m->pos * 4);
    if (!rc) rc = p->alloc(c, &m->k_out, (size_t)m->kv * 2);
    if (!rc) rc = p->alloc(c, &m->v_out, (size_t)m->kv * 2);
    for (uint32_t g = 0; !rc && g < m->masks; g++)
        rc = p->alloc(c, &m->group[g].mask_dev, (size_t)m->group[g].rows * (m->group[g].cells + m->group[g].rows) * 2);
    m->pinned_size = axn_host_need(m);
    if (!rc) rc = p->host_alloc(c, &m->pinned, m->pinned_size);
    if (rc) return rc;
    carve(m, m->pinned);
    for (uint32_t g = 0; g < m->masks; g++) {
        blank_mask(&m->group[g]);
        m->group[g].bound = AXN_UNBOUND;
        m->group[g].stale = true;
    }
    if (one) return axn_whole_bind(m);
    for (uint32_t l = 0; !rc && l < m->layers; l++) {
        if (axn_keeps_state(m, l)) continue;
        c->layer = (int32_t)l;
        rc = bind_layer(m, l);
    }
    if (!rc) rc = axn_state_bind(m);
    c->layer = AXN_HEAD;
    return rc || !m->head ? rc : bind_head(m);
}

// Does the card honour a decode group's K and V bound on a cell? The first layer that keeps rows
// runs once into buffers of its own and then onto a cell, between neighbours that must stay: near
// the start of the cache and near its end. A card that writes elsewhere, or past the row, is given
// copies for every pass. Only a difference decides; an error is an error.
enum { SENTINEL = 0x4049 };

static axn_io *first_io(axn_model *m, uint32_t group) { return &m->io[m->full[0] * m->groups + group]; }
static const axn_parts *first_parts(axn_model *m, uint32_t group) { return &m->parts[m->full[0] * m->groups + group]; }

static int run_first(axn_model *m, uint32_t group) {
    axn_card *c = m->card;
    int rc = c->lib->provider->run(c, &m->layer[m->full[0]], group, first_io(m, group));
    return rc ? rc : c->lib->provider->sync(c, m->timeout_ms);
}

static int probe_cell(axn_model *m, uint32_t group, uint32_t cell, bool *honoured) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    const axn_parts *t = first_parts(m, group);
    axn_io *io = first_io(m, group);
    const axn_mem *kc = &m->k[m->full[0]], *vc = &m->v[m->full[0]];
    size_t kv = m->width[m->full[0]], row = kv * 2, at = (cell - 1) * row;
    // alone: the row of K and of V that the card gives; got: three rows of each around the cell,
    // want: what they should be.
    uint16_t *alone = m->probe_host, *got = alone + 2 * kv, *want = got + 6 * kv;
    for (size_t i = 0; i < 6 * kv; i++) got[i] = want[i] = SENTINEL;
    memcpy(want + kv, alone, row);
    memcpy(want + 4 * kv, alone + kv, row);
    int rc = p->up(c, kc, at, got, 3 * row);
    if (!rc) rc = p->up(c, vc, at, got + 3 * kv, 3 * row);
    if (!rc) rc = p->bind(c, io, t->k_out, kc, cell * row, row);
    if (!rc) rc = p->bind(c, io, t->v_out, vc, cell * row, row);
    if (!rc) rc = run_first(m, group);
    if (!rc) rc = p->down(c, got, kc, at, 3 * row);
    if (!rc) rc = p->down(c, got + 3 * kv, vc, at, 3 * row);
    if (!rc) rc = p->sync(c, m->timeout_ms);
    if (rc) return rc;
    if (memcmp(got, want, 6 * row)) *honoured = false;
    memset(got, 0, 3 * row);
    rc = p->up(c, kc, at, got, 3 * row);
    if (!rc) rc = p->up(c, vc, at, got, 3 * row);
    if (!rc) rc = p->bind(c, io, t->k_out, &m->k_out, 0, row);
    if (!rc) rc = p->bind(c, io, t->v_out, &m->v_out, 0, row);
    return rc ? rc : p->sync(c, m->timeout_ms);
}

int axn_probe(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = axn_enter(c);
    if (rc) return rc;
    uint32_t group = 0;
    while (group < m->groups && (m->group[group].rows != 1 || m->group[group].cells < 4)) group++;
    m->place = false;
    if (group == m->groups || m->whole == 0 || m->decoder.files) return AXN_OK;
    axn_group *g = &m->group[group];
    uint32_t first = m->full[0];
    c->layer = (int32_t)first;
    size_t row = axn_row(m, first);
    for (uint32_t i = 0; i < m->hidden; i++) m->hidden_host[i] = (uint16_t)(0x3f00 + (i * 37) % 128 + (i % 3 ? 0 : 0x8000));
    if ((rc = p->up(c, &m->turn[first % 2], 0, m->hidden_host, (size_t)m->hidden * 2))) return rc;
    if (m->local && m->local[first]) g += m->groups; // the mask that it is bound to; the rest is the same
    if ((rc = p->up(c, &g->mask_dev, 0, g->mask_host, g->mask_dev.size))) return rc;
    g = &m->group[group];
    if ((rc = run_first(m, group))) return rc;
    if ((rc = p->down(c, m->probe_host, &m->k_out, 0, row))) return rc;
    if ((rc = p->down(c, m->probe_host + m->width[first], &m->v_out, 0, row))) return rc;
    if ((rc = p->sync(c, m->timeout_ms))) return rc;
    bool honoured = true;
    if ((rc = probe_cell(m, group, 1, &honoured))) return rc;
    if ((rc = probe_cell(m, group, g->cells - 2, &honoured))) return rc;
    m->place = honoured;
    return axn_share_placed(m);
}

// Unloads every model, destroys ios and infos, frees memory, in that order, from whatever state the
// model is in. Goes on past errors, the first is reported; on a lost card nothing of the library is
// called.
int axn_close(axn_model *m) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    int rc = axn_enter(c);
    if (rc) return rc;
    uint32_t modules = m->layers > m->decoder.files ? m->layers : m->decoder.files;
    for (uint32_t l = 0; l < modules; l++) {
        c->layer = (int32_t)l;
        axn_also(&rc, p->unload(c, &m->layer[l]));
    }
    c->layer = AXN_HEAD;
    axn_also(&rc, p->unload(c, &m->head_module));
    for (int i = 0; i < 2; i++) axn_also(&rc, p->io_free(c, &m->head_io[i]));
    axn_also(&rc, p->forget(c, &m->head_module));
    for (uint32_t l = 0; l < modules; l++) {
        c->layer = (int32_t)l;
        for (uint32_t g = 0; g < m->groups; g++) axn_also(&rc, p->io_free(c, &m->io[l * m->groups + g]));
        axn_also(&rc, p->forget(c, &m->layer[l]));
        if (m->decoder.files) continue; // they are parts of one
        axn_also(&rc, p->free(c, &m->k[l]));
        axn_also(&rc, p->free(c, &m->v[l]));
        axn_also(&rc, p->free(c, &m->k_new[l]));
        axn_also(&rc, p->free(c, &m->v_new[l]));
    }
    c->layer = AXN_NO_LAYER;
    axn_also(&rc, axn_state_close(m));
    axn_also(&rc, axn_shared_close(m));
    axn_also(&rc, axn_lora_close(m));
    axn_also(&rc, axn_whole_close(m));
    axn_mem *rest[] = {&m->turn[0], &m->turn[1], &m->indices, &m->k_out, &m->v_out, &m->head_in, &m->logits, &m->argmax};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) axn_also(&rc, p->free(c, rest[i]));
    for (uint32_t g = 0; g < m->masks; g++) axn_also(&rc, p->free(c, &m->group[g].mask_dev));
    axn_also(&rc, p->host_free(c, &m->pinned));
    return rc;
}
