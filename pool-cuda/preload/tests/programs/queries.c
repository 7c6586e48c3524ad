/*
 * What the driver says of memory, and memory of other kinds, on the device that the argument names: one
 * with pages, one without.
 */
#include "program.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    begin(atoi(argv[1]));
    late();
    int (*cuMemGetAddressRange)(Address *, size_t *, Address) = find("cuMemGetAddressRange_v2");
    int (*cuPointerGetAttribute)(void *, int, Address) = find("cuPointerGetAttribute");
    int (*cuPointerGetAttributes)(unsigned, int *, void **, Address) = find("cuPointerGetAttributes");
    int (*cuIpcGetMemHandle)(void *, Address) = find("cuIpcGetMemHandle");
    int (*cuMemAllocPitch)(Address *, size_t *, size_t, size_t, unsigned) = find("cuMemAllocPitch_v2");
    int (*cuMemAllocManaged)(Address *, size_t, unsigned) = find("cuMemAllocManaged");
    int (*cuMemHostAlloc)(void **, size_t, unsigned) = find("cuMemHostAlloc");
    int (*cuMemFreeHost)(void *) = find("cuMemFreeHost");
    int (*cuCtxGetApiVersion)(Handle, unsigned *) = find("cuCtxGetApiVersion");
    int served = is_preloaded();

    /* As sizes go: short blocks among others, one that is a page, long ones. */
    static const size_t sizes[] = {1, 256, 1000, 5000, 100000, 300000, 2 << 20, 70 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    Address blocks[3][COUNT];
    for (int i = 0; i < 3 * COUNT; i++) OK(cuMemAlloc(&blocks[i / COUNT][i % COUNT], sizes[i % COUNT]));
    for (int i = 0; i < 3 * COUNT; i++) {
        Address block = blocks[i / COUNT][i % COUNT], start;
        size_t wanted = sizes[i % COUNT], bytes;
        size_t places[] = {0, wanted / 2, wanted - 1};
        for (int place = 0; place < 3; place++) {
            Address at = block + places[place];
            OK(cuMemGetAddressRange(&start, &bytes, at));
            CHECK(start == block && bytes >= wanted && bytes < 2 * wanted + 512);
            OK(cuMemGetAddressRange(NULL, &bytes, at));
            OK(cuMemGetAddressRange(&start, NULL, at));
            Address range_start;
            Handle of;
            size_t range;
            int kind = 0, ordinal = -1;
            unsigned char ipc = 9, managed = 9;
            OK(cuPointerGetAttribute(&range_start, 11, at));
            OK(cuPointerGetAttribute(&range, 12, at));
            OK(cuPointerGetAttribute(&of, 1, at));
            OK(cuPointerGetAttribute(&kind, 2, at));
            CHECK(range_start == block && range == bytes && of == context && kind == 2);
            int attributes[] = {1, 2, 8, 9, 10, 11, 12};
            range_start = range = 0;
            of = NULL;
            void *data[] = {&of, &kind, &managed, &ordinal, &ipc, &range_start, &range};
            OK(cuPointerGetAttributes(7, attributes, data, at));
            CHECK(range_start == block && range == bytes && of == context && kind == 2);
            CHECK(ordinal == atoi(argv[1]) && managed == 0 && ipc == !served);
        }
    }

    /* P089: a handle would be of more than the block; there is none. */
    Address handle[8];
    for (int i = 0; i < COUNT; i++) {
        int code = cuIpcGetMemHandle(handle, blocks[1][i]), inside = cuIpcGetMemHandle(handle, blocks[1][i] + sizes[i] - 1);
        CHECK(served ? code == 801 && inside == 801 : code == 0 && inside == 0 && handle[0] == blocks[1][i]);
    }

    /* The host's, which no driver knows. */
    int local, kind, attribute = 1;
    Handle of = &local;
    void *data[] = {&of};
    CHECK(cuPointerGetAttribute(&kind, 2, (Address)&local) == 1);
    CHECK(cuMemGetAddressRange(NULL, NULL, (Address)&local) == 1);
    OK(cuPointerGetAttributes(1, &attribute, data, (Address)&local));
    CHECK(of == NULL);

    /* Memory of other kinds is the driver's, with either free. */
    Address pitched, managed, start;
    size_t pitch, bytes;
    void *pinned;
    OK(cuMemAllocPitch(&pitched, &pitch, 1000, 100, 4));
    OK(cuMemAllocManaged(&managed, 8192, 1));
    OK(cuMemHostAlloc(&pinned, 8192, 0));
    memset(pinned, 1, 8192);
    fill(pitched, 2, pitch * 100, NULL);
    check_bytes(pitched, 2, pitch * 100);
    OK(cuMemGetAddressRange(&start, &bytes, pitched + 700));
    CHECK(start == pitched && bytes == pitch * 100);
    OK(cuIpcGetMemHandle(handle, pitched));
    CHECK(handle[0] == pitched);
    OK(cuPointerGetAttribute(&kind, 2, (Address)pinned));
    CHECK(kind == 1);
    size_t frees = count("cuMemFree_v2");
    OK(cuMemFree(pitched));
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
    CHECK(count("cuMemFree_v2") == frees + 2);
    for (int i = 0; i < 3 * COUNT; i++) OK(cuMemFree(blocks[i / COUNT][i % COUNT]));
    CHECK(cuMemFree(blocks[0][0]) == 1);

    /* A context of the program's own is not the pool's: the driver serves there. */
    Handle own;
    int device;
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&own, 0, device));
    size_t plain = count("cuMemAlloc_v2");
    OK(cuMemAlloc(&start, 4096));
    CHECK(count("cuMemAlloc_v2") == plain + 1);
    fill(start, 1, 4096, NULL);
    OK(cuMemFree(start));
    plain = count("cuMemAllocAsync");
    OK(cuMemAllocAsync(&start, 4096, NULL));
    CHECK(count("cuMemAllocAsync") == plain + 1);
    OK(cuMemFreeAsync(start, NULL));
    /* And where there is none, nobody does. */
    OK(cuCtxSetCurrent(NULL));
    OK(cuCtxSetCurrent(NULL));
    CHECK(cuMemAlloc(&start, 4096) == 201 && cuMemAllocAsync(&start, 4096, NULL) == 201);
    return end();
}
