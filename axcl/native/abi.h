// abi.h: the vendor's two libraries as this project sees them, written from what their calls take
// and give; no vendor header is used.
//
// Each library is a list of calls, (returns, name, arguments), from which a table of function
// pointers is made. dlopen fills the table (table_axcl.c, table_axengine.c), so building needs no
// SDK and a missing call is an error message that names it. Calls in the OPTIONAL lists came with
// later versions, or are used where they are there; without them everything works.

#ifndef AXLE_ABI_H
#define AXLE_ABI_H

#include <stdint.h>
#include <stddef.h>

// AXCL: libaxcl_rt.so, a card behind PCIe.

typedef struct { uint32_t num; int32_t devices[256]; } axcl_device_list; // device ids are PCIe bus numbers
typedef struct {
    char version[64];
    uint64_t uid;
    uint32_t domain, bus, device;
    int32_t temperature; // degrees or thousandths of a degree: by magnitude
    uint32_t total_mem, free_mem, total_cmm, free_cmm; // KiB
    uint32_t cpu_load, npu_load; // hundredths of a per cent
    uint32_t reserved[32];
} axcl_properties;
typedef struct { int32_t count; int32_t dims[32]; } axcl_dims;

enum { AXCL_H2D = 1, AXCL_D2H = 2, AXCL_D2D = 3 };
enum { AXCL_HUGE_FIRST = 0, AXCL_NORMAL_ONLY = 2 };
enum { AXCL_LOG_OFF = 6 };

#define AXCL_REQUIRED(X) \
    X(int32_t, axclInit, (const char *config)) \
    X(int32_t, axclFinalize, (void)) \
    X(int32_t, axclrtGetVersion, (int32_t *major, int32_t *minor, int32_t *patch)) \
    X(int32_t, axclrtGetDeviceList, (axcl_device_list *list)) \
    X(int32_t, axclrtSetDevice, (int32_t id)) \
    X(int32_t, axclrtResetDevice, (int32_t id)) \
    X(int32_t, axclrtGetCurrentContext, (void **context)) \
    X(int32_t, axclrtSetCurrentContext, (void *context)) \
    X(int32_t, axclrtGetDeviceProperties, (int32_t id, axcl_properties *props)) \
    X(int32_t, axclrtMalloc, (void **dev, size_t size, int32_t policy)) \
    X(int32_t, axclrtFree, (void *dev)) \
    X(int32_t, axclrtMallocHost, (void **host, size_t size)) \
    X(int32_t, axclrtFreeHost, (void *host)) \
    X(int32_t, axclrtMemset, (void *dev, uint8_t value, size_t size)) \
    X(int32_t, axclrtMemcpyAsync, (void *dst, const void *src, size_t size, int32_t kind, void *stream)) \
    X(int32_t, axclrtCreateStream, (void **stream)) \
    X(int32_t, axclrtDestroyStream, (void *stream)) \
    X(int32_t, axclrtSynchronizeStreamWithTimeout, (void *stream, int32_t ms)) \
    X(int32_t, axclrtEngineInit, (int32_t kind)) \
    X(int32_t, axclrtEngineGetVNpuKind, (int32_t *kind)) \
    X(int32_t, axclrtEngineFinalize, (void)) \
    X(int32_t, axclrtEngineLoadFromFile, (const char *path, uint64_t *id)) \
    X(int32_t, axclrtEngineUnload, (uint64_t id)) \
    X(int32_t, axclrtEngineGetIOInfo, (uint64_t id, void **info)) \
    X(int32_t, axclrtEngineDestroyIOInfo, (void *info)) \
    X(int32_t, axclrtEngineGetShapeGroupsCount, (void *info, int32_t *count)) \
    X(uint32_t, axclrtEngineGetNumInputs, (void *info)) \
    X(uint32_t, axclrtEngineGetNumOutputs, (void *info)) \
    X(uint64_t, axclrtEngineGetInputSizeByIndex, (void *info, uint32_t group, uint32_t index)) \
    X(uint64_t, axclrtEngineGetOutputSizeByIndex, (void *info, uint32_t group, uint32_t index)) \
    X(const char *, axclrtEngineGetInputNameByIndex, (void *info, uint32_t index)) \
    X(const char *, axclrtEngineGetOutputNameByIndex, (void *info, uint32_t index)) \
    X(int32_t, axclrtEngineGetInputDims, (void *info, uint32_t group, uint32_t index, axcl_dims *dims)) \
    X(int32_t, axclrtEngineGetOutputDims, (void *info, uint32_t group, uint32_t index, axcl_dims *dims)) \
    X(int32_t, axclrtEngineGetInputDataType, (void *info, uint32_t index, int32_t *type)) \
    X(int32_t, axclrtEngineGetOutputDataType, (void *info, uint32_t index, int32_t *type)) \
    X(int32_t, axclrtEngineCreateIO, (void *info, void **io)) \
    X(int32_t, axclrtEngineDestroyIO, (void *io)) \
    X(int32_t, axclrtEngineSetInputBufferByIndex, (void *io, uint32_t index, const void *dev, uint64_t size)) \
    X(int32_t, axclrtEngineSetOutputBufferByIndex, (void *io, uint32_t index, const void *dev, uint64_t size)) \
    X(int32_t, axclrtEngineCreateContext, (uint64_t id, uint64_t *context)) \
    X(int32_t, axclrtEngineExecuteAsync, (uint64_t id, uint64_t context, uint32_t group, void *io, void *stream))

#define AXCL_OPTIONAL(X) \
    X(int32_t, axclSetLogLevel, (int32_t level)) \
    X(const char *, axclrtGetFullVersion, (void)) \
    X(const char *, axclrtGetSocName, (void)) \
    X(int32_t, axclrtEngineGetInputIndexByName, (void *info, const char *name)) \
    X(int32_t, axclrtRebootDevice, (int32_t id)) \
    X(int32_t, axclrtTransferFile, (const char *src, const char *dst, int32_t policy)) \
    X(int32_t, axclrtExecWorker, (const char *path, const int32_t *argc, const char *argv[], uint32_t *pid)) \
    X(int32_t, axclrtWorkerSend, (uint32_t pid, const void *data, uint32_t size, int32_t ms)) \
    X(int32_t, axclrtWorkerRecv, (uint32_t pid, void *data, uint32_t size, uint32_t *got, int32_t ms)) \
    X(int32_t, axclrtKillWorker, (uint32_t pid))

// The on-board engine: libax_engine.so and libax_sys.so, 64-bit layouts.

typedef struct { int32_t hard_mode; uint32_t reserved[8]; } ax_attr;
typedef struct { uint32_t npu_set; int8_t *name; uint32_t reserved[8]; } ax_extra;
typedef struct {
    char *name;
    int32_t *shape;
    uint8_t shape_size;
    int32_t layout, memory_type, data_type;
    void *extra;
    uint32_t size, quantization;
    int32_t *stride;
    uint64_t reserved[9];
} ax_meta;
typedef struct {
    ax_meta *inputs;
    uint32_t input_size;
    ax_meta *outputs;
    uint32_t output_size;
    uint32_t max_batch;
    int32_t dynamic_batch;
    uint64_t reserved[11];
} ax_info;
typedef struct {
    uint64_t phys;
    void *virt;
    uint32_t size;
    int32_t *stride;
    uint8_t stride_size;
    uint64_t reserved[11];
} ax_buffer;
typedef struct {
    ax_buffer *inputs;
    uint32_t input_size;
    ax_buffer *outputs;
    uint32_t output_size;
    uint32_t batch;
    void *setting;
    uint64_t reserved[11]; // of libraries of the 3.6 era ten; newer ones read a word more before them, which must be 0
} ax_io;

_Static_assert(sizeof(axcl_properties) == 240, "device properties");
_Static_assert(sizeof(ax_meta) == 128 && sizeof(ax_info) == 128, "tensor descriptions");
_Static_assert(sizeof(ax_buffer) == 128 && sizeof(ax_io) == 128, "buffers");

enum { AX_ALIGN = 128 };

#define AX_SYS_REQUIRED(X) \
    X(int32_t, AX_SYS_Init, (void)) \
    X(int32_t, AX_SYS_Deinit, (void)) \
    X(int32_t, AX_SYS_MemAllocCached, (uint64_t *phys, void **virt, uint32_t size, uint32_t align, const int8_t *token)) \
    X(int32_t, AX_SYS_MemFree, (uint64_t phys, void *virt)) \
    X(int32_t, AX_SYS_MflushCache, (uint64_t phys, void *virt, uint32_t size)) \
    X(int32_t, AX_SYS_MinvalidateCache, (uint64_t phys, void *virt, uint32_t size))

#define AX_ENGINE_REQUIRED(X) \
    X(int32_t, AX_ENGINE_Init, (ax_attr *attr)) \
    X(int32_t, AX_ENGINE_GetVNPUAttr, (ax_attr *attr)) \
    X(int32_t, AX_ENGINE_Deinit, (void)) \
    X(int32_t, AX_ENGINE_CreateHandleV2, (void **handle, const void *data, uint32_t size, ax_extra *extra)) \
    X(int32_t, AX_ENGINE_DestroyHandle, (void *handle)) \
    X(int32_t, AX_ENGINE_GetGroupIOInfoCount, (void *handle, uint32_t *count)) \
    X(int32_t, AX_ENGINE_GetGroupIOInfo, (void *handle, uint32_t group, ax_info **info)) \
    X(int32_t, AX_ENGINE_CreateContextV2, (void *handle, void **context)) \
    X(int32_t, AX_ENGINE_RunGroupIOSync, (void *handle, void *context, uint32_t group, ax_io *io))

#define AX_ENGINE_OPTIONAL(X) \
    X(const char *, AX_ENGINE_GetVersion, (void)) \
    X(const char *, AX_ENGINE_GetModelToolsVersion, (void *handle)) \
    X(int32_t, AX_ENGINE_GetCMMUsage, (void *handle, void *usage))

#define AXN_POINTER(ret, name, args) ret (*name) args;
struct axcl_table { AXCL_REQUIRED(AXN_POINTER) AXCL_OPTIONAL(AXN_POINTER) };
struct engine_table { AX_SYS_REQUIRED(AXN_POINTER) AX_ENGINE_REQUIRED(AXN_POINTER) AX_ENGINE_OPTIONAL(AXN_POINTER) };
#undef AXN_POINTER

#endif
