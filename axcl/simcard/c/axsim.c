// What tests ask of the card: options, counts, clock, and a way back to the beginning.
#include "sim.h"

#include <string.h>

sim_state sim = {.lock = PTHREAD_MUTEX_INITIALIZER};

int32_t axsim_configure(const char *text) {
	lock();
	bool ok = config_override(text);
	config fresh;
	if (ok && config_load(&fresh)) {
		// What the running card stands on stays: its devices and the memory that is taken.
		if (sim.inits) {
			fresh.ndevices = sim.cfg.ndevices;
			memcpy(fresh.bus, sim.cfg.bus, sizeof fresh.bus);
		}
		if (fresh.clock == CLOCK_VIRTUAL && sim.cfg.clock != CLOCK_VIRTUAL) sim.host = 0;
		sim.cfg = fresh;
		sim.bad_config = false;
	} else {
		ok = false;
		config_override(NULL);
	}
	if (!sim.configured) {
		sim.epoch = real_ns();
		sim.level = LOG_INFO;
	}
	sim.configured = true;
	if (sim.inits) trace_open();
	unlock();
	return ok ? 0 : CODE(SUB_CONFIG, ID_ILLEGAL);
}

int32_t axsim_reset(void) {
	lock();
	hang_release();
	if (sim.inits) sim_stop();
	host_release_all();
	config_override(NULL);
	memset(&sim.left, 0, sizeof sim.left);
	sim_reload();
	unlock();
	return 0;
}

int32_t axsim_live(axsim_counts *counts) {
	lock();
	if (counts) count_live(counts);
	unlock();
	return counts ? 0 : CODE(SUB_CONFIG, ID_NULL);
}

int32_t axsim_left(axsim_counts *counts) {
	lock();
	if (counts) *counts = sim.left;
	unlock();
	return counts ? 0 : CODE(SUB_CONFIG, ID_NULL);
}

uint64_t axsim_clock_ns(void) {
	lock();
	uint64_t t = clock_now();
	unlock();
	return t;
}

uint64_t axsim_host_ns(uint64_t bytes, uint64_t products) {
	lock();
	uint64_t ns = profile_host(&sim.cfg.prof, bytes, products);
	unlock();
	return ns;
}

void axsim_until(uint64_t ns) {
	lock();
	if (sim.cfg.clock == CLOCK_VIRTUAL && sim.host < ns) sim.host = ns;
	unlock();
}

uint64_t axsim_busy_ns(void) {
	lock();
	uint64_t t = sim.busy;
	unlock();
	return t;
}

uint64_t axsim_calls(const char *name) {
	lock();
	uint64_t n = name ? 0 : sim.total;
	for (int i = 0; name && i < CALLS; i++)
		if (!strcmp(name, call_names[i]) || !strcmp(name, call_bare[i])) n += sim.calls[i];
	unlock();
	return n;
}

uint64_t axsim_crossings(void) {
	lock();
	uint64_t n = sim.crossings;
	unlock();
	return n;
}
