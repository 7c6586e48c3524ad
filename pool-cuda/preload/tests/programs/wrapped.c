/*
 * A program that is linked to the driver, with another library preloaded that wraps functions of it: before
 * this one or after, as the argument says.
 */
#include "program.h"

extern int cuMemAlloc_v2(Address *, size_t), cuMemFree_v2(Address);

int main(int argc, char **argv) {
    CHECK(argc == 2);
    size_t *allocations = dlsym(RTLD_DEFAULT, "wrapped_allocations"), *frees = dlsym(RTLD_DEFAULT, "wrapped_frees"),
           *sleeps = dlsym(RTLD_DEFAULT, "wrapped_sleeps"), *lookups = dlsym(RTLD_DEFAULT, "wrapped_lookups");
    CHECK(allocations && frees && sleeps && lookups);
    begin(0);
    CHECK(sleep(0) == 0 && *sleeps == 1);
    size_t before = calls();
    for (int i = 0; i < 10; i++) {
        Address block;
        OK(cuMemAlloc_v2(&block, 5000));
        fill(block, 1, 5000, NULL);
        check_bytes(block, 1, 5000);
        OK(cuMemFree_v2(block));
    }
    int served = is_preloaded(), first = !strcmp(argv[1], "before");
    CHECK((calls() == before) == served);
    /* Where it comes first it is asked; where it comes after, there is nothing left for it. */
    CHECK(*allocations == (first || !served ? 10u : 0u) && *frees == *allocations);
    /* Its dlsym is asked for what is not served here. */
    CHECK((*lookups > 10) == !strcmp(argv[1], "lookups"));
    return end();
}
