/*
 * A runtime, as far as it matters here: it starts itself when it is first used, and asks the driver for its
 * functions by cuGetProcAddress, which it finds by dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef void *Handle;
typedef int Proc(const char *, void **, int, uint64_t, int *);

static Proc *get;
static __thread int chosen, error;
/* How often each was called, for a program that wants to know. */
size_t runtime_mallocs, runtime_frees;

static void *driver(const char *name) {
    void *function = NULL;
    int status;
    if (!get) {
        Handle library = dlopen("libcuda.so.1", RTLD_NOW);
        get = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    }
    return get && get(name, &function, 12040, 0, &status) == 0 ? function : NULL;
}
#define DRIVER(name, ...) ((int (*)(__VA_ARGS__))driver(name))

static int remember(int code) {
    if (code) error = code;
    return code;
}

static int start(void) {
    Handle context = NULL;
    int device, code = DRIVER("cuInit", unsigned)(0);
    if (code) return code;
    DRIVER("cuCtxGetCurrent", Handle *)(&context);
    if (context) return 0;
    code = DRIVER("cuDeviceGet", int *, int)(&device, chosen);
    if (!code) code = DRIVER("cuDevicePrimaryCtxRetain", Handle *, int)(&context, device);
    return code ? code : DRIVER("cuCtxSetCurrent", Handle)(context);
}

int cudaSetDevice(int device) {
    chosen = device;
    /* As before CUDA 12: the context is made current when it is needed. */
    return start();
}
int cudaGetDevice(int *device) {
    *device = chosen;
    return 0;
}
int cudaRuntimeGetVersion(int *version) {
    *version = 12040;
    return 0;
}
int cudaGetLastError(void) {
    int code = error;
    error = 0;
    return code;
}
int cudaMalloc(void **block, size_t bytes) {
    runtime_mallocs++;
    int code = start();
    if (!bytes) return *block = NULL, 0;
    return remember(code ? code : DRIVER("cuMemAlloc", uint64_t *, size_t)((uint64_t *)block, bytes));
}
int cudaFree(void *block) {
    runtime_frees++;
    int code = start();
    return remember(code ? code : DRIVER("cuMemFree", uint64_t)((uint64_t)block));
}
int cudaMallocAsync(void **block, size_t bytes, Handle stream) {
    runtime_mallocs++;
    int code = start();
    return remember(
        code ? code : DRIVER("cuMemAllocAsync", uint64_t *, size_t, Handle)((uint64_t *)block, bytes, stream));
}
int cudaFreeAsync(void *block, Handle stream) {
    runtime_frees++;
    int code = start();
    return remember(code ? code : DRIVER("cuMemFreeAsync", uint64_t, Handle)((uint64_t)block, stream));
}
int cudaMemGetInfo(size_t *free, size_t *total) {
    int code = start();
    return remember(code ? code : DRIVER("cuMemGetInfo", size_t *, size_t *)(free, total));
}
int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status) {
    (void)flags;
    *function = driver(name);
    if (status) *status = !*function;
    return 0;
}
