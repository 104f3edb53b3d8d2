//go:build cgo && !fake && linux

// table.c: errors, threads, and what Go asks of a card whichever library is behind it.
//
// Every call into a library passes through axn_note, which counts it, keeps the first failure of
// the function Go called, and marks the card lost where the code says that the library can no
// longer be trusted.

#define _GNU_SOURCE
#include "native.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int32_t axn_thread(void) { return (int32_t)syscall(SYS_gettid); }

// An id without module and subsystem, as some calls give it.
static bool bare(uint32_t code) { return code > 0 && code < 0x10; }

bool axn_raw(uint32_t code) { return !bare(code) && (code & 0xf0ff0000u) != 0x80300000u; }

// A code after which nothing more may be asked: no connection, a message that could not be sent,
// time-out, the two ends out of step, or one that is not known. axcl.Fatal says the same in Go; a
// test compares them over every code.
bool axn_fatal(uint32_t code) {
    uint32_t sub = code >> 8 & 0xff, id = code & 0xff;
    if (axn_raw(code) || (code >> 24 & 0xf) > 2 || sub > 0x0c || sub == 0x04) return true;
    if (id < 0x80) return id == 0 || id == 0x05 || (id >= 0x08 && id <= 0x0a) || id > 0x0c;
    switch (sub) {
    case 0x01: return id == 0x81 || id > 0x88;
    case 0x02: return id == 0x80 || id > 0x84;
    case 0x03: return id == 0x80 || id == 0x83 || id > 0x84;
    case 0x05:
    case 0x07: return id != 0x81;
    case 0x0c: return id == 0x80 || id > 0x87;
    default: return true;
    }
}

// mild: a code that is not the vendor's AXCL scheme does not cost the card, because the call is one
// that may be refused (a load, an allocation).
int axn_fail(axn_card *c, int kind, const char *op, int32_t code, bool mild) {
    if (!c->err.op) c->err = (axn_err){.op = op, .code = code, .layer = c->layer};
    if (kind == AXN_CALL && axn_fatal((uint32_t)code) && !mild) c->lost = true;
    return kind;
}

int axn_note(axn_card *c, const char *op, int32_t code) {
    c->calls++;
    return code ? axn_fail(c, AXN_CALL, op, code, false) : AXN_OK;
}

void axn_text(char *to, size_t size, const char *from) {
    if (!from) from = "";
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = 0;
}

void axn_begin(axn_card *c) {
    c->err = (axn_err){0};
    c->layer = AXN_NO_LAYER;
}

int axn_enter(axn_card *c) {
    axn_begin(c);
    if (axn_thread() != c->owner) return axn_fail(c, AXN_THREAD, "thread", 0, true);
    if (c->lost) return axn_fail(c, AXN_GONE, "lost", 0, true);
    if (!c->switches) return AXN_OK;
    int rc = c->lib->provider->enter(c);
    if (rc) c->lost = true; // what this thread asks now would reach the other device
    return rc;
}

// The library's threads wait in poll and select and take an interruption for an error, after which
// copies fail for good. A thread begins with the signal mask of the one that starts it: so all
// signals are blocked, but those that a thread brings on itself, around every call that may start
// one.
static sigset_t hush(void) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

static void unhush(sigset_t before) { pthread_sigmask(SIG_SETMASK, &before, NULL); }

void *axn_dlopen(const char *path, int flags) {
    sigset_t before = hush(); // a library's constructors may start threads
    void *handle = dlopen(path, flags);
    unhush(before);
    return handle;
}

int axn_init(axn_card *c) {
    axn_begin(c);
    sigset_t before = hush();
    int rc = c->lib->provider->init(c);
    unhush(before);
    return rc;
}

int axn_fini(axn_card *c) {
    axn_begin(c);
    return c->lib->provider->fini(c);
}

int axn_list(axn_card *c, axcl_device_list *list) {
    axn_begin(c);
    return c->lib->provider->list(c, list);
}

int axn_attach(axn_card *c, int32_t device) {
    axn_begin(c);
    sigset_t before = hush();
    int rc = c->lib->provider->attach(c, device);
    unhush(before);
    return rc;
}

int axn_detach(axn_card *c) {
    int rc = axn_enter(c);
    return rc ? rc : c->lib->provider->detach(c);
}

int axn_inform(axn_card *c, int32_t device, axn_info *info) {
    int rc = axn_enter(c);
    if (rc) return rc;
    sigset_t before = hush(); // a card that is not open is opened for it
    rc = c->lib->provider->inform(c, device, info);
    unhush(before);
    return rc;
}

// Waits for all that is queued, after a call that failed. A card that does not come to rest may go
// on using our memory: it is lost. One whose tasks failed too has come to rest.
int axn_drain(axn_card *c, int32_t ms) {
    int rc = axn_enter(c);
    if (rc == AXN_THREAD) return rc;
    if (!rc) rc = c->lib->provider->sync(c, ms);
    if (rc == AXN_CALL && !c->lost && axn_raw((uint32_t)c->err.code)) return AXN_OK;
    if (rc) c->lost = true;
    return rc;
}

// What is loaded already, by that name, stays as it is: a second libc would be one too many. Others
// find its symbols, also those that need them without naming it.
void *axn_beside(const char *name, const char *path) {
    void *loaded = axn_dlopen(name, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    return loaded ? loaded : axn_dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

const char *axn_why(void) { return dlerror(); }

void axn_unload(void *handle) { dlclose(handle); }

static void **entry(const axn_lib *lib, const axn_provider *p, const axn_symbol *s) {
    return (void **)(void *)((char *)(uintptr_t)lib + p->table + s->at);
}

const char *axn_resolve(axn_lib *lib, const axn_provider *p) {
    for (const axn_symbol *s = p->symbols; s->name; s++) {
        void *found = dlsym(lib->handle, s->name);
        if (!found) found = dlsym(lib->sys, s->name);
        if (!found && !s->optional) return s->name;
        *entry(lib, p, s) = found;
    }
    lib->provider = p;
    return NULL;
}

const char *axn_absent(const axn_lib *lib, uint32_t n) {
    const axn_symbol *s = lib->provider->symbols;
    for (; s->name; s++)
        if (!*entry(lib, lib->provider, s) && n-- == 0) break;
    return s->name;
}

const char *axn_library_file(const axn_lib *lib) {
    Dl_info found = {0};
    dladdr(dlsym(lib->handle, lib->provider->symbols->name), &found);
    return found.dli_fname;
}

void *axn_find(const axn_lib *lib, const char *name) { return dlsym(lib->sys, name); }
