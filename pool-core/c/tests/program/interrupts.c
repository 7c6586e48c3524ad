/*
 * An interrupt after each instruction of each call, that makes calls on the same range: the processor's single
 * steps, which Linux hands to a handler (x86-64). What comes into a call is told that it is busy, and
 * everything else is as ever.
 */
#define _GNU_SOURCE
#include "check.h"
#include "pool_core.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char storage[POOL_RANGE_STORAGE_BYTES(64)];
static pool_range *range;
static unsigned long steps, busy, served;

void fail(int line, const char *condition) {
    fprintf(stderr, "line %d: %s\n", line, condition);
    exit(1);
}

static void interrupt(int number) {
    pool_range_block block;
    pool_range_error error = pool_range_allocate(range, 100, 0, &block);
    (void)number;
    steps++;
    if (error == POOL_RANGE_ERROR_BUSY) {
        busy++;
        CHECK(pool_range_free(range, 1) == POOL_RANGE_ERROR_BUSY);
        return;
    }
    CHECK(error == 0);
    served++;
    CHECK(pool_range_verify(range, NULL) == 0);
    CHECK(pool_range_free(range, block.handle) == 0);
}

static void set_steps(int on) {
    if (on) {
        __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    } else {
        __asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    }
}

void run_tests(void) {
    pool_range_config config = {0};
    pool_range_block blocks[8];
    struct sigaction action = {0};
    config.capacity_bytes = 1 << 20;
    CHECK(pool_range_create(&config, storage, sizeof storage, &range) == 0);
    action.sa_handler = interrupt;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (int round = 0; round < 4; round++) {
        for (int at = 0; at < 8; at++) {
            pool_range_error error;
            set_steps(1);
            error = pool_range_allocate(range, (uint64_t)(300 + 500 * at), 0, &blocks[at]);
            set_steps(0);
            CHECK(error == 0);
        }
        for (int at = 0; at < 8; at++) {
            pool_range_error error;
            set_steps(1);
            error = pool_range_free(range, blocks[(3 * at + round) % 8].handle);
            set_steps(0);
            CHECK(error == 0);
        }
    }
    CHECK(pool_range_verify(range, NULL) == 0);
    printf("%lu steps: busy at %lu, served at %lu\n", steps, busy, served);
    CHECK(steps > 1000 && busy > 1000 && served > 100);
}

int main(void) {
    run_tests();
    puts("all is well");
    return 0;
}
