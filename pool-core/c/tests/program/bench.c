/*
 * What an allocation and a free cost, for a tool that counts instructions: `bench KIND ROUNDS` frees one of 256
 * blocks and allocates another of any size up to 16 KiB, so many times. KIND is best, first, buddy or spans.
 */
#include "check.h"
#include "pool_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 256 };

static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char storage[1 << 20];

void fail(int line, const char *condition) {
    fprintf(stderr, "line %d: %s\n", line, condition);
    exit(1);
}

static uint32_t below(uint32_t bound) {
    static uint32_t state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % bound;
}

/* Small sizes as often as large ones. */
static uint64_t size_bytes(void) {
    return 1 + below(below(2) ? 512 : 16 << 10);
}

int main(int count, char **arguments) {
    static const char *const kinds[] = {"best", "first", "buddy", "spans"};
    pool_range_config config = {0};
    pool_range *range;
    pool_range_block blocks[BLOCKS];
    uint32_t kind = 0;
    CHECK(count == 3);
    while (kind < 4 && strcmp(kinds[kind], arguments[1]) != 0) kind++;
    CHECK(kind < 4);
    config.capacity_bytes = 8 << 20;
    config.granule_bytes = 64;
    config.placement = kind % 3;
    config.spans = kind == 3 ? 16 : 0;
    CHECK(pool_range_create(&config, storage, sizeof storage, &range) == 0);
    for (int at = 0; at < BLOCKS; at++) CHECK(pool_range_allocate(range, size_bytes(), 0, &blocks[at]) == 0);
    for (long round = atol(arguments[2]); round > 0; round--) {
        pool_range_block *block = &blocks[below(BLOCKS)];
        CHECK(pool_range_free(range, block->handle) == 0);
        CHECK(pool_range_allocate(range, size_bytes(), 0, block) == 0);
    }
    CHECK(pool_range_verify(range, NULL) == 0);
    return 0;
}
