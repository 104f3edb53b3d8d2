// The on-board engine: AX_SYS_ memory that CPU and NPU share, and AX_ENGINE_ handles. Data flow:
// MemAlloc gives a physical number and an address; cached memory has a copy for each side, which
// flush and invalidate bring together, as a CPU's cache would -> a handle holds a model and its
// description in the vendor's structs -> a run turns physical numbers into spans and goes the way
// of exec.c.
#include "abi_axengine.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define SYS(id) ((int32_t)(0x80010000u | (uint32_t)(id)))
#define ENG(id) ((int32_t)(0x80060000u | (uint32_t)(id)))

enum { LINE = 64 };
#define PHYS UINT64_C(0x100000000)
#define PHYS_END UINT64_C(0x2100000000)

static device *const board = &sim.dev[0];
static bool engine_up;

// A model's description in the engine's structs, one for each group, and its run contexts.
typedef struct view {
	model *m;
	ax_info *infos;
	ax_meta *metas;
	void *context; // that RunSync uses
	struct view *next;
} view;

static view *views;

// None is known for fp16.
static int engine_type(int32_t axcl) {
	return axcl == TYPE_U8 ? 1 : axcl == TYPE_F32 ? 3 : axcl == TYPE_I32 ? 6 : axcl == TYPE_U32 ? 7 : axcl == TYPE_BF16 ? 9 : 0;
}

// ---- system

static void view_free(view *v) {
	for (view **p = &views; *p; p = &(*p)->next)
		if (*p == v) {
			*p = v->next;
			break;
		}
	free(v->metas);
	free(v->infos);
	free(v);
}

int32_t AX_SYS_Init(void) {
	call c;
	call_enter(&c, CALL_AX_SYS_Init, 0, " ");
	if (c.stop) return call_leave(&c, c.code);
	int32_t code = 0;
	lock();
	if (sim.bad_config) {
		code = SYS(ID_ILLEGAL);
	} else if (!sim.inits) {
		board->space = board->next = PHYS; // numbers only: nothing is reserved for them
		board->space_end = PHYS_END;
		sim.cfg.ndevices = 1;
		while (views) view_free(views); // of a program that axsim_reset ended
		engine_up = false;
		if (!sim_start()) code = SYS(ID_NO_MEMORY);
	}
	unlock();
	return call_leave(&c, code);
}

int32_t AX_SYS_Deinit(void) {
	ENTER(AX_SYS_Deinit, 0, " ");
	lock();
	while (views) view_free(views);
	engine_up = false;
	if (sim.inits) sim_stop();
	unlock();
	return call_leave(&c, 0);
}

static int32_t alloc(call *c, uint64_t *phys, void **virt, uint32_t size, uint32_t align, bool cached) {
	lock();
	int id = !phys || !virt ? ID_NULL : !sim.inits ? ID_FAIL : size == 0 || (align & (align - 1)) ? ID_ILLEGAL : 0;
	block *b = id ? NULL : block_new(board, size, align, cached && hazard(HZ_CACHE), &id);
	if (b) {
		*phys = b->base;
		*virt = b->cpu ? b->cpu : b->data;
		id = 0;
	}
	unlock();
	return call_leave(c, id ? SYS(id) : 0);
}

int32_t AX_SYS_MemAlloc(uint64_t *phys, void **virt, uint32_t size, uint32_t align, const int8_t *token) {
	ENTER(AX_SYS_MemAlloc, 0, "size=%u align=%u", size, align);
	(void)token;
	return alloc(&c, phys, virt, size, align, false);
}

int32_t AX_SYS_MemAllocCached(uint64_t *phys, void **virt, uint32_t size, uint32_t align, const int8_t *token) {
	ENTER(AX_SYS_MemAllocCached, 0, "size=%u align=%u", size, align);
	(void)token;
	return alloc(&c, phys, virt, size, align, true);
}

// The block at a physical number, if the address belongs to it too (NULL: not asked).
static block *shared(uint64_t phys, const void *virt, uint64_t size, uint64_t *off) {
	block *b = sim.inits ? block_find(phys, board) : NULL;
	if (!b || size > b->size - (phys - b->base)) return NULL;
	*off = phys - b->base;
	const uint8_t *cpu = b->cpu ? b->cpu : b->data;
	return !virt || virt == cpu + *off ? b : NULL;
}

int32_t AX_SYS_MemFree(uint64_t phys, void *virt) {
	ENTER(AX_SYS_MemFree, 0, "phys=%llx", (unsigned long long)phys);
	lock();
	uint64_t off = 0;
	block *b = shared(phys, virt, 0, &off);
	if (b && off == 0)
		block_drop(b);
	else
		b = NULL;
	unlock();
	return call_leave(&c, b ? 0 : SYS(ID_ILLEGAL));
}

// Flush writes back the lines the CPU changed; invalidate takes the card's bytes anew.
static int32_t maintain(call *c, uint64_t phys, void *virt, uint32_t size, bool flush) {
	lock();
	uint64_t off = 0;
	block *b = shared(phys, virt, size, &off);
	if (b && size && b->cpu) {
		uint64_t end = off + size;
		for (uint64_t at = off / LINE * LINE; at < end; at += LINE) {
			size_t n = at + LINE <= b->size ? LINE : (size_t)(b->size - at);
			if (!flush) {
				memcpy(b->cpu + at, b->data + at, n);
				memcpy(b->clean + at, b->data + at, n);
			} else if (memcmp(b->cpu + at, b->clean + at, n)) {
				memcpy(b->data + at, b->cpu + at, n);
				memcpy(b->clean + at, b->cpu + at, n);
			}
		}
	}
	unlock();
	return call_leave(c, b && size ? 0 : SYS(ID_ILLEGAL));
}

int32_t AX_SYS_MflushCache(uint64_t phys, void *virt, uint32_t size) {
	ENTER(AX_SYS_MflushCache, 0, "phys=%llx size=%u", (unsigned long long)phys, size);
	return maintain(&c, phys, virt, size, true);
}

int32_t AX_SYS_MinvalidateCache(uint64_t phys, void *virt, uint32_t size) {
	ENTER(AX_SYS_MinvalidateCache, 0, "phys=%llx size=%u", (unsigned long long)phys, size);
	return maintain(&c, phys, virt, size, false);
}

// ---- engine

const char *axsim_engine_GetVersion(void) {
	call c;
	call_enter(&c, CALL_AX_ENGINE_GetVersion, 0, " ");
	call_leave(&c, c.code);
	return c.stop ? NULL : "axsim 2.13.0";
}

int32_t axsim_engine_Init(ax_attr *attr) {
	ENTER(AX_ENGINE_Init, 0, "hardMode=%d", attr ? attr->hardMode : -1);
	lock();
	int id = !attr ? ID_NULL : !sim.inits ? ID_FAIL : attr->hardMode < 0 || attr->hardMode > 3 ? ID_ILLEGAL : engine_up ? ID_BUSY : 0;
	if (!id) {
		engine_up = true;
		board->vnpu = attr->hardMode;
	}
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

int32_t axsim_engine_GetVNPUAttr(ax_attr *attr) {
	ENTER(AX_ENGINE_GetVNPUAttr, 0, " ");
	lock();
	int id = !attr ? ID_NULL : !engine_up ? ID_FAIL : 0;
	if (!id) {
		memset(attr, 0, sizeof *attr);
		attr->hardMode = board->vnpu;
	}
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

int32_t axsim_engine_Deinit(void) {
	ENTER(AX_ENGINE_Deinit, 0, " ");
	lock();
	bool was = engine_up;
	while (views) {
		model_remove(views->m);
		sim.left.models++;
		view_free(views);
	}
	engine_up = false;
	unlock();
	return call_leave(&c, was ? 0 : ENG(ID_FAIL));
}

static int32_t open_id(int axm_code) { return axm_code == AXM_OK ? 0 : (int32_t)(0x80060000u | ((uint32_t)open_code(axm_code) & 0xffu)); }

int32_t axsim_engine_GetModelType(const void *data, uint32_t size, int32_t *type) {
	ENTER(AX_ENGINE_GetModelType, 0, "size=%u", size);
	if (!data || !type) return call_leave(&c, ENG(ID_NULL));
	axm *a = NULL;
	int32_t code = open_id(axm_open_mem(data, size, &a));
	if (!code) *type = 0;
	axm_free(a);
	return call_leave(&c, code);
}

// Every group names its tensors as the first does, without the suffix that files give those of the
// others.
static void fill_meta(ax_meta *to, axm_tensor *t, char *plain) {
	to->name = plain;
	to->shape = t->dims;
	to->shapeSize = (uint8_t)t->ndims;
	to->dataType = engine_type(t->type);
	to->size = (uint32_t)t->size;
}

static view *view_new(model *m) {
	axm *a = m->m;
	uint32_t each = a->nin + a->nout;
	view *v = calloc(1, sizeof *v);
	if (!v) return NULL;
	v->infos = calloc(a->ngroups, sizeof *v->infos);
	v->metas = calloc((size_t)a->ngroups * each, sizeof *v->metas);
	if (!v->infos || !v->metas) {
		free(v->infos);
		free(v->metas);
		free(v);
		return NULL;
	}
	for (uint32_t g = 0; g < a->ngroups; g++) {
		ax_info *i = &v->infos[g];
		i->inputs = v->metas + (size_t)g * each;
		i->outputs = i->inputs + a->nin;
		i->inputSize = a->nin;
		i->outputSize = a->nout;
		i->maxBatch = 1;
		for (uint32_t k = 0; k < a->nin; k++) fill_meta(&i->inputs[k], &a->groups[g].in[k], a->groups[0].in[k].name);
		for (uint32_t k = 0; k < a->nout; k++) fill_meta(&i->outputs[k], &a->groups[g].out[k], a->groups[0].out[k].name);
	}
	v->m = m;
	v->next = views;
	views = v;
	return v;
}

// A tensor's size must fit the engine's 32 bits.
static bool fits32(const axm *a) {
	for (uint32_t g = 0; g < a->ngroups; g++) {
		for (uint32_t k = 0; k < a->nin; k++)
			if (a->groups[g].in[k].size > UINT32_MAX) return false;
		for (uint32_t k = 0; k < a->nout; k++)
			if (a->groups[g].out[k].size > UINT32_MAX) return false;
	}
	return true;
}

static int32_t create_handle(call *c, void **handle, const void *data, uint32_t size, const ax_extra *extra) {
	lock();
	int32_t code = !handle || !data ? ENG(ID_NULL) : !engine_up ? ENG(ID_FAIL) : 0;
	if (!code) late_load(board);
	if (!code && board->lost) code = E_NO_CONNECTION;
	unlock();
	if (code) return call_leave(c, code);
	axm *a = NULL;
	code = open_id(axm_open_mem(data, size, &a));
	if (!code && !fits32(a)) code = ENG(ID_UNSUPPORTED);
	lock();
	model *m = NULL;
	view *v = NULL;
	if (!code) {
		charge_load(c, a);
		code = model_admit(board, a, &m);
		if (code) code = ENG(ID_NO_MEMORY);
	}
	if (!code) {
		a = NULL; // the model's now
		v = view_new(m);
		if (!v) {
			model_remove(m);
			code = ENG(ID_NO_MEMORY);
		}
	}
	if (v) {
		m->garbage = m->garbage || c->wrong;
		if (extra && extra->npuSet) m->affinity = extra->npuSet;
		*handle = v;
	}
	unlock();
	axm_free(a);
	return call_leave(c, code);
}

int32_t axsim_engine_CreateHandle(void **handle, const void *data, uint32_t size) {
	ENTER(AX_ENGINE_CreateHandle, 0, "size=%u", size);
	return create_handle(&c, handle, data, size, NULL);
}

int32_t axsim_engine_CreateHandleV2(void **handle, const void *data, uint32_t size, ax_extra *extra) {
	ENTER(AX_ENGINE_CreateHandleV2, 0, "size=%u npuSet=%u", size, extra ? extra->npuSet : 0);
	return create_handle(&c, handle, data, size, extra);
}

// The view behind a handle, with the lock held; NULL when there is none.
static view *find(const void *handle) {
	view *v = views;
	while (v && v != handle) v = v->next;
	return v;
}

int32_t axsim_engine_DestroyHandle(void *handle) {
	ENTER(AX_ENGINE_DestroyHandle, 0, "handle=%p", handle);
	lock();
	view *v = find(handle);
	if (v) {
		model *m = v->m;
		view_free(v);
		model_remove(m);
	}
	unlock();
	return call_leave(&c, v ? 0 : ENG(handle ? ID_ILLEGAL : ID_NULL));
}

static int32_t group_info(call *c, void *handle, uint32_t group, ax_info **out) {
	lock();
	view *v = find(handle);
	int id = !handle || !out ? ID_NULL : !v || group >= v->m->m->ngroups ? ID_ILLEGAL : 0;
	if (!id) *out = &v->infos[group];
	unlock();
	return call_leave(c, id ? ENG(id) : 0);
}

int32_t axsim_engine_GetIOInfo(void *handle, ax_info **out) {
	ENTER(AX_ENGINE_GetIOInfo, 0, "handle=%p", handle);
	return group_info(&c, handle, 0, out);
}

int32_t axsim_engine_GetGroupIOInfo(void *handle, uint32_t group, ax_info **out) {
	ENTER(AX_ENGINE_GetGroupIOInfo, 0, "handle=%p group=%u", handle, group);
	return group_info(&c, handle, group, out);
}

int32_t axsim_engine_GetGroupIOInfoCount(void *handle, uint32_t *count) {
	ENTER(AX_ENGINE_GetGroupIOInfoCount, 0, "handle=%p", handle);
	lock();
	view *v = find(handle);
	int id = !handle || !count ? ID_NULL : !v ? ID_ILLEGAL : 0;
	if (!id) *count = v->m->m->ngroups;
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

static int32_t create_context(call *c, void *handle, bool own, void **ctx) {
	lock();
	view *v = find(handle);
	int id = !handle || (!own && !ctx) ? ID_NULL : !v ? ID_ILLEGAL : v->m->ncontexts == 64 ? ID_NO_MEMORY : 0;
	if (!id) {
		uint64_t n = ++sim.next_id;
		v->m->contexts[v->m->ncontexts++] = n;
		*(own ? &v->context : ctx) = (void *)(uintptr_t)n;
	}
	unlock();
	return call_leave(c, id ? ENG(id) : 0);
}

int32_t axsim_engine_CreateContext(void *handle) {
	ENTER(AX_ENGINE_CreateContext, 0, "handle=%p", handle);
	return create_context(&c, handle, true, NULL);
}

int32_t axsim_engine_CreateContextV2(void *handle, void **ctx) {
	ENTER(AX_ENGINE_CreateContextV2, 0, "handle=%p", handle);
	return create_context(&c, handle, false, ctx);
}

static bool take(const ax_buffer *b, uint64_t need, span *s) {
	uint64_t off = 0;
	block *k = b->size >= need ? shared(b->phys, b->virt, b->size, &off) : NULL;
	if (!k) return false;
	k->refs++;
	*s = (span){k, off, b->size};
	return true;
}

// Everything a run needs, with the lock held; NULL and a code.
static exec *prepare(call *c, void *handle, void *ctx, uint32_t group, const ax_io *io, int32_t *code) {
	view *v = find(handle);
	bool known = false;
	for (int i = 0; v && i < v->m->ncontexts; i++) known = known || v->m->contexts[i] == (uint64_t)(uintptr_t)ctx;
	*code = !handle || !io ? ENG(ID_NULL) : !v || !known || group >= v->m->m->ngroups ? ENG(ID_ILLEGAL) : board->lost ? E_NO_CONNECTION : 0;
	if (*code) return NULL;
	const axm *a = v->m->m;
	*code = ENG(ID_ILLEGAL);
	if (io->inputSize != a->nin || io->outputSize != a->nout || !io->inputs || !io->outputs) return NULL;
	exec *e = calloc(1, sizeof *e);
	if (!e) return NULL;
	e->m = v->m;
	e->m->refs++;
	e->dev = board;
	e->board = true;
	e->group = group;
	e->batch = io->batch > 1 ? io->batch : 1;
	e->wrong = c->wrong;
	board->running++;
	board->ran = true;
	bool ok = e->batch <= 1024;
	for (uint32_t i = 0; i < a->nin && ok; i++)
		ok = a->groups[group].in[i].size == 0 || take(&io->inputs[i], a->groups[group].in[i].size * e->batch, &e->in[i]);
	for (uint32_t i = 0; i < a->nout && ok; i++) ok = take(&io->outputs[i], a->groups[group].out[i].size * e->batch, &e->out[i]);
	*code = ok ? 0 : ENG(ID_EXECUTE);
	if (ok) return e;
	exec_drop(e);
	return NULL;
}

static int32_t run(call *c, void *handle, void *ctx, uint32_t group, const ax_io *io) {
	int32_t code;
	lock();
	exec *e = prepare(c, handle, ctx, group, io, &code);
	if (e) charge_npu(c, board, exec_cost(e));
	unlock();
	if (!e) return call_leave(c, code);
	code = exec_run(e) ? ENG(ID_NO_MEMORY) : 0;
	lock();
	exec_drop(e);
	unlock();
	return call_leave(c, code);
}

int32_t axsim_engine_RunSync(void *handle, ax_io *io) {
	ENTER(AX_ENGINE_RunSync, 0, "handle=%p", handle);
	lock();
	view *v = find(handle);
	void *ctx = v ? v->context : NULL;
	unlock();
	return run(&c, handle, ctx, 0, io);
}

int32_t axsim_engine_RunSyncV2(void *handle, void *ctx, ax_io *io) {
	ENTER(AX_ENGINE_RunSyncV2, 0, "handle=%p", handle);
	return run(&c, handle, ctx, 0, io);
}

int32_t axsim_engine_RunGroupIOSync(void *handle, void *ctx, uint32_t group, ax_io *io) {
	ENTER(AX_ENGINE_RunGroupIOSync, 0, "handle=%p group=%u", handle, group);
	return run(&c, handle, ctx, group, io);
}

int32_t axsim_engine_SetAffinity(void *handle, uint32_t set) {
	ENTER(AX_ENGINE_SetAffinity, 0, "handle=%p set=%x", handle, set);
	lock();
	view *v = find(handle);
	int id = !handle ? ID_NULL : !v || set < 1 || set > 7 ? ID_ILLEGAL : 0;
	if (!id) v->m->affinity = set;
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

int32_t axsim_engine_GetAffinity(void *handle, uint32_t *set) {
	ENTER(AX_ENGINE_GetAffinity, 0, "handle=%p", handle);
	lock();
	view *v = find(handle);
	int id = !handle || !set ? ID_NULL : !v ? ID_ILLEGAL : 0;
	if (!id) *set = v->m->affinity;
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

int32_t axsim_engine_GetHandleModelType(void *handle, int32_t *type) {
	ENTER(AX_ENGINE_GetHandleModelType, 0, "handle=%p", handle);
	lock();
	int id = !handle || !type ? ID_NULL : !find(handle) ? ID_ILLEGAL : 0;
	if (!id) *type = 0;
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

int32_t axsim_engine_GetCMMUsage(void *handle, ax_cmm *cmm) {
	ENTER(AX_ENGINE_GetCMMUsage, 0, "handle=%p", handle);
	lock();
	view *v = find(handle);
	int id = !handle || !cmm ? ID_NULL : !v ? ID_ILLEGAL : 0;
	if (!id) cmm->cmmSize = v->m->cmm > UINT32_MAX ? UINT32_MAX : (uint32_t)v->m->cmm;
	unlock();
	return call_leave(&c, id ? ENG(id) : 0);
}

const char *axsim_engine_GetModelToolsVersion(void *handle) {
	call c;
	call_enter(&c, CALL_AX_ENGINE_GetModelToolsVersion, 0, "handle=%p", handle);
	lock();
	view *v = c.stop ? NULL : find(handle);
	const char *s = v ? v->m->m->tool : NULL;
	unlock();
	call_leave(&c, c.code);
	return s;
}
