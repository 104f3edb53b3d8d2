// Models on the card: each has an id and its share of the card's memory, and lives until nothing
// refers to it. model.c reads their files.
#include "sim.h"

#include <stdlib.h>

int32_t open_code(int axm_code) {
	switch (axm_code) {
	case AXM_E_OPEN:
		return CODE(SUB_ENGINE, ID_OPEN);
	case AXM_E_VENDOR:
		return CODE(SUB_ENGINE, ID_UNSUPPORTED);
	case AXM_E_MEMORY:
		return CODE(SUB_ENGINE, ID_NO_MEMORY);
	case AXM_OK:
		return 0;
	default:
		return CODE(SUB_ENGINE, ID_DECODE);
	}
}

model *model_find(uint64_t id, device *d) {
	for (model *m = sim.models; m; m = m->next)
		if (m->id == id && m->dev == d) return m;
	return NULL;
}

void model_unref(model *m) {
	if (!m || --m->refs) return;
	axm_free(m->m);
	free(m);
}

int32_t model_admit(device *d, axm *a, model **out) {
	if (a->weight_bytes > cmm_free(d)) return card_full(SUB_ENGINE);
	model *m = calloc(1, sizeof *m);
	if (!m) return CODE(SUB_ENGINE, ID_NO_MEMORY);
	m->m = a;
	m->refs = 1;
	m->dev = d;
	m->affinity = 1;
	m->id = (uint64_t)(uint32_t)d->id << 32 | ++sim.next_id;
	m->garbage = d->loadfail;
	m->cmm = a->weight_bytes;
	d->cmm_used += m->cmm;
	m->next = sim.models;
	sim.models = m;
	state_bytes();
	*out = m;
	return 0;
}

void model_remove(model *m) {
	bool more = false;
	for (model **p = &sim.models; *p;) {
		if (*p == m) {
			*p = m->next;
			continue;
		}
		more = more || (*p)->dev == m->dev;
		p = &(*p)->next;
	}
	m->dev->cmm_used -= m->cmm;
	m->dead = true;
	if (!more) m->dev->loadfail = false;
	model_unref(m);
	state_bytes();
}

void charge_load(call *c, const axm *a) {
	if (sim.cfg.clock != CLOCK_OFF && sim.cfg.prof.load > 0) charge_host(c, (uint64_t)((double)a->weight_bytes / sim.cfg.prof.load * 1e9));
}

void late_load(device *d) {
	if ((hazard(HZ_LATELOAD) && d->running) || (hazard(HZ_LATELOAD_STRICT) && d->ran)) devices_lose(d);
}
