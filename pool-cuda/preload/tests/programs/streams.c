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
