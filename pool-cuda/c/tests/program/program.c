/*
 * A program in C, linked to the library and to nothing of CUDA. It finds the driver as the library does,
 * for streams and work; without one it says what the library answers.
 */
#include "pool_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CUstream_st *Stream;
typedef unsigned long long Address;

static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuDevicePrimaryCtxRetain)(void **, int),
    (*cuCtxSetCurrent)(void *), (*cuStreamCreate)(Stream *, unsigned), (*cuStreamDestroy)(Stream),
    (*cuMemsetD8Async)(Address, unsigned char, size_t, Stream), (*cuStreamSynchronize)(Stream);
static void *context;

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);          \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

static void *find(void *library, const char *name) {
    void *function = dlsym(library, name);
    CHECK(function);
    return function;
}

/* What one thread does on a stream of its own. */
static void *work(void *argument) {
    Stream stream = argument;
    void *blocks[64] = {0};
    unsigned long long draw = (unsigned long long)(size_t)argument;
    CHECK(cuCtxSetCurrent(context) == 0);
    for (int i = 0; i < 5000; i++) {
        draw = draw * 6364136223846793005ull + 1442695040888963407ull;
        void **place = &blocks[draw >> 58];
        if (*place) {
            CHECK(poolFreeAsync(*place, stream) == 0);
            *place = NULL;
        } else {
            size_t size = (size_t)256 << (draw >> 40) % 13;
            CHECK(poolMallocAsync(place, size, stream) == 0);
            if (i % 16 == 0) CHECK(cuMemsetD8Async((Address)(size_t)*place, 1, 256, stream) == 0);
        }
    }
    for (int i = 0; i < 64; i++) CHECK(poolFreeAsync(blocks[i], stream) == 0);
    return NULL;
}

/* As the runtime's, which the library finds by its name where the process has it. */
static void *freed;
int cudaFree(void *pointer) {
    freed = pointer;
    return pointer == &freed ? 0 : 1;
}

int main(void) {
    void *block = &block, *driver = dlopen("libcuda.so.1", RTLD_NOW);
    poolStats stats;
    if (!driver) {
        int answers[] = {poolMallocAsync(&block, 1, NULL), poolFreeAsync(&stats, NULL), poolSetLimit(0, 1),
                         poolTrim(0, 0), poolResetPeaks(0), poolGetStats(0, &stats), poolStreamDestroyed(NULL),
                         poolMalloc(&block, 1), poolFree(NULL), poolRecordStream(&stats, NULL)};
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) CHECK(answers[i] == 35);
        CHECK(block == &block);
        puts("no driver");
        return 0;
    }
    cuInit = find(driver, "cuInit");
    cuDeviceGet = find(driver, "cuDeviceGet");
    cuDevicePrimaryCtxRetain = find(driver, "cuDevicePrimaryCtxRetain");
    cuCtxSetCurrent = find(driver, "cuCtxSetCurrent");
    cuStreamCreate = find(driver, "cuStreamCreate");
    cuStreamDestroy = find(driver, "cuStreamDestroy_v2");
    cuMemsetD8Async = find(driver, "cuMemsetD8Async");
    cuStreamSynchronize = find(driver, "cuStreamSynchronize");

    int device;
    CHECK(cuInit(0) == 0 && cuDeviceGet(&device, 0) == 0);
    const char *conf = getenv("POOL_CONF");
    if (conf && strstr(conf, "no_such_key")) {
        CHECK(poolMalloc(&block, 1) == 1 && poolLastError() == 1 && block == &block);
        puts(poolLastErrorMessage());
        return 0;
    }
    CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0 && cuCtxSetCurrent(context) == 0);

    Stream stream, streams[4];
    CHECK(cuStreamCreate(&stream, 1) == 0);
    CHECK(poolMallocAsync(&block, 1 << 20, stream) == 0 && block && (size_t)block % 256 == 0);
    CHECK(cuMemsetD8Async((Address)(size_t)block, 7, 1 << 20, stream) == 0);
    CHECK(poolGetStats(0, &stats) == 0 && stats.liveBytes == 1 << 20 && stats.allocations == 1);
    CHECK(poolFreeAsync(block, stream) == 0);
    CHECK(poolFreeAsync(block, stream) == 1);
    CHECK(poolFreeAsync(&stats, stream) == 1);
    CHECK(poolFreeAsync(NULL, stream) == 0);
    CHECK(poolMallocAsync(NULL, 1, stream) == 1);
    CHECK(poolMallocAsync(&block, 0, stream) == 0 && !block);
    CHECK(poolMallocAsync(&block, (size_t)-1, stream) == 2 && !block);
    CHECK(poolLastError() == 2 && strlen(poolLastErrorMessage()) > 0);

    CHECK(poolMalloc(&block, 1000) == 0 && block && (size_t)block % 256 == 0);
    CHECK(cuMemsetD8Async((Address)(size_t)block, 7, 1000, stream) == 0);
    CHECK(poolRecordStream(block, stream) == 0 && poolRecordStream(&stats, stream) == 1);
    CHECK(poolFree(block) == 0 && !freed);
    CHECK(poolFree(block) == 1 && !freed);
    CHECK(poolFree(&freed) == 0 && freed == &freed);
    CHECK(poolFree(&stats) == 1 && freed == &stats);
    CHECK(poolFree(NULL) == 0);

    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        CHECK(cuStreamCreate(&streams[i], 1) == 0);
        CHECK(pthread_create(&threads[i], NULL, work, streams[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(poolStreamDestroyed(streams[i]) == 0 && cuStreamDestroy(streams[i]) == 0);
    }

    CHECK(poolGetStats(0, &stats) == 0 && stats.liveBytes == 0 && stats.allocations == stats.frees);
    CHECK(stats.hits > 0 && stats.growths > 0 && stats.peakReservedBytes >= stats.reservedBytes);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(poolTrim(0, 0) == 0 && poolResetPeaks(0) == 0);
    CHECK(poolGetStats(0, &stats) == 0 && stats.reservedBytes == 0 && stats.peakReservedBytes == 0);
    CHECK(poolSetLimit(0, 4 << 20) == 0 && poolMallocAsync(&block, 5 << 20, stream) == 2);
    CHECK(poolTrim(99, 0) == 101 && poolGetStats(0, NULL) == 1);
    /* One is live at the end. */
    CHECK(poolMallocAsync(&block, 1 << 20, stream) == 0);
    puts("all is well");
    return 0;
}
