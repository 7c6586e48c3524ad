/*
 * A program over the runtime: linked to it, or with it loaded by another library, where no other finds it.
 */
#include "program.h"
#include <pthread.h>

static int (*cudaSetDevice_)(int), (*cudaGetLastError_)(void), (*cudaMalloc_)(void **, size_t),
    (*cudaFree_)(void *), (*cudaMallocAsync_)(void **, size_t, Handle), (*cudaFreeAsync_)(void *, Handle),
    (*cudaMemGetInfo_)(size_t *, size_t *),
    (*cudaGetDriverEntryPoint_)(const char *, void **, unsigned long long, int *);
static size_t *mallocs;

#ifdef DIRECT
extern int cudaSetDevice(int), cudaGetLastError(void), cudaMalloc(void **, size_t), cudaFree(void *),
    cudaMallocAsync(void **, size_t, Handle), cudaFreeAsync(void *, Handle),
    cudaMemGetInfo(size_t *, size_t *), cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
extern size_t runtime_mallocs;
#define GET(name) (name##_ = name)
#else
#define GET(name) CHECK((name##_ = dlsym(runtime, #name)))
#endif

/* A thread that has no context yet. */
static void *other(void *block) {
    void *own;
    OK(cudaFree_(block));
    OK(cudaMalloc_(&own, MIB));
    fill((Address)own, 1, MIB, NULL);
    return own;
}

int main(void) {
#ifdef DIRECT
    mallocs = &runtime_mallocs;
#else
    Handle runtime = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
    CHECK(runtime && (mallocs = dlsym(runtime, "runtime_mallocs")));
#endif
    GET(cudaSetDevice);
    GET(cudaGetLastError);
    GET(cudaMalloc);
    GET(cudaFree);
    GET(cudaMallocAsync);
    GET(cudaFreeAsync);
    GET(cudaMemGetInfo);
    GET(cudaGetDriverEntryPoint);
    int served = is_preloaded();

    /* The first call starts the runtime, which nothing else has done. */
    void *block, *blocks[16];
    OK(cudaMalloc_(&block, 3 * MIB));
    CHECK(*mallocs == 1);
    begin(0);
    late();
    size_t before = calls();
    Handle stream;
    OK(cuStreamCreate(&stream, 1));
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 16; i++) OK(i % 2 ? cudaMallocAsync_(&blocks[i], 9000, stream) : cudaMalloc_(&blocks[i], 9000));
        for (int i = 0; i < 16; i++) fill((Address)blocks[i], (unsigned char)i, 9000, stream);
        if (round % 10 == 0) {
            OK(cuStreamSynchronize(stream));
            for (int i = 0; i < 16; i++) check_bytes((Address)blocks[i], (unsigned char)i, 9000);
        }
        for (int i = 0; i < 16; i++) OK(i % 2 ? cudaFreeAsync_(blocks[i], stream) : cudaFree_(blocks[i]));
    }
    CHECK((calls() == before) == served);
    /* Once it is started, it is not asked. */
    CHECK((*mallocs == 1) == served);

    /* What is refused the runtime remembers, as it does of its own. */
    CHECK(cudaMalloc_(&blocks[0], (size_t)1 << 50) == 2 && cudaGetLastError_() == 2 && cudaGetLastError_() == 0);
    OK(cudaMalloc_(&blocks[0], 0));
    CHECK(!blocks[0]);
    OK(cudaFree_(NULL));
    CHECK(cudaFree_((void *)0x1234500) == 1 && cudaGetLastError_() == 1);

    /* What the pool has is free. */
    size_t free_bytes, now, total;
    OK(cuCtxSynchronize());
    OK(cudaMemGetInfo_(&free_bytes, &total));
    OK(cudaMalloc_(&blocks[0], 64 * MIB));
    OK(cudaMemGetInfo_(&now, &total));
    CHECK(now <= free_bytes - 64 * MIB && now >= free_bytes - 66 * MIB);
    OK(cudaFree_(blocks[0]));
    OK(cudaMemGetInfo_(&now, &total));
    CHECK(now == free_bytes);

    int (*alloc)(Address *, size_t) = NULL, status = -1;
    Address address;
    before = calls();
    OK(cudaGetDriverEntryPoint_("cuMemAlloc", (void **)&alloc, 0, &status));
    CHECK(alloc && status == 0);
    OK(alloc(&address, 4096));
    OK(cudaFree_((void *)address));
    CHECK((calls() == before) == served);

    pthread_t thread;
    void *others;
    OK(pthread_create(&thread, NULL, other, block));
    OK(pthread_join(thread, &others));
    OK(cudaFree_(others));

    /* Another device, whose context the runtime makes current. */
    OK(cuCtxSetCurrent(NULL));
    OK(cudaSetDevice_(1));
    OK(cudaMalloc_(&block, MIB));
    fill((Address)block, 5, MIB, NULL);
    check_bytes((Address)block, 5, MIB);
    OK(cudaFree_(block));
    /* The runtime says another device than the context that is current: what it says counts. */
    OK(cuCtxSetCurrent(context));
    size_t passed = *mallocs;
    OK(cudaMalloc_(&block, MIB));
    CHECK(*mallocs == passed + 1);
    OK(cudaFree_(block));
    return end();
}
