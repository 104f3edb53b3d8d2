// Cases about what the card itself is like: its events, the codes of tasks that failed, full
// memory, messages that it drops, pages of other sizes. Each with the hazard and without. Included
// by abi_test.c.

// ---- latch: an event that was recorded once stays set

static void case_latch(void) {
	for (int on = 0; on < 2; on++) {
		int32_t id = card(on ? "fault=MemsetAsync:1:hang" : "hazards=-latch\nfault=MemsetAsync:1:hang");
		axcl_handle s, t, e;
		OK(axclrtCreateStream(&s));
		OK(axclrtCreateStream(&t));
		OK(axclrtCreateEvent(&e));
		uint8_t *a = dmalloc(8), *b = dmalloc(8), back = 0;
		OK(axclrtStreamWaitEvent(t, e)); // not recorded yet: waits
		CODE_IS(axclrtSynchronizeStreamWithTimeout(t, 20), 0x80300383);
		OK(axclrtMemsetAsync(a, 1, 8, s));
		OK(axclrtRecordEvent(e, s));
		OK(axclrtSynchronizeStream(t));
		OK(axclrtMemsetAsync(a, 2, 8, s)); // hangs
		OK(axclrtRecordEvent(e, s));
		OK(axclrtStreamWaitEvent(t, e));
		OK(axclrtMemcpyAsync(b, a, 8, 3, t));
		CODE_IS(axclrtSynchronizeStreamWithTimeout(t, on ? 20000 : 20), on ? 0 : 0x80300383);
		OK(axclrtDestroyStreamForce(s));
		OK(axclrtDestroyStreamForce(t));
		if (on) {
			OK(axclrtMemcpy(&back, b, 1, 2));
			CHECK(back == 1);
		}
		OK(axclrtDestroyEvent(e));
		OK(axclrtFree(a));
		OK(axclrtFree(b));
		down(id);
		// nor does it hold back by the clock
		id = card(on ? "clock=virtual\nprofile=pi5,copy set 50ms 0" : "hazards=-latch\nclock=virtual\nprofile=pi5,copy set 50ms 0");
		OK(axclrtCreateStream(&s));
		OK(axclrtCreateStream(&t));
		OK(axclrtCreateEvent(&e));
		a = dmalloc(8);
		OK(axclrtRecordEvent(e, s));
		OK(axclrtMemsetAsync(a, 2, 8, s));
		OK(axclrtRecordEvent(e, s));
		OK(axclrtStreamWaitEvent(t, e));
		uint64_t start = axsim_clock_ns();
		OK(axclrtSynchronizeStream(t));
		CHECK((axsim_clock_ns() - start < 1000000) == on);
		OK(axclrtDestroyStream(s));
		OK(axclrtDestroyStream(t));
		OK(axclrtDestroyEvent(e));
		OK(axclrtFree(a));
		down(id);
	}
}

// ---- rawcode: what a synchronisation gives of a task that failed, and what becomes of the tasks behind it

static void case_rawcode(void) {
	static const struct {
		const char *plan;
		uint32_t want;
		bool skips;
	} ways[] = {
		{"fault=MemsetAsync:0:0x8030050c:late", 0xffffffff, true},
		{"fault=MemsetAsync:0:0x8030070c:late", 0xffffffff, true},
		{"fault=MemsetAsync:0:0x80060101:late", 0x80060101, true}, // a plan may know better
		{"fault=MemsetAsync:0:0x80300383:late", 0x80300383, true}, // the library's own
		{"hazards=-rawcode\nfault=MemsetAsync:0:0x8030050c:late", 0x8030050c, false},
	};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		int32_t id = card(ways[i].plan);
		bool skips = ways[i].skips;
		axcl_handle s, t, e;
		OK(axclrtCreateStream(&s));
		OK(axclrtCreateStream(&t));
		OK(axclrtCreateEvent(&e));
		uint8_t *a = dmalloc(8), back[8];
		OK(axclrtMemset(a, 9, 8));
		OK(axclrtMemsetAsync(a, 1, 8, s)); // fails
		OK(axclrtMemsetAsync(a, 2, 8, s));
		OK(axclrtRecordEvent(e, s));
		OK(axclrtStreamWaitEventWithTimeout(t, e, skips ? 20 : 20000));
		CODE_IS(axclrtSynchronizeStream(t), skips ? 0x80300384 : 0);
		OK(axclrtStreamWaitEvent(t, e)); // without a limit: for ever
		CODE_IS(axclrtSynchronizeStreamWithTimeout(t, skips ? 20 : -1), skips ? 0x80300383 : 0);
		CODE_IS(axclrtSynchronizeStream(s), ways[i].want);
		OK(axclrtMemcpy(back, a, 8, 2));
		CHECK(back[7] == (skips ? 9 : 2));
		OK(axclrtSynchronizeStream(s)); // told once
		OK(axclrtMemsetAsync(a, 3, 8, s));
		OK(axclrtRecordEvent(e, s)); // and the one who waits goes on
		OK(axclrtSynchronizeStream(s));
		OK(axclrtSynchronizeStream(t));
		OK(axclrtMemcpy(back, a, 8, 2));
		CHECK(back[7] == 3);
		OK(axclrtDestroyStream(s));
		OK(axclrtDestroyStream(t));
		OK(axclrtDestroyEvent(e));
		OK(axclrtFree(a));
		down(id);
	}
	// an execute's, and a wait that never ends costs no real time where the clock is modelled
	int32_t id = card("clock=virtual\nfault=ExecuteAsync:0:0x8030070c:late");
	affine a = affine_up(1);
	axcl_handle s, t, e;
	OK(axclrtCreateStream(&s));
	OK(axclrtCreateStream(&t));
	OK(axclrtCreateEvent(&e));
	OK(axclrtEngineExecuteAsync(a.id, a.ctx, 0, a.io, s));
	OK(axclrtRecordEvent(e, s));
	OK(axclrtStreamWaitEvent(t, e));
	double real = now_ms();
	CODE_IS(axclrtSynchronizeStreamWithTimeout(t, 60000), 0x80300383);
	CHECK(now_ms() - real < 30000);
	OK(axclrtDestroyStreamForce(t));
	CODE_IS(axclrtSynchronizeDevice(), 0xffffffff);
	OK(axclrtSynchronizeStream(s));
	OK(axclrtDestroyStream(s));
	OK(axclrtDestroyEvent(e));
	affine_down(&a);
	down(id);
}

// ---- nomem: the codes of a full card

static void case_nomem(void) {
	enum { MIB = 1 << 20 };
	for (int on = 0; on < 2; on++) {
		int32_t id = card(on ? "cmm=64" : "cmm=64\nhazards=-nomem"); // 46 are free
		uint64_t m;
		void *p;
		CODE_IS(axclrtMalloc(&p, 47 * MIB, 0), on ? 0x8030050c : 0x80300507);
		CODE_IS(axclrtMallocCached(&p, 47 * MIB, 0), on ? 0x8030050c : 0x80300507);
		write_shape_head(file("big.axmodel"), 24, 1000, 10, 20 * MIB);
		void *most = dmalloc(27 * MIB), *rest;
		CODE_IS(axclrtEngineLoadFromFile(file("big.axmodel"), &m), on ? 0x8030050c : 0x80300707); // no room for the file
		OK(axclrtFree(most));
		rest = dmalloc(10 * MIB);
		CODE_IS(axclrtEngineLoadFromFile(file("big.axmodel"), &m), on ? 0x8030070c : 0x80300707); // none for the model beside it
		OK(axclrtFree(rest));
		OK(axclrtEngineLoadFromFile(file("big.axmodel"), &m));
		OK(axclrtEngineUnload(m));
		down(id);
	}
}

// ---- pages of other sizes: device memory begins at one, with a closed one behind it; what the card has left does not depend on them

static void case_pages(void) {
	static const char *const pages[] = {"page=4096", "page=16384", "page=65536", ""};
	for (int i = 0; i < 4; i++) {
		uint64_t page = i < 3 ? (uint64_t)4096 << 2 * i : (uint64_t)sysconf(_SC_PAGESIZE);
		int32_t id = card(pages[i]);
		axcl_properties before, after;
		OK(axclrtGetDeviceProperties(id, &before));
		enum { BLOCKS = 20 };
		uint8_t *p[BLOCKS];
		void *host;
		for (int k = 0; k < BLOCKS; k++) {
			p[k] = dmalloc(5000);
			CHECK((uintptr_t)p[k] % page == 0);
			CHECK(k == 0 || (uint64_t)(p[k] - p[k - 1]) == (5000 + page - 1) / page * page + page);
			OK(axclrtMemset(p[k], (uint8_t)k, 5000));
		}
		OK(axclrtGetDeviceProperties(id, &after));
		CHECK(before.freeCmmSize - after.freeCmmSize == BLOCKS * 8); // two of the card's own pages each
		OK(axclrtMallocHost(&host, 5000));
		CHECK((uintptr_t)host % page == 0);
		for (int k = 0; k < BLOCKS; k++) {
			uint8_t *back = host;
			OK(axclrtMemcpy(back, p[k], 5000, 2));
			CHECK(back[0] == k && back[4999] == k);
			OK(axclrtFree(p[k]));
		}
		OK(axclrtFreeHost(host));
		OK(axclrtGetDeviceProperties(id, &after));
		CHECK(before.freeCmmSize == after.freeCmmSize);
		affine a = affine_up(4);
		CHECK(affine_right(&a, 4, 1));
		affine_down(&a);
		down(id);
	}
}

// ---- message: an execute of more inputs and outputs than a message names gets no answer

static int unheard_thread; // 0 until it is about to execute

static void *unheard_execute(void *arg) {
	affine *a = arg;
	OK(axclrtSetDevice(1));
	__atomic_store_n(&unheard_thread, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	CODE_IS(axclrtEngineExecute(a->id, a->ctx, 0, a->io), 0x80300705); // once the device is reset
	return NULL;
}

// A call is counted as it begins. That it waits for an answer shows in that its thread sleeps.
static bool unheard_waits(void) {
	char path[64], stat[128] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", __atomic_load_n(&unheard_thread, __ATOMIC_SEQ_CST));
	FILE *f = axsim_calls("axclrtEngineExecute") ? fopen(path, "r") : NULL;
	if (!f) return false;
	size_t n = fread(stat, 1, sizeof stat - 1, f);
	fclose(f);
	return n && strstr(stat, ") S ");
}

static void case_message(void) {
	for (int on = 0; on < 2; on++) {
		// 24 bytes and 20 for each of two tensors: one too many
		int32_t id = card(on ? "message=63\nhazards=+message" : "message=63");
		affine a = affine_up(1);
		axcl_handle s;
		OK(axclrtCreateStream(&s));
		OK(axclrtEngineExecuteAsync(a.id, a.ctx, 0, a.io, s));
		CODE_IS(axclrtSynchronizeStreamWithTimeout(s, on ? 20 : -1), on ? 0x80300383 : 0);
		OK(axclrtDestroyStreamForce(s));
		if (on) {
			pthread_t t;
			if (pthread_create(&t, NULL, unheard_execute, &a)) abort();
			while (!unheard_waits()) sched_yield();
			OK(axsim_reset());
			pthread_join(t, NULL);
			continue;
		}
		OK(axclrtEngineExecute(a.id, a.ctx, 0, a.io));
		affine_down(&a);
		down(id);
	}
	int32_t id = card("message=64\nhazards=+message"); // just enough
	affine a = affine_up(1);
	CHECK(affine_right(&a, 1, 0));
	affine_down(&a);
	down(id);
}
