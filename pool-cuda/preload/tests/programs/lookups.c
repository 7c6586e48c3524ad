/*
 * Finds the functions in one way, which the argument names, and works with them: none of the calls reaches
 * the driver where the library is preloaded, and all do where it is not.
 */
#include "program.h"

#ifdef DIRECT
/* Linked, by the names that the driver's header has for them. */
extern int cuMemAlloc_v2(Address *, size_t), cuMemFree_v2(Address),
    cuMemAllocAsync_ptsz(Address *, size_t, Handle), cuMemFreeAsync_ptsz(Address, Handle);
#endif

static int (*alloc)(Address *, size_t), (*release)(Address), (*alloc_async)(Address *, size_t, Handle),
    (*release_async)(Address, Handle);

typedef int Proc(const char *, void **, int, uint64_t, int *);
typedef int OldProc(const char *, void **, int, uint64_t);

/* By the driver's own way, of which there is one more for a default stream of each thread. */
static void *proc(Proc *get, const char *name, int version, uint64_t flags) {
    void *function = NULL;
    int status = -1;
    OK(get(name, &function, version, flags, &status));
    CHECK(function && status == 0);
    CHECK(get("cuNoSuchThing", &function, version, flags, &status) != 0 && !function);
    return get(name, &function, version, flags, &status) ? NULL : function;
}

static void find_all(const char *way) {
    const char *end = "";
    if (!strcmp(way, "proc") || !strcmp(way, "proc_ptsz") || !strcmp(way, "proc_twice")) {
        uint64_t flags = !strcmp(way, "proc_ptsz") && !is_preloaded() ? 2 : 0;
        Proc *get = find("cuGetProcAddress_v2");
        if (!strcmp(way, "proc_twice")) get = proc(get, "cuGetProcAddress", 12040, 0);
        /* For a default stream of each thread there may be another, which means that where nothing is said. */
        if (!strcmp(way, "proc_ptsz")) get = proc(get, "cuGetProcAddress", 12040, 2);
        alloc = proc(get, "cuMemAlloc", 12040, flags);
        release = proc(get, "cuMemFree", 12040, flags);
        alloc_async = proc(get, "cuMemAllocAsync", 12040, flags);
        release_async = proc(get, "cuMemFreeAsync", 12040, flags);
        return;
    }
    if (!strcmp(way, "proc_old")) {
        OldProc *get = find("cuGetProcAddress");
        OK(get("cuMemAlloc", (void **)&alloc, 11030, 0));
        OK(get("cuMemFree", (void **)&release, 11030, 0));
        OK(get("cuMemAllocAsync", (void **)&alloc_async, 11030, 0));
        OK(get("cuMemFreeAsync", (void **)&release_async, 11030, 0));
        return;
    }
    Handle handle = driver;
    if (!strcmp(way, "default")) {
        /* Of all libraries that the program shows, to which the driver now belongs. */
        CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
        handle = RTLD_DEFAULT;
    }
    if (!strcmp(way, "dlvsym")) {
        /* The C library's own dlsym, by its version, is that still: what it finds is the driver's. */
        void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        CHECK(real && real(driver, "cuMemAlloc_v2"));
        CHECK((real(driver, "cuMemAlloc_v2") == dlsym(driver, "cuMemAlloc_v2")) == !is_preloaded());
    }
#ifdef DIRECT
    if (!strcmp(way, "direct")) {
        alloc = cuMemAlloc_v2;
        release = cuMemFree_v2;
        alloc_async = cuMemAllocAsync_ptsz;
        release_async = cuMemFreeAsync_ptsz;
        return;
    }
#endif
    if (!strcmp(way, "ptsz")) end = "_ptsz";
    char names[2][32];
    snprintf(names[0], 32, "cuMemAllocAsync%s", end);
    snprintf(names[1], 32, "cuMemFreeAsync%s", end);
    alloc = dlsym(handle, "cuMemAlloc_v2");
    release = dlsym(handle, "cuMemFree_v2");
    alloc_async = dlsym(handle, names[0]);
    release_async = dlsym(handle, names[1]);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    /* Nobody has a driver or a runtime yet: names of theirs are not there, whoever is preloaded. */
#ifndef DIRECT
    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
#endif
    CHECK(!dlsym(RTLD_DEFAULT, "cudaMalloc") && !dlsym(RTLD_DEFAULT, "no_such_thing"));
    CHECK(dlerror() || is_preloaded());
    CHECK(dlsym(RTLD_DEFAULT, "malloc") == (void *)malloc);
    begin(0);
    CHECK(!dlsym(driver, "cudaMalloc") && dlerror());
    find_all(argv[1]);
    CHECK(alloc && release && alloc_async && release_async);

    Handle stream;
    Address blocks[64];
    OK(cuStreamCreate(&stream, 1));
    size_t all[4] = {count("cuMemAlloc_v2"), count("cuMemFree_v2"), count("cuMemAllocAsync"),
                     count("cuMemFreeAsync")};
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 64; i++) {
            size_t bytes = 1 + 20123 * (size_t)i;
            OK(alloc(&blocks[i], bytes));
            CHECK(blocks[i] && blocks[i] % 512 == 0);
            fill(blocks[i], (unsigned char)(i + round), bytes, stream);
        }
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < 64; i++) {
            check_bytes(blocks[i], (unsigned char)(i + round), 1 + 20123 * (size_t)i);
            OK(release(blocks[i]));
        }
        for (int i = 0; i < 64; i++) {
            Handle on = i % 3 ? stream : NULL;
            OK(alloc_async(&blocks[i], 1 + 37 * (size_t)i, on));
            CHECK(blocks[i] % 512 == 0);
            fill(blocks[i], 3, 1 + 37 * (size_t)i, on);
            OK(release_async(blocks[i], on));
        }
    }
    int served = is_preloaded();
    CHECK((count("cuMemAlloc_v2") == all[0]) == served && (count("cuMemFree_v2") == all[1]) == served);
    CHECK((count("cuMemAllocAsync") == all[2]) == served && (count("cuMemFreeAsync") == all[3]) == served);

    /* What is refused is refused as the driver would. */
    CHECK(alloc(&blocks[0], 0) == 1 && alloc(NULL, 1) == 1 && alloc(&blocks[0], (size_t)1 << 50) == 2);
    CHECK(alloc_async(&blocks[0], 0, stream) == 1 && release(0x1234500) == 1);
    OK(release(0));
    OK(cuStreamDestroy(stream));
    return end();
}
