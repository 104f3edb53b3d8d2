//go:build cgo && !fake && linux

// lora.c: layers that take a LoRA adapter as inputs.
//
// Each adapter has one buffer for each layer, with what its inputs hold. It stays on the card, and
// choosing another is binding other buffers, for the group that the pass runs on. Where there is no
// adapter every input reads the same zeros.

#include "native.h"
#include <assert.h>

int axn_lora_alloc(axn_model *m) {
    size_t most = 0;
    for (uint32_t i = 0; m->lora.takes && i < AXN_LORA; i++)
        if (m->lora.size[i] > most) most = m->lora.size[i];
    return most ? m->card->lib->provider->alloc(m->card, &m->lora.zero, most) : AXN_OK;
}

int axn_lora_bind(axn_model *m, uint32_t l, uint32_t group, uint32_t adapter) {
    const axn_lora *a = &m->lora;
    axn_card *c = m->card;
    const uint32_t *slot = &a->slot[(l * m->groups + group) * AXN_LORA];
    const axn_mem *from = adapter ? &a->dev[(adapter - 1) * m->layers + l] : &a->zero;
    int rc = AXN_OK;
    for (uint32_t i = 0; !rc && i < AXN_LORA; i++) {
        size_t at = adapter ? a->at[i] : 0;
        assert(at + a->size[i] <= from->size);
        rc = c->lib->provider->bind(c, &m->io[l * m->groups + group], slot[i], from, at, a->size[i]);
    }
    return rc;
}

int axn_lora_begin(axn_model *m, const axn_pass *pass) {
    axn_lora *a = &m->lora;
    uint32_t group = pass->group;
    int rc = AXN_OK;
    if (!a->takes || a->bound[group] == pass->adapter) return rc;
    a->bound[group] = AXN_UNBOUND; // until every layer is
    for (uint32_t l = 0; !rc && l < m->layers; l++) {
        if (axn_keeps_state(m, l)) continue;
        m->card->layer = (int32_t)l;
        rc = axn_lora_bind(m, l, group, pass->adapter);
    }
    if (!rc) a->bound[group] = pass->adapter;
    return rc;
}

int axn_lora_close(axn_model *m) { return m->card->lib->provider->free(m->card, &m->lora.zero); }
