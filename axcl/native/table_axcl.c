//go:build cgo && !fake && linux

// table_axcl.c: the operations over libaxcl_rt.so, a card behind PCIe.
//
// Uploads, copies, executes and downloads are queued on one stream of the card in order, and a
// synchronisation with a time-out ends them. A second stream takes only copies within the card: all
// of a card's copies from and to the host belong on one stream. No event ties the two together,
// since some versions' events serve once only: what the second one reads is waited for before it is
// queued there. Device pointers are numbers: this side never reads through one.

#define _GNU_SOURCE
#include "native.h"
#include <dlfcn.h>
#include <string.h>

// Functions stop at the first call that fails. Those that release go on, and ask before each call
// whether the card is lost.
#define CALL(c, fn, ...) axn_note((c), #fn, (c)->lib->axcl.fn(__VA_ARGS__))

enum { HUGE_FROM = 2 << 20 }; // smaller buffers would waste a huge page each

// The library logs to standard output, in axclInit already, which this text keeps quiet where a
// level that was set before does not help. A version that does not know the text takes it for a
// file that is not there, which is no error, and is told again afterwards.
static const char quiet[] = "{\"log\":{\"host\":{\"level\":6}}}";

static int start(axn_card *c) {
    //rule:D17 TestQuietInit quiet => quiet + sizeof quiet - 1
    int rc = CALL(c, axclInit, quiet);
    // One that will not be quiet is still a library.
    if (!rc && c->lib->axcl.axclSetLogLevel) c->lib->axcl.axclSetLogLevel(AXCL_LOG_OFF);
    return rc;
}

static int finish(axn_card *c) { return CALL(c, axclFinalize); }

static int attach(axn_card *c, int32_t device) {
    int rc = CALL(c, axclrtSetDevice, device);
    if (rc) return rc;
    c->attached = true;
    c->device = device;
    rc = CALL(c, axclrtEngineInit, 0);
    c->engine_ours = !rc;
    if (rc && c->lost) return rc;
    if (rc) {
        // Someone in this process may have initialised the engine already; then it answers, and is
        // not ours to finalise.
        axn_err first = c->err;
        int32_t kind;
        if (CALL(c, axclrtEngineGetVNpuKind, &kind)) {
            c->err = first;
            return rc;
        }
        c->err = (axn_err){0};
    }
    if ((rc = CALL(c, axclrtGetCurrentContext, &c->context))) return rc;
    if ((rc = CALL(c, axclrtCreateStream, &c->stream))) return rc;
    return CALL(c, axclrtCreateStream, &c->side);
}

static int enter(axn_card *c) { return CALL(c, axclrtSetCurrentContext, c->context); }

static int detach(axn_card *c) {
    int rc = AXN_OK, e = AXN_OK;
    if (c->stream) rc = CALL(c, axclrtDestroyStream, c->stream);
    if (c->side && !c->lost) axn_also(&rc, CALL(c, axclrtDestroyStream, c->side));
    if (c->engine_ours && !c->lost) e = CALL(c, axclrtEngineFinalize);
    if (!rc) rc = e;
    if (c->attached && !c->lost) e = CALL(c, axclrtResetDevice, c->device);
    c->stream = c->side = NULL;
    c->engine_ours = c->attached = false;
    return rc ? rc : e;
}

static int list(axn_card *c, axcl_device_list *l) { return CALL(c, axclrtGetDeviceList, l); }

static int inform(axn_card *c, int32_t device, axn_info *i) {
    const struct axcl_table *t = &c->lib->axcl;
    if (t->axclrtGetFullVersion) axn_text(i->version, sizeof i->version, t->axclrtGetFullVersion());
    int rc = CALL(c, axclrtGetVersion, &i->release[0], &i->release[1], &i->release[2]);
    if (rc || device < 0) return rc;
    if (t->axclrtGetSocName) axn_text(i->soc, sizeof i->soc, t->axclrtGetSocName());
    // The card is asked for much of this by commands to its own Linux. That they take too long says
    // nothing of the rest of it.
    int32_t code = t->axclrtGetDeviceProperties(device, &i->props);
    c->calls++;
    return code ? axn_fail(c, AXN_CALL, "axclrtGetDeviceProperties", code, (code & 0xff) == 0x05) : AXN_OK;
}

// A load whose reply cannot be read (encode, decode, unexpected) puts the card out of step, but
// what was loaded before can still be unloaded, and must be: the card keeps its memory otherwise.
// So the card is lost only once Go has closed the model.
static int load(axn_card *c, axn_module *m, const char *path, const void *data, size_t size) {
    (void)data, (void)size; // from a file always: LoadFromMem hangs on some versions
    m->id = AXN_NO_ID;
    int32_t code = c->lib->axcl.axclrtEngineLoadFromFile(path, &m->id);
    c->calls++;
    if (!code && m->id == AXN_NO_ID) return axn_fail(c, AXN_MODEL, AXN_UNOPENED, 0, true); // it succeeds where it cannot open the file
    if (code) return axn_fail(c, AXN_CALL, "axclrtEngineLoadFromFile", code, (code & 0xff) >= 0x08 && (code & 0xff) <= 0x0a);
    m->loaded = true;
    int rc = CALL(c, axclrtEngineCreateContext, m->id, &m->context_id);
    if (rc) return rc;
    if ((rc = CALL(c, axclrtEngineGetIOInfo, m->id, &m->info))) return rc;
    int32_t groups;
    if ((rc = CALL(c, axclrtEngineGetShapeGroupsCount, m->info, &groups))) return rc;
    m->groups = (uint32_t)groups;
    m->ins = c->lib->axcl.axclrtEngineGetNumInputs(m->info);
    m->outs = c->lib->axcl.axclrtEngineGetNumOutputs(m->info);
    c->calls += 2;
    return AXN_OK;
}

static int unload(axn_card *c, axn_module *m) {
    int rc = m->loaded && !c->lost ? CALL(c, axclrtEngineUnload, m->id) : AXN_OK;
    m->loaded = false;
    return rc;
}

static int forget(axn_card *c, axn_module *m) {
    int rc = m->info && !c->lost ? CALL(c, axclrtEngineDestroyIOInfo, m->info) : AXN_OK;
    m->info = NULL;
    return rc;
}

static int describe(axn_card *c, axn_module *m, uint32_t group, uint32_t slot, bool dims, axn_tensor *t) {
    const struct axcl_table *a = &c->lib->axcl;
    bool in = slot < m->ins;
    uint32_t i = in ? slot : slot - m->ins;
    int rc = AXN_OK;
    t->size = in ? a->axclrtEngineGetInputSizeByIndex(m->info, group, i) : a->axclrtEngineGetOutputSizeByIndex(m->info, group, i);
    c->calls++;
    if (group == 0) { // one name and one type for all groups
        axn_text(t->name, sizeof t->name, in ? a->axclrtEngineGetInputNameByIndex(m->info, i)
            : a->axclrtEngineGetOutputNameByIndex(m->info, i));
        c->calls++;
        rc = in ? CALL(c, axclrtEngineGetInputDataType, m->info, i, &t->type)
            : CALL(c, axclrtEngineGetOutputDataType, m->info, i, &t->type);
    }
    if (rc || !dims) return rc;
    axcl_dims d;
    rc = in ? CALL(c, axclrtEngineGetInputDims, m->info, group, i, &d) : CALL(c, axclrtEngineGetOutputDims, m->info, group, i, &d);
    if (rc) return rc;
    t->ndim = d.count;
    memcpy(t->dims, d.dims, sizeof t->dims); // Go looks at ndim first
    return AXN_OK;
}

static uint32_t unlisted(axn_card *c, axn_module *m, const char *name) {
    if (!c->lib->axcl.axclrtEngineGetInputIndexByName) return AXN_NONE;
    int32_t i = c->lib->axcl.axclrtEngineGetInputIndexByName(m->info, name);
    c->calls++;
    return i < 0 || i >= AXN_TENSORS ? AXN_NONE : m->ins + m->outs + (uint32_t)i;
}

static int io_new(axn_card *c, axn_module *m, axn_io *io) {
    io->ins = m->ins;
    io->outs = m->outs;
    return CALL(c, axclrtEngineCreateIO, m->info, &io->handle);
}

static int io_free(axn_card *c, axn_io *io) {
    int rc = io->handle && !c->lost ? CALL(c, axclrtEngineDestroyIO, io->handle) : AXN_OK;
    io->handle = NULL;
    return rc;
}

static int bind(axn_card *c, axn_io *io, uint32_t slot, const axn_mem *mem, size_t offset, size_t size) {
    const char *at = (const char *)mem->at + offset;
    if (slot < io->ins) return CALL(c, axclrtEngineSetInputBufferByIndex, io->handle, slot, at, size);
    if (slot < io->ins + io->outs) return CALL(c, axclrtEngineSetOutputBufferByIndex, io->handle, slot - io->ins, at, size);
    return CALL(c, axclrtEngineSetInputBufferByIndex, io->handle, slot - io->ins - io->outs, at, size); // unlisted
}

static int alloc(axn_card *c, axn_mem *mem, size_t size) {
    int rc = CALL(c, axclrtMalloc, &mem->at, size, size < HUGE_FROM ? AXCL_NORMAL_ONLY : AXCL_HUGE_FIRST);
    if (rc) return rc;
    mem->size = size;
    return CALL(c, axclrtMemset, mem->at, 0, size);
}

static int release(axn_card *c, axn_mem *mem) {
    int rc = mem->at && !c->lost ? CALL(c, axclrtFree, mem->at) : AXN_OK;
    mem->at = NULL;
    return rc;
}

static int host_alloc(axn_card *c, void **host, size_t size) { return CALL(c, axclrtMallocHost, host, size); }

static int host_free(axn_card *c, void **host) {
    int rc = *host && !c->lost ? CALL(c, axclrtFreeHost, *host) : AXN_OK;
    *host = NULL;
    return rc;
}

static int up(axn_card *c, const axn_mem *to, size_t offset, const void *from, size_t size) {
    return CALL(c, axclrtMemcpyAsync, (char *)to->at + offset, from, size, AXCL_H2D, c->stream);
}

static int down(axn_card *c, void *to, const axn_mem *from, size_t offset, size_t size) {
    return CALL(c, axclrtMemcpyAsync, to, (const char *)from->at + offset, size, AXCL_D2H, c->stream);
}

static int copy(axn_card *c, const axn_mem *to, size_t to_offset, const axn_mem *from, size_t from_offset, size_t size) {
    return CALL(c, axclrtMemcpyAsync, (char *)to->at + to_offset, (const char *)from->at + from_offset, size, AXCL_D2D, c->stream);
}

static int run(axn_card *c, axn_module *m, uint32_t group, axn_io *io) {
    return CALL(c, axclrtEngineExecuteAsync, m->id, m->context_id, group, io->handle, c->stream);
}

static int keep(axn_card *c, const axn_mem *to, size_t to_offset, const axn_mem *from, size_t from_offset, size_t size) {
    c->beside = true;
    return CALL(c, axclrtMemcpyAsync, (char *)to->at + to_offset, (const char *)from->at + from_offset, size, AXCL_D2D, c->side);
}

// A task that failed is told of here, by what its function on the card returned: no code of the
// library's, and no reason to give the card up.
static int settle(axn_card *c, void *stream, int32_t ms) {
    int32_t code = c->lib->axcl.axclrtSynchronizeStreamWithTimeout(stream, ms);
    c->calls++;
    return code ? axn_fail(c, AXN_CALL, "axclrtSynchronizeStreamWithTimeout", code, axn_raw((uint32_t)code)) : AXN_OK;
}

static int sync(axn_card *c, int32_t ms) {
    int rc = settle(c, c->stream, ms);
    if (c->lost || !c->beside) return rc;
    c->beside = false;
    axn_also(&rc, settle(c, c->side, ms));
    return rc;
}

#define REQUIRED(ret, name, args) {#name, offsetof(struct axcl_table, name), false},
#define OPTIONAL(ret, name, args) {#name, offsetof(struct axcl_table, name), true},
static const axn_symbol symbols[] = {AXCL_REQUIRED(REQUIRED) AXCL_OPTIONAL(OPTIONAL){NULL, 0, false}};

static const axn_provider provider = {
    symbols, offsetof(axn_lib, axcl), start, finish, list, inform, attach, detach, enter, load, unload, forget, describe,
    unlisted, io_new, io_free, bind, alloc, release, host_alloc, host_free, up, down, copy, run, keep, sync,
};

const char *axn_open_axcl(axn_lib *lib, const char *path, bool *missing) {
    lib->handle = lib->sys = axn_dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) return dlerror();
    const char *lacks = axn_resolve(lib, &provider);
    *missing = lacks != NULL;
    if (lacks) dlclose(lib->handle);
    return lacks;
}
