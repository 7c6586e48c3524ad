/* Frees that are wrong, and frees by the other function. */
#include "program.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    begin(atoi(argv[1]));
    late();
    int served = is_preloaded();
    Handle one, two;
    OK(cuStreamCreate(&one, 1));
    OK(cuStreamCreate(&two, 1));
    static const size_t sizes[] = {512, MIB, 40 * MIB};
    for (int i = 0; i < 3; i++) {
        Address block, other, third;
        /* P009: a second free, and one of what nobody has, change nothing. */
        OK(cuMemAlloc(&block, sizes[i]));
        OK(cuMemFree(block));
        CHECK(cuMemFree(block) == 1 && cuMemFree(0xdead0000) == 1);
        CHECK(cuMemFreeAsync(block, one) == 1 && cuMemFreeAsync(0xdead0000, one) == 1);
        OK(cuMemAlloc(&block, sizes[i]));
        OK(cuMemAlloc(&other, sizes[i]));
        CHECK(block != other && cuMemFree(block + sizes[i] / 2) == 1);
        OK(cuMemFree(block));
        OK(cuMemFree(other));

        /* P101: either free takes either kind, and is behind the work that uses the memory. */
        OK(cuMemAllocAsync(&block, sizes[i], one));
        fill(block, 1, sizes[i], one);
        OK(cuMemFree(block));
        OK(cuMemAllocAsync(&other, sizes[i], two));
        fill(other, 2, sizes[i], two);
        OK(cuMemAlloc(&third, sizes[i]));
        fill(third, 3, sizes[i], one);
        OK(cuMemFreeAsync(third, one));
        OK(cuMemAllocAsync(&block, sizes[i], two));
        fill(block, 4, sizes[i], two);
        OK(cuStreamSynchronize(two));
        check_bytes(other, 2, sizes[i]);
        check_bytes(block, 4, sizes[i]);
        OK(cuMemFreeAsync(other, two));
        OK(cuMemFreeAsync(block, one));
    }

    /* P043: what the driver gave out while the pool did not serve goes back to it, and the other way round. */
    Address pools, drivers;
    Handle own;
    int device;
    OK(cuMemAlloc(&pools, MIB));
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&own, 0, device));
    OK(cuMemAlloc(&drivers, MIB));
    if (served) OK(cuMemFree(pools));
    OK(cuCtxSetCurrent(context));
    if (!served) OK(cuMemFree(pools));
    size_t before = count("cuMemFree_v2");
    OK(cuMemFree(drivers));
    CHECK(count("cuMemFree_v2") == before + 1);
    CHECK(cuMemFree(drivers) == 1 && cuMemFree(pools) == 1);
    return end();
}
