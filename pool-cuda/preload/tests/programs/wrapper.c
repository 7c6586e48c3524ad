/*
 * Another library to be preloaded, as tools for tracing are: it has functions of the driver's names, finds what
 * comes after it by RTLD_NEXT, and counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

size_t wrapped_allocations, wrapped_frees, wrapped_sleeps, wrapped_lookups;

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

/* Before any other code runs, of whichever library. */
__attribute__((constructor)) static void begin(void) {
    if (dlsym(RTLD_NEXT, "sleep") == (void *)sleep) wrapped_sleeps = 1000;
}

#ifdef WRAPS_DLSYM
/* It wraps this as well, and is asked by who comes before it. */
void *dlsym(void *handle, const char *name) {
    static void *(*real)(void *, const char *);
    wrapped_lookups++;
    if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    /* Compiled with optimization this is a jump. */
    return real(handle, name);
}
#endif
