// What a process has of the library in addition to its calls: descriptors of the device nodes, for
// which files in memory stand, and a thread that listens. Both are there from Init to Finalize; the
// node for pinned memory is opened with the first of that.
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static int nodes[3] = {-1, -1, -1};
static pthread_t listener;
static int listens = -1; // what the listener waits for: it ends once there is something

static void node_open(int i, const char *name) {
	if (nodes[i] < 0) nodes[i] = memfd_create(name, hazard(HZ_INHERIT) ? 0 : MFD_CLOEXEC);
}

// An interruption is an error to it, as to the library's own, and it listens no more: what is
// copied from then on fails.
static void *listen_main(void *arg) {
	(void)arg;
	struct pollfd p = {.fd = listens, .events = POLLIN};
	if (poll(&p, 1, -1) < 0 && errno == EINTR) __atomic_add_fetch(&sim.interrupted, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

void nodes_open(void) {
	node_open(0, "axcl_host");
	node_open(1, "msg_userdev");
	sim.interrupted = 0;
	if (!hazard(HZ_EINTR) || listens >= 0) return;
	listens = eventfd(0, EFD_CLOEXEC);
	if (listens < 0) return;
	if (pthread_create(&listener, NULL, listen_main, NULL)) {
		close(listens);
		listens = -1;
		return;
	}
	pthread_setname_np(listener, "axcl-listener"); // from here, so that it has its name before Init returns
}

void nodes_pinned(void) { node_open(2, "ax_mmb_dev"); }

void nodes_close(void) {
	for (int i = 0; i < 3; i++) {
		if (nodes[i] >= 0) close(nodes[i]);
		nodes[i] = -1;
	}
	if (listens < 0) return;
	eventfd_write(listens, 1);
	pthread_join(listener, NULL);
	close(listens);
	listens = -1;
}
