// Calls that the vendor's own libraries, Python package and monitor need in order to load, and that
// speak to its firmware or its driver in undescribed ways: they are there, are counted, and say
// that they are unsupported. Programs go on without what they would give.
#include "abi_axcl.h"
#include "sim.h"

#define UNSUPPORTED(sub, name, params) \
	int32_t name params { \
		ENTER(name, sub, " "); \
		return FAIL(ID_UNSUPPORTED); \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

UNSUPPORTED(SUB_DEVICE, axclrtGetDeviceBusInfo, (int32_t id, void *info))
UNSUPPORTED(SUB_DEVICE, axclrtGetDevicePidInfo, (int32_t id, void *info))
UNSUPPORTED(SUB_STREAM, axclrtGetEnviromentByStream, (axcl_handle stream, void *env))
UNSUPPORTED(SUB_ENGINE, axclrtEngineSetContextAffinity, (uint64_t id, uint64_t ctx, uint32_t set)) // the vendor's own does not either
UNSUPPORTED(SUB_ENGINE, axclrtEngineGetContextAffinity, (uint64_t id, uint64_t ctx, uint32_t *set))
UNSUPPORTED(SUB_TASK, axclrtCreateTask, (axcl_handle *task, axcl_handle stream, uint64_t token, const void *data, size_t size, int32_t ms,
	_Bool reply, int64_t flag))
UNSUPPORTED(SUB_TASK, axclrtDestoryTask, (axcl_handle task))
UNSUPPORTED(SUB_TASK, axclrtWaitTaskFinish, (axcl_handle task))
UNSUPPORTED(SUB_TASK, axclrtGetTaskResponse, (axcl_handle task))
UNSUPPORTED(SUB_CONTROL, axclrtControlExecuteShellCmd, (const char *cmd, const char *const args[], size_t argc, const char **output,
	int32_t ms))
UNSUPPORTED(SUB_CONTROL, axclrtControlChangePCIeSubId, (uint32_t vendor, uint32_t dev))
UNSUPPORTED(SUB_P2P, axclrtCreateP2PUnit, (const void *info, axcl_handle *unit))
UNSUPPORTED(SUB_P2P, axclrtDestoryP2PUnit, (axcl_handle unit))
UNSUPPORTED(SUB_LATENCY, axclrtLatencyLoopback, (const void *data, uint32_t size, _Bool check, int mode))
