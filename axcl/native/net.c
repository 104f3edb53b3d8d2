//go:build cgo && !fake && linux

// net.c: a single model called by tensor, and buffers. Each tensor has memory of its own, large
// enough for every group, and each group an io bound to all of it, or to buffers in its place; put
// and get move one tensor through one pinned block, run executes a group in between. A buffer is
// copied through a block that all buffers of a card share.

#define _GNU_SOURCE
#include "native.h"
#include <assert.h>
#include <string.h>

int axn_net_bind(axn_net *n) {
    axn_card *c = n->card;
    const axn_provider *p = c->lib->provider;
    axn_module *m = &n->module;
    int rc = axn_enter(c);
    for (uint32_t s = 0; !rc && s < m->ins + m->outs; s++) rc = p->alloc(c, &n->mem[s], n->mem_size[s]);
    if (!rc) rc = p->host_alloc(c, &n->pinned, n->pinned_size);
    for (uint32_t g = 0; !rc && g < m->groups; g++) {
        rc = p->io_new(c, m, &n->io[g]);
        for (uint32_t s = 0; !rc && s < m->ins + m->outs; s++)
            rc = p->bind(c, &n->io[g], s, &n->mem[s], 0, n->size[g * (m->ins + m->outs) + s]);
    }
    return rc;
}

int axn_net_rebind(axn_net *n, uint32_t group, uint32_t slot, const axn_mem *mem) {
    axn_card *c = n->card;
    axn_module *m = &n->module;
    size_t size = n->size[group * (m->ins + m->outs) + slot];
    assert(!mem || size <= mem->size);
    int rc = axn_enter(c);
    return rc ? rc : c->lib->provider->bind(c, &n->io[group], slot, mem ? mem : &n->mem[slot], 0, size);
}

int axn_net_put(axn_net *n, uint32_t slot, const void *data, size_t size) {
    axn_card *c = n->card;
    assert(size <= n->mem_size[slot]);
    int rc = axn_enter(c);
    if (rc) return rc;
    memcpy(n->pinned, data, size);
    rc = c->lib->provider->up(c, &n->mem[slot], 0, n->pinned, size);
    return rc ? rc : c->lib->provider->sync(c, n->timeout_ms);
}

int axn_net_run(axn_net *n, uint32_t group) {
    axn_card *c = n->card;
    int rc = axn_enter(c);
    if (!rc) rc = c->lib->provider->run(c, &n->module, group, &n->io[group]);
    return rc ? rc : c->lib->provider->sync(c, n->timeout_ms);
}

int axn_net_get(axn_net *n, uint32_t slot, void *data, size_t size) {
    axn_card *c = n->card;
    assert(size <= n->mem_size[slot]);
    int rc = axn_enter(c);
    if (!rc) rc = c->lib->provider->down(c, n->pinned, &n->mem[slot], 0, size);
    if (!rc) rc = c->lib->provider->sync(c, n->timeout_ms);
    if (!rc) memcpy(data, n->pinned, size);
    return rc;
}

int axn_net_close(axn_net *n) {
    axn_card *c = n->card;
    const axn_provider *p = c->lib->provider;
    axn_module *m = &n->module;
    int rc = axn_enter(c);
    if (rc) return rc;
    axn_also(&rc, p->unload(c, m));
    for (uint32_t g = 0; n->io && g < m->groups; g++) axn_also(&rc, p->io_free(c, &n->io[g]));
    axn_also(&rc, p->forget(c, m));
    for (uint32_t s = 0; s < m->ins + m->outs; s++) axn_also(&rc, p->free(c, &n->mem[s]));
    axn_also(&rc, p->host_free(c, &n->pinned));
    return rc;
}

int axn_buffer_new(axn_buffer *b, size_t size) {
    axn_card *c = b->card;
    const axn_provider *p = c->lib->provider;
    int rc = axn_enter(c);
    if (!rc && !b->stage->there) {
        rc = p->host_alloc(c, &b->stage->pinned, b->stage->size);
        b->stage->there = !rc;
    }
    return rc ? rc : p->alloc(c, &b->mem, size);
}

int axn_buffer_write(axn_buffer *b, size_t at, const void *data, size_t size) {
    axn_card *c = b->card;
    const axn_provider *p = c->lib->provider;
    assert(at + size <= b->mem.size);
    int rc = axn_enter(c);
    for (size_t done = 0, n; !rc && done < size; done += n) {
        n = size - done < b->stage->size ? size - done : b->stage->size;
        memcpy(b->stage->pinned, (const char *)data + done, n);
        rc = p->up(c, &b->mem, at + done, b->stage->pinned, n);
        if (!rc) rc = p->sync(c, b->timeout_ms);
    }
    return rc;
}

int axn_buffer_read(axn_buffer *b, size_t at, void *data, size_t size) {
    axn_card *c = b->card;
    const axn_provider *p = c->lib->provider;
    assert(at + size <= b->mem.size);
    int rc = axn_enter(c);
    for (size_t done = 0, n; !rc && done < size; done += n) {
        n = size - done < b->stage->size ? size - done : b->stage->size;
        rc = p->down(c, b->stage->pinned, &b->mem, at + done, n);
        if (!rc) rc = p->sync(c, b->timeout_ms);
        if (!rc) memcpy((char *)data + done, b->stage->pinned, n);
    }
    return rc;
}

int axn_buffer_free(axn_buffer *b) {
    int rc = axn_enter(b->card);
    return rc ? rc : b->card->lib->provider->free(b->card, &b->mem);
}

int axn_stage_free(axn_card *c, axn_stage *s) {
    if (!s->there) return AXN_OK;
    int rc = axn_enter(c);
    return rc ? rc : c->lib->provider->host_free(c, &s->pinned);
}
