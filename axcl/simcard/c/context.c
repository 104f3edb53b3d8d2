// Contexts: which card a thread works on, and the stream that comes with it.
#include "sim.h"

#include <stdlib.h>

_Thread_local void *context_current; // the thread's context; a number, checked at every use

context *context_new(device *d) {
	context *x = calloc(1, sizeof *x);
	if (x && handle_new(&x->o, K_CONTEXT, d)) return x;
	free(x);
	return NULL;
}

device *device_current(void) {
	context *x = context_current ? handle_get(context_current, K_CONTEXT) : NULL;
	return x ? x->o.dev : NULL;
}

void **context_stream(const void *ctx, device **d) {
	context *x = handle_get(ctx, K_CONTEXT);
	if (!x) return NULL;
	*d = x->o.dev;
	return &x->stream;
}
