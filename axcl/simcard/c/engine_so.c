// libax_engine.so: every call forwards to libax_sys.so, where the card is.
#include "abi_axengine.h"

#define FORWARD(ret, name, params, args) \
	ret AX_ENGINE_##name params { return axsim_engine_##name args; }
AXSIM_ENGINE_CALLS(FORWARD)

const char *AX_ENGINE_GetVersion(void) { return axsim_engine_GetVersion(); }
const char *AX_ENGINE_GetModelToolsVersion(void *handle) { return axsim_engine_GetModelToolsVersion(handle); }
