// What processes know of each other: with AXSIM_STATE=folder each keeps a record there of the
// memory it holds and of loads and executes under way. What a living process holds is taken, on the
// first card. A record whose process is gone without Finalize means memory that stays taken for a
// while (rule 11), and, where something was under way, a card that answers no more until its record
// is deleted, as by taking its power away (rule 7). With the hazard exclusive a card is one
// process's from its first SetDevice to its last reset.
#define _GNU_SOURCE
#include "sim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEAK_SECONDS = 30 };

typedef struct {
	uint64_t bytes, busy;
} record;

static record *mine;
static char mine_path[640];

static void look_at(const char *path, bool lives) {
	struct stat st;
	record r = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return;
	bool ok = read(fd, &r, sizeof r) == (ssize_t)sizeof r && !fstat(fd, &st);
	close(fd);
	if (!ok) return;
	if (r.busy && !lives && hazard(HZ_WEDGE)) {
		for (int i = 0; i < sim.ndev; i++) sim.dev[i].wedged = true;
		return; // stays until someone deletes it
	}
	if (r.bytes && (lives || (hazard(HZ_LEAK) && time(NULL) - st.st_mtime < LEAK_SECONDS))) {
		if (sim.ndev) sim.dev[0].foreign += r.bytes;
		return;
	}
	if (!lives) unlink(path);
}

void state_look(void) {
	if (!sim.cfg.state[0]) return;
	char path[640];
	DIR *dir = opendir(sim.cfg.state);
	if (!dir) {
		config_complain("AXSIM_STATE: cannot read %s", sim.cfg.state);
		return;
	}
	for (int i = 0; i < sim.ndev; i++) sim.dev[i].foreign = 0;
	for (struct dirent *e; (e = readdir(dir));) {
		long pid;
		if (sscanf(e->d_name, "card.%ld", &pid) != 1 || pid == (long)getpid()) continue;
		snprintf(path, sizeof path, "%s/card.%ld", sim.cfg.state, pid);
		look_at(path, kill((pid_t)pid, 0) == 0 || errno != ESRCH);
	}
	closedir(dir);
}

uint64_t cmm_free(const device *d) {
	state_look();
	uint64_t used = d->cmm_used + d->foreign + sim.cfg.cmm_idle;
	return used < sim.cfg.cmm ? sim.cfg.cmm - used : 0;
}

void state_open(void) {
	if (!sim.cfg.state[0] || mine) return;
	state_look();
	snprintf(mine_path, sizeof mine_path, "%s/card.%ld", sim.cfg.state, (long)getpid());
	int fd = open(mine_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *mine)) {
		if (fd >= 0) close(fd);
		return;
	}
	void *p = mmap(NULL, sizeof *mine, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	mine = p == MAP_FAILED ? NULL : p;
}

void state_close(void) {
	if (!mine) return;
	munmap(mine, sizeof *mine);
	mine = NULL;
	unlink(mine_path);
}

void state_bytes(void) {
	if (!mine) return;
	mine->bytes = 0;
	for (int i = 0; i < sim.ndev; i++) mine->bytes += sim.dev[i].cmm_used;
}

void state_busy(int by) {
	if (mine) mine->busy += (uint64_t)(int64_t)by;
}

static int taken[MAX_DEVICES]; // descriptors that hold cards' locks, and 1; 0: none

// The lock goes with its process, however that ends.
bool state_take(const device *d) {
	int *held = &taken[d - sim.dev];
	if (!hazard(HZ_EXCLUSIVE) || !sim.cfg.state[0] || *held) return true;
	char path[640];
	snprintf(path, sizeof path, "%s/taken.%d", sim.cfg.state, d->id);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		config_complain("AXSIM_STATE: cannot write %s", path);
		return true;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return false;
	}
	*held = fd + 1;
	return true;
}

void state_give(const device *d) {
	int *held = &taken[d - sim.dev];
	if (*held) close(*held - 1);
	*held = 0;
}

// The file's time is the last fault's, for who must know when it came.
void state_fault(void) {
	char path[640];
	if (!sim.cfg.state[0]) return;
	snprintf(path, sizeof path, "%s/fault.%ld", sim.cfg.state, (long)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) return;
	if (write(fd, "!", 1) < 0) config_complain("AXSIM_STATE: cannot write %s", path);
	close(fd);
}
