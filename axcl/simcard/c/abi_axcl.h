// The AXCL runtime's binary interface, as this card offers it: written from published facts, not
// from a vendor header. Data flow: programs include nothing of ours; the tests include this to be
// as strict as a compiler can be.
#ifndef AXSIM_ABI_AXCL_H
#define AXSIM_ABI_AXCL_H

#include <stddef.h>
#include <stdint.h>

#ifndef AXSIM_API
#define AXSIM_API __attribute__((visibility("default")))
#endif

// libax_sys.so is built from the same files and shows none of these.
#ifdef AXSIM_BOARD
#define AXCL_API
#else
#define AXCL_API AXSIM_API
#endif

typedef void *axcl_handle; // context, stream, event, ioInfo, io

typedef struct {
	uint32_t num;
	int32_t devices[256];
} axcl_device_list;

typedef struct {
	char swVersion[64];
	uint64_t uid;
	uint32_t pciDomain, pciBusID, pciDeviceID;
	int32_t temperature;
	uint32_t totalMemSize, freeMemSize, totalCmmSize, freeCmmSize; // KB
	uint32_t cpuLoading, npuLoading;                               // percent x 100
	uint32_t reserved[32];
} axcl_properties;

typedef struct {
	int32_t dimCount;
	int32_t dims[32];
} axcl_dims;

// process, version
AXCL_API int32_t axclInit(const char *config);
AXCL_API int32_t axclFinalize(void);
AXCL_API int32_t axclSetLogLevel(int32_t level);
AXCL_API void axclAppLog(int32_t level, const char *func, const char *file, uint32_t line, const char *fmt,
	...) __attribute__((format(printf, 5, 6)));
AXCL_API int32_t axclrtLog(uint32_t kind, uint32_t flag, const char *folder); // the card's own logs into a folder
AXCL_API int32_t axclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);
AXCL_API const char *axclrtGetFullVersion(void);
AXCL_API const char *axclrtGetSocName(void);

// device
AXCL_API int32_t axclrtGetDeviceList(axcl_device_list *list);
AXCL_API int32_t axclrtGetDeviceCount(uint32_t *count);
AXCL_API int32_t axclrtSetDevice(int32_t id);
AXCL_API int32_t axclrtGetDevice(int32_t *id);
AXCL_API int32_t axclrtResetDevice(int32_t id);
AXCL_API int32_t axclrtSynchronizeDevice(void);
AXCL_API int32_t axclrtGetDeviceProperties(int32_t id, axcl_properties *p);
AXCL_API int32_t axclrtRebootDevice(int32_t id);
AXCL_API int32_t axclrtGetDeviceBusInfo(int32_t id, void *info);
AXCL_API int32_t axclrtGetDevicePidInfo(int32_t id, void *info);

// context
AXCL_API int32_t axclrtCreateContext(axcl_handle *ctx, int32_t device);
AXCL_API int32_t axclrtDestroyContext(axcl_handle ctx);
AXCL_API int32_t axclrtSetCurrentContext(axcl_handle ctx);
AXCL_API int32_t axclrtGetCurrentContext(axcl_handle *ctx);
AXCL_API int32_t axclrtGetDefaultContext(axcl_handle *ctx, int32_t device);

// memory
AXCL_API int32_t axclrtMalloc(void **p, size_t size, int32_t policy);
AXCL_API int32_t axclrtMallocCached(void **p, size_t size, int32_t policy);
AXCL_API int32_t axclrtFree(void *p);
AXCL_API int32_t axclrtMallocHost(void **p, size_t size);
AXCL_API int32_t axclrtFreeHost(void *p);
AXCL_API int32_t axclrtMemset(void *p, uint8_t value, size_t count);
AXCL_API int32_t axclrtMemcpy(void *dst, const void *src, size_t count, int32_t kind);
AXCL_API int32_t axclrtMemcmp(const void *a, const void *b, size_t count);
AXCL_API int32_t axclrtMemsetAsync(void *p, uint8_t value, size_t count, axcl_handle stream);
AXCL_API int32_t axclrtMemcpyAsync(void *dst, const void *src, size_t count, int32_t kind, axcl_handle stream);
AXCL_API int32_t axclrtMemcmpAsync(const void *a, const void *b, size_t count, axcl_handle stream);
AXCL_API int32_t axclrtMemFlush(void *p, size_t size);
AXCL_API int32_t axclrtMemInvalidate(void *p, size_t size);

// stream, event
AXCL_API int32_t axclrtCreateStream(axcl_handle *stream);
AXCL_API int32_t axclrtDestroyStream(axcl_handle stream);
AXCL_API int32_t axclrtDestroyStreamForce(axcl_handle stream);
AXCL_API int32_t axclrtGetDefaultStream(axcl_handle ctx, axcl_handle *stream);
AXCL_API int32_t axclrtGetEnviromentByStream(axcl_handle stream, void *env);
AXCL_API int32_t axclrtSynchronizeStream(axcl_handle stream);
AXCL_API int32_t axclrtSynchronizeStreamWithTimeout(axcl_handle stream, int32_t ms);
AXCL_API int32_t axclrtCreateEvent(axcl_handle *event);
AXCL_API int32_t axclrtDestroyEvent(axcl_handle event);
AXCL_API int32_t axclrtRecordEvent(axcl_handle event, axcl_handle stream);
AXCL_API int32_t axclrtStreamWaitEvent(axcl_handle stream, axcl_handle event);
AXCL_API int32_t axclrtStreamWaitEventWithTimeout(axcl_handle stream, axcl_handle event, int32_t ms);

// engine, model
AXCL_API int32_t axclrtEngineInit(int32_t kind);
AXCL_API int32_t axclrtEngineGetVNpuKind(int32_t *kind);
AXCL_API int32_t axclrtEngineFinalize(void);
AXCL_API int32_t axclrtEngineLoadFromFile(const char *path, uint64_t *id);
AXCL_API int32_t axclrtEngineLoadFromMem(const void *mem, uint64_t size, uint64_t *id);
AXCL_API int32_t axclrtEngineUnload(uint64_t id);
AXCL_API const char *axclrtEngineGetModelCompilerVersion(uint64_t id);
AXCL_API int32_t axclrtEngineSetAffinity(uint64_t id, uint32_t set);
AXCL_API int32_t axclrtEngineGetAffinity(uint64_t id, uint32_t *set);
AXCL_API int32_t axclrtEngineSetContextAffinity(uint64_t id, uint64_t ctx, uint32_t set);
AXCL_API int32_t axclrtEngineGetContextAffinity(uint64_t id, uint64_t ctx, uint32_t *set);
AXCL_API int32_t axclrtEngineGetUsage(const char *path, int64_t *sys, int64_t *cmm);
AXCL_API int32_t axclrtEngineGetUsageFromMem(const void *mem, uint64_t size, int64_t *sys, int64_t *cmm);
AXCL_API int32_t axclrtEngineGetUsageFromModelId(uint64_t id, int64_t *sys, int64_t *cmm);
AXCL_API int32_t axclrtEngineGetModelType(const char *path, int32_t *kind);
AXCL_API int32_t axclrtEngineGetModelTypeFromMem(const void *mem, uint64_t size, int32_t *kind);
AXCL_API int32_t axclrtEngineGetModelTypeFromModelId(uint64_t id, int32_t *kind);

// io info
AXCL_API int32_t axclrtEngineGetIOInfo(uint64_t id, axcl_handle *info);
AXCL_API int32_t axclrtEngineDestroyIOInfo(axcl_handle info);
AXCL_API int32_t axclrtEngineGetShapeGroupsCount(axcl_handle info, int32_t *count);
AXCL_API uint32_t axclrtEngineGetNumInputs(axcl_handle info);
AXCL_API uint32_t axclrtEngineGetNumOutputs(axcl_handle info);
AXCL_API uint64_t axclrtEngineGetInputSizeByIndex(axcl_handle info, uint32_t group, uint32_t index);
AXCL_API uint64_t axclrtEngineGetOutputSizeByIndex(axcl_handle info, uint32_t group, uint32_t index);
AXCL_API const char *axclrtEngineGetInputNameByIndex(axcl_handle info, uint32_t index);
AXCL_API const char *axclrtEngineGetOutputNameByIndex(axcl_handle info, uint32_t index);
AXCL_API int32_t axclrtEngineGetInputIndexByName(axcl_handle info, const char *name);
AXCL_API int32_t axclrtEngineGetOutputIndexByName(axcl_handle info, const char *name);
AXCL_API int32_t axclrtEngineGetInputDims(axcl_handle info, uint32_t group, uint32_t index, axcl_dims *dims);
AXCL_API int32_t axclrtEngineGetOutputDims(axcl_handle info, uint32_t group, uint32_t index, axcl_dims *dims);
AXCL_API int32_t axclrtEngineGetInputDataType(axcl_handle info, uint32_t index, int32_t *type);
AXCL_API int32_t axclrtEngineGetOutputDataType(axcl_handle info, uint32_t index, int32_t *type);
AXCL_API int32_t axclrtEngineGetInputDataLayout(axcl_handle info, uint32_t index, int32_t *layout);
AXCL_API int32_t axclrtEngineGetOutputDataLayout(axcl_handle info, uint32_t index, int32_t *layout);

// io, run
AXCL_API int32_t axclrtEngineCreateIO(axcl_handle info, axcl_handle *io);
AXCL_API int32_t axclrtEngineDestroyIO(axcl_handle io);
AXCL_API int32_t axclrtEngineSetInputBufferByIndex(axcl_handle io, uint32_t index, const void *dev, uint64_t size);
AXCL_API int32_t axclrtEngineSetOutputBufferByIndex(axcl_handle io, uint32_t index, const void *dev, uint64_t size);
AXCL_API int32_t axclrtEngineSetInputBufferByName(axcl_handle io, const char *name, const void *dev, uint64_t size);
AXCL_API int32_t axclrtEngineSetOutputBufferByName(axcl_handle io, const char *name, const void *dev, uint64_t size);
AXCL_API int32_t axclrtEngineGetInputBufferByIndex(axcl_handle io, uint32_t index, void **dev, uint64_t *size);
AXCL_API int32_t axclrtEngineGetOutputBufferByIndex(axcl_handle io, uint32_t index, void **dev, uint64_t *size);
AXCL_API int32_t axclrtEngineGetInputBufferByName(axcl_handle io, const char *name, void **dev, uint64_t *size);
AXCL_API int32_t axclrtEngineGetOutputBufferByName(axcl_handle io, const char *name, void **dev, uint64_t *size);
AXCL_API int32_t axclrtEngineSetDynamicBatchSize(axcl_handle io, uint32_t batch);
AXCL_API int32_t axclrtEngineCreateContext(uint64_t model, uint64_t *ctx);
AXCL_API int32_t axclrtEngineExecute(uint64_t model, uint64_t ctx, uint32_t group, axcl_handle io);
AXCL_API int32_t axclrtEngineExecuteAsync(uint64_t model, uint64_t ctx, uint32_t group, axcl_handle io, axcl_handle stream);

// what the vendor's own libraries and tools send to its firmware; the names are spelled so
AXCL_API int32_t axclrtCreateTask(axcl_handle *task, axcl_handle stream, uint64_t token, const void *data, size_t size, int32_t ms,
	_Bool reply, int64_t flag);
AXCL_API int32_t axclrtDestoryTask(axcl_handle task);
AXCL_API int32_t axclrtWaitTaskFinish(axcl_handle task);
AXCL_API int32_t axclrtGetTaskResponse(axcl_handle task);
AXCL_API int32_t axclrtControlExecuteShellCmd(const char *cmd, const char *const args[], size_t argc, const char **output, int32_t ms);
AXCL_API int32_t axclrtControlChangePCIeSubId(uint32_t vendor, uint32_t device);
AXCL_API int32_t axclrtCreateP2PUnit(const void *info, axcl_handle *unit);
AXCL_API int32_t axclrtDestoryP2PUnit(axcl_handle unit);
AXCL_API int32_t axclrtLatencyLoopback(const void *data, uint32_t size, _Bool check, int mode);

// worker: absent from old runtimes, so absent from a library built with -DAXSIM_WITHOUT_WORKER
#ifndef AXSIM_WITHOUT_WORKER
AXCL_API int32_t axclrtTransferFile(const char *src, const char *dst, int32_t policy);
AXCL_API int32_t axclrtExecWorker(const char *path, const int32_t *argc, const char *argv[], uint32_t *pid);
AXCL_API int32_t axclrtWorkerSend(uint32_t pid, const void *data, uint32_t size, int32_t ms);
AXCL_API int32_t axclrtWorkerRecv(uint32_t pid, void *data, uint32_t size, uint32_t *got, int32_t ms);
AXCL_API int32_t axclrtKillWorker(uint32_t pid);
#endif

#endif
