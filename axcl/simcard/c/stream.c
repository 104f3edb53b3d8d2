// Streams. Data flow: a call makes a task (what to run, what it holds, when it ends by the model)
// -> the stream's queue -> the stream's own thread runs tasks in order -> a synchronisation waits
// for what was queued when it began and gives the first error.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

task *task_new(call *c) {
	task *t = calloc(1, sizeof *t);
	if (!t) return NULL;
	t->hang = c->hang;
	t->wrong = c->wrong;
	t->late = c->late;
	t->slow = sim.cfg.clock == CLOCK_OFF ? c->slow : 0;
	t->wait_ns = -1;
	return t;
}

void stream_push(stream *s, task *t, uint64_t end) {
	t->end = end;
	*s->tail = t;
	s->tail = &t->next;
	s->queued++;
	if (!hazard(HZ_LAZY)) s->allowed = s->queued;
	pthread_cond_signal(&s->wake);
}

void stream_start_all(device *d) {
	if (!hazard(HZ_LAZY)) return;
	for (int i = 0; i < sim.nstreams; i++) {
		stream *s = sim.streams[i];
		if (s->o.dev != d) continue;
		s->allowed = s->queued;
		pthread_cond_signal(&s->wake);
	}
}

bool deadline(int64_t ns, struct timespec *ts) {
	if (ns < 0) return false;
	uint64_t t = real_ns() + (uint64_t)ns;
	*ts = (struct timespec){(time_t)(t / 1000000000u), (long)(t % 1000000000u)};
	return true;
}

bool wait_until(pthread_cond_t *cond, const struct timespec *ts) {
	if (!ts) return pthread_cond_wait(cond, &sim.lock) == 0;
	return pthread_cond_timedwait(cond, &sim.lock, ts) == 0;
}

static void hang_task(stream *s) {
	uint64_t epoch = sim.hang_epoch;
	s->hung = true;
	pthread_cond_broadcast(&s->idle);
	while (!s->stop && sim.hang_epoch == epoch) pthread_cond_wait(&sim.changed, &sim.lock);
	s->hung = false;
}

static void lose(uint64_t ns) {
	struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	nanosleep(&ts, NULL);
}

// What the synchronisation gives of a task that failed on the card: what the card's own function
// returned, which no scheme explains.
static int32_t told(int32_t code) {
	bool cards = (code & ~0xff) == CODE(SUB_MEMORY, 0) || (code & ~0xff) == CODE(SUB_ENGINE, 0);
	return cards && hazard(HZ_RAWCODE) ? -1 : code;
}

static void *stream_main(void *arg) {
	stream *s = arg;
	lock();
	for (;;) {
		while (!s->stop && s->done >= s->allowed) pthread_cond_wait(&s->wake, &sim.lock);
		if (s->stop) break;
		task *t = s->head;
		s->head = t->next;
		if (!s->head) s->tail = &s->head;
		while (sim.telling && !s->stop) pthread_cond_wait(&sim.changed, &sim.lock);
		int32_t code = t->late;
		if (t->hang || hazard(HZ_OFFLINE)) {
			if (t->exec) state_busy(1);
			hang_task(s);
			if (t->exec) state_busy(-1);
			code = CODE(SUB_STREAM, ID_TIMEOUT);
		} else if (s->o.dev->lost) {
			code = E_NO_CONNECTION;
		} else if ((t->host || t->host2) && __atomic_load_n(&sim.interrupted, __ATOMIC_SEQ_CST)) {
			code = CODE(SUB_MEMORY, ID_FAIL);
		} else if (s->error && hazard(HZ_RAWCODE)) {
			code = 0;
			if (t->skip) t->skip(t);
		} else if (!code) {
			unlock();
			if (t->slow) lose(t->slow);
			code = t->run(t, s);
			clock_sleep_until(t->end);
			lock();
		}
		if (code && !s->error) s->error = told(code);
		if (t->drop) t->drop(t);
		free(t);
		s->done++;
		pthread_cond_broadcast(&s->idle);
	}
	while (s->head) {
		task *t = s->head;
		s->head = t->next;
		if (t->drop) t->drop(t);
		free(t);
	}
	s->done = s->queued;
	pthread_cond_broadcast(&s->idle);
	unlock();
	return NULL;
}

static void cond_monotonic(pthread_cond_t *c) {
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

__attribute__((constructor)) static void conditions(void) { cond_monotonic(&sim.changed); }

int32_t stream_sync(call *c, stream *s, int32_t ms) {
	uint64_t target = s->queued;
	stream_start_all(s->o.dev);
	struct timespec ts;
	bool limited = deadline(ms < 0 ? -1 : (int64_t)ms * 1000000, &ts);
	bool virtual = sim.cfg.clock == CLOCK_VIRTUAL;
	while (s->done < target) {
		if (limited && virtual && s->hung) { // nothing will come: do not wait for it in real time
			c->end += (uint64_t)ms * 1000000;
			return E_SYNC_TIMEOUT;
		}
		if (!wait_until(&s->idle, limited && !virtual ? &ts : NULL) && s->done < target) return E_SYNC_TIMEOUT;
	}
	if (sim.cfg.clock != CLOCK_OFF && s->t > c->end) {
		if (virtual && ms >= 0 && s->t - c->end > (uint64_t)ms * 1000000) {
			c->end += (uint64_t)ms * 1000000;
			return E_SYNC_TIMEOUT;
		}
		c->end = s->t;
	}
	int32_t code = s->error;
	s->error = 0;
	return code;
}

static void forget(stream *s) {
	for (int i = 0; i < sim.nstreams; i++)
		if (sim.streams[i] == s) sim.streams[i] = sim.streams[--sim.nstreams];
}

void stream_destroy(stream *s, bool force) {
	obj_ref(&s->o);
	handle_drop(&s->o); // nothing else finds it now
	if (!force) {
		stream_start_all(s->o.dev);
		s->allowed = s->queued;
		pthread_cond_signal(&s->wake);
		while (s->done < s->queued && !s->stop) pthread_cond_wait(&s->idle, &sim.lock);
	}
	s->stop = true;
	pthread_cond_broadcast(&s->wake);
	pthread_cond_broadcast(&sim.changed);
	unlock();
	pthread_join(s->thread, NULL);
	lock();
	forget(s);
	pthread_cond_broadcast(&sim.changed);
	obj_unref(&s->o);
}

void streams_end(device *d) {
	for (int i = 0; i < sim.nstreams; i++) {
		stream *s = sim.streams[i];
		if (s->o.dev != d) continue;
		if (!s->o.dead) {
			sim.left.streams += !s->own;
			stream_destroy(s, true);
		} else { // another thread is at it, and may wait for work that never ends
			s->stop = true;
			pthread_cond_broadcast(&s->wake);
			pthread_cond_broadcast(&sim.changed);
			pthread_cond_wait(&sim.changed, &sim.lock);
		}
		i = -1; // the list has changed
	}
}

stream *stream_new(device *d) {
	if (sim.nstreams == MAX_STREAMS) return NULL;
	stream *s = calloc(1, sizeof *s);
	if (!s) return NULL;
	if (!handle_new(&s->o, K_STREAM, d)) {
		free(s);
		return NULL;
	}
	cond_monotonic(&s->wake);
	cond_monotonic(&s->idle);
	s->tail = &s->head;
	s->t = clock_now();
	if (pthread_create(&s->thread, NULL, stream_main, s)) {
		handle_drop(&s->o);
		return NULL;
	}
	pthread_setname_np(s->thread, "axcl-stream");
	sim.streams[sim.nstreams++] = s;
	return s;
}
