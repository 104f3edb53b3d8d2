//go:build cgo && !fake && linux

// table_axengine.c: the operations over libax_engine.so and libax_sys.so, the NPU of the board this
// runs on.
//
// Memory is shared with the CPU and cached: a writer flushes, a reader invalidates, so an upload is
// a memcpy and a flush and a copy on the card is done here. There is no stream: every run is
// complete when it returns, sync has nothing to wait for, and the order of the operations is the
// order of the calls. Models are given as the bytes of their file, which Go has mapped for the
// call.

#define _GNU_SOURCE
#include "native.h"
#include <dlfcn.h>
#include <string.h>

#define CALL(c, fn, ...) axn_note((c), #fn, (c)->lib->engine.fn(__VA_ARGS__))

// A call that may be refused for want of memory or for a bad file: its codes are the vendor's own,
// unknown here, and do not cost the card.
#define ASK(c, fn, ...) asked((c), #fn, (c)->lib->engine.fn(__VA_ARGS__))

static int asked(axn_card *c, const char *op, int32_t code) {
    c->calls++;
    bool known = (((uint32_t)code) & 0xf0ff0000u) == 0x80300000u;
    return code ? axn_fail(c, AXN_CALL, op, code, !known) : AXN_OK;
}

static int start(axn_card *c) { return CALL(c, AX_SYS_Init); }

static int finish(axn_card *c) { return CALL(c, AX_SYS_Deinit); }

static int list(axn_card *c, axcl_device_list *l) {
    (void)c;
    *l = (axcl_device_list){.num = 1};
    return AXN_OK;
}

static int inform(axn_card *c, int32_t device, axn_info *i) {
    (void)device;
    const char *v = c->lib->engine.AX_ENGINE_GetVersion ? c->lib->engine.AX_ENGINE_GetVersion() : NULL;
    axn_text(i->version, sizeof i->version, v);
    return AXN_OK;
}

static int attach(axn_card *c, int32_t device) {
    c->device = device;
    ax_attr attr = {0};
    int rc = ASK(c, AX_ENGINE_Init, &attr);
    c->engine_ours = !rc;
    if (rc) {
        // Someone in this process may have initialised the engine already; then it answers, and is
        // not ours to end.
        axn_err first = c->err;
        if (ASK(c, AX_ENGINE_GetVNPUAttr, &attr)) {
            c->err = first;
            c->lost = axn_fatal((uint32_t)first.code);
            return rc;
        }
        c->err = (axn_err){0};
    }
    return AXN_OK;
}

static int detach(axn_card *c) {
    int rc = c->engine_ours && !c->lost ? CALL(c, AX_ENGINE_Deinit) : AXN_OK;
    c->engine_ours = false;
    return rc;
}

static int load(axn_card *c, axn_module *m, const char *path, const void *data, size_t size) {
    (void)path;
    ax_extra extra = {0};
    int rc = ASK(c, AX_ENGINE_CreateHandleV2, &m->handle, data, (uint32_t)size, &extra);
    if (rc) return rc;
    m->loaded = true;
    if ((rc = ASK(c, AX_ENGINE_CreateContextV2, m->handle, &m->context))) return rc;
    if ((rc = ASK(c, AX_ENGINE_GetGroupIOInfoCount, m->handle, &m->groups))) return rc;
    ax_info *info;
    if ((rc = ASK(c, AX_ENGINE_GetGroupIOInfo, m->handle, 0, &info))) return rc;
    m->ins = info->input_size;
    m->outs = info->output_size;
    return AXN_OK;
}

static int unload(axn_card *c, axn_module *m) {
    int rc = m->loaded && !c->lost ? CALL(c, AX_ENGINE_DestroyHandle, m->handle) : AXN_OK;
    m->loaded = false;
    return rc;
}

static int forget(axn_card *c, axn_module *m) {
    (void)c, (void)m; // descriptions belong to the handle
    return AXN_OK;
}

static int describe(axn_card *c, axn_module *m, uint32_t group, uint32_t slot, bool dims, axn_tensor *t) {
    static const int8_t types[] = {-1, 4, 6, 15, 5, 3, 7, 8, 16, 14};
    (void)dims;
    ax_info *info;
    int rc = ASK(c, AX_ENGINE_GetGroupIOInfo, m->handle, group, &info);
    if (rc) return rc;
    if (info->input_size != m->ins || info->output_size != m->outs) return axn_fail(c, AXN_MODEL, "AX_ENGINE_GetGroupIOInfo", 0, true);
    const ax_meta *meta = slot < m->ins ? &info->inputs[slot] : &info->outputs[slot - m->ins];
    axn_text(t->name, sizeof t->name, meta->name);
    t->size = meta->size;
    t->type = (uint32_t)meta->data_type < sizeof types ? types[meta->data_type] : -1;
    t->ndim = meta->shape_size;
    for (int32_t k = 0; k < t->ndim && k < AXN_DIMS; k++) t->dims[k] = meta->shape[k];
    return AXN_OK;
}

static int io_new(axn_card *c, axn_module *m, axn_io *io) {
    (void)c;
    io->ins = m->ins;
    io->io = (ax_io){.inputs = io->buffers, .input_size = m->ins, .outputs = io->buffers + m->ins, .output_size = m->outs, .batch = 0};
    return AXN_OK;
}

static int io_free(axn_card *c, axn_io *io) {
    (void)c, (void)io;
    return AXN_OK;
}

static int bind(axn_card *c, axn_io *io, uint32_t slot, const axn_mem *mem, size_t offset, size_t size) {
    (void)c;
    io->buffers[slot] = (ax_buffer){.phys = mem->phys + offset, .virt = (char *)mem->at + offset, .size = (uint32_t)size};
    return AXN_OK;
}

static int flush(axn_card *c, const axn_mem *mem, size_t offset, size_t size) {
    return CALL(c, AX_SYS_MflushCache, mem->phys + offset, (char *)mem->at + offset, (uint32_t)size);
}

static int invalidate(axn_card *c, const axn_mem *mem, size_t offset, size_t size) {
    return CALL(c, AX_SYS_MinvalidateCache, mem->phys + offset, (char *)mem->at + offset, (uint32_t)size);
}

static int alloc(axn_card *c, axn_mem *mem, size_t size) {
    int rc = ASK(c, AX_SYS_MemAllocCached, &mem->phys, &mem->at, (uint32_t)size, AX_ALIGN, (const int8_t *)"axle");
    if (rc) return rc;
    mem->size = size;
    memset(mem->at, 0, size);
    return flush(c, mem, 0, size);
}

static int release(axn_card *c, axn_mem *mem) {
    int rc = mem->at && !c->lost ? CALL(c, AX_SYS_MemFree, mem->phys, mem->at) : AXN_OK;
    mem->at = NULL;
    return rc;
}

static int host_alloc(axn_card *c, void **host, size_t size) {
    (void)c, (void)host, (void)size;
    return AXN_OK;
}

static int host_free(axn_card *c, void **host) {
    (void)c, (void)host;
    return AXN_OK;
}

// The NPU may have written beside what is written here, in the same cache line: the line is fetched
// anew before it is changed, or the flush would put old neighbours back.
static int up(axn_card *c, const axn_mem *to, size_t offset, const void *from, size_t size) {
    int rc = invalidate(c, to, offset, size);
    if (rc) return rc;
    memcpy((char *)to->at + offset, from, size);
    return flush(c, to, offset, size);
}

static int down(axn_card *c, void *to, const axn_mem *from, size_t offset, size_t size) {
    int rc = invalidate(c, from, offset, size);
    if (!rc) memcpy(to, (const char *)from->at + offset, size);
    return rc;
}

static int copy(axn_card *c, const axn_mem *to, size_t to_offset, const axn_mem *from, size_t from_offset, size_t size) {
    int rc = invalidate(c, from, from_offset, size);
    return rc ? rc : up(c, to, to_offset, (const char *)from->at + from_offset, size);
}

static int run(axn_card *c, axn_module *m, uint32_t group, axn_io *io) {
    return CALL(c, AX_ENGINE_RunGroupIOSync, m->handle, m->context, group, &io->io);
}

static int settle(axn_card *c, int32_t ms) { // every call is complete when it returns
    (void)c, (void)ms;
    return AXN_OK;
}

#define REQUIRED(ret, name, args) {#name, offsetof(struct engine_table, name), false},
#define OPTIONAL(ret, name, args) {#name, offsetof(struct engine_table, name), true},
static const axn_symbol symbols[] = {AX_ENGINE_REQUIRED(REQUIRED) AX_SYS_REQUIRED(REQUIRED) AX_ENGINE_OPTIONAL(OPTIONAL){NULL, 0, false}};

static const axn_provider provider = {
    symbols, offsetof(axn_lib, engine), start, finish, list, inform, attach, detach, NULL, load, unload, forget, describe,
    NULL, io_new, io_free, bind, alloc, release, host_alloc, host_free, up, down, copy, run, copy, settle,
};

const char *axn_open_engine(axn_lib *lib, const char *sys, const char *engine, bool *missing) {
    // The engine library expects the other's symbols to be there already.
    lib->sys = axn_dlopen(sys, RTLD_NOW | RTLD_GLOBAL);
    if (!lib->sys) return dlerror();
    lib->handle = axn_dlopen(engine, RTLD_NOW | RTLD_LOCAL);
    const char *lacks = lib->handle ? axn_resolve(lib, &provider) : dlerror();
    *missing = lib->handle && lacks;
    if (*missing) { // not where dlerror speaks: its text is gone with the next call
        dlclose(lib->handle);
        dlclose(lib->sys);
    }
    return lacks;
}
