// What the foreign programs share: the ABI's symbols by dlsym, checks, and small software-card
// models written from the format's document.
#ifndef FOREIGN_H
#define FOREIGN_H

#define _GNU_SOURCE
#include "../c/abi_axcl.h"
#include "../c/abi_axengine.h"
#include "../c/axsim.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			failures++; \
		} \
	} while (0)

#define CODE_IS(call, want) \
	do { \
		uint32_t got_ = (uint32_t)(call); \
		if (got_ != (uint32_t)(want)) { \
			fprintf(stderr, "%s:%d: %s: 0x%08x, want 0x%08x\n", __FILE__, __LINE__, #call, got_, (uint32_t)(want)); \
			failures++; \
		} \
	} while (0)

#define OK(call) CODE_IS(call, 0)

// ---- files

typedef struct {
	uint8_t *p;
	size_t n, cap;
} bytes;

static inline void need(bytes *b, size_t n) {
	if (n <= b->cap) return;
	b->cap = n * 2;
	b->p = realloc(b->p, b->cap);
	if (!b->p) abort();
}

static inline void put(bytes *b, size_t at, const void *p, size_t n) {
	need(b, at + n);
	if (at + n > b->n) {
		memset(b->p + b->n, 0, at + n - b->n);
		b->n = at + n;
	}
	memcpy(b->p + at, p, n);
}

static inline void put32(bytes *b, size_t at, uint32_t v) { put(b, at, &v, 4); }
static inline void put64(bytes *b, size_t at, uint64_t v) { put(b, at, &v, 8); }
static inline void putf(bytes *b, size_t at, float v) { put(b, at, &v, 4); }

typedef struct {
	const char *name;
	uint32_t type, rows, cols;
	const void *data;
} tensor_def;

typedef struct {
	uint32_t rows, cells, cache;
} group_def;

typedef struct {
	uint32_t kind, flags, activation, hidden, heads, kv, hd, inter, out, rotary, period, value_dim, conv, state;
	float eps, scale, magnitude;
	uint64_t weights;
} model_def;

static inline void write_model(const char *path, const model_def *m, const group_def *g, uint32_t ng, const tensor_def *t, uint32_t nt) {
	bytes b = {0};
	put(&b, 0, "AXLESOFT", 8);
	const uint32_t head[] = {1, m->kind, ng, nt};
	put(&b, 8, head, sizeof head);
	put64(&b, 32, m->weights);
	const uint32_t mid[] = {m->flags, m->activation, m->hidden, m->heads, m->kv, m->hd, m->inter, m->out};
	put(&b, 40, mid, sizeof mid);
	putf(&b, 72, m->eps);
	putf(&b, 76, m->scale);
	put32(&b, 80, m->rotary);
	putf(&b, 84, m->magnitude);
	put32(&b, 104, m->period);
	put(&b, 112, "foreign 1.0", 11);
	const uint32_t states[] = {m->value_dim, m->conv, m->state, 0};
	put(&b, 176, states, sizeof states);
	for (uint32_t i = 0; i < ng; i++) {
		const uint32_t words[4] = {g[i].rows, g[i].cells, g[i].cache, 0};
		put(&b, 192 + 16 * (size_t)i, words, 16);
	}
	size_t dir = 192 + 16 * (size_t)ng, at = dir + 64 * (size_t)nt;
	if (nt) put64(&b, at - 8, 0);
	static const size_t elem[] = {0, 4, 2};
	for (uint32_t i = 0; i < nt; i++) {
		size_t e = dir + 64 * (size_t)i, size = (size_t)t[i].rows * t[i].cols * elem[t[i].type];
		put(&b, e, t[i].name, strlen(t[i].name));
		const uint32_t words[3] = {t[i].type, t[i].rows, t[i].cols};
		put(&b, e + 24, words, 12);
		at = (at + 63) / 64 * 64;
		put64(&b, e + 40, at);
		put(&b, at, t[i].data, size);
		at += size;
	}
	put64(&b, 24, b.n);
	FILE *f = fopen(path, "w");
	if (!f || fwrite(b.p, 1, b.n, f) != b.n || fclose(f)) abort();
	free(b.p);
}

// y = x . Wt + b with W[o][i] = o + i + 1, b[o] = o / 2: one group of 1 row and one of 4.
enum { AFF_IN = 8, AFF_OUT = 4 };

static inline void write_affine(const char *path) {
	float w[AFF_OUT * AFF_IN], b[AFF_OUT];
	for (int o = 0; o < AFF_OUT; o++) {
		b[o] = (float)o / 2;
		for (int i = 0; i < AFF_IN; i++) w[o * AFF_IN + i] = (float)(o + i + 1);
	}
	model_def m = {.kind = 4, .flags = 128, .hidden = AFF_IN, .out = AFF_OUT}; // 128: the second group's names end in _1
	group_def g[] = {{1, 0, 0}, {4, 0, 0}};
	tensor_def t[] = {{"weight", 1, AFF_OUT, AFF_IN, w}, {"bias", 1, 1, AFF_OUT, b}};
	write_model(path, &m, g, 2, t, 2);
}

static inline float affine_want(const float *x, int o) {
	float y = (float)o / 2;
	for (int i = 0; i < AFF_IN; i++) y += x[i] * (float)(o + i + 1);
	return y;
}

static inline uint16_t bf16(float f) {
	uint32_t u;
	memcpy(&u, &f, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float unbf16(uint16_t b) {
	uint32_t u = (uint32_t)b << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

#endif
