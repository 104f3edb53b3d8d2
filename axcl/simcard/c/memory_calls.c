// The calls for device memory, pinned host memory and copies. Data flow: a program's pointers -> a
// route (a span where it is device memory, a plain pointer where it is the host's) -> the copy, at
// once or as a stream's task.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- device memory calls

static int32_t device_malloc(call *c, void **p, size_t size, int32_t policy) {
	if (!p) return call_leave(c, CODE(SUB_MEMORY, ID_NULL));
	lock();
	device *d = call_device(c);
	int32_t code = c->code;
	if (d) {
		int id = 0;
		block *b = NULL;
		if (size == 0 || policy < 0 || policy > 3)
			id = ID_ILLEGAL;
		else
			b = block_new(d, size, 0, false, &id);
		if (b) *p = c->made = (void *)(uintptr_t)b->base;
		code = b ? 0 : id == ID_NO_MEMORY ? card_full(SUB_MEMORY) : CODE(SUB_MEMORY, id);
	}
	unlock();
	return call_leave(c, code);
}

int32_t axclrtMalloc(void **p, size_t size, int32_t policy) {
	ENTER(axclrtMalloc, SUB_MEMORY, "size=%zu policy=%d", size, policy);
	return device_malloc(&c, p, size, policy);
}

int32_t axclrtMallocCached(void **p, size_t size, int32_t policy) {
	ENTER(axclrtMallocCached, SUB_MEMORY, "size=%zu policy=%d", size, policy);
	return device_malloc(&c, p, size, policy);
}

int32_t axclrtFree(void *p) {
	ENTER(axclrtFree, SUB_MEMORY, "p=%p", p);
	if (!p) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		block *b = block_find((uint64_t)(uintptr_t)p, d);
		code = !b ? E_NOT_DEVICE : b->base != (uint64_t)(uintptr_t)p ? CODE(SUB_MEMORY, ID_ILLEGAL) : 0;
		if (code == 0) block_drop(b);
	}
	unlock();
	return call_leave(&c, code);
}

// ---- pinned host memory

int32_t axclrtMallocHost(void **p, size_t size) {
	ENTER(axclrtMallocHost, SUB_MEMORY, "size=%zu", size);
	lock();
	int id = !p ? ID_NULL : size == 0 ? ID_ILLEGAL : host_new(p, size);
	if (!id) c.made = *p;
	unlock();
	return id ? FAIL(id) : call_leave(&c, 0);
}

int32_t axclrtFreeHost(void *p) {
	ENTER(axclrtFreeHost, SUB_MEMORY, "p=%p", p);
	if (!p) return call_leave(&c, 0); // as free does
	lock();
	int i = host_find(p);
	int id = i < 0 || sim.host_blocks[i].p != p ? ID_ILLEGAL : 0;
	if (!id) host_drop(i);
	unlock();
	return id ? FAIL(id) : call_leave(&c, 0);
}

// ---- copies

enum { H2H, H2D, D2H, D2D, PHYS2D, D2PHYS };

// What a copy touches: a span where it is device memory, a plain pointer where it is the host's.
typedef struct {
	span dst, src;
	uint8_t *hdst;
	const uint8_t *hsrc;
	int cost;
} route;

static bool host_ok(const void *p, size_t len, bool *is_pinned) {
	if (block_find((uint64_t)(uintptr_t)p, NULL)) return false; // a device pointer where the host's is said to be
	for (int i = 0; i < sim.ndev; i++)
		if ((uint64_t)(uintptr_t)p >= sim.dev[i].space && (uint64_t)(uintptr_t)p < sim.dev[i].space_end) return false;
	int i = host_find(p);
	*is_pinned = i >= 0;
	return i < 0 || !hazard(HZ_BOUNDS) || len <= sim.host_blocks[i].size - (size_t)((uintptr_t)p - (uintptr_t)sim.host_blocks[i].p);
}

static int32_t route_find(route *r, void *dst, const void *src, size_t len, int32_t kind, device *d) {
	bool pinned_dst = false, pinned_src = false;
	int32_t code;
	memset(r, 0, sizeof *r);
	if (kind < H2H || kind > D2PHYS) return CODE(SUB_MEMORY, ID_ILLEGAL);
	if (kind >= PHYS2D) return CODE(SUB_MEMORY, ID_UNSUPPORTED); // this host gives no physical addresses out
	bool to = kind == H2D || kind == D2D, from = kind == D2H || kind == D2D;
	if (to && (code = span_get(dst, len, d, &r->dst))) return code;
	if (from && (code = span_get(src, len, kind == D2D ? NULL : d, &r->src))) goto bad;
	code = CODE(SUB_MEMORY, ID_ILLEGAL);
	if (!to && !host_ok(dst, len, &pinned_dst)) goto bad;
	if (!from && !host_ok(src, len, &pinned_src)) goto bad;
	r->hdst = to ? NULL : dst;
	r->hsrc = from ? NULL : src;
	switch (kind) {
	case H2H:
		r->cost = COPY_H2H;
		break;
	case H2D:
		r->cost = pinned_src || !hazard(HZ_PAGEABLE) ? COPY_H2D_PINNED : COPY_H2D_PAGEABLE;
		break;
	case D2H:
		r->cost = pinned_dst || !hazard(HZ_PAGEABLE) ? COPY_D2H_PINNED : COPY_D2H_PAGEABLE;
		break;
	default:
		r->cost = COPY_D2D;
	}
	return 0;
bad:
	span_put(&r->dst);
	span_put(&r->src);
	return code;
}

static int32_t route_copy(route *r, size_t len, int wrong) {
	void *spare_dst = NULL, *spare_src = NULL;
	uint8_t *dst = r->hdst || !len ? r->hdst : span_open(&r->dst, 0, len, &spare_dst);
	const uint8_t *src = r->hsrc || !len ? r->hsrc : span_open(&r->src, 0, len, &spare_src);
	bool ok = !len || (dst && src);
	if (ok && len) {
		memmove(dst, src, len);
		if (wrong) dst[len / 2] ^= 0x55;
	}
	if (spare_dst) span_shut(&r->dst, 0, len, spare_dst, ok);
	free(spare_src);
	return ok ? 0 : CODE(SUB_MEMORY, ID_NO_MEMORY);
}

int32_t axclrtMemcpy(void *dst, const void *src, size_t count, int32_t kind) {
	ENTER(axclrtMemcpy, SUB_MEMORY, "dst=%p src=%p count=%zu kind=%d", dst, src, count, kind);
	if (!dst || !src) return FAIL(ID_NULL);
	route r;
	lock();
	device *d = call_device(&c);
	int32_t code = d ? route_find(&r, dst, src, count, kind, d) : c.code;
	if (code == 0) charge_copy(&c, d, r.cost, count);
	unlock();
	if (code) return call_leave(&c, code);
	code = route_copy(&r, count, c.wrong);
	lock();
	span_put(&r.dst);
	span_put(&r.src);
	unlock();
	return call_leave(&c, code);
}

static int32_t fill(const span *s, int value, size_t count) {
	void *spare = NULL;
	uint8_t *p = count ? span_open(s, 0, count, &spare) : NULL;
	if (p) memset(p, value, count);
	span_shut(s, 0, count, spare, true);
	return p || !count ? 0 : CODE(SUB_MEMORY, ID_NO_MEMORY);
}

int32_t axclrtMemset(void *p, uint8_t value, size_t count) {
	ENTER(axclrtMemset, SUB_MEMORY, "p=%p value=%u count=%zu", p, value, count);
	if (!p) return FAIL(ID_NULL);
	span s = {0};
	lock();
	device *d = call_device(&c);
	int32_t code = !d ? c.code : span_get(p, count, d, &s);
	if (code == 0) charge_copy(&c, d, COPY_SET, count);
	unlock();
	if (code) return call_leave(&c, code);
	code = fill(&s, c.wrong ? value ^ 0x55 : value, count);
	lock();
	span_put(&s);
	unlock();
	return call_leave(&c, code);
}

// Both sides of a comparison, or neither.
static int32_t two_spans(const void *a, const void *b, size_t count, device *d, span *sa, span *sb) {
	int32_t code = span_get(a, count, d, sa);
	if (code) return code;
	code = span_get(b, count, d, sb);
	if (code) span_put(sa);
	return code;
}

static int32_t compare(const span *a, const span *b, size_t count) {
	void *spare_a = NULL, *spare_b = NULL;
	if (!count) return 0;
	const uint8_t *x = span_open(a, 0, count, &spare_a), *y = span_open(b, 0, count, &spare_b);
	int32_t code = !x || !y ? CODE(SUB_MEMORY, ID_NO_MEMORY) : memcmp(x, y, count) ? CODE(SUB_MEMORY, ID_FAIL) : 0;
	free(spare_a);
	free(spare_b);
	return code;
}

int32_t axclrtMemcmp(const void *a, const void *b, size_t count) {
	ENTER(axclrtMemcmp, SUB_MEMORY, "a=%p b=%p count=%zu", a, b, count);
	if (!a || !b) return FAIL(ID_NULL);
	span sa = {0}, sb = {0};
	lock();
	device *d = call_device(&c);
	int32_t code = d ? two_spans(a, b, count, d, &sa, &sb) : c.code;
	if (code == 0) charge_copy(&c, d, COPY_COMPARE, count);
	unlock();
	if (code) return call_leave(&c, code);
	code = compare(&sa, &sb, count);
	lock();
	span_put(&sa);
	span_put(&sb);
	unlock();
	return call_leave(&c, code);
}

// ---- the same on a stream

static int32_t task_copy(task *t, stream *s) {
	(void)s;
	route r = {.dst = t->a, .src = t->b, .hdst = t->a.b ? NULL : t->host, .hsrc = t->b.b ? NULL : t->host2};
	return route_copy(&r, t->len, t->wrong);
}

static int32_t task_set(task *t, stream *s) {
	(void)s;
	return fill(&t->a, t->wrong ? t->value ^ 0x55 : t->value, t->len);
}

static int32_t task_compare(task *t, stream *s) {
	(void)s;
	return compare(&t->a, &t->b, t->len);
}

static void task_spans(task *t) {
	span_put(&t->a);
	span_put(&t->b);
}

static int32_t enqueue(call *c, stream *s, int kind, size_t len, const task *as) {
	task *t = task_new(c);
	if (!t) {
		span a = as->a, b = as->b;
		span_put(&a);
		span_put(&b);
		return CODE(SUB_MEMORY, ID_NO_MEMORY);
	}
	t->run = as->run;
	t->drop = task_spans;
	t->a = as->a;
	t->b = as->b;
	t->host = as->host;
	t->host2 = as->host2;
	t->value = as->value;
	t->len = len;
	stream_push(s, t, charge_stream_copy(c, s, s->o.dev, kind, len));
	return 0;
}

int32_t axclrtMemcpyAsync(void *dst, const void *src, size_t count, int32_t kind, axcl_handle h) {
	ENTER(axclrtMemcpyAsync, SUB_MEMORY, "dst=%p src=%p count=%zu kind=%d stream=%p", dst, src, count, kind, h);
	if (!dst || !src || !h) return FAIL(ID_NULL);
	lock();
	stream *s = call_stream(&c, h);
	route r;
	int32_t code = s ? route_find(&r, dst, src, count, kind, s->o.dev) : c.code;
	if (code == 0) {
		task t = {.run = task_copy, .a = r.dst, .b = r.src, .host = r.hdst, .host2 = r.hsrc};
		code = enqueue(&c, s, r.cost, count, &t);
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtMemsetAsync(void *p, uint8_t value, size_t count, axcl_handle h) {
	ENTER(axclrtMemsetAsync, SUB_MEMORY, "p=%p value=%u count=%zu stream=%p", p, value, count, h);
	if (!p || !h) return FAIL(ID_NULL);
	lock();
	stream *s = call_stream(&c, h);
	span a = {0};
	int32_t code = s ? span_get(p, count, s->o.dev, &a) : c.code;
	if (code == 0) {
		task t = {.run = task_set, .a = a, .value = value};
		code = enqueue(&c, s, COPY_SET, count, &t);
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtMemcmpAsync(const void *x, const void *y, size_t count, axcl_handle h) {
	ENTER(axclrtMemcmpAsync, SUB_MEMORY, "a=%p b=%p count=%zu stream=%p", x, y, count, h);
	if (!x || !y || !h) return FAIL(ID_NULL);
	lock();
	stream *s = call_stream(&c, h);
	span a = {0}, b = {0};
	int32_t code = s ? two_spans(x, y, count, s->o.dev, &a, &b) : c.code;
	if (code == 0) {
		task t = {.run = task_compare, .a = a, .b = b};
		code = enqueue(&c, s, COPY_COMPARE, count, &t);
	}
	unlock();
	return call_leave(&c, code);
}

// ---- caches: the card's memory calls keep them in step by themselves, so only the arguments are looked at

static int32_t maintain(call *c, const void *p, size_t size) {
	if (!p) return call_leave(c, CODE(SUB_MEMORY, ID_NULL));
	span s = {0};
	lock();
	device *d = call_device(c);
	int32_t code = !d ? c->code : size == 0 ? CODE(SUB_MEMORY, ID_ILLEGAL) : span_get(p, size, d, &s);
	if (code == 0) span_put(&s);
	unlock();
	return call_leave(c, code);
}

int32_t axclrtMemFlush(void *p, size_t size) {
	ENTER(axclrtMemFlush, SUB_MEMORY, "p=%p size=%zu", p, size);
	return maintain(&c, p, size);
}

int32_t axclrtMemInvalidate(void *p, size_t size) {
	ENTER(axclrtMemInvalidate, SUB_MEMORY, "p=%p size=%zu", p, size);
	return maintain(&c, p, size);
}
