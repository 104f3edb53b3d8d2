// A vendor's library that says odd things, for both tables: one decoder layer of hidden 32, K and V
// of 4, a decode group of 12 cells, and what the environment variable ODD asks for. Built by
// odd_test.go; calls not written here succeed and do nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../abi.h"

#define STUB(ret, name, args) __attribute__((weak, visibility("default"))) ret name args;
AXCL_REQUIRED(STUB)
AX_SYS_REQUIRED(STUB)
AX_ENGINE_REQUIRED(STUB)

static int odd(const char *what) {
    const char *s = getenv("ODD");
    return s && !strcmp(s, what);
}

enum { INS = 5, OUTS = 3, ALL = INS + OUTS };
static const struct { const char *name; int32_t type, dims[3]; } tensors[ALL] = {
    {"input", 14, {1, 1, 32}}, {"indices", 8, {1, 1, 1}}, {"mask", 14, {1, 1, 13}}, {"K_cache", 14, {1, 12, 4}}, {"V_cache", 14, {1, 12, 4}},
    {"K_cache_out", 14, {1, 1, 4}}, {"V_cache_out", 14, {1, 1, 4}}, {"output", 14, {1, 1, 32}},
};
static uint64_t ids;

static int second(uint64_t id) { return id % 2; } // the id of a file that is not layer 0
static const char *name_of(uint64_t id, uint32_t t) { return odd("second-name") && second(id) && t == 2 ? "musk" : odd("no-name") && t == 2 ? NULL : tensors[t % ALL].name; }
static int32_t type_of(uint64_t id, uint32_t t) { return odd("type") && t == 2 ? 99 : odd("second-type") && second(id) && t == 2 ? 13 : tensors[t % ALL].type; }
static int32_t dim_of(uint32_t t, uint32_t k) {
    int32_t d = tensors[t % ALL].dims[k];
    return odd("zero") && t == 2 ? 0 : odd("huge") && t == 2 ? 1 << 20 : odd("hidden") && d == 32 ? 64 : d;
}
static uint64_t size_of(uint64_t id, uint32_t t) {
    uint64_t n = type_of(0, t) == 8 ? 4 : 2;
    for (uint32_t k = 0; k < 3; k++) n *= (uint64_t)dim_of(t, k);
    return odd("size") && t == 2 ? n + 1 : odd("second-size") && second(id) && t == 2 ? n * 2 : n;
}
static uint32_t ins_of(uint64_t id) { return odd("no-inputs") ? 0 : odd("inputs") ? 65 : odd("many-inputs") ? 200 : odd("named") ? 47 : odd("unnamed") ? 48 : odd("extra") || (odd("second-inputs") && second(id)) ? 6 : INS; }
static uint32_t outs_of(void) { return odd("no-outputs") ? 0 : odd("outputs") ? 65 : OUTS; }

// A library that would log to standard output from here on is told not to in the text that begins
// it: any other beginning is refused.
int32_t axclInit(const char *config) { return config && !strcmp(config, "{\"log\":{\"host\":{\"level\":6}}}") ? 0 : (int32_t)0x80300603; }
int32_t axclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch) { return *major = 3, *minor = 6, *patch = 5, 0; }
int32_t axclrtGetDeviceList(axcl_device_list *list) { return list->num = 1, list->devices[0] = 1, 0; }
int32_t axclrtMallocHost(void **p, size_t n) { return *p = calloc(1, n), 0; }
int32_t axclrtFreeHost(void *p) { return free(p), 0; }
int32_t axclrtMalloc(void **p, size_t n, int32_t policy) { return (void)policy, *p = calloc(1, n), 0; }
int32_t axclrtFree(void *p) { return free(p), 0; }
int32_t axclrtMemcpyAsync(void *to, const void *from, size_t n, int32_t kind, void *stream) { return (void)kind, (void)stream, memcpy(to, from, n), 0; }
int32_t axclrtEngineInit(int32_t kind) { return (void)kind, odd("taken") ? (int32_t)0x80300706 : 0; }
int32_t axclrtEngineFinalize(void) { return odd("taken") ? (int32_t)0x80300701 : 0; }
int32_t axclrtEngineLoadFromFile(const char *path, uint64_t *id) { return *id = ++ids * 2 + (strstr(path, "_l1_") != NULL), 0; }
int32_t axclrtEngineGetIOInfo(uint64_t id, void **info) { return *info = (void *)(uintptr_t)id, 0; }
int32_t axclrtEngineGetShapeGroupsCount(void *info, int32_t *n) { return (void)info, *n = odd("no-groups") ? 0 : odd("groups") ? 65 : 1, 0; }
uint32_t axclrtEngineGetNumInputs(void *info) { return ins_of((uintptr_t)info); }
uint32_t axclrtEngineGetNumOutputs(void *info) { return (void)info, outs_of(); }
uint64_t axclrtEngineGetInputSizeByIndex(void *info, uint32_t g, uint32_t i) { return (void)g, size_of((uintptr_t)info, i); }
uint64_t axclrtEngineGetOutputSizeByIndex(void *info, uint32_t g, uint32_t i) { return (void)g, size_of((uintptr_t)info, INS + i); }
const char *axclrtEngineGetInputNameByIndex(void *info, uint32_t i) { return i < INS ? name_of((uintptr_t)info, i) : "more"; }
const char *axclrtEngineGetOutputNameByIndex(void *info, uint32_t i) { return name_of((uintptr_t)info, INS + i); }
static int32_t dims(uint32_t t, axcl_dims *d) {
    d->count = odd("dims") ? 9 : odd("negative") ? -1 : 3;
    for (uint32_t k = 0; k < 3; k++) d->dims[k] = dim_of(t, k);
    return 0;
}
int32_t axclrtEngineGetInputDims(void *info, uint32_t g, uint32_t i, axcl_dims *d) { return (void)info, (void)g, dims(i, d); }
int32_t axclrtEngineGetOutputDims(void *info, uint32_t g, uint32_t i, axcl_dims *d) { return (void)info, (void)g, dims(INS + i, d); }
int32_t axclrtEngineGetInputDataType(void *info, uint32_t i, int32_t *t) { return *t = type_of((uintptr_t)info, i), 0; }
int32_t axclrtEngineGetOutputDataType(void *info, uint32_t i, int32_t *t) { return *t = type_of((uintptr_t)info, INS + i), 0; }
int32_t axclrtEngineCreateIO(void *info, void **io) { return *io = info, 0; }

// On board the tensors are described in structs, which live as long as the library.
int32_t AX_SYS_MemAllocCached(uint64_t *phys, void **virt, uint32_t n, uint32_t align, const int8_t *token) {
    return (void)token, *virt = aligned_alloc(align, (n + align) / align * align), *phys = (uintptr_t)*virt, 0;
}
int32_t AX_SYS_MemFree(uint64_t phys, void *virt) { return (void)phys, free(virt), 0; }
int32_t AX_ENGINE_Init(ax_attr *attr) { return (void)attr, odd("taken") ? (int32_t)0x80060110 : 0; }
int32_t AX_ENGINE_Deinit(void) { return odd("taken") ? (int32_t)0x80300701 : 0; }
int32_t AX_ENGINE_CreateHandleV2(void **handle, const void *data, uint32_t n, ax_extra *extra) { return (void)n, (void)extra, *handle = (void *)(uintptr_t)(++ids * 2 + ((const uint8_t *)data)[108]), 0; }
int32_t AX_ENGINE_GetGroupIOInfoCount(void *handle, uint32_t *n) { return (void)handle, *n = odd("no-groups") ? 0 : odd("groups") ? 65 : odd("ragged") || odd("ragged-outputs") || odd("plain") || odd("suffixed") ? 2 : 1, 0; }
int32_t AX_ENGINE_GetGroupIOInfo(void *handle, uint32_t group, ax_info **info) {
    static ax_info infos[2];
    static ax_meta metas[2 * 66];
    static int32_t shapes[2 * 66][9];
    static const int32_t types[] = {[8] = 7, [13] = 0, [14] = 9};
    static char names[2 * 66][32];
    uint64_t id = (uintptr_t)handle;
    ax_info *i = &infos[second(id)];
    *i = (ax_info){.inputs = metas, .input_size = ins_of(id) - (group && odd("ragged")), .outputs = metas + 66, .output_size = outs_of() - (group && odd("ragged-outputs"))};
    for (uint32_t t = 0; t < 2 * 66; t++) {
        uint32_t of = t < 66 ? t % ALL : INS + (t - 66) % OUTS;
        for (uint32_t k = 0; k < 9; k++) shapes[t][k] = k < 3 ? dim_of(of, k) : 1;
        int32_t type = type_of(id, of);
        metas[t] = (ax_meta){.name = (char *)(uintptr_t)(t >= INS && t < 66 ? "more" : name_of(id, of)), .shape = shapes[t], .shape_size = odd("dims") ? 9 : 3,
            .data_type = type < 0 || type > 14 ? 99 : types[type], .size = (uint32_t)size_of(id, of)};
        if (odd("suffixed") && group) {
            snprintf(names[t], sizeof names[t], "%s_%u", metas[t].name, group);
            metas[t].name = names[t];
        }
    }
    return *info = i, 0;
}

// A library of later than 3.6 reads 128 bytes of an io, the last of them words that must be 0.
int32_t AX_ENGINE_RunGroupIOSync(void *handle, void *context, uint32_t group, ax_io *io) {
    (void)handle, (void)context, (void)group;
    for (size_t at = offsetof(ax_io, reserved); at < 128; at++)
        if (((const uint8_t *)io)[at]) return (int32_t)0x80300703;
    return 0;
}
