/*
 * Others write into a range's storage: what finds it says so, and what cannot go on calls the program's
 * function, which does not come back. Never is anything outside the storage touched.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "pool_core.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = POOL_RANGE_STORAGE_BYTES(64) + 64 * 1024, TRIES = 20000 };

static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char storage[BYTES], good[BYTES];
static jmp_buf stopped;

void fail(int line, const char *condition) {
    fprintf(stderr, "line %d: %s\n", line, condition);
    exit(1);
}

static void halt(void) {
    longjmp(stopped, 1);
}

static unsigned draw(void) {
    static unsigned state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

void run_tests(void) {
    static int found, halted, unharmed;
    for (uint32_t placement = 0; placement < 4; placement++) {
        pool_range_config config = {0};
        pool_range *range;
        static pool_range_block blocks[48];
        config.capacity_bytes = 1 << 20;
        config.placement = placement % 3;
        config.spans = placement == 3 ? 4 : 0;
        config.span_bytes = 64 << 10;
        CHECK(pool_range_create(&config, storage, BYTES, &range) == 0);
        for (int at = 0; at < 48; at++) {
            CHECK(pool_range_allocate(range, draw() % 9000 + 1, 0, &blocks[at]) == 0);
        }
        for (int at = 0; at < 48; at += 3) CHECK(pool_range_free(range, blocks[at].handle) == 0);
        CHECK(pool_range_verify(range, NULL) == 0);
        memcpy(good, storage, BYTES);
        for (int try = 0; try < TRIES; try++) {
            pool_range_damage damage = {0};
            pool_range_block block;
            /* Behind the head, where one entry reaches into the next, say. */
            unsigned at = POOL_RANGE_HEAD_BYTES + draw() % (config.spans ? BYTES - POOL_RANGE_HEAD_BYTES - 4 : 3000);
            unsigned word = draw() % 2 ? draw() : draw() % 64;
            pool_range_error error;
            memcpy(storage, good, BYTES);
            memcpy(storage + at, &word, 1 + draw() % 4);
            if (setjmp(stopped) != 0) {
                halted++;
                continue;
            }
            pool_core_on_panic(NULL);
            error = pool_range_verify(range, &damage);
            pool_core_on_panic(halt);
            CHECK(error == 0 || (error == POOL_RANGE_ERROR_DAMAGED && damage.what_bytes > 0));
            found += error != 0;
            unharmed += error == 0;
            for (int number = 0; number < 48; number++) {
                pool_range_free(range, blocks[number].handle);
                pool_range_allocate(range, draw() % 9000 + 1, 0, &block);
            }
        }
    }
    printf("%d damages found, %d not, of all %d stopped a call\n", found, unharmed, halted);
    CHECK(found > TRIES && halted > 0);
}

int main(void) {
    run_tests();
    puts("all is well");
    return 0;
}
