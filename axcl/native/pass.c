//go:build cgo && !fake && linux

// pass.c: one pass, in one call from Go.
//
//   stage    rows, positions and mask into pinned memory; what changed of the mask
//   upload   three transfers at most; and one a layer, where layers have layer inputs
//   layers   one execute each, hidden states turn about; one row's new K and V are bound on their cell before it or copied after it;
//            where rows get something added after a layer, they come down, are awaited, and go up again; rows that other layers use are
//            copied to where they read it
//   head     per wanted row: its hidden row, the head, its logits into a slot of pinned memory
//   keep     many rows' new K and V are copied to their cells: beside the head on a stream of their own, before which the layers are waited
//            for; where no row is wanted, behind the layers
//   sync     one, with a time-out, and then the caller's memory is filled
//
// Everything between staging and sync but keep is queued on one stream, which runs in order: that
// is why buffers can serve every layer.

#define _GNU_SOURCE
#include "native.h"
#include <string.h>
#include <time.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The part of a mask that differs from what the card has, as elements [from, to).
typedef struct { size_t from, to; } span;

static void set_word(axn_group *g, uint64_t *seen, uint64_t want, size_t column, span *s) {
    for (uint64_t change = *seen ^ want; change; change &= change - 1) {
        int bit = __builtin_ctzll(change);
        size_t at = column + (size_t)bit;
        g->mask_host[at] = want >> bit & 1 ? 0 : AXN_HIDE;
        if (at < s->from) s->from = at;
        s->to = at + 1; // columns come in order
    }
    *seen = want;
}

// Rows past the pass's own fill the chunk up: they see themselves only.
static span stage_mask(axn_group *g, const axn_pass *pass, const uint64_t *see_cells, const uint64_t *see_rows) {
    uint32_t rows = pass->rows, cell_words = pass->cell_words;
    uint32_t cw = axn_words(g->cells), rw = axn_words(g->rows), pass_rw = axn_words(rows);
    size_t cols = g->cells + g->rows;
    span s = {SIZE_MAX, 0};
    for (uint32_t r = 0; r < g->rows; r++) {
        uint64_t *seen = g->seen + (size_t)r * (cw + rw);
        for (uint32_t w = 0; w < cw; w++)
            set_word(g, seen + w, r < rows ? see_cells[(size_t)r * cell_words + w] : 0, r * cols + (size_t)w * 64, &s);
        for (uint32_t w = 0; w < rw; w++) {
            uint64_t want = r < rows && w < pass_rw ? see_rows[(size_t)r * pass_rw + w] : 0;
            if (w == r / 64) want |= UINT64_C(1) << r % 64;
            set_word(g, seen + cw + w, want, r * cols + g->cells + (size_t)w * 64, &s);
        }
    }
    return s;
}

// A row that fills the chunk up is the last row again: a row in use, on every build. Beside layers
// that keep a state it is zero, as they want it; it sees itself, and zero it stays through layers
// without a bias.
static void stage_rows(axn_model *m, axn_group *g, const axn_pass *pass) {
    uint32_t rows = pass->rows;
    const uint16_t *hidden = pass->hidden;
    size_t row = (size_t)m->hidden * 2;
    memcpy(m->hidden_host, hidden, rows * row);
    if (m->state.layers) memset(m->hidden_host + (size_t)rows * m->hidden, 0, (g->rows - rows) * row);
    else for (uint32_t r = rows; r < g->rows; r++)
        memcpy(m->hidden_host + (size_t)r * m->hidden, hidden + (size_t)(rows - 1) * m->hidden, row);
    for (uint32_t r = 0; r < g->rows; r++)
        for (uint32_t k = 0; k < g->pos; k++)
            m->indices_host[(size_t)k * g->rows + r] = pass->pos[(size_t)(r < rows ? r : rows - 1) * m->pos + k];
}

static int upload(axn_model *m, const axn_pass *pass) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_group *g = &m->group[pass->group];
    stage_rows(m, g, pass);
    span s = stage_mask(g, pass, pass->see_cells, pass->see_rows);
    if (g->stale) s = (span){0, (size_t)g->rows * (g->cells + g->rows)};
    g->stale = true; // until the sync has said that it is there
    int rc = p->up(c, &m->turn[0], 0, m->hidden_host, (size_t)g->rows * m->hidden * 2);
    if (!rc) rc = p->up(c, &m->indices, 0, m->indices_host, (size_t)g->rows * g->pos * 4);
    if (!rc && s.to > s.from) rc = p->up(c, &g->mask_dev, s.from * 2, g->mask_host + s.from, (s.to - s.from) * 2);
    return rc;
}

// What local layers see: a mask of its own.
static int upload_local(axn_model *m, const axn_pass *pass) {
    if (m->masks == m->groups) return AXN_OK;
    axn_group *g = &m->group[m->groups + pass->group];
    span s = stage_mask(g, pass, pass->local_cells, pass->local_rows);
    if (g->stale) s = (span){0, (size_t)g->rows * (g->cells + g->rows)};
    g->stale = true;
    return s.to > s.from ? m->card->lib->provider->up(m->card, &g->mask_dev, s.from * 2, g->mask_host + s.from, (s.to - s.from) * 2)
        : AXN_OK;
}

typedef int copier(axn_card *, const axn_mem *to, size_t to_offset, const axn_mem *from, size_t from_offset, size_t size);

// Where the layer leaves its new rows: in its own buffers, or, one row, in the buffer that all
// layers have for one, or in the cache.
static axn_news news(const axn_model *m, const axn_group *g, uint32_t l, bool placed, uint32_t cell) {
    if (g->rows > 1) return (axn_news){&m->k_new[l], &m->v_new[l], 0};
    if (!placed) return (axn_news){&m->k_out, &m->v_out, 0};
    return (axn_news){&m->k[l], &m->v[l], (axn_behind(m, g, l) ? g->cells : cell) * axn_row(m, l)};
}

// Copies a layer's new rows to their cells. Runs of rows that go to consecutive cells are one copy
// of K and one of V.
static int keep_layer(axn_model *m, uint32_t l, axn_news from, uint32_t rows, const uint32_t *cell, copier *copy) {
    size_t row = axn_row(m, l);
    int rc = AXN_OK;
    m->card->layer = (int32_t)l;
    for (uint32_t r = 0, n; !rc && r < rows; r += n) {
        for (n = 1; r + n < rows && cell[r + n] == cell[r] + n;) n++;
        rc = copy(m->card, &m->k[l], cell[r] * row, from.k, from.at + r * row, n * row);
        if (!rc) rc = copy(m->card, &m->v[l], cell[r] * row, from.v, from.at + r * row, n * row);
    }
    return rc;
}

// A wide pass's rows go home once all its layers are done: each layer has its own buffers for them.
static int keep_rows(axn_model *m, const axn_pass *pass, copier *copy) {
    const axn_group *g = &m->group[pass->group];
    int rc = AXN_OK;
    for (uint32_t i = 0; !rc && i < m->whole; i++)
        rc = keep_layer(m, m->full[i], news(m, g, m->full[i], false, 0), pass->rows, pass->cell, copy);
    return rc;
}

static int wait(axn_model *m) {
    int64_t start = now();
    m->card->layer = AXN_NO_LAYER;
    int rc = m->card->lib->provider->sync(m->card, m->timeout_ms);
    m->time.wait += now() - start;
    return rc;
}

static uint16_t bf16(uint32_t f) {
    if ((f & 0x7fffffff) > 0x7f800000) return (uint16_t)(f >> 16 | 0x40);
    return (uint16_t)((f + 0x7fff + (f >> 16 & 1)) >> 16);
}

static uint16_t sum(uint16_t a, uint16_t b) {
    uint32_t x = (uint32_t)a << 16, y = (uint32_t)b << 16;
    float f, g;
    memcpy(&f, &x, 4);
    memcpy(&g, &y, 4);
    f += g;
    memcpy(&x, &f, 4);
    return bf16(x);
}

// Adds n rows to what layer l gave. All rows between the first and the last of them come down and
// go up: one copy each. The staging of the rows is free again, as the wait is for their upload too.
static int add_rows(axn_model *m, uint32_t l, const axn_add *add, uint32_t n, const uint16_t *added) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    const axn_mem *out = &m->turn[(l + 1) % 2];
    size_t row = (size_t)m->hidden * 2, first = add[0].row, size = (add[n - 1].row - first + 1) * row;
    int rc = p->down(c, m->hidden_host, out, first * row, size);
    if (!rc) rc = wait(m);
    if (rc) return rc;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t *to = m->hidden_host + (add[i].row - first) * m->hidden;
        for (uint32_t k = 0; k < m->hidden; k++) to[k] = sum(to[k], added[(size_t)i * m->hidden + k]);
    }
    c->layer = (int32_t)l;
    return p->up(c, out, first * row, m->hidden_host, size);
}

// One layer that keeps no state, and what becomes of its one new row: it is copied to where other
// layers read it, if any do, and to its cell, if the layer did not write it there.
static int run_layer(axn_model *m, uint32_t group, uint32_t l, const uint32_t *cell, bool place, bool rebind) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    axn_group *g = &m->group[group];
    axn_io *io = &m->io[l * m->groups + group];
    size_t row = axn_row(m, l);
    bool shares = axn_shares(m, l), on_cell = place && !axn_behind(m, g, l);
    int rc = AXN_OK;
    c->layer = (int32_t)l;
    if (rebind && on_cell && !shares) {
        const axn_parts *t = &m->parts[l * m->groups + group];
        rc = p->bind(c, io, t->k_out, &m->k[l], cell[0] * row, row);
        if (!rc) rc = p->bind(c, io, t->v_out, &m->v[l], cell[0] * row, row);
    }
    if (!rc) rc = p->run(c, &m->layer[l], group, io);
    if (rc || shares) return rc;
    axn_news from = news(m, g, l, place, cell[0]);
    rc = axn_share(m, g, l, from);
    return rc || g->rows > 1 || on_cell ? rc : keep_layer(m, l, from, 1, cell, p->copy);
}

static int run_layers(axn_model *m, const axn_pass *pass, axn_way *way) {
    if (m->decoder.files) return axn_whole_run(m, pass);
    const uint32_t group = pass->group, *cell = pass->cell;
    const axn_add *add = pass->add;
    const uint16_t *added = pass->added;
    uint32_t adds = pass->adds;
    axn_group *g = &m->group[group];
    bool place = m->place && g->rows == 1, rebind = place && g->bound != cell[0];
    g->bound = AXN_UNBOUND; // until every layer is
    for (uint32_t l = 0; l < m->layers; l++) {
        int rc = axn_keeps_state(m, l) ? axn_state_run(m, l, way) : run_layer(m, group, l, cell, place, rebind);
        uint32_t n = 0;
        while (n < adds && add[n].layer == l) n++;
        if (!rc && n) rc = add_rows(m, l, add, n, added);
        if (rc) return rc;
        if (n) add += n, adds -= n, added += (size_t)n * m->hidden;
    }
    axn_state_queued(m, way);
    if (place) g->bound = cell[0];
    return AXN_OK;
}

static float number(const axn_model *m, const uint8_t *logits, uint32_t i) {
    uint32_t bits;
    float f;
    if (m->head_f32) bits = ((const uint32_t *)(const void *)logits)[i];
    else bits = (uint32_t)((const uint16_t *)(const void *)logits)[i] << 16;
    memcpy(&f, &bits, 4);
    return f;
}

static int32_t largest(const axn_model *m, const uint8_t *logits) {
    uint32_t best = 0;
    float top = number(m, logits, 0);
    for (uint32_t i = 1; i < m->out; i++) {
        float f = number(m, logits, i);
        if (f > top) top = f, best = i;
    }
    return (int32_t)best;
}

// The head for up to AXN_SLOTS wanted rows, each with its downloads.
static int run_head(axn_model *m, const int64_t *want, uint32_t n, bool logits, bool argmax) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    size_t row = (size_t)m->hidden * 2;
    bool device = argmax && m->head_argmax >= 0;
    if (m->decoder.files) return axn_whole_logits(m, want, n);
    c->layer = AXN_HEAD;
    for (uint32_t i = 0; i < n; i++) {
        int rc = AXN_OK;
        if (want[i] > 0) rc = p->copy(c, &m->head_in, 0, &m->turn[m->layers % 2], (size_t)want[i] * row, row);
        if (!rc) rc = p->run(c, &m->head_module, 0, &m->head_io[want[i] > 0]);
        if (!rc && (logits || !device)) rc = p->down(c, m->logits_host + i * m->logits.size, &m->logits, 0, m->logits.size);
        if (!rc && device) rc = p->down(c, m->argmax_host + i, &m->argmax, 0, 4);
        if (rc) return rc;
    }
    return AXN_OK;
}

static void hand_out(axn_model *m, uint32_t n, uint16_t *logits, int32_t *argmax) {
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *from = m->logits_host + i * m->logits.size;
        uint16_t *to = logits ? logits + (size_t)i * m->out : NULL;
        if (to && !m->head_f32) memcpy(to, from, m->logits.size);
        for (uint32_t k = 0; to && m->head_f32 && k < m->out; k++) to[k] = bf16(((const uint32_t *)(const void *)from)[k]);
        if (argmax) argmax[i] = m->head_argmax >= 0 ? m->argmax_host[i] : largest(m, from);
    }
}

static int zero(axn_model *m, const axn_mem *mem, size_t at, size_t size, size_t most) {
    int rc = AXN_OK;
    for (size_t n; !rc && size; at += n, size -= n) {
        n = size < most ? size : most;
        rc = m->card->lib->provider->up(m->card, mem, at, m->hidden_host, n);
    }
    return rc;
}

// Zeros go up from the staging of the rows, which nothing uses between passes. A layer is waited
// for before the next, so that no more is queued than a card takes.
int axn_clear(axn_model *m, const uint32_t *cell, uint32_t cells) {
    axn_card *c = m->card;
    int rc = axn_enter(c);
    if (rc) return rc;
    size_t most = (size_t)m->rows * m->hidden * 2;
    memset(m->hidden_host, 0, most);
    for (uint32_t w = 0; !rc && w < m->whole; w++) {
        uint32_t l = m->full[w];
        size_t row = axn_row(m, l);
        c->layer = (int32_t)l;
        for (uint32_t i = 0, n; !rc && i < cells; i += n) {
            for (n = 1; i + n < cells && cell[i + n] == cell[i] + n;) n++;
            rc = zero(m, &m->k[l], cell[i] * row, n * row, most);
            if (!rc) rc = zero(m, &m->v[l], cell[i] * row, n * row, most);
        }
        if (!rc) rc = wait(m);
    }
    return rc;
}

int axn_run(axn_model *m, axn_pass of) {
    const axn_pass *pass = &of;
    axn_card *c = m->card;
    axn_group *g = &m->group[pass->group];
    uint16_t *logits = pass->logits, *hidden_out = pass->hidden_out;
    int32_t *argmax = pass->argmax;
    uint32_t wanted = pass->wanted;
    size_t hidden = (size_t)pass->rows * m->hidden * 2;
    int rc = axn_enter(c);
    if (rc) return rc;
    m->time = (axn_timing){0};
    uint64_t calls = c->calls;

    int64_t t0 = now();
    rc = upload(m, pass);
    if (!rc) rc = upload_local(m, pass);
    if (!rc) rc = axn_state_upload(m, pass);
    if (!rc) rc = axn_inputs_upload(m, pass);
    if (!rc) rc = axn_lora_begin(m, pass);
    int64_t t1 = now();
    m->time.upload = t1 - t0;
    axn_way way;
    if (!rc) rc = axn_state_begin(m, pass, &way);
    if (!rc) rc = run_layers(m, pass, &way);
    m->time.enqueue = now() - t1 - m->time.wait;
    // Staging of the rows is free again by the time their results come down: the stream is in
    // order.
    if (!rc && hidden_out) rc = c->lib->provider->down(c, m->hidden_host, &m->turn[m->layers % 2], 0, hidden);
    bool first = true, keeps = g->rows > 1 && m->whole && !m->decoder.files, beside = keeps && wanted;
    bool unfinished = pass->unfinished && keeps && hidden_out && !wanted;
    if (!rc && (beside || unfinished)) rc = wait(m);
    if (!rc && unfinished) {
        memcpy(hidden_out, m->hidden_host, hidden);
        rc = keep_rows(m, pass, c->lib->provider->copy);
        first = false;
    }
    for (uint32_t done = 0, n; !rc && (first || done < wanted); done += n) {
        int64_t t2 = now();
        n = wanted - done < AXN_SLOTS ? wanted - done : AXN_SLOTS;
        rc = run_head(m, pass->want + done, n, logits != NULL, argmax != NULL);
        int64_t t3 = now();
        m->time.head += t3 - t2;
        if (!rc && first && keeps) rc = keep_rows(m, pass, beside ? c->lib->provider->keep : c->lib->provider->copy);
        m->time.enqueue += now() - t3;
        if (!rc) rc = wait(m);
        if (rc) break;
        t3 = now();
        if (first && hidden_out) memcpy(hidden_out, m->hidden_host, hidden);
        hand_out(m, n, logits ? logits + (size_t)done * m->out : NULL, argmax ? argmax + done : NULL);
        m->time.download += now() - t3;
        first = false;
    }
    if (!rc) axn_state_done(m, &way);
    if (!rc) g->stale = m->group[m->masks - m->groups + pass->group].stale = false;
    m->time.calls = c->calls - calls;
    return rc;
}

// Rows go up from the staging of a pass's rows, which nothing uses between passes, as many as it
// has room for and there are slots of logits. They are waited for before the next are staged.
int axn_head(axn_model *m, const uint16_t *rows, uint32_t n, uint16_t *logits) {
    axn_card *c = m->card;
    const axn_provider *p = c->lib->provider;
    size_t row = (size_t)m->hidden * 2;
    uint32_t most = m->rows < AXN_SLOTS ? m->rows : AXN_SLOTS;
    int rc = axn_enter(c);
    for (uint32_t done = 0, k; !rc && done < n; done += k) {
        k = n - done < most ? n - done : most;
        memcpy(m->hidden_host, rows + (size_t)done * m->hidden, k * row);
        c->layer = AXN_HEAD;
        for (uint32_t i = 0; !rc && i < k; i++) {
            rc = p->up(c, &m->head_in, 0, m->hidden_host + (size_t)i * m->hidden, row);
            if (!rc) rc = p->run(c, &m->head_module, 0, &m->head_io[1]);
            if (!rc) rc = p->down(c, m->logits_host + i * m->logits.size, &m->logits, 0, m->logits.size);
        }
        if (!rc) rc = wait(m);
        if (!rc) hand_out(m, k, logits + (size_t)done * m->out, NULL);
    }
    return rc;
}

// Waits until the rows of a pass that is unfinished are in their cells.
int axn_finish(axn_model *m) {
    int rc = axn_enter(m->card);
    if (!rc) rc = wait(m);
    m->time.calls++;
    return rc;
}
