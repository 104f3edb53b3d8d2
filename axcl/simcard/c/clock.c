// Time. Three kinds: off (work takes as long as it takes), real (every call and task lasts at least
// as long as modelled, by sleeping precisely), virtual (nothing sleeps; a host clock and one clock
// a stream, for the NPU and for the link add up, a synchronisation joins them). The same sums serve
// real and virtual, so they agree.
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <time.h>

enum { SPIN = 60000 }; // the last part of a sleep is spun: the scheduler's grain is coarser than the costs we model

uint64_t real_ns(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now(void) { return sim.cfg.clock == CLOCK_VIRTUAL ? sim.host : real_ns() - sim.epoch; }

void clock_sleep_until(uint64_t t) {
	lock();
	bool sleep = sim.cfg.clock == CLOCK_REAL;
	t += sim.epoch;
	unlock();
	if (!sleep) return;
	uint64_t now = real_ns();
	if (now + SPIN < t) {
		struct timespec ts = {(time_t)((t - SPIN) / 1000000000u), (long)((t - SPIN) % 1000000000u)};
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) continue;
	}
	while (real_ns() < t) continue;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

void charge_host(call *c, uint64_t ns) {
	if (sim.cfg.clock != CLOCK_OFF) c->end += ns;
}

static bool crosses(int kind) { return kind <= COPY_D2H_PAGEABLE; }

void charge_copy(call *c, device *d, int kind, uint64_t bytes) {
	if (crosses(kind)) sim.crossings++;
	if (sim.cfg.clock == CLOCK_OFF) return;
	uint64_t start = crosses(kind) ? later(c->end, d->link_free) : c->end;
	c->end = start + profile_copy(&sim.cfg.prof, kind, bytes);
	if (crosses(kind)) d->link_free = c->end;
}

void charge_npu(call *c, device *d, uint64_t ns) {
	if (sim.cfg.clock == CLOCK_OFF) return;
	c->end = later(c->end, d->npu_free) + ns;
	d->npu_free = c->end;
	d->busy += ns;
	sim.busy += ns;
}

uint64_t charge_stream_copy(call *c, stream *s, device *d, int kind, uint64_t bytes) {
	if (crosses(kind)) sim.crossings++;
	if (sim.cfg.clock == CLOCK_OFF) return 0;
	c->end += sim.cfg.prof.enqueue;
	uint64_t start = later(c->end, s->t);
	if (crosses(kind)) start = later(start, d->link_free);
	s->t = start + profile_copy(&sim.cfg.prof, kind, bytes) + c->slow;
	if (crosses(kind)) d->link_free = s->t;
	return s->t;
}

uint64_t charge_stream_npu(call *c, stream *s, device *d, uint64_t ns) {
	if (sim.cfg.clock == CLOCK_OFF) return 0;
	c->end += sim.cfg.prof.enqueue;
	s->t = later(later(c->end, s->t), d->npu_free) + ns;
	d->npu_free = s->t;
	d->busy += ns;
	sim.busy += ns;
	return s->t;
}

void hang_here(void) {
	uint64_t epoch = sim.hang_epoch;
	sim.hanging++;
	while (sim.hang_epoch == epoch) pthread_cond_wait(&sim.changed, &sim.lock);
	sim.hanging--;
	pthread_cond_broadcast(&sim.changed);
}

void hang_release(void) {
	do { // one that is let go may hang in its next call before we see that it went
		sim.hang_epoch++;
		pthread_cond_broadcast(&sim.changed);
		if (sim.hanging) pthread_cond_wait(&sim.changed, &sim.lock);
	} while (sim.hanging);
}
