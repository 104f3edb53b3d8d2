// The process's life, devices and contexts. Data flow: axclInit reads the options and brings the cards up -> SetDevice makes one active and
// gives the thread its default context -> every device call finds its card through the thread's context -> Reset and Finalize clear up.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local void *current; // the thread's context; a number, checked at every use

typedef struct {
	obj o;
	void *stream; // its default one's handle, once somebody asked for it
} context;

static device *reach(call *c, device *d) {
	if (!d->lost) return d;
	c->code = E_NO_CONNECTION;
	if (!call_releases(c->id)) return NULL;
	c->fail_after = true; // what is given back on a card that is gone is gone too
	return d;
}

device *call_device(call *c) {
	context *x = current ? handle_get(current, K_CONTEXT) : NULL;
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

device *device_current(void) {
	context *x = current ? handle_get(current, K_CONTEXT) : NULL;
	return x ? x->o.dev : NULL;
}

void **context_stream(const void *ctx, device **d) {
	context *x = handle_get(ctx, K_CONTEXT);
	if (!x) return NULL;
	*d = x->o.dev;
	return &x->stream;
}

device *device_find(int32_t id) {
	for (int i = 0; sim.inits && i < sim.ndev; i++)
		if (sim.dev[i].id == id) return &sim.dev[i];
	return NULL;
}

void devices_lose(device *d) {
	for (int i = 0; i < sim.ndev; i++)
		if (!d || d == &sim.dev[i]) sim.dev[i].lost = true;
	pthread_cond_broadcast(&sim.changed);
}

void temperature_read(void) {
	FILE *f = sim.cfg.heat_file[0] ? fopen(sim.cfg.heat_file, "re") : NULL;
	double t;
	if (!f) return;
	if (fscanf(f, "%lf", &t) == 1) sim.heat = t;
	fclose(f);
}

double temperature_now(void) {
	if (sim.cfg.heat_file[0]) return sim.heat;
	double t = 50;
	uint64_t now = clock_now();
	for (int i = 0; i < sim.cfg.nheat; i++)
		if (sim.cfg.heat[i].at <= now) t = sim.cfg.heat[i].degrees;
	return t;
}

void count_live(axsim_counts *n) {
	memset(n, 0, sizeof *n);
	n->contexts = handle_count(K_CONTEXT);
	n->streams = handle_count(K_STREAM);
	for (int i = 0; i < sim.nstreams; i++) n->streams -= sim.streams[i]->own && !sim.streams[i]->o.dead;
	n->events = handle_count(K_EVENT);
	n->infos = handle_count(K_INFO);
	n->ios = handle_count(K_IO);
	for (int i = 0; i < sim.ndev; i++) {
		if (sim.dev[i].context && n->contexts) n->contexts--;
		n->device_blocks += (uint64_t)sim.dev[i].nblocks;
		for (int k = 0; k < sim.dev[i].nblocks; k++) n->device_bytes += sim.dev[i].blocks[k]->size;
	}
	for (const model *m = sim.models; m; m = m->next) {
		n->models++;
		n->engine_contexts += (uint64_t)m->ncontexts;
	}
	n->host_blocks = (uint64_t)sim.nhost;
	n->host_bytes = sim.host_bytes;
	for (const worker *w = sim.workers; w; w = w->next) n->workers++;
}

void device_release(device *d) {
	hang_release();
	streams_end(d);
	for (event *e; (e = handle_any(K_EVENT, d));) {
		sim.left.events++;
		handle_drop(&e->o);
	}
	for (iobuf *io; (io = handle_any(K_IO, d));) {
		sim.left.ios++;
		handle_drop(&io->o);
	}
	for (info *i; (i = handle_any(K_INFO, d));) {
		sim.left.infos++;
		handle_drop(&i->o);
	}
	for (model *m = sim.models; m;) {
		model *next = m->next;
		if (m->dev == d) {
			sim.left.models++;
			sim.left.engine_contexts += (uint64_t)m->ncontexts;
			model_remove(m);
		}
		m = next;
	}
	while (d->nblocks) {
		sim.left.device_blocks++;
		sim.left.device_bytes += d->blocks[d->nblocks - 1]->size;
		block_drop(d->blocks[d->nblocks - 1]);
	}
	space_close(d);
	for (context *x; (x = handle_any(K_CONTEXT, d));) {
		if (x->o.handle != d->context) sim.left.contexts++;
		handle_drop(&x->o);
	}
	d->context = NULL;
	d->uses = 0;
	d->engine = d->ran = d->loadfail = false;
}

// ---- process

void sim_reload(void) {
	sim.configured = true;
	sim.bad_config = !config_load(&sim.cfg);
	memset(sim.calls, 0, sizeof sim.calls);
	memset(sim.spent, 0, sizeof sim.spent);
	sim.level = LOG_INFO;
	sim.heat = 50;
	sim.total = sim.crossings = sim.outside = sim.inside = sim.busy = sim.host = 0;
	sim.epoch = real_ns();
}

bool sim_start(void) {
	sim.ndev = sim.cfg.ndevices;
	for (int i = 0; i < sim.ndev; i++) {
		device *d = &sim.dev[i];
		memset(&d->id, 0, sizeof *d - offsetof(device, id));
		if (!d->ready) pthread_mutex_init(&d->npu, NULL);
		d->ready = true;
		d->id = sim.cfg.bus[i];
		if (!space_open(d)) return false;
	}
	sim.inits = 1;
	trace_open();
	state_open();
	return true;
}

void sim_stop(void) {
	for (int i = 0; i < sim.ndev; i++) device_release(&sim.dev[i]);
	sim.left.host_blocks += (uint64_t)sim.nhost;
	sim.left.host_bytes += sim.host_bytes;
	workers_end();
	root_remove();
	trace_summary();
	state_close();
	sim.inits = 0;
}

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
	if (!c.stop && level >= LOG_TRACE && level < LOG_OFF) noise(level, "[APP][%s][%s][%u]: %s", func ? func : "", file ? file : "", line, text);
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
			fprintf(f, "simulated card %d: %llu calls, %llu bytes of device memory in use\n", d->id, (unsigned long long)sim.total, (unsigned long long)d->cmm_used);
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

static context *context_new(device *d) {
	context *x = calloc(1, sizeof *x);
	if (x && handle_new(&x->o, K_CONTEXT, d)) return x;
	free(x);
	return NULL;
}

int32_t axclrtSetDevice(int32_t id) {
	ENTER(axclrtSetDevice, SUB_DEVICE, "id=%d", id);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : d->lost || d->wedged ? E_NO_CONNECTION : 0;
	if (!code && !d->context) {
		context *x = context_new(d);
		if (x)
			d->context = x->o.handle;
		else
			code = CODE(SUB_DEVICE, ID_NO_MEMORY);
	}
	if (!code) {
		d->uses++;
		if (device_current() != d) current = d->context; // a thread that has a context of the card keeps it
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

int32_t axclrtGetDeviceProperties(int32_t id, axcl_properties *p) {
	ENTER(axclrtGetDeviceProperties, SUB_DEVICE, "id=%d", id);
	if (!p) return FAIL(ID_NULL);
	lock();
	device *d = device_find(id);
	int32_t code = !d ? E_DEVICE_ID : d->lost || d->wedged ? E_NO_CONNECTION : 0;
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
		current = *ctx = x->o.handle;
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
	int32_t code = !ctx ? CODE(SUB_CONTEXT, ID_NULL) : !x ? CODE(SUB_CONTEXT, ID_ILLEGAL) : x->o.dev->context == ctx ? E_CONTEXT_DESTROY : 0;
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
	if (!code) current = ctx;
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
	context *x = current ? handle_get(current, K_CONTEXT) : NULL;
	if (x) *ctx = current;
	unlock();
	return call_leave(&c, x ? 0 : E_NO_CONTEXT);
}
