// The on-board engine's binary interface (libax_sys.so and libax_engine.so), written from published
// facts. 64-bit layouts, natural C alignment.
#ifndef AXSIM_ABI_AXENGINE_H
#define AXSIM_ABI_AXENGINE_H

#include <stdint.h>

#ifndef AXSIM_API
#define AXSIM_API __attribute__((visibility("default")))
#endif

typedef struct {
	int hardMode;
	uint32_t reserve[8];
} ax_attr;

typedef struct {
	uint32_t npuSet;
	int8_t *name;
	uint32_t reserve[8];
} ax_extra;

typedef struct {
	uint32_t cmmSize;
} ax_cmm;

typedef struct {
	char *name;
	int32_t *shape;
	uint8_t shapeSize;
	int layout;
	int memoryType;
	int dataType;
	void *extra;
	uint32_t size;
	uint32_t quantizationValue;
	int32_t *stride;
	uint64_t reserved[9];
} ax_meta;

typedef struct {
	ax_meta *inputs;
	uint32_t inputSize;
	ax_meta *outputs;
	uint32_t outputSize;
	uint32_t maxBatch;
	int dynamicBatch;
	uint64_t reserved[11];
} ax_info;

typedef struct {
	uint64_t phys;
	void *virt;
	uint32_t size;
	int32_t *stride;
	uint8_t strideSize;
	uint64_t reserved[11];
} ax_buffer;

typedef struct {
	ax_buffer *inputs;
	uint32_t inputSize;
	ax_buffer *outputs;
	uint32_t outputSize;
	uint32_t batch;
	void *setting;
	uint64_t reserved[11]; // older headers have ten: what comes after `setting` is not read
} ax_io;

_Static_assert(sizeof(ax_io) == 128, "io");

AXSIM_API int32_t AX_SYS_Init(void);
AXSIM_API int32_t AX_SYS_Deinit(void);
AXSIM_API int32_t AX_SYS_MemAlloc(uint64_t *phys, void **virt, uint32_t size, uint32_t align, const int8_t *token);
AXSIM_API int32_t AX_SYS_MemAllocCached(uint64_t *phys, void **virt, uint32_t size, uint32_t align, const int8_t *token);
AXSIM_API int32_t AX_SYS_MemFree(uint64_t phys, void *virt);
AXSIM_API int32_t AX_SYS_MflushCache(uint64_t phys, void *virt, uint32_t size);
AXSIM_API int32_t AX_SYS_MinvalidateCache(uint64_t phys, void *virt, uint32_t size);

// libax_engine.so's calls forward one by one to these, which libax_sys.so holds: one card, one
// state, two libraries.
#define AXSIM_ENGINE_CALLS(X) \
	X(int32_t, Init, (ax_attr * attr), (attr)) \
	X(int32_t, GetVNPUAttr, (ax_attr * attr), (attr)) \
	X(int32_t, Deinit, (void), ()) \
	X(int32_t, GetModelType, (const void *data, uint32_t size, int32_t *type), (data, size, type)) \
	X(int32_t, GetHandleModelType, (void *handle, int32_t *type), (handle, type)) \
	X(int32_t, CreateHandle, (void **handle, const void *data, uint32_t size), (handle, data, size)) \
	X(int32_t, CreateHandleV2, (void **handle, const void *data, uint32_t size, ax_extra *extra), (handle, data, size, extra)) \
	X(int32_t, DestroyHandle, (void *handle), (handle)) \
	X(int32_t, GetIOInfo, (void *handle, ax_info **info), (handle, info)) \
	X(int32_t, GetGroupIOInfoCount, (void *handle, uint32_t *count), (handle, count)) \
	X(int32_t, GetGroupIOInfo, (void *handle, uint32_t group, ax_info **info), (handle, group, info)) \
	X(int32_t, CreateContext, (void *handle), (handle)) \
	X(int32_t, CreateContextV2, (void *handle, void **ctx), (handle, ctx)) \
	X(int32_t, RunSync, (void *handle, ax_io *io), (handle, io)) \
	X(int32_t, RunSyncV2, (void *handle, void *ctx, ax_io *io), (handle, ctx, io)) \
	X(int32_t, RunGroupIOSync, (void *handle, void *ctx, uint32_t group, ax_io *io), (handle, ctx, group, io)) \
	X(int32_t, SetAffinity, (void *handle, uint32_t set), (handle, set)) \
	X(int32_t, GetAffinity, (void *handle, uint32_t *set), (handle, set)) \
	X(int32_t, GetCMMUsage, (void *handle, ax_cmm *cmm), (handle, cmm))

#define AXSIM_DECLARE(ret, name, params, args) \
	AXSIM_API ret AX_ENGINE_##name params; \
	AXSIM_API ret axsim_engine_##name params;
AXSIM_ENGINE_CALLS(AXSIM_DECLARE)
#undef AXSIM_DECLARE
AXSIM_API const char *AX_ENGINE_GetVersion(void);
AXSIM_API const char *axsim_engine_GetVersion(void);
AXSIM_API const char *AX_ENGINE_GetModelToolsVersion(void *handle);
AXSIM_API const char *axsim_engine_GetModelToolsVersion(void *handle);

#endif
