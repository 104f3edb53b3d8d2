// Handles: contexts, streams, events, io infos and ios as programs see them. A handle is a number
// that points nowhere; each carries a generation, so that one used after its end is told from a new
// one in the same place.
#include "sim.h"

#include <stdlib.h>

enum { SLOTS_STEP = 256 };

static struct slot {
	obj *o;
	uint32_t gen;
} *slots;
static uint32_t nslots;

static void *number(uint32_t i) {
	return (void *)(uintptr_t)((uint64_t)0x5a << 40 | (uint64_t)(slots[i].gen & 0xffffu) << 24 | (uint64_t)(i + 1) << 4);
}

bool handle_new(obj *o, int kind, device *d) {
	uint32_t i = 0;
	while (i < nslots && slots[i].o) i++;
	if (i == nslots) {
		if (nslots >= 1u << 18) return false;
		struct slot *p = realloc(slots, (nslots + SLOTS_STEP) * sizeof *slots);
		if (!p) return false;
		slots = p;
		for (int k = 0; k < SLOTS_STEP; k++) slots[nslots + (uint32_t)k] = (struct slot){NULL, 1};
		nslots += SLOTS_STEP;
	}
	o->kind = kind;
	o->dev = d;
	o->refs = 1;
	o->handle = number(i);
	slots[i].o = o;
	return true;
}

static struct slot *slot_of(const void *h) {
	uint64_t v = (uint64_t)(uintptr_t)h;
	uint64_t i = (v >> 4 & 0xfffffu) - 1;
	if (v == 0 || i >= nslots || !slots[i].o || slots[i].o->handle != h) return NULL;
	return &slots[i];
}

void *handle_get(const void *h, int kind) {
	struct slot *s = slot_of(h);
	return s && s->o->kind == kind ? s->o : NULL;
}

void handle_drop(obj *o) {
	struct slot *s = slot_of(o->handle);
	if (s && s->o == o) {
		s->o = NULL;
		s->gen++;
	}
	o->dead = true;
	obj_unref(o);
}

void obj_ref(obj *o) { o->refs++; }

void obj_unref(obj *o) {
	if (--o->refs) return;
	switch (o->kind) {
	case K_STREAM: {
		stream *s = (stream *)o;
		pthread_cond_destroy(&s->wake);
		pthread_cond_destroy(&s->idle);
		break;
	}
	case K_INFO:
		model_unref(((info *)o)->model);
		break;
	case K_IO:
		model_unref(((iobuf *)o)->model);
		break;
	}
	free(o);
}

uint64_t handle_count(int kind) {
	uint64_t n = 0;
	for (uint32_t i = 0; i < nslots; i++)
		if (slots[i].o && slots[i].o->kind == kind) n++;
	return n;
}

void *handle_any(int kind, device *d) {
	for (uint32_t i = 0; i < nslots; i++)
		if (slots[i].o && slots[i].o->kind == kind && (!d || slots[i].o->dev == d)) return slots[i].o;
	return NULL;
}
