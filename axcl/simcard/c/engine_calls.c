// Models on the card and their tensors' description. Data flow: a path -> model.c checks and reads
// it -> a model with an id and its share of card memory -> io infos (what the tensors are) -> ios
// (where they are; io_calls.c).
#include "abi_axcl.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

// ---- the engine

int32_t axclrtEngineInit(int32_t kind) {
	ENTER(axclrtEngineInit, SUB_ENGINE, "kind=%d", kind);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		code = kind < 0 || kind > 3 ? CODE(SUB_ENGINE, ID_ILLEGAL) : 0;
		if (!code && !d->engine) { // once more is no error, and changes nothing
			d->engine = true;
			d->vnpu = kind;
		}
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtEngineGetVNpuKind(int32_t *kind) {
	ENTER(axclrtEngineGetVNpuKind, SUB_ENGINE, " ");
	if (!kind) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		code = !d->engine ? CODE(SUB_ENGINE, ID_FAIL) : 0;
		if (!code) *kind = d->vnpu;
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtEngineFinalize(void) {
	ENTER(axclrtEngineFinalize, SUB_ENGINE, " ");
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		code = d->engine ? 0 : CODE(SUB_ENGINE, ID_FAIL);
		for (model *m = sim.models; m;) {
			model *next = m->next;
			if (m->dev == d) {
				sim.left.models++;
				sim.left.engine_contexts += (uint64_t)m->ncontexts;
				model_remove(m);
			}
			m = next;
		}
		d->engine = false;
	}
	unlock();
	return call_leave(&c, code);
}

// ---- loading

// Checks before a load, with the lock held; the device if it may go on.
static device *load_begin(call *c, const void *from, const uint64_t *id, int32_t *code) {
	*code = CODE(SUB_ENGINE, ID_NULL);
	if (!from || !id) return NULL;
	device *d = call_device(c);
	*code = d && !d->engine ? CODE(SUB_ENGINE, ID_FAIL) : c->code;
	if (*code) return NULL;
	late_load(d);
	if (d->lost) {
		*code = E_NO_CONNECTION;
		return NULL;
	}
	state_busy(1);
	return d;
}

// A file goes into card memory of its own size first, and is loaded from there: so a load needs
// that on top of the model. What a shape-only file stands for is as large as its weights. With the
// lock held; gives the lock back while the bytes are copied.
static int32_t stage(call *c, device *d, const axm *a, uint64_t *held) {
	uint64_t size = a->weight_bytes > a->file_bytes ? a->weight_bytes : a->file_bytes;
	if (size > cmm_free(d)) return card_full(hazard(HZ_NOMEM) ? SUB_MEMORY : SUB_ENGINE);
	*held = size;
	d->cmm_used += size;
	state_bytes();
	charge_load(c, a);
	unlock();
	clock_sleep_until(c->end);
	lock();
	return 0;
}

static void unstage(device *d, uint64_t held) {
	d->cmm_used -= held < d->cmm_used ? held : d->cmm_used; // an Init may have begun anew meanwhile
	state_bytes();
}

// Puts the model on the card; gives its code.
static int32_t load_end(call *c, device *d, axm *a, uint64_t *id) {
	model *m = NULL;
	int32_t code = d->lost ? E_NO_CONNECTION : model_admit(d, a, &m);
	state_busy(-1);
	if (code) return code;
	if (c->wrong) m->garbage = true;
	*id = m->id;
	return 0;
}

static bool out_of_step(int32_t code) { return (code & 0xff) >= ID_ENCODE && (code & 0xff) <= ID_UNEXPECTED; }

int32_t axclrtEngineLoadFromFile(const char *path, uint64_t *id) {
	call c;
	call_enter(&c, CALL_axclrtEngineLoadFromFile, SUB_ENGINE, "path=%s", path ? path : "NULL");
	if (c.stop) { // a load that failed on the card's side: encode, decode or an unexpected reply mean that host and card are out of step
		lock();
		device *d = call_device(&c);
		if (d && out_of_step(c.code)) d->loadfail = hazard(HZ_LOADFAIL);
		unlock();
		return call_leave(&c, c.code);
	}
	lock();
	int32_t code;
	device *d = load_begin(&c, path, id, &code);
	unlock();
	if (!d) return call_leave(&c, code);
	axm *a = NULL;
	code = open_code(axm_open_file(path, true, &a));
	if (!code && hazard(HZ_UNLISTED)) axm_hide(a);
	lock();
	uint64_t held = 0;
	if (!code) code = stage(&c, d, a, &held);
	if (code)
		state_busy(-1);
	else
		code = load_end(&c, d, a, id);
	unstage(d, held);
	unlock();
	if (code) axm_free(a);
	return call_leave(&c, code);
}

static int32_t read_model(const span *s, uint64_t size, axm **a) {
	void *spare;
	const uint8_t *p = span_open(s, 0, size, &spare);
	int32_t code = p ? open_code(axm_open_mem(p, size, a)) : CODE(SUB_ENGINE, ID_NO_MEMORY);
	free(spare);
	return code;
}

int32_t axclrtEngineLoadFromMem(const void *mem, uint64_t size, uint64_t *id) {
	ENTER(axclrtEngineLoadFromMem, SUB_ENGINE, "mem=%p size=%llu", mem, (unsigned long long)size);
	span s = {0};
	lock();
	int32_t code;
	device *d = load_begin(&c, mem, id, &code);
	if (d) code = size ? span_get(mem, size, d, &s) : CODE(SUB_ENGINE, ID_ILLEGAL);
	bool hang = !code && hazard(HZ_FROMMEM);
	if (d && code) state_busy(-1);
	if (hang) hang_here();
	unlock();
	if (code) return call_leave(&c, code);
	axm *a = NULL;
	code = hang ? CODE(SUB_ENGINE, ID_TIMEOUT) : read_model(&s, size, &a);
	lock();
	span_put(&s);
	if (code)
		state_busy(-1);
	else
		code = load_end(&c, d, a, id);
	unlock();
	if (code) axm_free(a);
	return call_leave(&c, code);
}

int32_t axclrtEngineUnload(uint64_t id) {
	ENTER(axclrtEngineUnload, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		model *m = model_find(id, d);
		code = m ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL);
		if (m) model_remove(m);
	}
	unlock();
	return call_leave(&c, code);
}

// ---- questions about a model

const char *axclrtEngineGetModelCompilerVersion(uint64_t id) {
	call c;
	call_enter(&c, CALL_axclrtEngineGetModelCompilerVersion, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	const char *s = NULL;
	lock();
	device *d = c.stop ? NULL : call_device(&c);
	model *m = d ? model_find(id, d) : NULL;
	if (m) s = m->m->tool;
	unlock();
	call_leave(&c, s ? 0 : c.code ? c.code : CODE(SUB_ENGINE, ID_ILLEGAL));
	return s;
}

int32_t axclrtEngineSetAffinity(uint64_t id, uint32_t set) {
	ENTER(axclrtEngineSetAffinity, SUB_ENGINE, "id=%llx set=%x", (unsigned long long)id, set);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		model *m = model_find(id, d);
		code = m && set >= 1 && set <= 7 ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL); // three cores, one bit each
		if (!code) m->affinity = set;
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtEngineGetAffinity(uint64_t id, uint32_t *set) {
	ENTER(axclrtEngineGetAffinity, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	if (!set) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		model *m = model_find(id, d);
		code = m ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL);
		if (!code) *set = m->affinity;
	}
	unlock();
	return call_leave(&c, code);
}

enum { SYS_BYTES = 64 << 10 }; // what a model's description takes of the card's own Linux

static int32_t usage_of(const axm *a, int64_t *sys, int64_t *cmm) {
	*sys = SYS_BYTES + (int64_t)a->ngroups * 4096;
	*cmm = (int64_t)a->weight_bytes;
	return 0;
}

int32_t axclrtEngineGetUsage(const char *path, int64_t *sys, int64_t *cmm) {
	ENTER(axclrtEngineGetUsage, SUB_ENGINE, "path=%s", path ? path : "NULL");
	if (!path || !sys || !cmm) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	unlock();
	if (!d) return call_leave(&c, c.code);
	axm *a = NULL;
	int32_t code = open_code(axm_open_file(path, false, &a));
	if (!code) code = usage_of(a, sys, cmm);
	axm_free(a);
	return call_leave(&c, code);
}

// A model that lies in device memory, only to be asked about.
static int32_t peek(call *c, const void *mem, uint64_t size, bool args, axm **a) {
	span s = {0};
	if (!mem || !args) return CODE(SUB_ENGINE, ID_NULL);
	lock();
	device *d = call_device(c);
	int32_t code = !d ? c->code : size == 0 ? CODE(SUB_ENGINE, ID_ILLEGAL) : span_get(mem, size, d, &s);
	unlock();
	if (code) return code;
	code = read_model(&s, size, a);
	lock();
	span_put(&s);
	unlock();
	return code;
}

int32_t axclrtEngineGetUsageFromMem(const void *mem, uint64_t size, int64_t *sys, int64_t *cmm) {
	ENTER(axclrtEngineGetUsageFromMem, SUB_ENGINE, "mem=%p size=%llu", mem, (unsigned long long)size);
	axm *a = NULL;
	int32_t code = peek(&c, mem, size, sys && cmm, &a);
	if (!code) code = usage_of(a, sys, cmm);
	axm_free(a);
	return call_leave(&c, code);
}

int32_t axclrtEngineGetUsageFromModelId(uint64_t id, int64_t *sys, int64_t *cmm) {
	ENTER(axclrtEngineGetUsageFromModelId, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	if (!sys || !cmm) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		model *m = model_find(id, d);
		code = m ? usage_of(m->m, sys, cmm) : CODE(SUB_ENGINE, ID_ILLEGAL);
	}
	unlock();
	return call_leave(&c, code);
}

// The software card's models use one core.
int32_t axclrtEngineGetModelType(const char *path, int32_t *kind) {
	ENTER(axclrtEngineGetModelType, SUB_ENGINE, "path=%s", path ? path : "NULL");
	if (!path || !kind) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	unlock();
	if (!d) return call_leave(&c, c.code);
	axm *a = NULL;
	int32_t code = open_code(axm_open_file(path, false, &a));
	if (!code) *kind = 0;
	axm_free(a);
	return call_leave(&c, code);
}

int32_t axclrtEngineGetModelTypeFromMem(const void *mem, uint64_t size, int32_t *kind) {
	ENTER(axclrtEngineGetModelTypeFromMem, SUB_ENGINE, "mem=%p size=%llu", mem, (unsigned long long)size);
	axm *a = NULL;
	int32_t code = peek(&c, mem, size, kind, &a);
	if (!code) *kind = 0;
	axm_free(a);
	return call_leave(&c, code);
}

int32_t axclrtEngineGetModelTypeFromModelId(uint64_t id, int32_t *kind) {
	ENTER(axclrtEngineGetModelTypeFromModelId, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	if (!kind) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		code = model_find(id, d) ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL);
		if (!code) *kind = 0;
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtEngineCreateContext(uint64_t id, uint64_t *ctx) {
	ENTER(axclrtEngineCreateContext, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	if (!ctx) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		model *m = model_find(id, d);
		code = !m ? CODE(SUB_ENGINE, ID_ILLEGAL) : m->ncontexts == 64 ? CODE(SUB_ENGINE, ID_NO_MEMORY) : 0;
		if (!code) *ctx = m->contexts[m->ncontexts++] = ++sim.next_id;
	}
	unlock();
	return call_leave(&c, code);
}
