/*
 * Captures: memory that is asked for on a captured stream is the driver's, to become the graph's own; what is
 * asked for without a stream meanwhile stays.
 */
#include "program.h"

int main(void) {
    begin(0);
    late();
    int (*cuStreamBeginCapture)(Handle, int) = find("cuStreamBeginCapture_v2");
    int (*cuStreamEndCapture)(Handle, Handle *) = find("cuStreamEndCapture");
    int (*cuThreadExchangeStreamCaptureMode)(int *) = find("cuThreadExchangeStreamCaptureMode");
    int (*cuGraphInstantiate)(Handle *, Handle, uint64_t) = find("cuGraphInstantiateWithFlags");
    int (*cuGraphLaunch)(Handle, Handle) = find("cuGraphLaunch");
    int (*cuGraphDestroy)(Handle) = find("cuGraphDestroy");
    int (*cuGraphExecDestroy)(Handle) = find("cuGraphExecDestroy");
    int served = is_preloaded(), relaxed = 2;
    Handle captured, stream, graph, exec;
    Address first, block, others[8], next[64];
    OK(cuStreamCreate(&captured, 1));
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc(&first, MIB));
    OK(cuMemAllocAsync(&block, MIB, stream));
    OK(cuMemFreeAsync(block, stream));

    for (int round = 0; round < 3; round++) {
        OK(cuStreamBeginCapture(captured, 0));
        /* Once begun, it is not begun again, and is as it was. */
        CHECK(cuStreamBeginCapture(captured, 0) != 0);
        size_t asked = count("cuMemAllocAsync"), freed = count("cuMemFreeAsync"), plain = count("cuMemAlloc_v2");
        /* The simulated driver has no such nodes and says so, to what came to it. */
        CHECK(cuMemAllocAsync(&block, 4096, captured) == 900 && count("cuMemAllocAsync") == asked + 1);
        CHECK(cuMemFreeAsync(first, captured) == 900 && count("cuMemFreeAsync") == freed + 1);
        /* Another stream is in no capture. */
        OK(cuMemAllocAsync(&block, 4096, stream));
        fill(block, 1, 4096, stream);
        OK(cuMemFreeAsync(block, stream));
        CHECK((count("cuMemAllocAsync") == asked + 1) == served);
        /* As PyTorch does for its graphs. */
        OK(cuThreadExchangeStreamCaptureMode(&relaxed));
        for (int i = 0; i < 8; i++) OK(cuMemAlloc(&others[i], 4096 + MIB * (i == 7)));
        OK(cuThreadExchangeStreamCaptureMode(&relaxed));
        CHECK((count("cuMemAlloc_v2") == plain) == served);
        for (int i = 0; i < 8; i++) fill(others[i], (unsigned char)(i + 1), 4096, captured);
        OK(cuStreamEndCapture(captured, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        if (served) {
            /* Freed, and nobody else's for as long as the graph may run again. */
            for (int i = 0; i < 8; i++) OK(cuMemFree(others[i]));
            CHECK(cuMemFree(others[0]) == 1 && cuMemFreeAsync(others[1], stream) == 1);
            for (int i = 0; i < 64; i++) {
                OK(cuMemAlloc(&next[i], 4096));
                for (int j = 0; j < 8; j++) CHECK(next[i] != others[j]);
            }
            OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            for (int i = 0; i < 64; i++) OK(cuMemFree(next[i]));
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        if (!served) for (int i = 0; i < 8; i++) OK(cuMemFree(others[i]));
        /* After it all is as before. */
        asked = count("cuMemAllocAsync");
        OK(cuMemAllocAsync(&block, 4096, captured));
        fill(block, 2, 4096, captured);
        OK(cuMemFreeAsync(block, captured));
        CHECK((count("cuMemAllocAsync") == asked) == served);
    }

    /* A stream that ends in the midst of its capture, and one whose capture never began. */
    CHECK(cuStreamBeginCapture(NULL, 0) != 0);
    OK(cuMemAlloc(&block, 4096));
    OK(cuMemFree(block));
    OK(cuMemFree(first));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(captured));
    OK(cuStreamCreate(&captured, 1));
    OK(cuMemAllocAsync(&block, 4096, captured));
    OK(cuMemFreeAsync(block, captured));
    OK(cuStreamDestroy(captured));
    OK(cuStreamDestroy(stream));
    return end();
}
