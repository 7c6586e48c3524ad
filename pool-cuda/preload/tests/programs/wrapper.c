/*
 * Another library to be preloaded, as tools for tracing are: it has functions of the driver and `dlsym`-free
 * ways of its own, finds what comes after it by RTLD_NEXT, and counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

size_t wrapped_allocations, wrapped_frees, wrapped_sleeps;

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    int (*next)(uint64_t *, size_t) = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    wrapped_allocations++;
    return next ? next(address, bytes) : 500;
}

int cuMemFree_v2(uint64_t address) {
    int (*next)(uint64_t) = dlsym(RTLD_NEXT, "cuMemFree_v2");
    wrapped_frees++;
    return next ? next(address) : 500;
}

/* A function of the C library's, by its own name: what comes after is that of the C library. */
unsigned sleep(unsigned seconds) {
    unsigned (*next)(unsigned) = dlsym(RTLD_NEXT, "sleep");
    wrapped_sleeps++;
    return next == sleep ? 99 : next(seconds);
}
