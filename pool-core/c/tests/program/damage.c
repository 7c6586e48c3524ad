/*
 * Others write into a range's storage. The check of a range finds what does not hold, whatever it is, and never
 * stops; any other call goes on in the storage, or stops by the program's function.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "pool_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 48, BYTES = POOL_RANGE_STORAGE_BYTES(64) + 64 * 1024, AROUND = 4096, TRIES = 20000, CALLS = 100 };

/* The storage, with bytes around it that stay as they are. */
static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char memory[BYTES + 2 * AROUND];
static unsigned char *const storage = memory + AROUND;
static unsigned char good[BYTES];
static pool_range *range;
static pool_range_block blocks[BLOCKS];
static int found, unharmed, stopped, went_on;

void fail(int line, const char *condition) {
    fprintf(stderr, "line %d: %s\n", line, condition);
    exit(1);
}

static unsigned draw(void) {
    static unsigned state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static void create(uint32_t placement, uint32_t spans) {
    pool_range_config config = {0};
    config.capacity_bytes = 1 << 20;
    config.placement = placement;
    config.spans = spans;
    config.span_bytes = 64 << 10;
    CHECK(pool_range_create(&config, storage, BYTES, &range) == 0);
    for (int at = 0; at < BLOCKS; at++) CHECK(pool_range_allocate(range, draw() % 9000 + 1, 0, &blocks[at]) == 0);
    for (int at = 0; at < BLOCKS; at += 3) CHECK(pool_range_free(range, blocks[at].handle) == 0);
    CHECK(pool_range_verify(range, NULL) == 0);
    memcpy(good, storage, BYTES);
}

/* Some bytes are others. */
static void damage_some(uint32_t spans) {
    /* Entries in use, and at the end the words of spans. */
    unsigned most = spans ? BYTES - POOL_RANGE_HEAD_BYTES - 4 : 3000;
    unsigned from = POOL_RANGE_HEAD_BYTES + draw() % 2 * (most - 3000);
    unsigned word = draw() % 2 ? draw() : draw() % 64;
    memcpy(storage, good, BYTES);
    memcpy(storage + from + draw() % 3000, &word, 1 + draw() % 4);
}

static void halt(void) {
    _exit(2);
}

/* Frees and allocates in what is damaged, in a process of its own. */
static void call(void) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pool_range_block block;
        pool_core_on_panic(halt);
        alarm(10);
        for (int at = 0; at < BLOCKS; at++) {
            pool_range_free(range, blocks[at].handle);
            pool_range_allocate(range, draw() % 9000 + 1, 0, &block);
        }
        for (int at = 0; at < AROUND; at++) {
            if (memory[at] != 0 || memory[AROUND + BYTES + at] != 0) _exit(1);
        }
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 1);
    *(WEXITSTATUS(status) == 2 ? &stopped : &went_on) += 1;
}

void run_tests(void) {
    for (uint32_t kind = 0; kind < 4; kind++) {
        uint32_t spans = kind == 3 ? 4 : 0;
        create(kind % 3, spans);
        for (int at = 0; at < TRIES; at++) {
            pool_range_damage damage = {0};
            pool_range_error error;
            damage_some(spans);
            error = pool_range_verify(range, &damage);
            CHECK(error == 0 || (error == POOL_RANGE_ERROR_DAMAGED && damage.what_bytes > 0));
            *(error == 0 ? &unharmed : &found) += 1;
        }
        for (int at = 0; at < CALLS; at++) {
            damage_some(spans);
            call();
        }
    }
}

int main(void) {
    run_tests();
    printf("damage found %d times of %d; calls on it went on %d times and stopped %d times\n", found,
           found + unharmed, went_on, stopped);
    CHECK(found > TRIES && stopped > 0);
    puts("all is well");
    return 0;
}
