/* Streams that come and go, whose memory others need once they are gone. */
#include "program.h"

int main(void) {
    begin(0);
    late();
    static const size_t large = (size_t)5 << 30;
    Handle stay, gone, again;
    Address block, other;
    OK(cuStreamCreate(&stay, 1));
    for (int round = 0; round < 3; round++) {
        OK(cuStreamCreate(&gone, 1));
        OK(cuMemAllocAsync(&block, large, gone));
        fill(block, 1, MIB, gone);
        OK(cuMemFreeAsync(block, gone));
        OK(cuStreamDestroy(gone));
        /* There is not so much twice, so that it has to come from the stream that is gone. */
        OK(cuMemAllocAsync(&block, large, stay));
        fill(block, 2, MIB, stay);
        OK(cuMemFreeAsync(block, stay));
        OK(cuStreamSynchronize(stay));
    }
    /* Nor is it there for memory of other kinds, unless the pool gives it back: it counts as free. */
    int (*cuMemAllocPitch)(Address *, size_t *, size_t, size_t, unsigned) = find("cuMemAllocPitch_v2");
    int (*cuMemAllocManaged)(Address *, size_t, unsigned) = find("cuMemAllocManaged");
    size_t free_bytes, total, pitch;
    for (int round = 0; round < 2; round++) {
        OK(cuMemGetInfo(&free_bytes, &total));
        CHECK(free_bytes > large);
        OK(round ? cuMemAllocManaged(&block, large, 1) : cuMemAllocPitch(&block, &pitch, 1 << 20, large >> 20, 4));
        OK(cuMemFree(block));
        OK(cuMemAllocAsync(&block, large, stay));
        OK(cuMemFreeAsync(block, stay));
        OK(cuStreamSynchronize(stay));
    }
    CHECK(cuMemAllocManaged(&block, 2 * large, 1) == 2);
    /* The handle of one that is gone is the next one's. */
    for (int round = 0; round < 50; round++) {
        OK(cuStreamCreate(&gone, 1));
        OK(cuMemAllocAsync(&block, 5000, gone));
        OK(cuMemAllocAsync(&other, 5 * MIB, gone));
        fill(block, 3, 5000, gone);
        fill(other, 4, 5 * MIB, gone);
        OK(cuMemFreeAsync(block, gone));
        OK(cuMemFreeAsync(other, stay));
        OK(cuStreamDestroy(gone));
        OK(cuStreamCreate(&again, 1));
        OK(cuMemAllocAsync(&block, 5000, again));
        fill(block, 5, 5000, again);
        OK(cuMemFree(block));
        OK(cuStreamDestroy(again));
    }
    CHECK(cuStreamDestroy(NULL) != 0);
    OK(cuStreamDestroy(stay));
    return end();
}
