// The process's life, devices and contexts. Data flow: axclInit reads the options and brings the
// cards up -> SetDevice makes one active and gives the thread its default context -> every device
// call finds its card through the thread's context -> Reset and Finalize clear up.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// ---- process

int32_t axclInit(const char *config) {
	int level = log_level(config);
	int32_t code = 0;
	call c;
	call_enter(&c, CALL_axclInit, SUB_DEVICE, "config=%.80s", config ? config : "NULL");
	lock();
	sim.level = level;
	if (c.stop)
		code = c.code;
	else if (sim.bad_config)
		code = CODE(SUB_CONFIG, ID_ILLEGAL);
	if (!code && !sim.inits) {
		if (!sim.cfg.driver)
			code = CODE(SUB_DEVICE, ID_OPEN);
		else if (!sim_start())
			code = CODE(SUB_DEVICE, ID_NO_MEMORY);
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclFinalize(void) {
	ENTER(axclFinalize, SUB_DEVICE, " ");
	lock();
	if (sim.inits) sim_stop();
	unlock();
	return call_leave(&c, 0);
}

int32_t axclSetLogLevel(int32_t level) {
	ENTER(axclSetLogLevel, SUB_LOG, "level=%d", level);
	if (level < LOG_TRACE || level > LOG_OFF) return FAIL(ID_ILLEGAL);
	lock();
	sim.level = level;
	unlock();
	return call_leave(&c, 0);
}

void axclAppLog(int32_t level, const char *func, const char *file, uint32_t line, const char *fmt, ...) {
	char text[1024] = "";
	call c;
	call_enter(&c, CALL_axclAppLog, SUB_LOG, "level=%d func=%s", level, func ? func : "NULL");
	if (fmt && !c.stop) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(text, sizeof text, fmt, ap);
		va_end(ap);
	}
	lock();
	if (!c.stop && level >= LOG_TRACE && level < LOG_OFF)
		noise(level, "[APP][%s][%s][%u]: %s", func ? func : "", file ? file : "", line, text);
	unlock();
	call_leave(&c, c.code);
}

// What a card has to tell is one line here.
int32_t axclrtLog(uint32_t kind, uint32_t flag, const char *folder) {
	ENTER(axclrtLog, SUB_LOG, "kind=%x flag=%x folder=%s", kind, flag, folder ? folder : "NULL");
	char path[512];
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		int n = snprintf(path, sizeof path, "%s/axsim_device_%d.log", folder ? folder : ".", d->id);
		FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "we") : NULL;
		code = f ? 0 : CODE(SUB_LOG, ID_OPEN);
		if (f) {
			fprintf(f, "simulated card %d: %llu calls, %llu bytes of device memory in use\n", d->id, (unsigned long long)sim.total,
				(unsigned long long)d->cmm_used);
			fclose(f);
		}
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch) {
	ENTER(axclrtGetVersion, SUB_DEVICE, " ");
	if (!major || !minor || !patch) return FAIL(ID_NULL);
	lock();
	*major = sim.cfg.version[0];
	*minor = sim.cfg.version[1];
	*patch = sim.cfg.version[2];
	unlock();
	return call_leave(&c, 0);
}

// The texts are written anew only when they change, so that a pointer given out stays good.
const char *axclrtGetFullVersion(void) {
	static char text[64];
	call c;
	call_enter(&c, CALL_axclrtGetFullVersion, SUB_DEVICE, " ");
	char now[64];
	lock();
	snprintf(now, sizeof now, "V%d.%d.%d axsim", sim.cfg.version[0], sim.cfg.version[1], sim.cfg.version[2]);
	if (strcmp(now, text)) memcpy(text, now, sizeof text);
	unlock();
	call_leave(&c, c.code);
	return c.stop ? NULL : text;
}

const char *axclrtGetSocName(void) {
	static char text[64];
	call c;
	call_enter(&c, CALL_axclrtGetSocName, SUB_DEVICE, " ");
	lock();
	if (strcmp(sim.cfg.soc, text)) memcpy(text, sim.cfg.soc, sizeof text);
	unlock();
	call_leave(&c, c.code);
	return c.stop ? NULL : text;
}

// ---- devices

int32_t axclrtGetDeviceList(axcl_device_list *list) {
	ENTER(axclrtGetDeviceList, SUB_DEVICE, " ");
	if (!list) return FAIL(ID_NULL);
	memset(list, 0, sizeof *list);
	lock();
	for (int i = 0; sim.inits && i < sim.ndev; i++)
		if (!sim.dev[i].lost && !sim.dev[i].wedged) list->devices[list->num++] = sim.dev[i].id;
	unlock();
	return call_leave(&c, 0);
}

int32_t axclrtGetDeviceCount(uint32_t *count) {
	ENTER(axclrtGetDeviceCount, SUB_DEVICE, " ");
	if (!count) return FAIL(ID_NULL);
	*count = 0;
	lock();
	for (int i = 0; sim.inits && i < sim.ndev; i++) *count += !sim.dev[i].lost && !sim.dev[i].wedged;
	unlock();
	return call_leave(&c, 0);
}

int32_t axclrtSetDevice(int32_t id) {
	ENTER(axclrtSetDevice, SUB_DEVICE, "id=%d", id);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : d->lost || d->wedged ? E_NO_CONNECTION : hazard(HZ_OFFLINE) ? E_OFFLINE : 0;
	if (!code && !state_take(d)) code = CODE(SUB_DEVICE, ID_BUSY);
	if (!code && !d->context) {
		context *x = context_new(d);
		if (x)
			d->context = x->o.handle;
		else
			code = CODE(SUB_DEVICE, ID_NO_MEMORY);
	}
	if (!code) {
		d->uses++;
		if (device_current() != d) context_current = d->context; // a thread that has a context of the card keeps it
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtGetDevice(int32_t *id) {
	ENTER(axclrtGetDevice, SUB_DEVICE, " ");
	if (!id) return FAIL(ID_NULL);
	lock();
	device *d = device_current();
	int32_t code = !d ? E_NO_DEVICE : d->lost ? E_NO_CONNECTION : 0;
	if (!code) *id = d->id;
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtResetDevice(int32_t id) {
	ENTER(axclrtResetDevice, SUB_DEVICE, "id=%d", id);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : !d->uses ? E_NOT_ACTIVE : d->lost ? E_NO_CONNECTION : 0;
	if (d && d->uses && !--d->uses) device_release(d); // the last of those that set it
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtRebootDevice(int32_t id) {
	ENTER(axclrtRebootDevice, SUB_DEVICE, "id=%d", id);
	lock();
	device *d = device_find(id);
	if (d) {
		device_release(d);
		d->lost = d->wedged = false;
	}
	unlock();
	return call_leave(&c, d ? 0 : E_DEVICE_ID);
}

// The card runs commands on its own Linux to tell its state, and hears nothing of this process
// meanwhile.
static void deaf(call *c, device *d) {
	const struct timespec long_time = {0, 150000000};
	while (sim.telling) pthread_cond_wait(&sim.changed, &sim.lock);
	sim.telling = true;
	unlock();
	if (sim.cfg.clock == CLOCK_VIRTUAL)
		c->end += (uint64_t)long_time.tv_nsec;
	else
		nanosleep(&long_time, NULL);
	lock();
	for (int i = 0; i < sim.nstreams; i++)
		if (sim.streams[i]->o.dev == d && sim.streams[i]->t < c->end) sim.streams[i]->t = c->end;
	sim.telling = false;
	pthread_cond_broadcast(&sim.changed);
}

int32_t axclrtGetDeviceProperties(int32_t id, axcl_properties *p) {
	ENTER(axclrtGetDeviceProperties, SUB_DEVICE, "id=%d", id);
	if (!p) return FAIL(ID_NULL);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : d->lost || d->wedged ? E_NO_CONNECTION : hazard(HZ_OFFLINE) ? E_OFFLINE : 0;
	if (!code && hazard(HZ_PROPERTIES)) deaf(&c, d);
	if (!code) {
		memset(p, 0, sizeof *p);
		snprintf(p->swVersion, sizeof p->swVersion, "V%d.%d.%d", sim.cfg.version[0], sim.cfg.version[1], sim.cfg.version[2]);
		p->uid = UINT64_C(0x0650000000000000) | (uint32_t)id;
		p->pciDomain = 1;
		p->pciBusID = (uint32_t)id;
		temperature_read();
		double t = temperature_now();
		p->temperature = (int32_t)(sim.cfg.milli ? t * 1000 : t);
		state_look();
		uint64_t used = d->cmm_used + d->foreign + sim.cfg.cmm_idle;
		p->totalMemSize = 960000;
		p->freeMemSize = 700000;
		p->totalCmmSize = (uint32_t)(sim.cfg.cmm >> 10);
		p->freeCmmSize = used < sim.cfg.cmm ? (uint32_t)((sim.cfg.cmm - used) >> 10) : 0;
		p->cpuLoading = 300;
		uint64_t now = clock_now(), span = now > d->seen_at ? now - d->seen_at : 0, busy = d->busy - d->busy_seen;
		p->npuLoading = span ? (uint32_t)(busy >= span ? 10000 : busy * 10000 / span) : 0;
		d->seen_at = now;
		d->busy_seen = d->busy;
	}
	unlock();
	return call_leave(&c, code);
}

// ---- contexts

int32_t axclrtCreateContext(axcl_handle *ctx, int32_t id) {
	ENTER(axclrtCreateContext, SUB_CONTEXT, "device=%d", id);
	if (!ctx) return FAIL(ID_NULL);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : d->lost || d->wedged ? E_NO_CONNECTION : 0;
	context *x = code ? NULL : context_new(d);
	if (x) {
		context_current = *ctx = x->o.handle;
	} else if (!code) {
		code = CODE(SUB_CONTEXT, 0x81);
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtDestroyContext(axcl_handle ctx) {
	ENTER(axclrtDestroyContext, SUB_CONTEXT, "ctx=%p", ctx);
	lock();
	context *x = handle_get(ctx, K_CONTEXT);
	int32_t code = !ctx ? CODE(SUB_CONTEXT, ID_NULL) : !x ? CODE(SUB_CONTEXT, ID_ILLEGAL) : x->o.dev->context == ctx ? E_CONTEXT_DESTROY
		: 0;
	if (!code) {
		if (x->o.dev->lost) code = E_NO_CONNECTION;
		stream *s = handle_get(x->stream, K_STREAM);
		handle_drop(&x->o);
		if (s) stream_destroy(s, true);
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtSetCurrentContext(axcl_handle ctx) {
	ENTER(axclrtSetCurrentContext, SUB_CONTEXT, "ctx=%p", ctx);
	lock();
	context *x = handle_get(ctx, K_CONTEXT);
	int32_t code = !ctx ? CODE(SUB_CONTEXT, ID_NULL) : !x ? CODE(SUB_CONTEXT, ID_ILLEGAL) : 0;
	if (!code) context_current = ctx;
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtGetDefaultContext(axcl_handle *ctx, int32_t id) {
	ENTER(axclrtGetDefaultContext, SUB_CONTEXT, "device=%d", id);
	if (!ctx) return FAIL(ID_NULL);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : d->context ? 0 : E_NOT_ACTIVE;
	if (!code) *ctx = d->context;
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtGetCurrentContext(axcl_handle *ctx) {
	ENTER(axclrtGetCurrentContext, SUB_CONTEXT, " ");
	if (!ctx) return FAIL(ID_NULL);
	lock();
	context *x = context_current ? handle_get(context_current, K_CONTEXT) : NULL;
	if (x) *ctx = context_current;
	unlock();
	return call_leave(&c, x ? 0 : E_NO_CONTEXT);
}
