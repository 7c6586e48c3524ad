/*
 * What the programs share. Each is run with the library preloaded and without, and knows which: the
 * environment says PRELOADED. None knows anything of the pool.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t Address;
typedef void *Handle;

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s, line %d: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)
#define OK(call) CHECK((call) == 0)

#define MIB ((size_t)1 << 20)

static Handle driver, context;
static int chosen;
static size_t (*count)(const char *), (*violations)(void);
static void (*late)(void), (*run)(void);
static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuDevicePrimaryCtxRetain)(Handle *, int),
    (*cuCtxSetCurrent)(Handle), (*cuCtxCreate)(Handle *, unsigned, int), (*cuCtxSynchronize)(void),
    (*cuStreamCreate)(Handle *, unsigned), (*cuStreamDestroy)(Handle), (*cuStreamSynchronize)(Handle),
    (*cuMemsetD8Async)(Address, unsigned char, size_t, Handle), (*cuMemcpyDtoH)(void *, Address, size_t),
    (*cuMemAlloc)(Address *, size_t), (*cuMemFree)(Address), (*cuMemAllocAsync)(Address *, size_t, Handle),
    (*cuMemFreeAsync)(Address, Handle), (*cuMemGetInfo)(size_t *, size_t *);

static inline void *find(const char *name) {
    void *function = dlsym(driver, name);
    CHECK(function);
    return function;
}

static inline int is_preloaded(void) { return getenv("PRELOADED") != NULL; }

/* Finds what a program of any driver needs, and has a device's primary context current. */
static inline void begin_on_a_device(void) {
    cuInit = find("cuInit");
    cuDeviceGet = find("cuDeviceGet");
    cuDevicePrimaryCtxRetain = find("cuDevicePrimaryCtxRetain");
    cuCtxSetCurrent = find("cuCtxSetCurrent");
    cuCtxCreate = find("cuCtxCreate_v2");
    cuCtxSynchronize = find("cuCtxSynchronize");
    cuStreamCreate = find("cuStreamCreate");
    cuStreamDestroy = find("cuStreamDestroy_v2");
    cuStreamSynchronize = find("cuStreamSynchronize");
    cuMemsetD8Async = find("cuMemsetD8Async");
    cuMemcpyDtoH = find("cuMemcpyDtoH_v2");
    cuMemAlloc = find("cuMemAlloc_v2");
    cuMemFree = find("cuMemFree_v2");
    cuMemAllocAsync = find("cuMemAllocAsync");
    cuMemFreeAsync = find("cuMemFreeAsync");
    cuMemGetInfo = find("cuMemGetInfo_v2");
    int device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, chosen));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}

/* The same on the simulated driver, with what only that has. */
static inline void begin(int ordinal) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver);
    count = find("simulated_count");
    violations = find("simulated_violations");
    late = find("simulated_late");
    run = find("simulated_run");
    chosen = ordinal;
    begin_on_a_device();
}

/* Ends a program that has done what it should. */
static inline int end(void) {
    run();
    CHECK(violations() == 0);
    puts("all is well");
    return 0;
}

/* How many calls of the driver's own functions for memory there were. */
static inline size_t calls(void) {
    return count("cuMemAlloc_v2") + count("cuMemFree_v2") + count("cuMemAllocAsync") + count("cuMemFreeAsync");
}

/* Fills memory on a stream. */
static inline void fill(Address at, unsigned char value, size_t bytes, Handle stream) {
    OK(cuMemsetD8Async(at, value, bytes, stream));
}

/* That memory has a value in every byte. */
static inline void check_bytes(Address at, unsigned char value, size_t bytes) {
    unsigned char *here = malloc(bytes);
    CHECK(here);
    OK(cuMemcpyDtoH(here, at, bytes));
    for (size_t i = 0; i < bytes; i++) CHECK(here[i] == value);
    free(here);
}

#endif
