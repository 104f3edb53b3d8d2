// A foreign program: it knows the AXCL ABI by its documented signatures and nothing of the card's
// insides, except for the axsim_ symbols in the cases that need them. Run as: abi_test CASE FOLDER
// (a scratch folder). Exit 0 when all that was checked is so. Long, because the ABI is: one case a
// subject, in the order of axcl-abi; what the card computes is in layer_cases.h.
#include "foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static const char *dir;

static const char *file(const char *name) {
	static char path[8][512];
	static int n;
	char *p = path[n++ % 8];
	snprintf(p, 512, "%s/%s", dir, name);
	return p;
}

static void sleep_ms(int ms) {
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&ts, NULL);
}

static double now_ms(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int32_t up(void) {
	axcl_device_list l;
	OK(axclInit(NULL));
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num >= 1);
	OK(axclrtSetDevice(l.devices[0]));
	return l.devices[0];
}

// A fresh card with these options (NAME=value pairs, NULL at the end), made active, engine up.
static int32_t card(const char *options) {
	OK(axsim_reset());
	OK(axsim_configure(options));
	int32_t id = up();
	OK(axclrtEngineInit(0));
	return id;
}

static void down(int32_t id) {
	axsim_counts n;
	axclrtEngineFinalize();
	OK(axsim_live(&n));
	CHECK(n.contexts == 0 && n.streams == 0 && n.events == 0 && n.models == 0 && n.infos == 0 && n.ios == 0 && n.device_blocks == 0 && n.host_blocks == 0 && n.workers == 0);
	OK(axclrtResetDevice(id));
	OK(axclFinalize());
}

static void *dmalloc(size_t n) {
	void *p = NULL;
	OK(axclrtMalloc(&p, n, 0));
	return p;
}

static void *on_card(const void *host, size_t n) {
	void *p = dmalloc(n);
	OK(axclrtMemcpy(p, host, n, 1));
	return p;
}

// ---- life

static void case_life(void) {
	int32_t a, b, c, id;
	uint32_t count = 9;
	axcl_device_list l;
	OK(axclrtGetVersion(&a, &b, &c));
	CHECK(a == 3 && b == 10 && c == 2);
	CODE_IS(axclrtGetVersion(&a, NULL, &c), 0x80300102);
	CHECK(axclrtGetFullVersion() && strstr(axclrtGetFullVersion(), "3.10.2"));
	CHECK(axclrtGetSocName() && *axclrtGetSocName());
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num == 0);
	CODE_IS(axclrtSetDevice(0), 0x80300184);
	CODE_IS(axclrtSetDevice(1), 0x80300184);
	OK(axclFinalize());
	const char *good[] = {NULL, "", " {\"log\": {\"level\": 3, \"on\": true, \"to\": [1, -2.5e3, null, \"x\\\"y\"]}} "};
	for (int i = 0; i < 3; i++) {
		OK(axclInit(good[i]));
		OK(axclInit(good[i]));
		OK(axclrtGetDeviceCount(&count));
		CHECK(count == 1);
		OK(axclFinalize());
		OK(axclrtGetDeviceCount(&count));
		CHECK(count == 0);
	}
	FILE *f = fopen(file("axcl.json"), "w");
	fputs("{\"log\": {}}\n", f);
	fclose(f);
	OK(axclInit(file("axcl.json")));
	OK(axclFinalize());
	id = up();
	CODE_IS(axclrtGetDeviceList(NULL), 0x80300102);
	CODE_IS(axclrtGetDeviceCount(NULL), 0x80300102);
	CODE_IS(axclrtSetDevice(id + 77), 0x80300184);
	CODE_IS(axclrtGetDevice(NULL), 0x80300102);
	OK(axclrtGetDevice(&a));
	CHECK(a == id);
	OK(axclSetLogLevel(6));
	CODE_IS(axclSetLogLevel(7), 0x80300803);
	OK(axclrtResetDevice(id));
	CODE_IS(axclrtResetDevice(id), 0x80300183);
	CODE_IS(axclrtResetDevice(id + 77), 0x80300184);
	CODE_IS(axclrtGetDevice(&a), 0x80300185);
	// everything left behind, and used after its end: no crash, and the next life is clean
	OK(axclrtSetDevice(id));
	axcl_handle s, e, ctx;
	void *p = dmalloc(100), *h;
	OK(axclrtMallocHost(&h, 100));
	OK(axclrtCreateStream(&s));
	OK(axclrtCreateEvent(&e));
	OK(axclrtCreateContext(&ctx, id));
	OK(axclrtMemsetAsync(p, 1, 100, s));
	OK(axclFinalize());
	CODE_IS(axclrtFree(p), 0x80300284);
	CODE_IS(axclrtSynchronizeStream(s), 0x80300303);
	OK(axclrtFreeHost(h));
	axsim_counts n;
	OK(axsim_left(&n));
	CHECK(n.streams == 1 && n.events == 1 && n.contexts == 1 && n.device_blocks == 1 && n.device_bytes == 100);
	id = up();
	CODE_IS(axclrtFree(p), 0x80300581);
	CODE_IS(axclrtSynchronizeStream(s), 0x80300303);
	CODE_IS(axclrtSetCurrentContext(ctx), 0x80300203);
	OK(axclrtEngineInit(0));
	down(id);
	OK(axsim_reset());
	OK(axsim_configure("devices=none"));
	CODE_IS(axclInit(NULL), 0x8030010b);
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num == 0);
	CODE_IS(axclrtSetDevice(0), 0x80300184);
	CODE_IS(axsim_configure("fault=Nothing:0:1"), 0x80300603);
	setenv("AXSIM_HAZARDS", "nonsense", 1);
	OK(axsim_reset());
	CODE_IS(axclInit(NULL), 0x80300603);
	unsetenv("AXSIM_HAZARDS");
	OK(axclInit(NULL));
	OK(axclFinalize());
}

static void case_devices(void) {
	setenv("AXSIM_DEVICES", "2", 1);
	axcl_device_list l;
	axcl_properties p;
	OK(axclInit(NULL));
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num == 2 && l.devices[0] != l.devices[1] && l.devices[0] > 0 && l.devices[1] > 0);
	CODE_IS(axclrtGetDeviceProperties(l.devices[0], NULL), 0x80300102);
	CODE_IS(axclrtGetDeviceProperties(200, &p), 0x80300184);
	OK(axclrtSetDevice(l.devices[0]));
	void *a = dmalloc(1 << 20);
	OK(axclrtGetDeviceProperties(l.devices[0], &p));
	CHECK(p.totalCmmSize == 7040 << 10 && p.freeCmmSize == (7040 - 18 - 1) << 10 && p.pciBusID == (uint32_t)l.devices[0]);
	CHECK(p.temperature >= 40000 && p.temperature <= 60000 && strlen(p.swVersion) && p.totalMemSize > p.freeMemSize);
	OK(axclrtGetDeviceProperties(l.devices[1], &p));
	CHECK(p.freeCmmSize == (7040 - 18) << 10);
	axcl_handle one, two;
	OK(axclrtGetCurrentContext(&one));
	OK(axclrtSetDevice(l.devices[1]));
	OK(axclrtGetCurrentContext(&two));
	CHECK(one != two);
	char buf[16] = {0};
	CODE_IS(axclrtMemcpy(buf, a, 16, 2), 0x80300581); // the other card's memory
	CODE_IS(axclrtFree(a), 0x80300581);
	OK(axclrtSetCurrentContext(one));
	OK(axclrtFree(a));
	// the link of one card: the other goes on
	OK(axclrtSetDevice(l.devices[1]));
	OK(axsim_configure("fault=Memset:0:lost"));
	a = dmalloc(8);
	CODE_IS(axclrtMemset(a, 0, 8), 0x80300181);
	OK(axclrtSetDevice(l.devices[0]));
	OK(axclrtFree(dmalloc(8)));
	CODE_IS(axclrtSetDevice(l.devices[1]), 0x80300181);
	OK(axclrtRebootDevice(l.devices[1]));
	OK(axclrtSetDevice(l.devices[1]));
	OK(axclrtRebootDevice(l.devices[1]));
	CODE_IS(axclrtRebootDevice(99), 0x80300184);
	OK(axclrtResetDevice(l.devices[0]));
	CODE_IS(axclrtResetDevice(l.devices[1]), 0x80300183);
	OK(axclFinalize());
}

// ---- contexts

typedef struct {
	int32_t id;
	axcl_handle give, got;
} other;

static void *bare_thread(void *arg) {
	other *o = arg;
	void *p = (void *)1;
	int32_t i;
	axcl_handle h;
	char b[8];
	CODE_IS(axclrtMalloc(&p, 8, 0), 0x80300284);
	CODE_IS(axclrtFree(p), 0x80300284);
	CODE_IS(axclrtMemcpy(b, b, 8, 0), 0x80300284);
	CODE_IS(axclrtMemset(b, 0, 8), 0x80300284);
	CODE_IS(axclrtCreateStream(&h), 0x80300284);
	CODE_IS(axclrtCreateEvent(&h), 0x80300284);
	CODE_IS(axclrtGetDevice(&i), 0x80300185);
	CODE_IS(axclrtSynchronizeDevice(), 0x80300284);
	CODE_IS(axclrtGetCurrentContext(&h), 0x80300284);
	CODE_IS(axclrtEngineInit(0), 0x80300284);
	uint64_t id;
	CODE_IS(axclrtEngineLoadFromFile("x", &id), 0x80300284);
	CODE_IS(axclrtEngineExecute(1, 1, 0, &h), 0x80300284);
	OK(axclrtSetCurrentContext(o->give));
	OK(axclrtGetDevice(&i));
	CHECK(i == o->id);
	p = dmalloc(64);
	OK(axclrtFree(p));
	OK(axclrtCreateContext(&o->got, o->id));
	OK(axclrtGetCurrentContext(&h));
	CHECK(h == o->got);
	return NULL;
}

static void *default_thread(void *arg) {
	other *o = arg;
	OK(axclrtSetDevice(o->id));
	OK(axclrtGetCurrentContext(&o->got));
	return NULL;
}

static void thread(void *(*f)(void *), void *arg) {
	pthread_t t;
	if (pthread_create(&t, NULL, f, arg)) abort();
	pthread_join(t, NULL);
}

static void case_contexts(void) {
	int32_t id = up();
	axcl_handle def, mine, h;
	OK(axclrtGetCurrentContext(&def));
	OK(axclrtCreateContext(&mine, id));
	CHECK(mine != def);
	CODE_IS(axclrtCreateContext(NULL, id), 0x80300202);
	CODE_IS(axclrtCreateContext(&h, 99), 0x80300184);
	CODE_IS(axclrtSetCurrentContext(NULL), 0x80300202);
	CODE_IS(axclrtGetCurrentContext(NULL), 0x80300202);
	CODE_IS(axclrtDestroyContext(NULL), 0x80300202);
	CODE_IS(axclrtDestroyContext((void *)&id), 0x80300203);
	other o = {id, mine, NULL};
	thread(bare_thread, &o);
	OK(axclrtDestroyContext(o.got)); // made in another thread
	CODE_IS(axclrtDestroyContext(o.got), 0x80300203);
	CODE_IS(axclrtDestroyContext(def), 0x80300282);
	other d = {id, NULL, NULL};
	thread(default_thread, &d);
	CHECK(d.got == def);
	OK(axclrtSetCurrentContext(mine));
	OK(axclrtDestroyContext(mine)); // current here: the thread has none now
	void *p;
	CODE_IS(axclrtMalloc(&p, 8, 0), 0x80300284);
	OK(axclrtSetDevice(id));
	down(id);
}

// ---- memory

static void case_memory(void) {
	OK(axsim_configure("hazards=strict"));
	int32_t id = up();
	void *p, *h;
	uint8_t a[4096], b[4096];
	CODE_IS(axclrtMalloc(NULL, 8, 0), 0x80300502);
	CODE_IS(axclrtMalloc(&p, 0, 0), 0x80300503);
	CODE_IS(axclrtMalloc(&p, 8, 4), 0x80300503);
	CODE_IS(axclrtMalloc(&p, 8, -1), 0x80300503);
	CODE_IS(axclrtMalloc(&p, (size_t)8 << 30, 0), 0x8030050c);
	CODE_IS(axclrtMalloc(&p, SIZE_MAX, 0), 0x8030050c);
	CODE_IS(axclrtMallocHost(NULL, 8), 0x80300502);
	CODE_IS(axclrtMallocHost(&h, 0), 0x80300503);
	CODE_IS(axclrtFree(NULL), 0x80300502);
	CODE_IS(axclrtFree(a), 0x80300581);
	OK(axclrtFreeHost(NULL));
	CODE_IS(axclrtFreeHost(a), 0x80300503);
	for (int policy = 0; policy < 4; policy++) {
		OK(axclrtMalloc(&p, 10, policy));
		OK(axclrtFree(p));
	}
	CODE_IS(axclrtFree(p), 0x80300581);
	p = dmalloc(sizeof a);
	OK(axclrtMallocHost(&h, sizeof a));
	memset(h, 3, sizeof a);
	OK(axclrtMemcpy(a, p, sizeof a, 2)); // fresh memory: a NaN pattern
	for (size_t i = 0; i < sizeof a; i++) CHECK(a[i] == 0xff);
	for (size_t i = 0; i < sizeof a; i++) a[i] = (uint8_t)(i * 7);
	OK(axclrtMemcpy(p, a, sizeof a, 1));
	OK(axclrtMemcpy(h, p, sizeof a, 2));
	CHECK(!memcmp(h, a, sizeof a));
	OK(axclrtMemcpy(b, a, sizeof a, 0));
	CHECK(!memcmp(b, a, sizeof a));
	uint8_t *q = dmalloc(sizeof a);
	OK(axclrtMemcpy(q, p, sizeof a, 3));
	OK(axclrtMemcmp(p, q, sizeof a));
	OK(axclrtMemset(q + 100, 9, 1)); // inside
	CHECK(axclrtMemcmp(p, q, sizeof a) != 0);
	OK(axclrtMemcmp(p, q, 100));
	OK(axclrtMemcpy(b, q + 99, 3, 2));
	CHECK(b[0] == a[99] && b[1] == 9 && b[2] == a[101]);
	CODE_IS(axclrtFree(q + 100), 0x80300503);
	CODE_IS(axclrtMemcpy(NULL, a, 1, 1), 0x80300502);
	CODE_IS(axclrtMemcpy(p, NULL, 1, 1), 0x80300502);
	CODE_IS(axclrtMemcpy(p, a, 1, 6), 0x80300503);
	CODE_IS(axclrtMemcpy(p, a, 1, -1), 0x80300503);
	CODE_IS(axclrtMemcpy(p, a, 1, 4), 0x80300504);
	CODE_IS(axclrtMemcpy(b, a, 8, 1), 0x80300581); // the target is the host's
	CODE_IS(axclrtMemcpy(b, a, 8, 2), 0x80300581);
	CODE_IS(axclrtMemcpy(b, a, 8, 3), 0x80300581);
	CODE_IS(axclrtMemcpy(p, q, 8, 1), 0x80300503); // a device pointer where the host's is said to be
	CODE_IS(axclrtMemcpy(p, q, 8, 0), 0x80300503);
	CODE_IS(axclrtMemcpy(p, a, sizeof a + 1, 1), 0x80300503);
	CODE_IS(axclrtMemcpy(q + 4000, a, 97, 1), 0x80300503);
	CODE_IS(axclrtMemcpy(p, h, sizeof a + 1, 1), 0x80300503);
	CODE_IS(axclrtMemset(a, 0, 8), 0x80300581);
	CODE_IS(axclrtMemset(NULL, 0, 8), 0x80300502);
	CODE_IS(axclrtMemset(p, 0, sizeof a + 1), 0x80300503);
	CODE_IS(axclrtMemcmp(p, a, 8), 0x80300581);
	CODE_IS(axclrtMemcmp(NULL, p, 8), 0x80300502);
	OK(axclrtMemFlush(p, 100));
	OK(axclrtMemInvalidate(p, 100));
	CODE_IS(axclrtMemFlush(NULL, 100), 0x80300502);
	CODE_IS(axclrtMemInvalidate(a, 100), 0x80300581);
	CODE_IS(axclrtMemFlush(p, sizeof a + 1), 0x80300503);
	OK(axclrtFree(q));
	CODE_IS(axclrtMemset(q, 0, 1), 0x80300581);
	OK(axclrtMallocCached((void **)&q, 100, 2));
	OK(axclrtMemset(q, 1, 100));
	OK(axclrtFree(q));
	OK(axclrtFree(p));
	OK(axclrtFreeHost(h));
	down(id);
	// the limit: 64 MiB, and 18 are taken
	setenv("AXSIM_CMM", "64", 1);
	id = up();
	CODE_IS(axclrtMalloc(&p, (size_t)47 << 20, 0), 0x8030050c);
	p = dmalloc((size_t)46 << 20);
	CODE_IS(axclrtMalloc((void **)&q, 1, 0), 0x8030050c);
	OK(axclrtFree(p));
	q = dmalloc(1);
	OK(axclrtFree(q));
	down(id);
	OK(axsim_configure("host_limit=1\ncmm=128"));
	id = up();
	CODE_IS(axclrtMallocHost(&h, (1 << 20) + 1), 0x80300507);
	OK(axclrtMallocHost(&h, 1 << 20));
	CODE_IS(axclrtMallocHost(&p, 1), 0x80300507);
	OK(axclrtFreeHost(h));
	down(id);
}

// A host read or write through a device pointer must kill the program that does it.
static void case_segv(void) {
	int32_t id = up();
	volatile uint8_t *p = dmalloc(64);
	for (int write = 0; write < 2; write++) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			if (write)
				p[3] = 1;
			else
				(void)p[3];
			_exit(0);
		}
		int st = 0;
		CHECK(waitpid(pid, &st, 0) == pid);
		CHECK(!(WIFEXITED(st) && WEXITSTATUS(st) == 0));
	}
	OK(axclrtFree((void *)p));
	OK(axclrtEngineInit(0));
	down(id);
}

// ---- streams

static void case_streams(void) {
	OK(axsim_configure("hazards=strict"));
	int32_t id = up();
	axcl_handle s, t, e;
	CODE_IS(axclrtCreateStream(NULL), 0x80300302);
	CODE_IS(axclrtCreateEvent(NULL), 0x80300302);
	OK(axclrtCreateStream(&s));
	OK(axclrtCreateStream(&t));
	OK(axclrtCreateEvent(&e));
	enum { N = 1 << 20 };
	uint8_t *host = malloc(N), *back = malloc(N);
	uint8_t *a = dmalloc(N), *b = dmalloc(N);
	for (int i = 0; i < N; i++) host[i] = (uint8_t)(i * 31 + i / 257);
	OK(axclrtMemsetAsync(a, 1, N, s));
	OK(axclrtMemcpyAsync(a, host, N, 1, s)); // in order
	OK(axclrtMemcpyAsync(b, a, N, 3, s));
	OK(axclrtMemcpyAsync(back, b, N, 2, s));
	OK(axclrtMemcmpAsync(a, b, N, s));
	OK(axclrtSynchronizeStream(s));
	CHECK(!memcmp(host, back, N));
	OK(axclrtMemsetAsync(b, 1, 1, s));
	OK(axclrtMemcmpAsync(a, b, N, s));
	OK(axclrtMemsetAsync(b, 2, 1, s));
	CODE_IS(axclrtSynchronizeStream(s), 0xffffffff); // what the comparison found: the card's own code
	OK(axclrtSynchronizeStream(s));
	// an event on one stream holds back another, once: many rounds, one buffer handed to and fro
	for (int i = 0; i < 50; i++) {
		OK(axclrtDestroyEvent(e));
		OK(axclrtCreateEvent(&e));
		OK(axclrtMemsetAsync(a, (uint8_t)i, N, s));
		OK(axclrtRecordEvent(e, s));
		OK(axclrtStreamWaitEvent(t, e));
		OK(axclrtMemcpyAsync(back, a, N, 2, t));
		OK(axclrtSynchronizeStream(t));
		CHECK(back[0] == (uint8_t)i && back[N - 1] == (uint8_t)i);
	}
	// waited for before it is recorded
	axcl_handle f;
	OK(axclrtCreateEvent(&f));
	OK(axclrtStreamWaitEvent(t, f));
	OK(axclrtMemcpyAsync(back, a, N, 2, t));
	CODE_IS(axclrtSynchronizeStreamWithTimeout(t, 20), 0x80300383);
	OK(axclrtMemsetAsync(a, 77, N, s));
	OK(axclrtRecordEvent(f, s));
	OK(axclrtSynchronizeStreamWithTimeout(t, -1));
	CHECK(back[5] == 77);
	OK(axclrtDestroyEvent(f));
	OK(axclrtCreateEvent(&f));
	OK(axclrtStreamWaitEventWithTimeout(t, f, 10));
	CODE_IS(axclrtSynchronizeStream(t), 0x80300384);
	OK(axclrtDestroyEvent(f));
	CODE_IS(axclrtDestroyEvent(f), 0x80300303);
	CODE_IS(axclrtDestroyEvent(NULL), 0x80300302);
	CODE_IS(axclrtRecordEvent(NULL, s), 0x80300302);
	CODE_IS(axclrtRecordEvent(e, NULL), 0x80300302);
	CODE_IS(axclrtRecordEvent(s, e), 0x80300303);
	CODE_IS(axclrtStreamWaitEvent(s, NULL), 0x80300302);
	CODE_IS(axclrtStreamWaitEventWithTimeout(s, e, -2), 0x80300303);
	CODE_IS(axclrtSynchronizeStream(NULL), 0x80300302);
	CODE_IS(axclrtSynchronizeStream(e), 0x80300303);
	CODE_IS(axclrtSynchronizeStreamWithTimeout(s, -2), 0x80300303);
	CODE_IS(axclrtMemcpyAsync(a, host, 1, 1, NULL), 0x80300502);
	CODE_IS(axclrtMemcpyAsync(a, host, 1, 1, e), 0x80300503);
	CODE_IS(axclrtMemcpyAsync(host, host, 1, 1, s), 0x80300581);
	CODE_IS(axclrtMemsetAsync(a, 0, N + 1, s), 0x80300503);
	CODE_IS(axclrtMemcmpAsync(a, NULL, 1, s), 0x80300502);
	// memory freed while a copy from it is queued; a stream destroyed with work queued; one by
	// force
	OK(axclrtMemcpyAsync(b, a, N, 3, s));
	OK(axclrtFree(b));
	OK(axclrtMemsetAsync(a, 5, N, s));
	OK(axclrtDestroyStream(s));
	CODE_IS(axclrtDestroyStream(s), 0x80300303);
	axcl_handle again; // in its place, and not it
	OK(axclrtCreateStream(&again));
	CHECK(again != s);
	CODE_IS(axclrtSynchronizeStream(s), 0x80300303);
	OK(axclrtDestroyStream(again));
	CODE_IS(axclrtDestroyStreamForce(NULL), 0x80300302);
	OK(axclrtMemcpy(back, a, N, 2));
	CHECK(back[9] == 5);
	OK(axclrtCreateEvent(&f));
	OK(axclrtStreamWaitEvent(t, f));
	OK(axclrtMemsetAsync(a, 6, N, t));
	OK(axclrtDestroyStreamForce(t)); // held back for ever: what is queued is dropped
	OK(axclrtMemcpy(back, a, N, 2));
	CHECK(back[9] == 5);
	OK(axclrtSynchronizeDevice());
	OK(axclrtDestroyEvent(f));
	OK(axclrtDestroyEvent(e));
	OK(axclrtFree(a));
	free(host);
	free(back);
	down(id);
	// a card whose streams begin only when somebody synchronises: what was not waited for is not
	// there
	id = card("hazards=+lazy");
	OK(axclrtCreateStream(&s));
	a = dmalloc(8);
	uint8_t small[8] = {0};
	OK(axclrtMemsetAsync(a, 4, 8, s));
	OK(axclrtMemcpyAsync(small, a, 8, 2, s));
	sleep_ms(5);
	CHECK(small[0] == 0);
	OK(axclrtSynchronizeDevice());
	CHECK(small[0] == 4);
	OK(axclrtDestroyStream(s));
	OK(axclrtFree(a));
	down(id);
}

typedef struct {
	axcl_handle ctx;
	int seed;
} lane;

static void *lane_main(void *arg) {
	lane *l = arg;
	axcl_handle s;
	OK(axclrtSetCurrentContext(l->ctx));
	OK(axclrtCreateStream(&s));
	for (int round = 0; round < 30; round++) {
		uint8_t out[257];
		void *p = dmalloc(sizeof out);
		OK(axclrtMemsetAsync(p, (uint8_t)(l->seed + round), sizeof out, s));
		OK(axclrtMemcpyAsync(out, p, sizeof out, 2, s));
		OK(axclrtSynchronizeStream(s));
		CHECK(out[0] == (uint8_t)(l->seed + round) && out[256] == out[0]);
		OK(axclrtFree(p));
	}
	OK(axclrtDestroyStream(s));
	return NULL;
}

static void case_lanes(void) {
	enum { LANES = 6 };
	int32_t id = up();
	axcl_handle ctx;
	pthread_t t[LANES];
	lane l[LANES];
	OK(axclrtGetCurrentContext(&ctx));
	for (int i = 0; i < LANES; i++) {
		l[i] = (lane){ctx, i * 40};
		if (pthread_create(&t[i], NULL, lane_main, &l[i])) abort();
	}
	for (int i = 0; i < LANES; i++) pthread_join(t[i], NULL);
	down(id);
}

// ---- the engine

typedef struct {
	uint64_t id, ctx;
	axcl_handle info, io;
	void *x, *y;
} affine;

static affine affine_up(int rows) {
	affine a = {0};
	write_affine(file("affine.axmodel"));
	OK(axclrtEngineLoadFromFile(file("affine.axmodel"), &a.id));
	OK(axclrtEngineCreateContext(a.id, &a.ctx));
	OK(axclrtEngineGetIOInfo(a.id, &a.info));
	OK(axclrtEngineCreateIO(a.info, &a.io));
	size_t in = 4 * AFF_IN * (size_t)rows, out = 4 * AFF_OUT * (size_t)rows;
	a.x = dmalloc(in);
	a.y = dmalloc(out);
	OK(axclrtEngineSetInputBufferByIndex(a.io, 0, a.x, in));
	OK(axclrtEngineSetOutputBufferByName(a.io, "y", a.y, out));
	return a;
}

static void affine_down(affine *a) {
	OK(axclrtEngineDestroyIO(a->io));
	OK(axclrtEngineDestroyIOInfo(a->info));
	OK(axclrtEngineUnload(a->id));
	OK(axclrtFree(a->x));
	OK(axclrtFree(a->y));
}

// Runs and says whether every output is what it should be.
static bool affine_right(const affine *a, int rows, uint32_t group) {
	float x[4 * AFF_IN], y[4 * AFF_OUT];
	for (int i = 0; i < rows * AFF_IN; i++) x[i] = (float)(i * i % 13) - 5;
	OK(axclrtMemcpy(a->x, x, sizeof *x * AFF_IN * (size_t)rows, 1));
	OK(axclrtEngineExecute(a->id, a->ctx, group, a->io));
	OK(axclrtMemcpy(y, a->y, sizeof *y * AFF_OUT * (size_t)rows, 2));
	bool right = true;
	for (int r = 0; r < rows; r++)
		for (int o = 0; o < AFF_OUT; o++) right = right && y[r * AFF_OUT + o] == affine_want(x + r * AFF_IN, o);
	return right;
}

typedef struct {
	axcl_handle ctx;
	uint64_t model;
	axcl_handle info;
	int seed;
} guest;

// One of several threads that share a loaded model, each with its own io, run context and stream.
static void *guest_main(void *arg) {
	guest *g = arg;
	axcl_handle io, s;
	uint64_t ctx;
	float x[AFF_IN], y[AFF_OUT];
	OK(axclrtSetCurrentContext(g->ctx));
	OK(axclrtCreateStream(&s));
	OK(axclrtEngineCreateContext(g->model, &ctx));
	OK(axclrtEngineCreateIO(g->info, &io));
	void *in = dmalloc(sizeof x), *out = dmalloc(sizeof y);
	OK(axclrtEngineSetInputBufferByIndex(io, 0, in, sizeof x));
	OK(axclrtEngineSetOutputBufferByIndex(io, 0, out, sizeof y));
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < AFF_IN; i++) x[i] = (float)((g->seed + round * i) % 17);
		OK(axclrtMemcpyAsync(in, x, sizeof x, 1, s));
		OK(axclrtEngineExecuteAsync(g->model, ctx, 0, io, s));
		OK(axclrtMemcpyAsync(y, out, sizeof y, 2, s));
		OK(axclrtSynchronizeStreamWithTimeout(s, 60000));
		for (int o = 0; o < AFF_OUT; o++) CHECK(y[o] == affine_want(x, o));
	}
	OK(axclrtEngineDestroyIO(io));
	OK(axclrtFree(in));
	OK(axclrtFree(out));
	OK(axclrtDestroyStream(s));
	return NULL;
}

static void case_crowd(void) {
	enum { GUESTS = 4 };
	int32_t id = card("");
	affine a = affine_up(1);
	axcl_handle ctx;
	pthread_t t[GUESTS];
	guest g[GUESTS];
	OK(axclrtGetCurrentContext(&ctx));
	for (int i = 0; i < GUESTS; i++) {
		g[i] = (guest){ctx, a.id, a.info, i * 5};
		if (pthread_create(&t[i], NULL, guest_main, &g[i])) abort();
	}
	for (int i = 0; i < GUESTS; i++) pthread_join(t[i], NULL);
	affine_down(&a);
	down(id);
}

static void case_engine(void) {
	OK(axsim_configure("hazards=strict"));
	int32_t id = up(), kind = -1, n, type, layout;
	int64_t sys, cmm;
	uint64_t m, ctx;
	uint32_t set;
	axcl_handle h;
	CODE_IS(axclrtEngineGetVNpuKind(&kind), 0x80300701);
	CODE_IS(axclrtEngineLoadFromFile("x", &m), 0x80300701);
	CODE_IS(axclrtEngineFinalize(), 0x80300701);
	CODE_IS(axclrtEngineInit(4), 0x80300703);
	OK(axclrtEngineInit(2));
	OK(axclrtEngineInit(0)); // as each session of a program may
	OK(axclrtEngineGetVNpuKind(&kind));
	CHECK(kind == 2);
	CODE_IS(axclrtEngineGetVNpuKind(NULL), 0x80300702);
	CODE_IS(axclrtEngineLoadFromFile(NULL, &m), 0x80300702);
	CODE_IS(axclrtEngineLoadFromFile("x", NULL), 0x80300702);
	CODE_IS(axclrtEngineLoadFromFile(file("none.axmodel"), &m), 0x8030070b);
	affine a = affine_up(4);
	CHECK(affine_right(&a, 4, 1));
	CHECK(!strcmp(axclrtEngineGetModelCompilerVersion(a.id), "foreign 1.0"));
	CHECK(axclrtEngineGetModelCompilerVersion(999) == NULL);
	OK(axclrtEngineGetShapeGroupsCount(a.info, &n));
	CHECK(n == 2);
	CODE_IS(axclrtEngineGetShapeGroupsCount(a.info, NULL), 0x80300702);
	CODE_IS(axclrtEngineGetShapeGroupsCount(a.io, &n), 0x80300703);
	CHECK(axclrtEngineGetNumInputs(a.info) == 1 && axclrtEngineGetNumOutputs(a.info) == 1);
	CHECK(axclrtEngineGetInputSizeByIndex(a.info, 0, 0) == 32 && axclrtEngineGetInputSizeByIndex(a.info, 1, 0) == 128);
	CHECK(axclrtEngineGetOutputSizeByIndex(a.info, 1, 0) == 64 && axclrtEngineGetOutputSizeByIndex(a.info, 2, 0) == 0 && axclrtEngineGetOutputSizeByIndex(a.info, 0, 1) == 0);
	CHECK(!strcmp(axclrtEngineGetInputNameByIndex(a.info, 0), "x") && !strcmp(axclrtEngineGetOutputNameByIndex(a.info, 0), "y") && !axclrtEngineGetInputNameByIndex(a.info, 1));
	CHECK(axclrtEngineGetInputIndexByName(a.info, "x") == 0 && axclrtEngineGetInputIndexByName(a.info, "y") == -1 && axclrtEngineGetOutputIndexByName(a.info, "y") == 0);
	axcl_dims dims;
	OK(axclrtEngineGetInputDims(a.info, 1, 0, &dims));
	CHECK(dims.dimCount == 2 && dims.dims[0] == 4 && dims.dims[1] == AFF_IN);
	OK(axclrtEngineGetOutputDims(a.info, 0, 0, &dims));
	CHECK(dims.dimCount == 2 && dims.dims[0] == 1 && dims.dims[1] == AFF_OUT);
	CODE_IS(axclrtEngineGetInputDims(a.info, 2, 0, &dims), 0x80300781);
	CODE_IS(axclrtEngineGetInputDims(a.info, 0, 1, &dims), 0x80300781);
	CODE_IS(axclrtEngineGetOutputDims(a.info, 0, 0, NULL), 0x80300702);
	OK(axclrtEngineGetInputDataType(a.info, 0, &type));
	CHECK(type == 15);
	OK(axclrtEngineGetOutputDataType(a.info, 0, &type));
	CHECK(type == 15);
	CODE_IS(axclrtEngineGetOutputDataType(a.info, 3, &type), 0x80300781);
	OK(axclrtEngineGetInputDataLayout(a.info, 0, &layout));
	CHECK(layout == 0);
	OK(axclrtEngineGetOutputDataLayout(a.info, 0, &layout));
	OK(axclrtEngineSetAffinity(a.id, 3));
	OK(axclrtEngineGetAffinity(a.id, &set));
	CHECK(set == 3);
	CODE_IS(axclrtEngineSetAffinity(a.id, 8), 0x80300703);
	CODE_IS(axclrtEngineGetAffinity(a.id, NULL), 0x80300702);
	OK(axclrtEngineGetUsage(file("affine.axmodel"), &sys, &cmm));
	struct stat st;
	CHECK(!stat(file("affine.axmodel"), &st) && cmm == st.st_size && sys > 0);
	OK(axclrtEngineGetUsageFromModelId(a.id, &sys, &cmm));
	CHECK(cmm == st.st_size);
	CODE_IS(axclrtEngineGetUsage(NULL, &sys, &cmm), 0x80300702);
	CODE_IS(axclrtEngineGetUsage(file("none"), &sys, &cmm), 0x8030070b);
	CODE_IS(axclrtEngineGetUsageFromModelId(5, &sys, &cmm), 0x80300703);
	OK(axclrtEngineGetModelType(file("affine.axmodel"), &kind));
	CHECK(kind == 0);
	OK(axclrtEngineGetModelTypeFromModelId(a.id, &kind));
	CODE_IS(axclrtEngineGetModelType(file("affine.axmodel"), NULL), 0x80300702);
	// from memory
	uint8_t *bytes = malloc((size_t)st.st_size);
	FILE *f = fopen(file("affine.axmodel"), "r");
	CHECK(fread(bytes, 1, (size_t)st.st_size, f) == (size_t)st.st_size);
	fclose(f);
	void *mem = on_card(bytes, (size_t)st.st_size);
	OK(axclrtEngineGetUsageFromMem(mem, (uint64_t)st.st_size, &sys, &cmm));
	CHECK(cmm == st.st_size);
	OK(axclrtEngineGetModelTypeFromMem(mem, (uint64_t)st.st_size, &kind));
	OK(axclrtEngineLoadFromMem(mem, (uint64_t)st.st_size, &m));
	OK(axclrtEngineUnload(m));
	CODE_IS(axclrtEngineLoadFromMem(NULL, 8, &m), 0x80300702);
	CODE_IS(axclrtEngineLoadFromMem(bytes, 8, &m), 0x80300581);
	CODE_IS(axclrtEngineLoadFromMem(mem, 100, &m), 0x80300709);
	OK(axclrtFree(mem));
	free(bytes);
	// ios
	CODE_IS(axclrtEngineGetIOInfo(a.id, NULL), 0x80300702);
	CODE_IS(axclrtEngineGetIOInfo(12345, &h), 0x80300703);
	CODE_IS(axclrtEngineCreateIO(NULL, &h), 0x80300702);
	CODE_IS(axclrtEngineCreateIO(a.io, &h), 0x80300703);
	CODE_IS(axclrtEngineSetInputBufferByIndex(a.io, 1, a.x, 8), 0x80300703);
	CODE_IS(axclrtEngineSetInputBufferByIndex(a.io, 0, NULL, 8), 0x80300702);
	CODE_IS(axclrtEngineSetInputBufferByIndex(NULL, 0, a.x, 8), 0x80300702);
	CODE_IS(axclrtEngineSetInputBufferByIndex(a.io, 0, &a, 8), 0x80300581);
	CODE_IS(axclrtEngineSetInputBufferByIndex(a.io, 0, a.x, 1000), 0x80300503);
	CODE_IS(axclrtEngineSetInputBufferByName(a.io, "z", a.x, 8), 0x80300703);
	CODE_IS(axclrtEngineSetOutputBufferByName(a.io, NULL, a.x, 8), 0x80300702);
	void *got;
	uint64_t size;
	OK(axclrtEngineGetInputBufferByIndex(a.io, 0, &got, &size));
	CHECK(got == a.x && size == 128);
	OK(axclrtEngineGetOutputBufferByName(a.io, "y", &got, &size));
	CHECK(got == a.y && size == 64);
	OK(axclrtEngineGetOutputBufferByIndex(a.io, 0, &got, &size));
	OK(axclrtEngineGetInputBufferByName(a.io, "x", &got, &size));
	CODE_IS(axclrtEngineGetInputBufferByIndex(a.io, 0, NULL, &size), 0x80300702);
	// executes
	CODE_IS(axclrtEngineCreateContext(a.id, NULL), 0x80300702);
	CODE_IS(axclrtEngineCreateContext(77, &ctx), 0x80300703);
	CODE_IS(axclrtEngineExecute(a.id, a.ctx + 1000, 0, a.io), 0x80300703);
	CODE_IS(axclrtEngineExecute(a.id + 1000, a.ctx, 0, a.io), 0x80300703);
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 2, a.io), 0x80300781);
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, NULL), 0x80300702);
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, a.info), 0x80300703);
	CODE_IS(axclrtEngineExecuteAsync(a.id, a.ctx, 0, a.io, NULL), 0x80300702);
	CODE_IS(axclrtEngineExecuteAsync(a.id, a.ctx, 0, a.io, a.info), 0x80300703);
	// four rows as a batch of four
	OK(axclrtEngineCreateIO(a.info, &h));
	OK(axclrtEngineSetInputBufferByIndex(h, 0, a.x, 128));
	OK(axclrtEngineSetOutputBufferByIndex(h, 0, a.y, 64));
	CODE_IS(axclrtEngineSetDynamicBatchSize(h, 0), 0x80300703);
	OK(axclrtEngineSetDynamicBatchSize(h, 4));
	affine batch = a;
	batch.io = h;
	CHECK(affine_right(&batch, 4, 0));
	OK(axclrtEngineSetInputBufferByIndex(h, 0, a.x, 127));
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, h), 0x8030070c);
	OK(axclrtEngineSetInputBufferByIndex(h, 0, a.x, 128));
	OK(axclrtEngineSetOutputBufferByIndex(h, 0, a.y, 63));
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, h), 0x8030070c);
	OK(axclrtEngineSetOutputBufferByIndex(h, 0, a.y, 64));
	OK(axclrtEngineSetDynamicBatchSize(h, 5));
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, h), 0x8030070c);
	OK(axclrtEngineDestroyIO(h));
	CODE_IS(axclrtEngineDestroyIO(h), 0x80300703);
	CODE_IS(axclrtEngineDestroyIOInfo(NULL), 0x80300702);
	// unloaded under its io
	uint64_t old = a.id;
	OK(axclrtEngineUnload(a.id));
	CODE_IS(axclrtEngineUnload(a.id), 0x80300703);
	CODE_IS(axclrtEngineExecute(old, a.ctx, 0, a.io), 0x80300703);
	CHECK(axclrtEngineGetNumInputs(a.info) == 1);
	OK(axclrtEngineDestroyIOInfo(a.info));
	OK(axclrtEngineDestroyIO(a.io));
	OK(axclrtFree(a.x));
	OK(axclrtFree(a.y));
	OK(axclrtEngineFinalize());
	OK(axclrtEngineInit(0));
	down(id);
}

// Files that are no models, and models that lie about themselves.
static void case_hostile(void) {
	int32_t id = card("");
	uint64_t m;
	write_affine(file("good.axmodel"));
	struct stat st;
	CHECK(!stat(file("good.axmodel"), &st));
	uint8_t *good = malloc((size_t)st.st_size), *bad = malloc((size_t)st.st_size);
	FILE *f = fopen(file("good.axmodel"), "r");
	CHECK(fread(good, 1, (size_t)st.st_size, f) == (size_t)st.st_size);
	fclose(f);
	axcl_properties before, after;
	OK(axclrtGetDeviceProperties(id, &before));
	int refused = 0;
	for (size_t cut = 0; cut < (size_t)st.st_size; cut += 7) { // truncated
		f = fopen(file("bad.axmodel"), "w");
		fwrite(good, 1, cut, f);
		fclose(f);
		CHECK(axclrtEngineLoadFromFile(file("bad.axmodel"), &m) != 0);
	}
	for (size_t at = 8; at < 192 + 32 + 128; at++) { // every byte of header, groups and directory, flipped two ways
		for (int way = 0; way < 2; way++) {
			memcpy(bad, good, (size_t)st.st_size);
			bad[at] ^= way ? 0xff : 1;
			f = fopen(file("bad.axmodel"), "w");
			fwrite(bad, 1, (size_t)st.st_size, f);
			fclose(f);
			if (axclrtEngineLoadFromFile(file("bad.axmodel"), &m) == 0)
				OK(axclrtEngineUnload(m)); // a field that is only for people, or a bigger but possible number
			else
				refused++;
		}
	}
	CHECK(refused > 150);
	memcpy(bad, good, (size_t)st.st_size); // the last tensor's values begin in the file and end behind it
	uint64_t at = ((uint64_t)st.st_size - 1) / 64 * 64;
	memcpy(bad + 192 + 32 + 40, &at, 8);
	f = fopen(file("bad.axmodel"), "w");
	fwrite(bad, 1, (size_t)st.st_size, f);
	fclose(f);
	CODE_IS(axclrtEngineLoadFromFile(file("bad.axmodel"), &m), 0x80300709);
	f = fopen(file("bad.axmodel"), "w");
	fputs("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", f);
	fclose(f);
	CODE_IS(axclrtEngineLoadFromFile(file("bad.axmodel"), &m), 0x80300709);
	f = fopen(file("bad.axmodel"), "w");
	fwrite("\x08\x07\x12\x07Pulsar2", 1, 11, f); // the vendor's: cannot be computed here
	fclose(f);
	CODE_IS(axclrtEngineLoadFromFile(file("bad.axmodel"), &m), 0x80300704);
	CODE_IS(axclrtEngineLoadFromFile(dir, &m), 0x8030070b);
	OK(axclrtGetDeviceProperties(id, &after));
	CHECK(before.freeCmmSize == after.freeCmmSize);
	free(good);
	free(bad);
	down(id);
}

#include "layer_cases.h"
#include "vendor_cases.h"
#include "card_cases.h"

// ---- faults

static void case_faults(void) {
	setenv("AXSIM_FAULT", "Memcpy:1:0x8030050c;axclrtMalloc:2:0x80300507:sticky", 1);
	int32_t id = up();
	char b[8] = {0};
	void *p = dmalloc(8), *q = dmalloc(8), *r;
	OK(axclrtMemcpy(p, b, 8, 1));
	CODE_IS(axclrtMemcpy(p, b, 8, 1), 0x8030050c);
	OK(axclrtMemcpy(p, b, 8, 1));
	CODE_IS(axclrtMalloc(&r, 8, 0), 0x80300507);
	CODE_IS(axclrtMalloc(&r, 8, 0), 0x80300507);
	OK(axclrtFree(p));
	OK(axclrtFree(q));
	down(id);
	unsetenv("AXSIM_FAULT"); // read anew at each Init
	id = up();
	p = dmalloc(8);
	// a release that fails has released all the same
	OK(axsim_configure("fault=Free:0:0x80300501"));
	CODE_IS(axclrtFree(p), 0x80300501);
	OK(axsim_configure("fault=*:3:0x80300101"));
	p = dmalloc(8);
	OK(axclrtMemset(p, 1, 8));
	OK(axclrtMemset(p, 1, 8));
	CODE_IS(axclrtMemset(p, 1, 8), 0x80300101);
	// damaged data, late codes, slowness
	OK(axsim_configure("fault=Memcpy:0:wrong;SynchronizeStream:0:slow:30"));
	memset(b, 1, 8);
	OK(axclrtMemcpy(p, b, 8, 1));
	OK(axclrtMemcpy(b, p, 8, 2));
	CHECK(memcmp(b, "\1\1\1\1\1\1\1\1", 8) != 0);
	axcl_handle s;
	OK(axclrtCreateStream(&s));
	double t = now_ms();
	OK(axclrtSynchronizeStream(s));
	CHECK(now_ms() - t >= 29);
	OK(axsim_configure("fault=MemsetAsync:0:slow:150ms"));
	t = now_ms();
	OK(axclrtMemsetAsync(p, 1, 8, s));
	CODE_IS(axclrtSynchronizeStreamWithTimeout(s, 0), 0x80300383); // the call did not wait
	OK(axclrtSynchronizeStream(s));
	CHECK(now_ms() - t >= 149);
	OK(axsim_configure("fault=MemsetAsync:0:0x8030040c:late"));
	OK(axclrtMemsetAsync(p, 1, 8, s));
	CODE_IS(axclrtSynchronizeStream(s), 0x8030040c);
	// a task that hangs: its synchronisation times out; by force the stream can still be ended
	OK(axsim_configure("fault=Memset:0:hang"));
	OK(axclrtMemsetAsync(p, 1, 8, s));
	CODE_IS(axclrtSynchronizeStreamWithTimeout(s, 20), 0x80300383);
	OK(axclrtDestroyStreamForce(s));
	OK(axclrtFree(p));
	down(id);
	// executes by a plan of two: sticky from the 18th
	id = card("fault=Execute:17:0x8030070c:sticky");
	affine a = affine_up(1);
	for (int i = 0; i < 17; i++) OK(axclrtEngineExecute(a.id, a.ctx, 0, a.io));
	for (int i = 0; i < 3; i++) CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, a.io), 0x8030070c);
	OK(axsim_configure("fault=axclrtEngineExecute:0:wrong"));
	CHECK(!affine_right(&a, 1, 0));
	CHECK(affine_right(&a, 1, 0));
	// wrong data that shows
	float y[AFF_OUT];
	OK(axsim_configure("fault=Execute:0:nan;Execute:1:flat"));
	for (int i = 0; i < 2; i++) {
		CHECK(!affine_right(&a, 1, 0));
		OK(axclrtMemcpy(y, a.y, sizeof y, 2));
		for (int o = 0; o < AFF_OUT; o++) CHECK(i ? y[o] == y[0] : isnan(y[o]));
	}
	CHECK(affine_right(&a, 1, 0));
	// the link goes: every later call says so, giving back works
	OK(axsim_configure("fault=Execute:0:lost"));
	CODE_IS(axclrtEngineExecute(a.id, a.ctx, 0, a.io), 0x80300181);
	CODE_IS(axclrtMalloc(&p, 8, 0), 0x80300181);
	CODE_IS(axclrtSetDevice(id), 0x80300181);
	OK(axclrtEngineSetInputBufferByIndex(a.io, 0, a.x, 8)); // an io is a list on the host
	OK(axclrtEngineDestroyIO(a.io));
	CODE_IS(axclrtEngineDestroyIOInfo(a.info), 0x80300181);
	CODE_IS(axclrtEngineUnload(a.id), 0x80300181);
	CODE_IS(axclrtFree(a.x), 0x80300181);
	CODE_IS(axclrtFree(a.y), 0x80300181);
	axcl_device_list l;
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num == 0);
	axsim_counts n;
	OK(axsim_live(&n));
	CHECK(n.models == 0 && n.ios == 0 && n.infos == 0 && n.device_blocks == 0);
	CODE_IS(axclrtResetDevice(id), 0x80300181);
	OK(axclFinalize());
	// heat: 120 degrees and the card is gone
	id = card("temperature=52,60@10s,101@20s,121@30s\nclock=virtual\nprofile=pi5,call Memset 10s\ntemperature_unit=degree");
	axcl_properties props;
	const int want[] = {52, 60, 101};
	p = dmalloc(8);
	for (int i = 0; i < 3; i++) {
		OK(axclrtGetDeviceProperties(id, &props));
		CHECK(props.temperature == want[i]);
		OK(axclrtMemset(p, 0, 8));
	}
	CODE_IS(axclrtMemset(p, 0, 8), 0x80300181);
	OK(axsim_reset());
	// heat from a file
	char options[600];
	snprintf(options, sizeof options, "temperature=file:%s\ntemperature_unit=degree", file("heat"));
	id = card(options);
	for (int i = 0; i < 3; i++) {
		FILE *f = fopen(file("heat"), "w");
		fprintf(f, "%d\n", want[i]);
		fclose(f);
		OK(axclrtGetDeviceProperties(id, &props));
		CHECK(props.temperature == want[i]);
	}
	down(id);
}

static void *hanging_call(void *arg) {
	OK(axclrtSetDevice(*(int32_t *)arg));
	void *p;
	int32_t code = axclrtMalloc(&p, 8, 0);
	CODE_IS(code, 0x80300105);
	return NULL;
}

typedef struct {
	int32_t id;
	axcl_handle s;
} stuck;

static void *stuck_destroy(void *arg) {
	stuck *k = arg;
	OK(axclrtSetDevice(k->id));
	OK(axclrtDestroyStream(k->s));
	return NULL;
}

static void case_hang(void) {
	int32_t id;
	pthread_t t;
	for (int i = 0; i < 200; i++) { // a call that counts hangs already: no reset comes too early for it
		id = card("fault=Malloc:0:hang");
		if (pthread_create(&t, NULL, hanging_call, &id)) abort();
		while (axsim_calls("Malloc") == 0) sched_yield();
		OK(axsim_reset());
		pthread_join(t, NULL);
	}
	// a stream that is being destroyed while its work hangs
	id = card("fault=Memset:0:hang");
	axcl_handle s;
	OK(axclrtCreateStream(&s));
	OK(axclrtMemsetAsync(dmalloc(8), 1, 8, s));
	stuck k = {id, s};
	if (pthread_create(&t, NULL, stuck_destroy, &k)) abort();
	axsim_counts live;
	do { // its handle is gone when it begins to wait
		sleep_ms(1);
		OK(axsim_live(&live));
	} while (live.streams);
	OK(axsim_reset());
	pthread_join(t, NULL);
	// and a process with a call that hangs can still end
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		id = card("fault=Malloc:0:hang");
		if (pthread_create(&t, NULL, hanging_call, &id)) abort();
		while (axsim_calls("Malloc") == 0) sleep_ms(1);
		exit(0);
	}
	int st;
	CHECK(waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

// ---- time

static void case_clock(void) {
	// one call after another: sums
	int32_t id = card("clock=virtual\nprofile=pi5,call * 0ns,copy h2d-pinned 30us 500MB/s,copy h2d-pageable 1ms 500MB/s,copy d2d 200us 0,copy set 100us 0,enqueue 10us,load 35MB/s,execute 457us");
	uint64_t t = axsim_clock_ns();
	void *p = dmalloc(1 << 20), *q = dmalloc(1 << 20), *pin, *page = calloc(1, 1 << 20);
	OK(axclrtMallocHost(&pin, 1 << 20));
	CHECK(axsim_clock_ns() == t);
	OK(axclrtMemcpy(p, pin, 500000, 1));
	CHECK(axsim_clock_ns() - t == 1030000);
	OK(axclrtMemcpy(p, (char *)pin + 4096, 500, 1));
	CHECK(axsim_clock_ns() - t == 1061000);
	OK(axclrtMemcpy(p, page, 500, 1));
	CHECK(axsim_clock_ns() - t == 2062000);
	CHECK(axsim_crossings() == 3);
	// two streams overlap; a synchronisation joins the clocks
	axcl_handle s, u, e;
	OK(axclrtCreateStream(&s));
	OK(axclrtCreateStream(&u));
	OK(axclrtCreateEvent(&e));
	t = axsim_clock_ns();
	OK(axclrtMemsetAsync(p, 0, 8, s)); // host at 10, s until 110
	OK(axclrtMemsetAsync(q, 0, 8, u)); // host at 20, u until 120
	CHECK(axsim_clock_ns() - t == 20000);
	OK(axclrtMemsetAsync(p, 0, 8, s)); // host at 30, s until 210
	OK(axclrtSynchronizeStream(u));
	CHECK(axsim_clock_ns() - t == 120000);
	OK(axclrtRecordEvent(e, s)); // at 210
	OK(axclrtStreamWaitEvent(u, e));
	OK(axclrtMemsetAsync(q, 0, 8, u)); // 210 .. 310
	OK(axclrtSynchronizeDevice());
	CHECK(axsim_clock_ns() - t == 310000);
	// the link is one: copies of two streams queue up
	t = axsim_clock_ns();
	OK(axclrtMemcpyAsync(p, pin, 500000, 1, s)); // host at 10, until 1040
	OK(axclrtMemcpyAsync(q, pin, 500000, 1, u)); // host at 20, until 2070
	OK(axclrtSynchronizeStream(u));
	CHECK(axsim_clock_ns() - t == 2070000);
	// the NPU is one: executes of two streams queue up
	affine a = affine_up(1);
	axsim_counts n;
	OK(axsim_live(&n));
	CHECK(n.models == 1);
	t = axsim_clock_ns();
	uint64_t busy = axsim_busy_ns();
	OK(axclrtEngineExecuteAsync(a.id, a.ctx, 0, a.io, s));
	OK(axclrtEngineExecuteAsync(a.id, a.ctx, 0, a.io, u));
	OK(axclrtSynchronizeStream(u));
	uint64_t each = (axsim_clock_ns() - t - 10000) / 2;
	CHECK(each >= 457000 && each < 460000);
	CHECK(axsim_busy_ns() - busy >= 2 * 457000);
	// time-outs are the clock's
	OK(axsim_configure("clock=virtual\nprofile=pi5,copy set 50ms 0\nfault=MemsetAsync:1:hang"));
	OK(axclrtMemsetAsync(p, 0, 8, s));
	CODE_IS(axclrtSynchronizeStreamWithTimeout(s, 10), 0x80300383);
	OK(axclrtMemsetAsync(p, 0, 8, s));
	double real = now_ms();
	CODE_IS(axclrtSynchronizeStreamWithTimeout(s, 5000), 0x80300383);
	CHECK(now_ms() - real < 2000);
	OK(axclrtDestroyStreamForce(s));
	OK(axclrtDestroyStream(u));
	OK(axclrtDestroyEvent(e));
	affine_down(&a);
	OK(axclrtFree(p));
	OK(axclrtFree(q));
	OK(axclrtFreeHost(pin));
	free(page);
	down(id);
	// really sleeping
	id = card("clock=real\nprofile=pi5,copy set 100ms 0");
	p = dmalloc(8);
	OK(axclrtCreateStream(&s));
	real = now_ms();
	OK(axclrtMemset(p, 0, 8));
	double took = now_ms() - real;
	CHECK(took >= 99.9);
	real = now_ms();
	OK(axclrtMemsetAsync(p, 0, 8, s));
	CODE_IS(axclrtSynchronizeStreamWithTimeout(s, 1), 0x80300383);
	OK(axclrtSynchronizeStream(s));
	CHECK(now_ms() - real >= 99.9);
	OK(axclrtDestroyStream(s));
	OK(axclrtFree(p));
	down(id);
}

// ---- trace

static void case_trace(void) {
	setenv("AXSIM_TRACE", file("trace.txt"), 1);
	setenv("AXSIM_CLOCK", "virtual", 1);
	int32_t id = up();
	OK(axclrtEngineInit(0));
	affine a = affine_up(1);
	CHECK(affine_right(&a, 1, 0));
	affine_down(&a);
	down(id);
	FILE *f = fopen(file("trace.txt"), "r");
	CHECK(f != NULL);
	char line[1024];
	bool execute = false, total = false, share = false;
	while (f && fgets(line, sizeof line, f)) {
		execute = execute || (strstr(line, "axclrtEngineExecute(model=") && strstr(line, "= 0x00000000 "));
		total = total || strstr(line, "# total calls");
		share = share || strstr(line, "host share");
	}
	if (f) fclose(f);
	CHECK(execute && total && share);
	CHECK(axsim_calls("axclrtEngineExecute") == 1 && axsim_calls("Execute") == 1 && axsim_calls(NULL) > 20);
}

// ---- workers

static void script(const char *name, const char *text) {
	FILE *f = fopen(file(name), "w");
	fputs(text, f);
	fclose(f);
	chmod(file(name), 0755);
}

static void case_worker(void) {
	int32_t id = up();
	uint32_t pid, got;
	char buf[256];
	script("hello.sh", "#!/bin/sh\necho \"$1 $2\"\nline=$(dd bs=256 count=1 2>/dev/null)\necho \"got $line\"\nexec sleep 60\n");
	CODE_IS(axclrtTransferFile(file("none"), "/opt/x", 0), 0x80300c81);
	script("empty", "");
	CODE_IS(axclrtTransferFile(file("empty"), "/opt/x", 0), 0x80300c82);
	CODE_IS(axclrtTransferFile(file("hello.sh"), "/opt/../../x", 0), 0x80300c84);
	CODE_IS(axclrtTransferFile(file("hello.sh"), "", 0), 0x80300c84);
	CODE_IS(axclrtTransferFile(NULL, "/opt/x", 0), 0x80300c02);
	CODE_IS(axclrtTransferFile(file("hello.sh"), NULL, 0), 0x80300c02);
	CODE_IS(axclrtTransferFile(file("hello.sh"), "/opt/x", 4), 0x80300c03);
	OK(axclrtTransferFile(file("hello.sh"), "/opt/axsim-test/hello.sh", 0));
	OK(axclrtTransferFile("/opt/axsim-test/hello.sh", "/opt/axsim-test/two.sh", 2));
	OK(axclrtTransferFile("/opt/axsim-test/two.sh", file("back.sh"), 1));
	struct stat a, b;
	CHECK(!stat(file("hello.sh"), &a) && !stat(file("back.sh"), &b) && a.st_size == b.st_size);
	OK(axclrtTransferFile(NULL, "/opt/axsim-test/two.sh", 3));
	CODE_IS(axclrtTransferFile("/opt/axsim-test/two.sh", file("back.sh"), 1), 0x80300c81);
	const char *argv[] = {"one", "two"};
	int32_t argc = 2;
	CODE_IS(axclrtExecWorker(NULL, &argc, argv, &pid), 0x80300c02);
	CODE_IS(axclrtExecWorker("/opt/axsim-test/none", &argc, argv, &pid), 0x80300c81);
	CODE_IS(axclrtExecWorker("/opt/../x", &argc, argv, &pid), 0x80300c84);
	OK(axclrtExecWorker("/opt/axsim-test/hello.sh", &argc, argv, &pid));
	OK(axclrtWorkerRecv(pid, buf, sizeof buf, &got, 5000));
	CHECK(got == 8 && !memcmp(buf, "one two\n", 8));
	CODE_IS(axclrtWorkerRecv(pid, buf, sizeof buf, &got, 10), 0x80300c05);
	CODE_IS(axclrtWorkerRecv(pid, NULL, 8, &got, 10), 0x80300c02);
	CODE_IS(axclrtWorkerSend(pid, NULL, 8, 10), 0x80300c02);
	OK(axclrtWorkerSend(pid, "abc\n", 4, 1000));
	CODE_IS(axclrtWorkerRecv(pid, buf, 3, &got, 5000), 0x80300c87);
	CHECK(got == 8);
	OK(axclrtWorkerRecv(pid, buf, sizeof buf, &got, 5000));
	CHECK(got == 8 && !memcmp(buf, "got abc\n", 8));
	OK(axclrtKillWorker(pid));
	CODE_IS(axclrtKillWorker(pid), 0x80300c83);
	CODE_IS(axclrtWorkerSend(pid, "x", 1, 10), 0x80300c83);
	CODE_IS(axclrtWorkerRecv(pid, buf, 1, &got, 10), 0x80300c83);
	// a program every Linux has, as an echo
	OK(axclrtExecWorker("/bin/cat", NULL, NULL, &pid));
	OK(axclrtWorkerSend(pid, "ping", 4, 1000));
	OK(axclrtWorkerRecv(pid, buf, sizeof buf, &got, 5000));
	CHECK(got == 4 && !memcmp(buf, "ping", 4));
	OK(axclrtKillWorker(pid));
	argc = 0;
	OK(axclrtExecWorker("/bin/true", &argc, argv, &pid)); // ends at once
	CODE_IS(axclrtWorkerRecv(pid, buf, 1, &got, 5000), 0x80300c83);
	OK(axclrtKillWorker(pid));
	OK(axclrtEngineInit(0));
	down(id);
}

// ---- processes that die

// Waits until a process's record says that something is under way on the card.
static void wait_busy(pid_t pid) {
	char path[600];
	uint64_t record[2] = {0, 0};
	snprintf(path, sizeof path, "%s/card.%d", dir, (int)pid);
	for (int i = 0; i < 5000 && !record[1]; i++) {
		FILE *f = fopen(path, "r");
		if (!f || fread(record, sizeof record, 1, f) != 1) record[1] = 0;
		if (f) fclose(f);
		sleep_ms(2);
	}
	CHECK(record[1] != 0);
}

static void case_state(void) {
	setenv("AXSIM_STATE", dir, 1);
	for (int busy = 0; busy < 2; busy++) {
		int loaded[2];
		char b;
		CHECK(pipe(loaded) == 0);
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			int32_t id = up();
			(void)id;
			dmalloc(100 << 20);
			if (busy) {
				OK(axclrtEngineInit(0));
				affine a = affine_up(1);
				OK(axsim_configure("clock=real\nprofile=pi5,execute 20s"));
				if (write(loaded[1], "x", 1) != 1) _exit(1);
				OK(axclrtEngineExecute(a.id, a.ctx, 0, a.io));
			}
			_exit(0); // as a killed process: no Finalize
		}
		close(loaded[1]);
		if (busy) { // in the execute: the load, which the record told of as well, is over
			CHECK(read(loaded[0], &b, 1) == 1);
			wait_busy(pid);
			kill(pid, SIGKILL);
		}
		int st;
		CHECK(waitpid(pid, &st, 0) == pid);
		close(loaded[0]);
		axcl_device_list l;
		OK(axclInit(NULL));
		OK(axclrtGetDeviceList(&l));
		if (busy) { // wedged: no device until the record is gone
			CHECK(l.num == 0);
			OK(axclFinalize());
			char cmd[600];
			snprintf(cmd, sizeof cmd, "rm -f %s/card.*", dir);
			CHECK(system(cmd) == 0);
			OK(axclInit(NULL));
			OK(axclrtGetDeviceList(&l));
			CHECK(l.num == 1);
		} else { // its memory is still taken
			axcl_properties p;
			CHECK(l.num == 1);
			OK(axclrtGetDeviceProperties(l.devices[0], &p));
			CHECK(p.freeCmmSize == (7040 - 18 - 100) << 10);
		}
		OK(axclFinalize());
	}
}

// What a living process holds is taken from the others' point of view, and free again when it has
// given it back; what a killed one held stays taken.
static void case_share(void) {
	setenv("AXSIM_STATE", dir, 1);
	int go[2], ready[2];
	char b = 0;
	CHECK(pipe(go) == 0 && pipe(ready) == 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		up();
		void *p = dmalloc(100 << 20);
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		OK(axclrtFree(p));
		dmalloc(50 << 20);
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		_exit(1);
	}
	CHECK(read(ready[0], &b, 1) == 1);
	int32_t id = up();
	axcl_properties p;
	OK(axclrtGetDeviceProperties(id, &p));
	CHECK(p.freeCmmSize == (7040 - 18 - 100) << 10);
	void *q = NULL;
	CODE_IS(axclrtMalloc(&q, (size_t)6950 << 20, 0), 0x8030050c);
	CHECK(write(go[1], "x", 1) == 1 && read(ready[0], &b, 1) == 1);
	OK(axclrtGetDeviceProperties(id, &p));
	CHECK(p.freeCmmSize == (7040 - 18 - 50) << 10);
	int st;
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &st, 0) == pid);
	OK(axclrtGetDeviceProperties(id, &p));
	CHECK(p.freeCmmSize == (7040 - 18 - 50) << 10);
	OK(axclFinalize());
}

// A card that is one process's alone: others are told that it is busy, until that process has reset
// it as often as it was set, or is dead.
static void case_exclusive(void) {
	setenv("AXSIM_STATE", dir, 1);
	setenv("AXSIM_HAZARDS", "exclusive,-leak", 1);
	int go[2], ready[2];
	char b = 0;
	CHECK(pipe(go) == 0 && pipe(ready) == 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		int32_t id = up();
		OK(axclrtSetDevice(id));
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		OK(axclrtResetDevice(id));
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		OK(axclrtResetDevice(id));
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		CODE_IS(axclrtSetDevice(id), 0x80300106); // the other has it now
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		OK(axclrtSetDevice(id));
		if (write(ready[1], "x", 1) != 1 || read(go[0], &b, 1) != 1) _exit(1);
		_exit(0);
	}
	axcl_device_list l;
	OK(axclInit(NULL));
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num == 1);
	for (int still = 0; still < 2; still++) {
		CHECK(read(ready[0], &b, 1) == 1);
		CODE_IS(axclrtSetDevice(l.devices[0]), 0x80300106);
		CHECK(write(go[1], "x", 1) == 1);
	}
	CHECK(read(ready[0], &b, 1) == 1);
	OK(axclrtSetDevice(l.devices[0]));
	CHECK(write(go[1], "x", 1) == 1 && read(ready[0], &b, 1) == 1);
	OK(axclFinalize());
	CHECK(write(go[1], "x", 1) == 1 && read(ready[0], &b, 1) == 1);
	OK(axclInit(NULL));
	CODE_IS(axclrtSetDevice(l.devices[0]), 0x80300106);
	int st;
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &st, 0) == pid);
	OK(axclrtSetDevice(l.devices[0]));
	OK(axclFinalize());
}

// What the library writes on its own: to both streams, what fails and what begins, until it is told
// to be quiet; Init forgets that.
static void case_noise(void) {
	setenv("AXSIM_NOISE", "both", 1);
	int keep[2] = {dup(1), dup(2)};
	long size[2][4];
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2; i++) {
			int f = open(file(i ? "err" : "out"), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
			dup2(f, i + 1);
			close(f);
		}
		struct stat st;
		int at = 0;
#define MARK for (int i = 0; i < 2; i++) size[i][at] = fstat(i + 1, &st) ? -1 : (long)st.st_size; at++
		int ok = axclInit(NULL) == 0;
		MARK;
		ok = ok && axclrtSetDevice(1) == 0;
		MARK;
		ok = ok && axclrtSetDevice(77) != 0;
		MARK;
		ok = ok && axclSetLogLevel(6) == 0 && axclrtSetDevice(77) != 0 && axclrtSetDevice(1) == 0;
		MARK;
		ok = ok && axclFinalize() == 0;
		for (int i = 0; i < 2; i++) dup2(keep[i], i + 1);
		CHECK(ok);
		for (int i = 0; i < 2; i++) CHECK(size[i][0] > 0 && size[i][1] > size[i][0] && size[i][2] > size[i][1] && size[i][3] == size[i][2]);
	}
	CHECK(dup2(keep[0], 1) == 1);
	setenv("AXSIM_NOISE", "loud", 1);
	CODE_IS(axclInit(NULL), 0x80300603);
}

// Addresses come back, late: more is allocated in turn than there are.
static void case_wrap(void) {
	uint8_t b = 0;
	int32_t id = card("hazards=-poison");
	uint8_t *first = dmalloc(64), *last = NULL;
	OK(axclrtMemset(first, 5, 64));
	for (int i = 0; i < 80; i++) {
		uint8_t *q = dmalloc((size_t)1 << 30);
		CHECK(q != last);
		OK(axclrtMemset(q + (1 << 30) - 1, 1, 1));
		OK(axclrtFree(q));
		last = q;
	}
	OK(axclrtMemcpy(&b, first + 63, 1, 2));
	CHECK(b == 5);
	OK(axclrtFree(first));
	down(id);
}

// ---- options

static void case_options(void) {
	axcl_device_list l;
	axcl_handle s;
	int32_t id = card("{\"devices\": \"bus:9,12\", \"fault\": \"Memset:0:0x80300501;Memset:2:0x8030050c\", \"hazards\": \"none,-poison, lazy\"}");
	OK(axclrtGetDeviceList(&l));
	CHECK(l.num == 2 && l.devices[0] == 9 && l.devices[1] == 12);
	void *p = dmalloc(8);
	CODE_IS(axclrtMemset(p, 1, 8), 0x80300501);
	OK(axclrtMemset(p, 1, 8));
	CODE_IS(axclrtMemset(p, 1, 8), 0x8030050c);
	OK(axclrtCreateStream(&s));
	OK(axclrtMemsetAsync(p, 2, 8, s));
	OK(axclrtDestroyStream(s)); // lets it run, lazy or not
	uint8_t b = 0;
	OK(axclrtMemcpy(&b, p, 1, 2));
	CHECK(b == 2);
	OK(axclrtFree(p));
	down(id);
	static const char *const bad[] = {
	        "devices=x", "devices=33", "devices=bus:", "devices=bus:1,x", "devices=bus:256", "cmm=-1", "cmm=1x", "clock=fast", "temperature=hot", "temperature=1@", "temperature=1;2",
	        "temperature_unit=kelvin", "version=3", "page=5000", "page=2048", "page=x", "message=x", "hazards=nothing", "fault=Memcpy", "fault=Memcpy:x:1", "fault=Memcpy:-2:1", "fault=Memcpy:0:0", "fault=Memcpy:0:1:often", "fault=Memcpy:0:slow",
	        "fault=Memcpy:0:slow:x", "profile=pi5,copy set 1ms", "profile=pi5,layer hidden=1", "profile=pi5,execute x", "profile=pi5,like nobody", "profile=pi5,call Nobody 1ms", "profile=pi5,table most 1ms",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if ((uint32_t)axsim_configure(bad[i]) != 0x80300603) {
			fprintf(stderr, "%s was taken\n", bad[i]);
			failures++;
		}
	// a profile of one's own
	FILE *f = fopen(file("own.profile"), "w");
	fputs("like pi5 # all but\ntable clear\ncopy set 7ms 1kB/s\n\nhead 1TB/s\n", f);
	fclose(f);
	char text[600];
	snprintf(text, sizeof text, "clock=virtual\nprofile=%s,call * 0ns", file("own.profile"));
	id = card(text);
	p = dmalloc(1000);
	uint64_t t = axsim_clock_ns();
	OK(axclrtMemset(p, 0, 1000));
	CHECK(axsim_clock_ns() - t == 1007000000);
	OK(axclrtFree(p));
	down(id);
	setenv("AXSIM_ROOT", dir, 1);
	OK(axsim_reset());
	id = up();
	f = fopen(file("src"), "w");
	fputs("text", f);
	fclose(f);
	OK(axclrtTransferFile(file("src"), "a/b/c", 0));
	struct stat st;
	CHECK(!stat(file("a/b/c"), &st) && st.st_size == 4);
	uint32_t pid;
	const char *argv[] = {"/bin/sleep", "100"};
	int32_t argc = 2;
	OK(axclrtExecWorker("/bin/sleep", &argc, argv, &pid));
	OK(axclFinalize()); // ends it
	CHECK(kill((pid_t)pid, 0) != 0 && errno == ESRCH);
	axsim_counts n;
	OK(axsim_left(&n));
	CHECK(n.workers == 1);
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
	        {"life", case_life},     {"devices", case_devices}, {"contexts", case_contexts}, {"memory", case_memory}, {"segv", case_segv},
	        {"streams", case_streams}, {"lanes", case_lanes}, {"crowd", case_crowd},   {"engine", case_engine},     {"hostile", case_hostile}, {"layer", case_layer},
	        {"head", case_head},     {"shape", case_shape},   {"hazards", case_hazards},   {"faults", case_faults}, {"hang", case_hang},
	        {"clock", case_clock},   {"profile", case_profile}, {"trace", case_trace},       {"worker", case_worker}, {"state", case_state}, {"share", case_share}, {"exclusive", case_exclusive}, {"noise", case_noise}, {"options", case_options}, {"wrap", case_wrap},
	        {"counted", case_counted}, {"settings", case_settings}, {"shared", case_shared}, {"bare", case_bare}, {"beyond", case_beyond}, {"groups", case_groups}, {"staging", case_staging}, {"firmware", case_firmware}, {"latch", case_latch}, {"rawcode", case_rawcode}, {"nomem", case_nomem}, {"pages", case_pages}, {"message", case_message},
	        {"loops", case_loops}, {"state-loops", case_state_loops},
	};
	if (argc != 3) return 2;
	dir = argv[2];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(argv[1], cases[i].name)) continue;
		cases[i].run();
		if (failures) fprintf(stderr, "%s: %d checks failed\n", argv[1], failures);
		return failures != 0;
	}
	return 2;
}
