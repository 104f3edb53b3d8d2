// What odd.c does not write itself.
#include "../abi.h"

#define STUB(ret, name, args) __attribute__((weak)) ret name args { return 0; }
AXCL_REQUIRED(STUB)
AX_SYS_REQUIRED(STUB)
AX_ENGINE_REQUIRED(STUB)
