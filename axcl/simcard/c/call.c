// What happens at the start and the end of every call, and the fault plan. Data flow: a call's
// number -> counters -> the first matching line of the plan -> a verdict in `call` -> after the
// work: modelled time -> trace.
#define _GNU_SOURCE
#include "sim.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

const char *const call_names[CALLS] = {
#define X(name, bare, flags) #name,
#include "calls.def"
#undef X
};
const char *const call_bare[CALLS] = {
#define X(name, bare, flags) #bare,
#include "calls.def"
#undef X
};
static const uint8_t call_flags[CALLS] = {
#define X(name, bare, flags) flags,
#include "calls.def"
#undef X
};

// Real time at which this thread last left the library: what passes until it comes back is the
// host's own work.
static _Thread_local uint64_t left_at;

static bool is_async_of(int sync, int id) {
	size_t n = strlen(call_bare[sync]);
	return !strncmp(call_bare[id], call_bare[sync], n) && !strcmp(call_bare[id] + n, "Async");
}

static bool is_run(int id) { return id == CALL_AX_ENGINE_RunSync || id == CALL_AX_ENGINE_RunSyncV2 || id == CALL_AX_ENGINE_RunGroupIOSync; }

// Round trips to the driver, rule 9.
static bool is_query(int id) {
	return id == CALL_axclrtGetDeviceList || id == CALL_axclrtGetDeviceCount || id == CALL_axclrtGetDeviceProperties;
}

// What the library's log has at the level info.
static bool is_life(int id) {
	return id == CALL_axclInit || id == CALL_axclrtSetDevice || id == CALL_axclrtResetDevice || id == CALL_axclrtEngineLoadFromFile ||
		id == CALL_axclrtEngineUnload;
}

static bool matches(const fault *f, int id) {
	if (f->call == CALLS || f->call == id) return true;
	return f->both && (is_async_of(f->call, id) || (f->call == CALL_axclrtEngineExecute && is_run(id)));
}

static const fault *plan(int id) {
	const fault *hit = NULL;
	for (int i = 0; i < sim.cfg.nfaults; i++) {
		fault *f = &sim.cfg.faults[i];
		if (!matches(f, id)) continue;
		int64_t n = f->seen++;
		if (!hit && (f->index < 0 || n == f->index || (f->sticky && n > f->index))) hit = f;
	}
	return hit;
}

static void apply(call *c, const fault *f) {
	bool async = call_flags[c->id] & A, release = call_flags[c->id] & R;
	state_fault();
	switch (f->action) {
	case F_CODE:
		if (f->late && async) {
			c->late = f->code;
			return;
		}
		c->code = f->code;
		if (release)
			c->fail_after = true;
		else
			c->stop = true;
		return;
	case F_HANG:
		c->hang = true;
		return;
	case F_LOST:
		devices_lose(device_current());
		c->code = E_NO_CONNECTION;
		if (release)
			c->fail_after = true;
		else
			c->stop = true;
		return;
	case F_WRONG:
		c->wrong = f->damage;
		return;
	case F_SLOW:
		c->slow = f->ns;
		return;
	}
}

void call_enter(call *c, int id, int sub, const char *fmt, ...) {
	memset(c, 0, sizeof *c);
	c->id = id;
	c->sub = sub;
	uint64_t now = real_ns();
	lock();
	if (!sim.configured || (!sim.inits && (id == CALL_axclInit || id == CALL_AX_SYS_Init))) sim_reload();
	if (left_at && sim.inits) sim.outside += now - left_at;
	sim.calls[id]++;
	c->number = ++sim.total;
	c->start = c->end = clock_now();
	if (sim.cfg.clock != CLOCK_OFF && (hazard(HZ_ROUNDTRIP) || !is_query(id))) c->end += sim.cfg.prof.call[id];
	if (sim.trace) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(c->args, sizeof c->args, fmt, ap);
		va_end(ap);
	}
	if (sim.inits && sim.cfg.nheat && temperature_now() >= 120) devices_lose(NULL); // the card resets itself
	const fault *f = plan(id);
	if (f) apply(c, f);
	bool off = sim.cfg.clock == CLOCK_OFF, async = call_flags[id] & A;
	if (c->hang && !async) { // in the section that counted it: a test that sees the count can end the hang
		hang_here();
		c->stop = true;
		c->code = CODE(SUB_DEVICE, ID_TIMEOUT);
	}
	unlock();
	if (c->slow && !async) { // an asynchronous call's slowness is its task's
		if (off) {
			struct timespec ts = {(time_t)(c->slow / 1000000000u), (long)(c->slow % 1000000000u)};
			nanosleep(&ts, NULL);
		} else {
			c->end += c->slow;
		}
	}
}

int32_t call_leave(call *c, int32_t code) {
	if (c->fail_after) code = c->code;
	clock_sleep_until(c->end);
	lock();
	if (sim.cfg.clock == CLOCK_VIRTUAL && c->end > sim.host) sim.host = c->end;
	uint64_t spent = c->end > c->start ? c->end - c->start : 0;
	sim.spent[c->id] += spent;
	sim.inside += spent;
	if (sim.trace) trace_line(c, code);
	noise(code ? LOG_ERROR : is_life(c->id) ? LOG_INFO : LOG_TRACE, "[%s] 0x%08x", call_names[c->id], (uint32_t)code);
	unlock();
	left_at = real_ns();
	return code;
}

bool call_releases(int id) { return call_flags[id] & R; }

static device *reach(call *c, device *d) {
	if (!d->lost && !hazard(HZ_OFFLINE)) return d;
	c->code = d->lost ? E_NO_CONNECTION : E_OFFLINE;
	if (!call_releases(c->id)) return NULL;
	c->fail_after = true; // what is given back on a card that is gone is gone too
	return d;
}

device *call_device(call *c) {
	context *x = context_current ? handle_get(context_current, K_CONTEXT) : NULL;
	if (!x) {
		c->code = E_NO_CONTEXT;
		c->fail_after = false;
		return NULL;
	}
	return reach(c, x->o.dev);
}

stream *call_stream(call *c, const void *handle) {
	stream *s = handle_get(handle, K_STREAM);
	if (!s) {
		c->code = CODE(c->sub, ID_ILLEGAL);
		c->fail_after = false;
		return NULL;
	}
	return reach(c, s->o.dev) ? s : NULL;
}
