// A vendor's library of a version that nothing keeps quiet: from the moment it is loaded a thread
// of its own writes to standard output, by descriptor and through C's stdio. What it computes with
// is the simulated card, which it needs and which lies beside it.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *listen_for_ever(void *arg) {
    static const char line[] = "[axcl][I][listener] \"noise\": {still here}\n";
    for (;;) {
        if (write(1, line, sizeof line - 1) < 0) return arg;
        printf("[axcl][W] through stdio\n");
        fflush(stdout);
        nanosleep(&(struct timespec){0, 300000}, NULL);
    }
}

__attribute__((constructor)) static void loaded(void) {
    pthread_t t;
    printf("[axcl][I] loaded\n");
    fflush(stdout);
    if (!pthread_create(&t, NULL, listen_for_ever, NULL)) pthread_detach(t);
}
