// Io infos and ios: what a model's tensors are and where they lie, and executes. Data flow: io info
// (the model's shapes) -> io, a list of addresses and sizes on the host that nothing checks ->
// execute looks up what lies there at the call, so a later binding does not touch work that is
// queued.
#include "abi_axcl.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

int32_t axclrtEngineGetIOInfo(uint64_t id, axcl_handle *out) {
	ENTER(axclrtEngineGetIOInfo, SUB_ENGINE, "id=%llx", (unsigned long long)id);
	if (!out) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	if (d) {
		model *m = model_find(id, d);
		code = m ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL);
		info *i = code ? NULL : calloc(1, sizeof *i);
		if (i && handle_new(&i->o, K_INFO, d)) {
			i->model = m;
			m->refs++;
			*out = i->o.handle;
		} else if (!code) {
			free(i);
			code = CODE(SUB_ENGINE, ID_NO_MEMORY);
		}
	}
	unlock();
	return call_leave(&c, code);
}

static int32_t destroy(call *c, axcl_handle h, int kind) {
	lock();
	obj *o = handle_get(h, kind);
	int32_t code = !h ? CODE(SUB_ENGINE, ID_NULL) : o ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL);
	if (o) {
		if (o->dev->lost && kind == K_INFO) code = E_NO_CONNECTION; // an io is the host's own
		handle_drop(o);
	}
	unlock();
	return call_leave(c, code);
}

int32_t axclrtEngineDestroyIOInfo(axcl_handle h) {
	ENTER(axclrtEngineDestroyIOInfo, SUB_ENGINE, "info=%p", h);
	return destroy(&c, h, K_INFO);
}

int32_t axclrtEngineDestroyIO(axcl_handle h) {
	ENTER(axclrtEngineDestroyIO, SUB_ENGINE, "io=%p", h);
	return destroy(&c, h, K_IO);
}

// ---- descriptions. These read what the host already has: they need no context and cross nothing.

static axm *shapes(axcl_handle h) { // with the lock held
	info *i = handle_get(h, K_INFO);
	return i ? i->model->m : NULL;
}

static const axm_tensor *tensor_of(const axm *m, bool out, uint32_t group, uint32_t index) {
	if (!m || group >= m->ngroups || index >= (out ? m->nout : m->listed)) return NULL;
	return out ? &m->groups[group].out[index] : &m->groups[group].in[index];
}

// A name of group 0, or with the suffix of any group.
static int32_t index_by_name(const axm *m, bool out, const char *name) {
	for (uint32_t g = 0; m && g < m->ngroups; g++)
		for (uint32_t i = 0; i < (out ? m->nout : m->nin); i++)
			if (!strcmp((out ? m->groups[g].out : m->groups[g].in)[i].name, name)) return (int32_t)i;
	return -1;
}

int32_t axclrtEngineGetShapeGroupsCount(axcl_handle h, int32_t *count) {
	ENTER(axclrtEngineGetShapeGroupsCount, SUB_ENGINE, "info=%p", h);
	lock();
	const axm *m = shapes(h);
	int id = !h || !count ? ID_NULL : !m ? ID_ILLEGAL : 0;
	if (!id) *count = (int32_t)m->ngroups;
	unlock();
	return id ? FAIL(id) : call_leave(&c, 0);
}

static uint32_t number(int id, axcl_handle h, bool out) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "info=%p", h);
	lock();
	const axm *m = c.stop ? NULL : shapes(h);
	uint32_t n = !m ? 0 : out ? m->nout : m->listed;
	unlock();
	call_leave(&c, c.code);
	return n;
}

uint32_t axclrtEngineGetNumInputs(axcl_handle h) { return number(CALL_axclrtEngineGetNumInputs, h, false); }
uint32_t axclrtEngineGetNumOutputs(axcl_handle h) { return number(CALL_axclrtEngineGetNumOutputs, h, true); }

static uint64_t size_of(int id, axcl_handle h, uint32_t group, uint32_t index, bool out) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "info=%p group=%u index=%u", h, group, index);
	lock();
	const axm_tensor *t = c.stop ? NULL : tensor_of(shapes(h), out, group, index);
	uint64_t n = t ? t->size : 0;
	unlock();
	call_leave(&c, c.code);
	return n;
}

uint64_t axclrtEngineGetInputSizeByIndex(axcl_handle h, uint32_t group, uint32_t index) {
	return size_of(CALL_axclrtEngineGetInputSizeByIndex, h, group, index, false);
}

uint64_t axclrtEngineGetOutputSizeByIndex(axcl_handle h, uint32_t group, uint32_t index) {
	return size_of(CALL_axclrtEngineGetOutputSizeByIndex, h, group, index, true);
}

static const char *name_of(int id, axcl_handle h, uint32_t index, bool out) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "info=%p index=%u", h, index);
	lock();
	const axm_tensor *t = c.stop ? NULL : tensor_of(shapes(h), out, 0, index);
	unlock();
	call_leave(&c, c.code);
	return t ? t->name : NULL; // lives as long as the io info
}

const char *axclrtEngineGetInputNameByIndex(axcl_handle h, uint32_t index) {
	return name_of(CALL_axclrtEngineGetInputNameByIndex, h, index, false);
}

const char *axclrtEngineGetOutputNameByIndex(axcl_handle h, uint32_t index) {
	return name_of(CALL_axclrtEngineGetOutputNameByIndex, h, index, true);
}

static int32_t named(int id, axcl_handle h, const char *name, bool out) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "info=%p name=%s", h, name ? name : "NULL");
	lock();
	int32_t i = c.stop || !name ? -1 : index_by_name(shapes(h), out, name);
	unlock();
	call_leave(&c, c.code);
	return i;
}

int32_t axclrtEngineGetInputIndexByName(axcl_handle h, const char *name) {
	return named(CALL_axclrtEngineGetInputIndexByName, h, name, false);
}
int32_t axclrtEngineGetOutputIndexByName(axcl_handle h, const char *name) {
	return named(CALL_axclrtEngineGetOutputIndexByName, h, name, true);
}

static int32_t describe(int id, axcl_handle h, uint32_t group, uint32_t index, bool out, bool args, axm_tensor *t) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "info=%p group=%u index=%u", h, group, index);
	if (c.stop) return call_leave(&c, c.code);
	lock();
	const axm *m = shapes(h);
	const axm_tensor *found = tensor_of(m, out, group, index);
	int32_t code = !h || !args ? CODE(SUB_ENGINE, ID_NULL) : !m ? CODE(SUB_ENGINE, ID_ILLEGAL) : !found ? E_INDEX : 0;
	if (!code) *t = *found;
	unlock();
	return call_leave(&c, code);
}

static int32_t dims_of(int id, axcl_handle h, uint32_t group, uint32_t index, bool out, axcl_dims *dims) {
	axm_tensor t = {0};
	int32_t code = describe(id, h, group, index, out, dims, &t);
	if (code) return code;
	memset(dims, 0, sizeof *dims);
	dims->dimCount = t.ndims;
	for (int i = 0; i < t.ndims; i++) dims->dims[i] = t.dims[i];
	return 0;
}

int32_t axclrtEngineGetInputDims(axcl_handle h, uint32_t group, uint32_t index, axcl_dims *dims) {
	return dims_of(CALL_axclrtEngineGetInputDims, h, group, index, false, dims);
}

int32_t axclrtEngineGetOutputDims(axcl_handle h, uint32_t group, uint32_t index, axcl_dims *dims) {
	return dims_of(CALL_axclrtEngineGetOutputDims, h, group, index, true, dims);
}

static int32_t type_of(int id, axcl_handle h, uint32_t index, bool out, int32_t *type) {
	axm_tensor t = {0};
	int32_t code = describe(id, h, 0, index, out, type, &t);
	if (!code) *type = t.type;
	return code;
}

int32_t axclrtEngineGetInputDataType(axcl_handle h, uint32_t index, int32_t *type) {
	return type_of(CALL_axclrtEngineGetInputDataType, h, index, false, type);
}

int32_t axclrtEngineGetOutputDataType(axcl_handle h, uint32_t index, int32_t *type) {
	return type_of(CALL_axclrtEngineGetOutputDataType, h, index, true, type);
}

static int32_t layout_of(int id, axcl_handle h, uint32_t index, bool out, int32_t *layout) {
	axm_tensor t = {0};
	int32_t code = describe(id, h, 0, index, out, layout, &t);
	if (!code) *layout = 0; // none: these are not images
	return code;
}

int32_t axclrtEngineGetInputDataLayout(axcl_handle h, uint32_t index, int32_t *layout) {
	return layout_of(CALL_axclrtEngineGetInputDataLayout, h, index, false, layout);
}

int32_t axclrtEngineGetOutputDataLayout(axcl_handle h, uint32_t index, int32_t *layout) {
	return layout_of(CALL_axclrtEngineGetOutputDataLayout, h, index, true, layout);
}

// ---- bindings

int32_t axclrtEngineCreateIO(axcl_handle h, axcl_handle *out) {
	ENTER(axclrtEngineCreateIO, SUB_ENGINE, "info=%p", h);
	if (!h || !out) return FAIL(ID_NULL);
	lock();
	info *i = handle_get(h, K_INFO);
	int32_t code = i ? 0 : CODE(SUB_ENGINE, ID_ILLEGAL);
	iobuf *io = code ? NULL : calloc(1, sizeof *io);
	if (io && handle_new(&io->o, K_IO, i->o.dev)) {
		io->model = i->model;
		io->model->refs++;
		io->batch = 1;
		io->group = -1;
		*out = io->o.handle;
	} else if (!code) {
		free(io);
		code = CODE(SUB_ENGINE, ID_NO_MEMORY);
	}
	unlock();
	return call_leave(&c, code);
}

// The binding an index or a name stands for, with the lock held; NULL and a code.
static struct binding *binding(axcl_handle h, bool by_name, const char *name, uint32_t index, bool out, iobuf **io, int32_t *code) {
	*io = handle_get(h, K_IO);
	*code = !h || (by_name && !name) ? CODE(SUB_ENGINE, ID_NULL) : !*io ? CODE(SUB_ENGINE, ID_ILLEGAL) : 0;
	if (*code) return NULL;
	const axm *m = (*io)->model->m;
	if (by_name) {
		int32_t i = index_by_name(m, out, name);
		if (i < 0) {
			*code = CODE(SUB_ENGINE, ID_ILLEGAL);
			return NULL;
		}
		index = (uint32_t)i;
	}
	if (index >= (out ? m->nout : m->nin)) {
		*code = CODE(SUB_ENGINE, ID_ILLEGAL);
		return NULL;
	}
	return out ? &(*io)->out[index] : &(*io)->in[index];
}

static int32_t bind(int id, axcl_handle h, bool by_name, const char *name, uint32_t index, bool out, const void *dev, uint64_t size) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "io=%p %s=%s index=%u dev=%p size=%llu", h, by_name ? "name" : "by", by_name && name ? name : "index",
		index, dev,
	           (unsigned long long)size);
	if (c.stop) return call_leave(&c, c.code);
	iobuf *io;
	int32_t code;
	lock();
	struct binding *s = binding(h, by_name, name, index, out, &io, &code);
	if (s && !dev) code = CODE(SUB_ENGINE, ID_NULL);
	if (s && !code && hazard(HZ_BOUNDS)) {
		span there = {0};
		code = size ? span_get(dev, size, io->o.dev, &there) : CODE(SUB_ENGINE, ID_ILLEGAL);
		span_put(&there);
	}
	if (s && !code) {
		*s = (struct binding){(uint64_t)(uintptr_t)dev, size};
		io->group = -1; // bound anew: for whichever group comes next
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtEngineSetInputBufferByIndex(axcl_handle h, uint32_t index, const void *dev, uint64_t size) {
	return bind(CALL_axclrtEngineSetInputBufferByIndex, h, false, NULL, index, false, dev, size);
}

int32_t axclrtEngineSetOutputBufferByIndex(axcl_handle h, uint32_t index, const void *dev, uint64_t size) {
	return bind(CALL_axclrtEngineSetOutputBufferByIndex, h, false, NULL, index, true, dev, size);
}

int32_t axclrtEngineSetInputBufferByName(axcl_handle h, const char *name, const void *dev, uint64_t size) {
	return bind(CALL_axclrtEngineSetInputBufferByName, h, true, name, 0, false, dev, size);
}

int32_t axclrtEngineSetOutputBufferByName(axcl_handle h, const char *name, const void *dev, uint64_t size) {
	return bind(CALL_axclrtEngineSetOutputBufferByName, h, true, name, 0, true, dev, size);
}

static int32_t bound(int id, axcl_handle h, bool by_name, const char *name, uint32_t index, bool out, void **dev, uint64_t *size) {
	call c;
	call_enter(&c, id, SUB_ENGINE, "io=%p name=%s index=%u", h, name ? name : "-", index);
	if (c.stop) return call_leave(&c, c.code);
	iobuf *io;
	int32_t code;
	lock();
	const struct binding *s = binding(h, by_name, name, index, out, &io, &code);
	if (s && (!dev || !size)) code = CODE(SUB_ENGINE, ID_NULL);
	if (s && !code) {
		*dev = (void *)(uintptr_t)s->addr; // nothing bound yet: NULL and 0
		*size = s->len;
	}
	unlock();
	return call_leave(&c, code);
}

int32_t axclrtEngineGetInputBufferByIndex(axcl_handle h, uint32_t index, void **dev, uint64_t *size) {
	return bound(CALL_axclrtEngineGetInputBufferByIndex, h, false, NULL, index, false, dev, size);
}

int32_t axclrtEngineGetOutputBufferByIndex(axcl_handle h, uint32_t index, void **dev, uint64_t *size) {
	return bound(CALL_axclrtEngineGetOutputBufferByIndex, h, false, NULL, index, true, dev, size);
}

int32_t axclrtEngineGetInputBufferByName(axcl_handle h, const char *name, void **dev, uint64_t *size) {
	return bound(CALL_axclrtEngineGetInputBufferByName, h, true, name, 0, false, dev, size);
}

int32_t axclrtEngineGetOutputBufferByName(axcl_handle h, const char *name, void **dev, uint64_t *size) {
	return bound(CALL_axclrtEngineGetOutputBufferByName, h, true, name, 0, true, dev, size);
}

enum { MAX_BATCH = 1024 };

int32_t axclrtEngineSetDynamicBatchSize(axcl_handle h, uint32_t batch) {
	ENTER(axclrtEngineSetDynamicBatchSize, SUB_ENGINE, "io=%p batch=%u", h, batch);
	lock();
	iobuf *io = handle_get(h, K_IO);
	int id = !h ? ID_NULL : !io || batch == 0 || batch > MAX_BATCH ? ID_ILLEGAL : 0;
	if (!id) io->batch = batch;
	unlock();
	return id ? FAIL(id) : call_leave(&c, 0);
}

// ---- executes

// What lies where a binding says, if anything does.
static bool look_up(const struct binding *b, device *d, span *s) {
	return !b->addr || !span_get((const void *)(uintptr_t)b->addr, b->len, d, s);
}

// An execute is one message, which names each input and output. What is longer than the card takes
// is dropped there, and no answer comes.
static bool unheard(const exec *e) {
	enum { HEAD = 24, EACH = 20 };
	return hazard(HZ_MESSAGE) && HEAD + EACH * (uint64_t)(e->m->m->nin + e->m->m->nout) > sim.cfg.message;
}

// Everything an execute needs, with the lock held; NULL and a code.
static exec *prepare(call *c, device *d, uint64_t model_id, uint64_t ctx, uint32_t group, axcl_handle h, int32_t *code) {
	model *m = model_find(model_id, d);
	iobuf *io = handle_get(h, K_IO);
	bool known = false;
	for (int i = 0; m && i < m->ncontexts; i++) known = known || m->contexts[i] == ctx;
	*code = !m || !known ? CODE(SUB_ENGINE, ID_ILLEGAL)
	        : group >= m->m->ngroups ? E_INDEX
	        : !io || io->model != m ? CODE(SUB_ENGINE, ID_ILLEGAL)
	                                : 0;
	if (*code) return NULL;
	exec *e = calloc(1, sizeof *e);
	if (!e) {
		*code = CODE(SUB_ENGINE, ID_NO_MEMORY);
		return NULL;
	}
	e->m = m;
	m->refs++;
	e->dev = d;
	e->group = group;
	e->batch = io->batch;
	e->wrong = c->wrong;
	e->crossed = io->group >= 0 && io->group != (int64_t)group;
	if (io->group < 0) io->group = group;
	bool there = true;
	for (uint32_t i = 0; i < m->m->nin && there; i++) there = look_up(&io->in[i], d, &e->in[i]);
	for (uint32_t i = 0; i < m->m->nout && there; i++) there = look_up(&io->out[i], d, &e->out[i]);
	d->running++;
	d->ran = true;
	*code = there ? exec_check(e) : CODE(SUB_ENGINE, ID_EXECUTE);
	if (!*code) return e;
	exec_drop(e);
	return NULL;
}

int32_t axclrtEngineExecute(uint64_t model_id, uint64_t ctx, uint32_t group, axcl_handle h) {
	ENTER(axclrtEngineExecute, SUB_ENGINE, "model=%llx ctx=%llx group=%u io=%p", (unsigned long long)model_id, (unsigned long long)ctx,
		group, h);
	if (!h) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = c.code;
	exec *e = d ? prepare(&c, d, model_id, ctx, group, h, &code) : NULL;
	if (e && unheard(e)) {
		hang_here();
		exec_drop(e);
		e = NULL;
		code = CODE(SUB_ENGINE, ID_TIMEOUT);
	} else if (e) {
		charge_npu(&c, e->dev, exec_cost(e));
		state_busy(1);
	}
	unlock();
	if (!e) return call_leave(&c, code);
	code = exec_run(e);
	clock_sleep_until(c.end);
	lock();
	state_busy(-1);
	exec_drop(e);
	unlock();
	return call_leave(&c, code);
}

static int32_t task_execute(task *t, stream *s) {
	(void)s;
	lock();
	state_busy(1);
	unlock();
	int32_t code = exec_run(t->exec);
	clock_sleep_until(t->end);
	lock();
	state_busy(-1);
	unlock();
	return code;
}

static void task_done(task *t) { exec_drop(t->exec); }

int32_t axclrtEngineExecuteAsync(uint64_t model_id, uint64_t ctx, uint32_t group, axcl_handle h, axcl_handle hs) {
	ENTER(axclrtEngineExecuteAsync, SUB_ENGINE, "model=%llx ctx=%llx group=%u io=%p stream=%p", (unsigned long long)model_id,
		(unsigned long long)ctx, group, h, hs);
	if (!h || !hs) return FAIL(ID_NULL);
	lock();
	stream *s = call_stream(&c, hs);
	int32_t code = c.code;
	exec *e = s ? prepare(&c, s->o.dev, model_id, ctx, group, h, &code) : NULL;
	if (e) {
		task *t = task_new(&c);
		if (t) {
			t->run = task_execute;
			t->drop = task_done;
			t->exec = e;
			t->hang = t->hang || unheard(e);
			stream_push(s, t, charge_stream_npu(&c, s, s->o.dev, exec_cost(e) + c.slow));
		} else {
			exec_drop(e);
			code = CODE(SUB_ENGINE, ID_NO_MEMORY);
		}
	}
	unlock();
	return call_leave(&c, code);
}
