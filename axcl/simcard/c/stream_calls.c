// The calls for streams and events. Data flow: a handle -> the stream or event -> a task in the
// stream's queue, or a wait for what is queued.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int32_t axclrtCreateStream(axcl_handle *out) {
	ENTER(axclrtCreateStream, SUB_STREAM, " ");
	if (!out) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		stream *s = stream_new(d);
		code = s ? 0 : CODE(SUB_STREAM, 0x81);
		if (s) *out = s->o.handle;
	}
	unlock();
	return call_leave(&c, code);
}

// A context's own stream is made when somebody asks for it.
int32_t axclrtGetDefaultStream(axcl_handle ctx, axcl_handle *out) {
	ENTER(axclrtGetDefaultStream, SUB_STREAM, "ctx=%p", ctx);
	if (!ctx || !out) return FAIL(ID_NULL);
	lock();
	device *d = NULL;
	void **own = context_stream(ctx, &d);
	int32_t code = own ? 0 : CODE(SUB_STREAM, ID_ILLEGAL);
	if (own && !*own) {
		stream *s = stream_new(d);
		if (s) {
			s->own = true;
			*own = s->o.handle;
		} else {
			code = CODE(SUB_STREAM, 0x81);
		}
	}
	if (!code) *out = *own;
	unlock();
	return call_leave(&c, code);
}

static int32_t destroy(call *c, axcl_handle h, bool force) {
	if (!h) return call_leave(c, CODE(SUB_STREAM, ID_NULL));
	lock();
	stream *s = call_stream(c, h);
	int32_t code = s && s->own ? CODE(SUB_STREAM, ID_ILLEGAL) : c->code;
	if (s && !s->own) stream_destroy(s, force);
	unlock();
	return call_leave(c, code);
}

int32_t axclrtDestroyStream(axcl_handle h) {
	ENTER(axclrtDestroyStream, SUB_STREAM, "stream=%p", h);
	return destroy(&c, h, false);
}

int32_t axclrtDestroyStreamForce(axcl_handle h) {
	ENTER(axclrtDestroyStreamForce, SUB_STREAM, "stream=%p", h);
	return destroy(&c, h, true);
}

static int32_t synchronize(call *c, axcl_handle h, int32_t ms) {
	if (!h) return call_leave(c, CODE(SUB_STREAM, ID_NULL));
	lock();
	stream *s = call_stream(c, h);
	int32_t code = s && ms < -1 ? CODE(SUB_STREAM, ID_ILLEGAL) : c->code;
	if (!code) {
		obj_ref(&s->o);
		code = stream_sync(c, s, ms);
		obj_unref(&s->o);
	}
	unlock();
	return call_leave(c, code);
}

int32_t axclrtSynchronizeStream(axcl_handle h) {
	ENTER(axclrtSynchronizeStream, SUB_STREAM, "stream=%p", h);
	return synchronize(&c, h, -1);
}

int32_t axclrtSynchronizeStreamWithTimeout(axcl_handle h, int32_t ms) {
	ENTER(axclrtSynchronizeStreamWithTimeout, SUB_STREAM, "stream=%p ms=%d", h, ms);
	return synchronize(&c, h, ms);
}

int32_t axclrtSynchronizeDevice(void) {
	ENTER(axclrtSynchronizeDevice, SUB_DEVICE, " ");
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	for (int i = 0; d && i < sim.nstreams; i++) {
		stream *s = sim.streams[i];
		if (s->o.dev != d || s->done == s->queued) continue;
		obj_ref(&s->o);
		int32_t one = stream_sync(&c, s, -1);
		obj_unref(&s->o);
		if (one && !code) code = one;
		i = -1; // the list may have changed while we waited
	}
	for (int i = 0; d && i < sim.nstreams; i++) { // what ended before
		stream *s = sim.streams[i];
		if (s->o.dev != d) continue;
		if (sim.cfg.clock != CLOCK_OFF && s->t > c.end) c.end = s->t;
		if (s->error && !code) code = s->error;
		s->error = 0;
	}
	unlock();
	return call_leave(&c, code);
}

// ---- events

int32_t axclrtCreateEvent(axcl_handle *out) {
	ENTER(axclrtCreateEvent, SUB_STREAM, " ");
	if (!out) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		event *e = calloc(1, sizeof *e);
		code = CODE(SUB_STREAM, 0x81);
		if (e && handle_new(&e->o, K_EVENT, d)) {
			*out = e->o.handle;
			code = 0;
		} else {
			free(e);
		}
	}
	unlock();
	return call_leave(&c, code);
}

static event *find_event(axcl_handle h, int32_t *code) {
	event *e = handle_get(h, K_EVENT);
	*code = e ? 0 : CODE(SUB_STREAM, ID_ILLEGAL);
	return e;
}

int32_t axclrtDestroyEvent(axcl_handle h) {
	ENTER(axclrtDestroyEvent, SUB_STREAM, "event=%p", h);
	if (!h) return FAIL(ID_NULL);
	lock();
	int32_t code;
	if (call_device(&c)) {
		event *e = find_event(h, &code);
		if (e) {
			handle_drop(&e->o);
			pthread_cond_broadcast(&sim.changed); // a caller that waits for it waits no longer
		}
	} else {
		code = c.code;
	}
	unlock();
	return call_leave(&c, code);
}

static void drop_event(task *t) { obj_unref(&t->ev->o); }

static int32_t task_record(task *t, stream *s) {
	(void)s;
	lock();
	if (t->ev->fired < t->gen) t->ev->fired = t->gen;
	pthread_cond_broadcast(&sim.changed);
	unlock();
	return 0;
}

static void skip_record(task *t) {
	t->ev->skipped = true;
	pthread_cond_broadcast(&sim.changed);
}

static int32_t task_wait(task *t, stream *s) {
	struct timespec ts;
	bool limited = deadline(t->wait_ns, &ts);
	int32_t code = 0;
	lock();
	while (t->ev->fired < t->gen && !code) {
		if (t->ev->skipped && !limited && !s->hung) {
			s->hung = true;
			pthread_cond_broadcast(&s->idle);
		}
		if (t->ev->o.dead || s->stop || s->o.dev->lost)
			code = E_WAIT;
		else if (!wait_until(&sim.changed, limited ? &ts : NULL) && t->ev->fired < t->gen)
			code = E_WAIT;
	}
	s->hung = false;
	unlock();
	return code;
}

int32_t axclrtRecordEvent(axcl_handle he, axcl_handle hs) {
	ENTER(axclrtRecordEvent, SUB_STREAM, "event=%p stream=%p", he, hs);
	if (!he || !hs) return FAIL(ID_NULL);
	lock();
	stream *s = call_stream(&c, hs);
	int32_t code = c.code;
	event *e = s ? find_event(he, &code) : NULL;
	if (!code) {
		task *t = task_new(&c);
		code = t ? 0 : CODE(SUB_STREAM, ID_NO_MEMORY);
		if (t) {
			t->run = task_record;
			t->drop = drop_event;
			t->skip = skip_record;
			t->ev = e;
			if (s->t < c.end) s->t = c.end;
			if (!e->recorded || !hazard(HZ_LATCH)) { // set once, it stays so: who records it again changes nothing
				e->recorded++;
				e->t = s->t;
			}
			t->gen = e->recorded;
			obj_ref(&e->o);
			stream_push(s, t, s->t);
		}
	}
	unlock();
	return call_leave(&c, code);
}

static int32_t wait_event(call *c, axcl_handle hs, axcl_handle he, int32_t ms) {
	if (!hs || !he) return call_leave(c, CODE(SUB_STREAM, ID_NULL));
	lock();
	stream *s = call_stream(c, hs);
	int32_t code = c->code;
	event *e = s ? find_event(he, &code) : NULL;
	if (!code && ms < -1) code = CODE(SUB_STREAM, ID_ILLEGAL);
	if (!code) {
		task *t = task_new(c);
		code = t ? 0 : CODE(SUB_STREAM, ID_NO_MEMORY);
		if (t) {
			t->run = task_wait;
			t->drop = drop_event;
			t->ev = e;
			t->gen = e->recorded ? e->recorded : 1; // never recorded: the first record to come
			t->wait_ns = ms < 0 ? -1 : (int64_t)ms * 1000000;
			obj_ref(&e->o);
			if (e->t > s->t) s->t = e->t;
			stream_push(s, t, s->t);
		}
	}
	unlock();
	return call_leave(c, code);
}

int32_t axclrtStreamWaitEvent(axcl_handle s, axcl_handle e) {
	ENTER(axclrtStreamWaitEvent, SUB_STREAM, "stream=%p event=%p", s, e);
	return wait_event(&c, s, e, -1);
}

int32_t axclrtStreamWaitEventWithTimeout(axcl_handle s, axcl_handle e, int32_t ms) {
	ENTER(axclrtStreamWaitEventWithTimeout, SUB_STREAM, "stream=%p event=%p ms=%d", s, e, ms);
	return wait_event(&c, s, e, ms);
}
