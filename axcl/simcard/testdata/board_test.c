// A foreign program for the on-board engine: libax_sys.so and libax_engine.so by dlopen, one call
// after another as the facts describe them. Run as: board_test FOLDER-OF-LIBRARIES SCRATCH. Exit 0
// when all that was checked is so.
#include "foreign.h"

#include <sys/stat.h>

static void *sys, *eng;

static void *must(void *lib, const char *name) {
	void *p = dlsym(lib, name);
	if (!p) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(1);
	}
	return p;
}

#define SYS(name) ((__typeof__(&name))must(sys, #name))
#define ENG(name) ((__typeof__(&name))must(eng, #name))

static uint8_t *slurp(const char *path, size_t *n) {
	struct stat st;
	FILE *f = fopen(path, "r");
	if (!f || fstat(fileno(f), &st)) abort();
	*n = (size_t)st.st_size;
	uint8_t *p = malloc(*n);
	if (!p || fread(p, 1, *n, f) != *n) abort();
	fclose(f);
	return p;
}

static ax_buffer buffer(uint32_t size, bool cached) {
	ax_buffer b = {.size = size};
	OK((cached ? SYS(AX_SYS_MemAllocCached) : SYS(AX_SYS_MemAlloc))(&b.phys, &b.virt, size, 128, (const int8_t *)"test"));
	CHECK(b.phys && b.virt && b.phys % 128 == 0);
	return b;
}

static void sync_buffer(const ax_buffer *b, bool flush) {
	OK((flush ? SYS(AX_SYS_MflushCache) : SYS(AX_SYS_MinvalidateCache))(b->phys, b->virt, b->size));
}

static bool right(const float *x, const float *y, int rows) {
	for (int i = 0; i < rows * AFF_OUT; i++)
		if (y[i] != affine_want(x + i / AFF_OUT * AFF_IN, i % AFF_OUT)) return false;
	return true;
}

int main(int argc, char **argv) {
	char path[512];
	size_t n;
	if (argc != 3) return 2;
	snprintf(path, sizeof path, "%s/libax_sys.so", argv[1]);
	sys = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, sizeof path, "%s/libax_engine.so", argv[1]);
	eng = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!sys || !eng) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	CHECK(!dlsym(sys, "axclInit")); // the runtime of the PCIe card is not in here
	snprintf(path, sizeof path, "%s/affine.axmodel", argv[2]);
	write_affine(path);
	uint8_t *model = slurp(path, &n);
	ax_attr attr = {.hardMode = 0};
	void *h = NULL, *ctx = NULL;
	CHECK(ENG(AX_ENGINE_Init)(&attr) != 0); // the system first
	OK(SYS(AX_SYS_Init)());
	OK(SYS(AX_SYS_Init)());
	CHECK(ENG(AX_ENGINE_CreateHandleV2)(&h, model, (uint32_t)n, NULL) != 0); // the engine is not up
	OK(ENG(AX_ENGINE_Init)(&attr));
	CHECK(ENG(AX_ENGINE_Init)(&attr) != 0);
	attr.hardMode = 9;
	OK(ENG(AX_ENGINE_GetVNPUAttr)(&attr));
	CHECK(attr.hardMode == 0);
	CHECK(ENG(AX_ENGINE_GetVersion)() && *ENG(AX_ENGINE_GetVersion)());
	int32_t type = 9;
	OK(ENG(AX_ENGINE_GetModelType)(model, (uint32_t)n, &type));
	CHECK(type == 0);
	CHECK(ENG(AX_ENGINE_GetModelType)(model, (uint32_t)n - 1, &type) != 0);
	CHECK(ENG(AX_ENGINE_CreateHandleV2)(&h, model, 100, NULL) != 0);
	CHECK(ENG(AX_ENGINE_CreateHandleV2)(NULL, model, (uint32_t)n, NULL) != 0);
	ax_extra extra = {.npuSet = 1};
	OK(ENG(AX_ENGINE_CreateHandleV2)(&h, model, (uint32_t)n, &extra));
	void *old = NULL; // by the calls of older programs
	OK(ENG(AX_ENGINE_CreateHandle)(&old, model, (uint32_t)n));
	free(model); // the card has its own copy
	ax_buffer ox = buffer(32, false), oy = buffer(16, false);
	float *oxv = ox.virt;
	for (int i = 0; i < AFF_IN; i++) oxv[i] = (float)i;
	ax_io older = {.inputs = &ox, .inputSize = 1, .outputs = &oy, .outputSize = 1, .batch = 1};
	CHECK(ENG(AX_ENGINE_RunSync)(old, &older) != 0); // its context first
	OK(ENG(AX_ENGINE_CreateContext)(old));
	OK(ENG(AX_ENGINE_RunSync)(old, &older));
	CHECK(right(oxv, oy.virt, 1));
	CHECK(ENG(AX_ENGINE_RunSync)(old, NULL) != 0);
	OK(ENG(AX_ENGINE_DestroyHandle)(old));
	OK(SYS(AX_SYS_MemFree)(ox.phys, ox.virt));
	OK(SYS(AX_SYS_MemFree)(oy.phys, oy.virt));
	CHECK(!strcmp(ENG(AX_ENGINE_GetModelToolsVersion)(h), "foreign 1.0"));
	ax_cmm cmm = {0};
	OK(ENG(AX_ENGINE_GetCMMUsage)(h, &cmm));
	CHECK(cmm.cmmSize == n);
	OK(ENG(AX_ENGINE_SetAffinity)(h, 1));
	CHECK(ENG(AX_ENGINE_SetAffinity)(h, 0) != 0);
	uint32_t set = 9;
	OK(ENG(AX_ENGINE_SetAffinity)(h, 2));
	OK(ENG(AX_ENGINE_GetAffinity)(h, &set));
	CHECK(set == 2);
	CHECK(ENG(AX_ENGINE_GetAffinity)(h, NULL) != 0);
	type = 9;
	OK(ENG(AX_ENGINE_GetHandleModelType)(h, &type));
	CHECK(type == 0);
	CHECK(ENG(AX_ENGINE_GetHandleModelType)(&h, &type) != 0);
	uint32_t groups = 0;
	OK(ENG(AX_ENGINE_GetGroupIOInfoCount)(h, &groups));
	CHECK(groups == 2);
	ax_info *info = NULL;
	OK(ENG(AX_ENGINE_GetIOInfo)(h, &info));
	CHECK(info->inputSize == 1 && info->outputSize == 1 && !strcmp(info->inputs[0].name, "x") && info->inputs[0].size == 32);
	CHECK(info->inputs[0].shapeSize == 2 && info->inputs[0].shape[0] == 1 && info->inputs[0].shape[1] == AFF_IN && info->inputs[0].dataType == 3);
	OK(ENG(AX_ENGINE_GetGroupIOInfo)(h, 1, &info));
	CHECK(info->inputs[0].size == 128 && info->outputs[0].size == 64 && info->outputs[0].shape[0] == 4);
	CHECK(!strcmp(info->inputs[0].name, "x") && !strcmp(info->outputs[0].name, "y")); // plain, though the file has x_1 and y_1
	CHECK(ENG(AX_ENGINE_GetGroupIOInfo)(h, 2, &info) != 0);
	CHECK(ENG(AX_ENGINE_GetGroupIOInfo)(&h, 0, &info) != 0);
	OK(ENG(AX_ENGINE_CreateContextV2)(h, &ctx));
	for (int cached = 0; cached < 2; cached++) {
		ax_buffer x = buffer(128, cached), y = buffer(64, cached);
		float *xv = x.virt, *yv = y.virt;
		CHECK(((uint8_t *)x.virt)[5] == 0xff);
		for (int i = 0; i < 4 * AFF_IN; i++) xv[i] = (float)(i % 7);
		ax_io io = {.inputs = &x, .inputSize = 1, .outputs = &y, .outputSize = 1, .batch = 1};
		sync_buffer(&x, true);
		OK(ENG(AX_ENGINE_RunGroupIOSync)(h, ctx, 1, &io));
		if (cached) CHECK(!right(xv, yv, 4)); // not yet seen by the CPU
		sync_buffer(&y, false);
		CHECK(right(xv, yv, 4));
		xv[0] = 100;
		OK(ENG(AX_ENGINE_RunSyncV2)(h, ctx, &io));
		sync_buffer(&y, false);
		CHECK(right(xv, yv, 1) == !cached); // not flushed: the card computed with the old value
		sync_buffer(&x, true);
		OK(ENG(AX_ENGINE_RunSyncV2)(h, ctx, &io));
		sync_buffer(&y, false);
		CHECK(right(xv, yv, 1));
		io.batch = 4;
		OK(ENG(AX_ENGINE_RunSyncV2)(h, ctx, &io));
		sync_buffer(&y, false);
		CHECK(right(xv, yv, 4));
		x.size = 8;
		CHECK(ENG(AX_ENGINE_RunSyncV2)(h, ctx, &io) != 0);
		x.size = 128;
		x.phys += 4096 * 1024;
		CHECK(ENG(AX_ENGINE_RunSyncV2)(h, ctx, &io) != 0);
		x.phys -= 4096 * 1024;
		CHECK(ENG(AX_ENGINE_RunSyncV2)(h, NULL, &io) != 0);
		CHECK(ENG(AX_ENGINE_RunSyncV2)(h, ctx, NULL) != 0);
		CHECK(ENG(AX_ENGINE_RunGroupIOSync)(h, ctx, 2, &io) != 0);
		CHECK(SYS(AX_SYS_MflushCache)(x.phys, x.virt, 129) != 0);
		CHECK(SYS(AX_SYS_MemFree)(x.phys + 8, (char *)x.virt + 8) != 0);
		OK(SYS(AX_SYS_MemFree)(x.phys, x.virt));
		CHECK(SYS(AX_SYS_MemFree)(x.phys, x.virt) != 0);
		OK(SYS(AX_SYS_MemFree)(y.phys, y.virt));
	}
	uint64_t phys;
	void *virt;
	CHECK(SYS(AX_SYS_MemAlloc)(&phys, &virt, 0, 128, NULL) != 0);
	CHECK(SYS(AX_SYS_MemAlloc)(&phys, &virt, 10, 100, NULL) != 0);
	CHECK(SYS(AX_SYS_MemAlloc)(NULL, &virt, 10, 128, NULL) != 0);
	// a fault plan reaches both libraries
	OK(ENG(axsim_configure)("fault=RunSyncV2:0:0x8006010c;Execute:1:0x8006020c"));
	CODE_IS(ENG(AX_ENGINE_RunSyncV2)(h, ctx, NULL), 0x8006010c);
	CODE_IS(ENG(AX_ENGINE_RunGroupIOSync)(h, ctx, 0, NULL), 0x8006020c);
	OK(ENG(AX_ENGINE_DestroyHandle)(h));
	CHECK(ENG(AX_ENGINE_DestroyHandle)(h) != 0);
	axsim_counts c;
	OK(SYS(axsim_live)(&c));
	CHECK(c.models == 0 && c.device_blocks == 0);
	OK(ENG(AX_ENGINE_Deinit)());
	OK(SYS(AX_SYS_Deinit)());
	OK(SYS(AX_SYS_Init)()); // and again
	OK(SYS(AX_SYS_Deinit)());
	if (failures) fprintf(stderr, "board: %d checks failed\n", failures);
	return failures != 0;
}
