// Worker calls: programs that run on the card's own Linux, here as child processes of this one.
// Data flow: TransferFile copies between the host and a folder that stands for the card's file
// system (AXSIM_ROOT, or one made for this process) -> ExecWorker starts a program from there ->
// messages go through a sequenced-packet socket pair, which the child finds as its standard input,
// standard output and descriptor 3.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_LEN = 1024, CHANNEL = 3, MAX_ARGS = 256, BUFFER = 1 << 20 };

// Where a path of the card is on the host. False for one that is empty, too long or climbs out.
static bool card_path(const char *path, char *out) {
	char root[600];
	size_t n = strlen(path);
	if (n == 0 || n > 300 || path[n - 1] == '/' || !root_path(root, sizeof root)) return false;
	for (const char *p = path; *p;) {
		size_t len = strcspn(p, "/");
		if (len == 2 && p[0] == '.' && p[1] == '.') return false;
		p += len;
		while (*p == '/') p++;
	}
	snprintf(out, PATH_LEN, "%s/%s", root, path + strspn(path, "/"));
	return true;
}

static void make_parents(char *path) {
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		mkdir(path, 0777);
		*p = '/';
	}
}

static int32_t copy_file(const char *src, char *dst, bool parents) {
	struct stat st;
	int in = open(src, O_RDONLY | O_CLOEXEC);
	if (in < 0) return E_WORKER_OPEN;
	int32_t code = fstat(in, &st) || !S_ISREG(st.st_mode) ? E_WORKER_OPEN : st.st_size == 0 ? E_WORKER_EMPTY : 0;
	if (!code && parents) make_parents(dst);
	int out = code ? -1 : open(dst, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, st.st_mode & 0777);
	if (!code && out < 0) code = E_WORKER_OPEN;
	char *buf = code ? NULL : malloc(BUFFER);
	for (ssize_t n = 0; buf && !code;) {
		n = read(in, buf, BUFFER);
		if (n == 0) break;
		if (n < 0 || write(out, buf, (size_t)n) != n) code = CODE(SUB_WORKER, ID_FAIL);
	}
	if (out >= 0) {
		if (!buf && !code) code = CODE(SUB_WORKER, ID_NO_MEMORY);
		fchmod(out, st.st_mode & 0777);
		close(out);
	}
	free(buf);
	close(in);
	return code;
}

enum { TO_DEVICE, TO_HOST, ON_DEVICE, REMOVE };

static int32_t remove_file(const char *src, const char *dst) {
	char a[PATH_LEN];
	const char *path = dst && *dst ? dst : src; // the vendor's headers do not say which argument names it
	if (!card_path(path, a)) return E_WORKER_PATH;
	if (!unlink(a)) return 0;
	if (path == dst && src && *src && card_path(src, a) && !unlink(a)) return 0;
	return E_WORKER_OPEN;
}

// Where a transfer reads and writes, or a removal done; with the lock held. *copy says that a copy
// is to follow.
static int32_t transfer(const char *src, const char *dst, int32_t policy, char *a, char *b, bool *copy) {
	bool has_src = src && *src, has_dst = dst && *dst;
	if (policy < TO_DEVICE || policy > REMOVE) return CODE(SUB_WORKER, ID_ILLEGAL);
	if (policy == REMOVE) return has_src || has_dst ? remove_file(src, dst) : CODE(SUB_WORKER, ID_NULL);
	if (!has_src || !has_dst) return E_WORKER_PATH;
	bool from_card = policy != TO_DEVICE, to_card = policy != TO_HOST;
	if ((from_card && !card_path(src, a)) || (to_card && !card_path(dst, b))) return E_WORKER_PATH;
	if (!from_card) snprintf(a, PATH_LEN, "%s", src);
	if (!to_card) snprintf(b, PATH_LEN, "%s", dst);
	*copy = true;
	return 0;
}

int32_t axclrtTransferFile(const char *src, const char *dst, int32_t policy) {
	ENTER(axclrtTransferFile, SUB_WORKER, "src=%s dst=%s policy=%d", src ? src : "NULL", dst ? dst : "NULL", policy);
	if (policy != REMOVE && (!src || !dst)) return FAIL(ID_NULL);
	char a[PATH_LEN], b[PATH_LEN];
	bool copy = false;
	lock();
	device *d = call_device(&c);
	int32_t code = d ? transfer(src, dst, policy, a, b, &copy) : c.code;
	unlock();
	if (copy) code = copy_file(a, b, policy != TO_HOST);
	return call_leave(&c, code);
}

// ---- processes

// Runs in the child: only calls that are safe there.
static void child(const char *path, char **argv, int fd) {
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (fd != CHANNEL) dup2(fd, CHANNEL);
	dup2(fd, 0);
	dup2(fd, 1);
	if (fd > CHANNEL) close(fd);
	fcntl(CHANNEL, F_SETFD, 0);
	for (int i = CHANNEL + 1; i < 1024; i++) close(i); // nothing else of the host's
	execv(path, argv);
	_exit(127);
}

static int32_t spawn(const char *path, char **argv, uint32_t *pid) {
	int pair[2], size = BUFFER;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return E_WORKER_CHANNEL;
	for (int i = 0; i < 2; i++) setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	worker *w = calloc(1, sizeof *w);
	pid_t p = w ? fork() : -1;
	if (p == 0) child(path, argv, pair[1]);
	close(pair[1]);
	if (p < 0) {
		close(pair[0]);
		free(w);
		return CODE(SUB_WORKER, ID_FAIL);
	}
	*w = (worker){p, pair[0], sim.workers};
	sim.workers = w;
	*pid = (uint32_t)p;
	return 0;
}

// A program of the card: one that was transferred, else one that every Linux has (the host's stands
// for it).
static int32_t program(const char *path, char *out) {
	struct stat st;
	if (!*path) return E_WORKER_PATH;
	if (!card_path(path, out)) return E_WORKER_PATH;
	if (stat(out, &st) && path[0] == '/') snprintf(out, PATH_LEN, "%s", path);
	if (stat(out, &st) || !S_ISREG(st.st_mode)) return E_WORKER_OPEN;
	if (st.st_size == 0) return E_WORKER_EMPTY;
	if (access(out, X_OK) && chmod(out, (st.st_mode & 0777) | 0700)) return E_WORKER_OPEN; // a transferred file may have lost its mode
	return 0;
}

static int32_t start(const char *path, const int32_t *argc, const char **argv, uint32_t *pid) {
	char file[PATH_LEN];
	char *args[MAX_ARGS + 2];
	int n = 0, count = argc && argv ? *argc : 0;
	if (count < 0 || count > MAX_ARGS) return CODE(SUB_WORKER, ID_ILLEGAL);
	int32_t code = program(path, file);
	if (code) return code;
	args[n++] = (char *)(uintptr_t)path;
	for (int i = 0; i < count && argv[i]; i++)
		if (i > 0 || strcmp(argv[0], path)) args[n++] = (char *)(uintptr_t)argv[i]; // argv may begin with the program, as main's does
	args[n] = NULL;
	return spawn(file, args, pid);
}

int32_t axclrtExecWorker(const char *path, const int32_t *argc, const char *argv[], uint32_t *pid) {
	ENTER(axclrtExecWorker, SUB_WORKER, "path=%s argc=%d", path ? path : "NULL", argc ? *argc : 0);
	if (!path || !pid) return FAIL(ID_NULL);
	lock();
	device *d = call_device(&c);
	int32_t code = d ? start(path, argc, argv, pid) : c.code;
	unlock();
	return call_leave(&c, code);
}

// A copy of the channel's descriptor, so that a kill in another thread does not pull it away; -1
// when there is no such worker.
static int channel(uint32_t pid) {
	worker **p = worker_find(pid);
	return p ? fcntl((*p)->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static int32_t wait_for(int fd, short events, int32_t ms) {
	struct pollfd p = {fd, events, 0};
	int n;
	do n = poll(&p, 1, ms < 0 ? -1 : ms);
	while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : CODE(SUB_WORKER, ID_TIMEOUT);
}

// The channel of a worker after the checks that Send and Recv share.
static int32_t begin(call *c, uint32_t pid, const void *data, const void *also, int32_t ms, int *fd) {
	*fd = -1;
	if (!data || !also) return CODE(SUB_WORKER, ID_NULL);
	lock();
	device *d = call_device(c);
	int32_t code = !d ? c->code : ms < -1 ? CODE(SUB_WORKER, ID_ILLEGAL) : 0;
	*fd = code ? -1 : channel(pid);
	if (!code && *fd < 0) code = E_WORKER_GONE;
	unlock();
	return code;
}

int32_t axclrtWorkerSend(uint32_t pid, const void *data, uint32_t size, int32_t ms) {
	ENTER(axclrtWorkerSend, SUB_WORKER, "pid=%u size=%u ms=%d", pid, size, ms);
	int fd;
	int32_t code = begin(&c, pid, data, data, ms, &fd);
	if (code) return call_leave(&c, code);
	if (size == 0) code = CODE(SUB_WORKER, ID_ILLEGAL);
	while (!code) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n == (ssize_t)size) break;
		if (n < 0 && errno == EINTR) continue;
		if (n < 0 && errno == EAGAIN)
			code = wait_for(fd, POLLOUT, ms);
		else
			code = n < 0 && (errno == EPIPE || errno == ECONNRESET) ? E_WORKER_GONE : E_WORKER_SEND;
	}
	close(fd);
	return call_leave(&c, code);
}

int32_t axclrtWorkerRecv(uint32_t pid, void *data, uint32_t size, uint32_t *got, int32_t ms) {
	ENTER(axclrtWorkerRecv, SUB_WORKER, "pid=%u size=%u ms=%d", pid, size, ms);
	int fd;
	int32_t code = begin(&c, pid, data, got, ms, &fd);
	if (code) return call_leave(&c, code);
	code = wait_for(fd, POLLIN, ms);
	if (!code) {
		ssize_t n = recv(fd, data, size, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
		if (n <= 0) {
			code = E_WORKER_GONE;
		} else if ((size_t)n > size) {
			*got = (uint32_t)n; // the message stays, for a larger buffer
			code = E_WORKER_SMALL;
		} else {
			n = recv(fd, data, size, MSG_DONTWAIT);
			code = n > 0 ? 0 : E_WORKER_GONE;
			if (n > 0) *got = (uint32_t)n;
		}
	}
	close(fd);
	return call_leave(&c, code);
}

int32_t axclrtKillWorker(uint32_t pid) {
	ENTER(axclrtKillWorker, SUB_WORKER, "pid=%u", pid);
	lock();
	device *d = call_device(&c);
	worker **p = d ? worker_find(pid) : NULL;
	int32_t code = !d ? c.code : p ? 0 : E_WORKER_GONE;
	if (p) worker_end(p);
	unlock();
	return call_leave(&c, code);
}
