/*
 * Memory for kernels on two streams that do not wait for each other: asked for, written by a kernel, looked
 * at by another, freed, so many times over, by the functions without a stream or by those with one. Every byte
 * is looked at. Runs on a device as on the simulated one, and says how long it took.
 *
 *     work KERNELS ROUNDS plain|async driver|runtime
 */
#include "program.h"
#include <time.h>

enum { HELD = 32 };

static int (*alloc)(Address *, size_t), (*release)(Address), (*alloc_async)(Address *, size_t, Handle),
    (*release_async)(Address, Handle);
static int (*cuLaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                             void **, void **);

static void launch(Handle kernel, Address at, size_t bytes, unsigned char mark, uint64_t last, Handle stream) {
    void *arguments[] = {&at, &bytes, &mark, &last};
    OK(cuLaunchKernel(kernel, 32, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
}

static char *read_all(const char *path) {
    FILE *file = fopen(path, "rb");
    CHECK(file);
    char *text = calloc(1, 1 << 20);
    CHECK(text && fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    long rounds = atol(argv[2]);
    int async = !strcmp(argv[3], "async");
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver);
    int is_simulated = dlsym(driver, "simulated_count") != NULL;
    if (strcmp(argv[4], "driver")) {
        Handle runtime = dlopen(argv[4], RTLD_NOW);
        CHECK(runtime);
        alloc = dlsym(runtime, "cudaMalloc");
        release = dlsym(runtime, "cudaFree");
        alloc_async = dlsym(runtime, "cudaMallocAsync");
        release_async = dlsym(runtime, "cudaFreeAsync");
    } else {
        alloc = find("cuMemAlloc_v2");
        release = find("cuMemFree_v2");
        alloc_async = find("cuMemAllocAsync");
        release_async = find("cuMemFreeAsync");
    }
    CHECK(alloc && release && alloc_async && release_async);
    cuLaunchKernel = find("cuLaunchKernel");
    int (*cuModuleLoadData)(Handle *, const void *) = find("cuModuleLoadData");
    int (*cuModuleGetFunction)(Handle *, Handle, const char *) = find("cuModuleGetFunction");
    if (is_simulated) begin(0);
    else begin_on_a_device();

    Handle module, mark, verify, streams[2];
    OK(cuModuleLoadData(&module, read_all(argv[1])));
    OK(cuModuleGetFunction(&mark, module, "pool_mark"));
    OK(cuModuleGetFunction(&verify, module, "pool_verify"));
    for (int i = 0; i < 2; i++) OK(cuStreamCreate(&streams[i], 1));
    Address differences, blocks[HELD] = {0};
    size_t sizes[HELD];
    OK(alloc(&differences, 8));
    OK(cuMemsetD8Async(differences, 0, 8, NULL));
    OK(cuCtxSynchronize());

    struct timespec start, end_time;
    clock_gettime(CLOCK_MONOTONIC, &start);
    uint64_t draw = 7;
    for (long round = 0; round < rounds; round++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        int place = round % HELD;
        /* A place is of one stream. */
        Handle stream = streams[place % 2];
        if (blocks[place]) {
            /* What was written a while ago is there still. */
            launch(verify, blocks[place], sizes[place], (unsigned char)(place + 1), differences, stream);
            OK(async ? release_async(blocks[place], stream) : release(blocks[place]));
        }
        sizes[place] = ((draw >> 33) % 256 + 1) << (draw >> 60);
        OK(async ? alloc_async(&blocks[place], sizes[place], stream) : alloc(&blocks[place], sizes[place]));
        launch(mark, blocks[place], sizes[place], (unsigned char)(place + 1), 0, stream);
    }
    for (int place = 0; place < HELD && place < rounds; place++) {
        Handle stream = streams[place % 2];
        launch(verify, blocks[place], sizes[place], (unsigned char)(place + 1), differences, stream);
        OK(async ? release_async(blocks[place], stream) : release(blocks[place]));
    }
    OK(cuCtxSynchronize());
    clock_gettime(CLOCK_MONOTONIC, &end_time);
    uint64_t found = 1;
    OK(cuMemcpyDtoH(&found, differences, 8));
    CHECK(found == 0);
    OK(release(differences));
    for (int i = 0; i < 2; i++) OK(cuStreamDestroy(streams[i]));
    if (is_simulated) return end();
    double seconds = (double)(end_time.tv_sec - start.tv_sec) + (double)(end_time.tv_nsec - start.tv_nsec) / 1e9;
    fprintf(stderr, "%s %s: %ld rounds in %.3f s, %.2f us a round\n", argv[4], argv[3], rounds, seconds,
            1e6 * seconds / (double)rounds);
    puts("all is well");
    return 0;
}
