// The card's own Linux as far as it outlives a call: the folder that stands for its file system,
// and the programs that run there.
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char made_root[64]; // a folder of our own, to be removed

bool root_path(char *buf, size_t size) {
	if (sim.cfg.root[0]) {
		snprintf(buf, size, "%s", sim.cfg.root);
		return true;
	}
	if (!made_root[0]) {
		char name[] = "/tmp/axsim-card-XXXXXX";
		if (!mkdtemp(name)) return false;
		memcpy(made_root, name, sizeof name);
	}
	snprintf(buf, size, "%s", made_root);
	return true;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f) {
	(void)st;
	(void)flag;
	(void)f;
	return remove(path);
}

void root_remove(void) {
	if (made_root[0]) nftw(made_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	made_root[0] = 0;
}

worker **worker_find(uint32_t pid) {
	for (worker **p = &sim.workers; *p; p = &(*p)->next)
		if ((*p)->pid == (int32_t)pid) return p;
	return NULL;
}

void worker_end(worker **p) {
	worker *w = *p;
	*p = w->next;
	if (waitpid(w->pid, NULL, WNOHANG) == 0) {
		kill(w->pid, SIGKILL);
		while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR) continue;
	}
	close(w->fd);
	free(w);
}

void workers_end(void) {
	while (sim.workers) {
		sim.left.workers++;
		worker_end(&sim.workers);
	}
}
