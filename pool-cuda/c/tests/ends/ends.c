/*
 * A program in C that ends as its argument says, in the midst of its work: with live blocks, other threads
 * that allocate and free, and work that is queued. `fork`, `exit` or `kill`.
 */
#define _GNU_SOURCE
#include "pool_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct CUstream_st *Stream;
typedef unsigned long long Address;

static int (*cuStreamCreate)(Stream *, unsigned), (*cuMemsetD8Async)(Address, unsigned char, size_t, Stream);

/* What a thread does until the process ends. */
static void *work(void *stream) {
    unsigned draw = (unsigned)(size_t)stream;
    for (;;) {
        void *block;
        draw = draw * 1664525u + 1013904223u;
        size_t size = (size_t)256 << (draw >> 16) % 14;
        int error = draw >> 31 ? poolMalloc(&block, size) : poolMallocAsync(&block, size, stream);
        if (error == 0) {
            cuMemsetD8Async((Address)(size_t)block, 1, 256, stream);
            error = draw >> 30 & 1 ? poolFree(block) : poolFreeAsync(block, stream);
        }
        /* While the process exits, the library says so; else nothing goes wrong. */
        if (error != 0 && error != 4) {
            fprintf(stderr, "%zu bytes: %d, %s\n", size, error, poolLastErrorMessage());
            abort();
        }
    }
    return NULL;
}

/* While the process exits, other threads go on for a while. */
static void linger(void) { usleep(3000); }

/* A forked child may not call the driver: it is told so, and what was live is not its own. */
static int in_child(void *live, Stream stream) {
    void *block = &block;
    if (poolMallocAsync(&block, (size_t)3 << 30, stream) != 3 || block != &block) return 1;
    if (poolMalloc(&block, (size_t)3 << 30) != 3 || poolTrim(0, 0) != 3) return 2;
    if (poolFree(live) != 3 || strlen(poolLastErrorMessage()) == 0) return 3;
    return 0;
}

int main(int count, char **arguments) {
    if (count != 2) return 10;
    const char *how = arguments[1];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *live[32];
    if (!driver) return 11;
    int (*cuInit)(unsigned) = dlsym(driver, "cuInit");
    cuStreamCreate = dlsym(driver, "cuStreamCreate");
    cuMemsetD8Async = dlsym(driver, "cuMemsetD8Async");
    /* What is registered later runs earlier: it lingers once the library has heard of the end, and the driver
       has not. The context is made current by the first call that names no stream. */
    if (cuInit(0) != 0 || atexit(linger) != 0 || poolFree(NULL) != 0) return 12;
    Stream streams[3];
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        if (cuStreamCreate(&streams[i], 1) != 0) return 13;
    }
    for (int i = 0; i < 32; i++) {
        if ((i % 2 ? poolMalloc(&live[i], 1000u << i % 12) : poolMallocAsync(&live[i], 1000u << i % 12, streams[i % 3])))
            return 14;
    }
    for (int i = 1; i < 3; i++) {
        if (pthread_create(&thread, NULL, work, streams[i]) != 0) return 15;
    }
    usleep(500);
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "fork") == 0) {
        for (int i = 0; i < 3; i++) {
            pid_t child = fork();
            int status = -1;
            if (child == 0) exit(in_child(live[0], streams[0]));
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 16;
        }
        /* The parent goes on as before. */
        for (int i = 0; i < 16; i++) {
            if (poolFreeAsync(live[i], streams[0]) != 0 || poolMalloc(&live[i], 5000) != 0) return 17;
        }
    }
    exit(0);
}
