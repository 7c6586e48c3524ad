/*
 * The tests as a program without a C library: it starts by itself, has the four functions that the library
 * wants, and ends by a system call of Linux on x86-64. It also measures how much stack the calls take.
 */
#include "check.h"
#include "pool_core.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
_Noreturn void begin(void);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    return memmove(to, from, bytes);
}

void *memmove(void *to, const void *from, size_t bytes) {
    unsigned char *target = to;
    const unsigned char *source = from;
    if (target <= source) {
        for (size_t at = 0; at < bytes; at++) target[at] = source[at];
    } else {
        while (bytes-- > 0) target[bytes] = source[bytes];
    }
    return to;
}

void *memset(void *to, int value, size_t bytes) {
    unsigned char *target = to;
    for (size_t at = 0; at < bytes; at++) target[at] = (unsigned char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes) {
    const unsigned char *left = a, *right = b;
    for (size_t at = 0; at < bytes; at++) {
        if (left[at] != right[at]) return left[at] < right[at] ? -1 : 1;
    }
    return 0;
}

static long call_system(long number, long first, const void *second, long third) {
    long result = number;
    __asm__ volatile("syscall" : "+a"(result) : "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

static void say(const char *text) {
    long length = 0;
    while (text[length]) length++;
    call_system(1, 1, text, length);
}

static void say_number(unsigned long number) {
    char digits[24], *at = digits + sizeof digits - 1;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    say(at);
}

static _Noreturn void end(int status) {
    for (;;) call_system(231, status, NULL, 0);
}

void fail(int line, const char *condition) {
    say("line ");
    say_number((unsigned long)line);
    say(": ");
    say(condition);
    say("\n");
    end(1);
}

/* How deep a work's calls went: what of the stack below is not as it was painted. */
enum { PAINTED = 64 * 1024 };

static __attribute__((noinline)) unsigned long stack_bytes(void (*work)(void)) {
    volatile unsigned char *top = (volatile unsigned char *)__builtin_frame_address(0) - 256;
    unsigned long deepest = PAINTED;
    for (unsigned long at = 0; at < PAINTED; at++) top[-(long)at] = 0x5a;
    work();
    while (deepest > 0 && top[-(long)deepest + 1] == 0x5a) deepest--;
    return deepest + 256;
}

static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char storage[64 * 1024];
static pool_range_config config;
static pool_range *range;

static void create(void) {
    CHECK(pool_range_create(&config, storage, sizeof storage, &range) == 0);
}

/* Calls of all kinds but the checks. */
static void use(void) {
    pool_range_block blocks[16], block;
    pool_range_stats stats;
    for (int round = 0; round < 100; round++) {
        pool_range_cursor cursor = {0, 0};
        for (int at = 0; at < 16; at++) {
            pool_range_error error =
                pool_range_allocate(range, (uint64_t)(round * 16 + at) * 37 % 5000 + 1, 0, &blocks[at]);
            CHECK(error == 0);
        }
        CHECK(pool_range_get_stats(range, &stats) == 0);
        CHECK(pool_range_next(range, &cursor, &block) == 0);
        CHECK(pool_range_allocate(range, config.capacity_bytes, 0, &block) != 0);
        pool_range_resize(range, blocks[round % 16].handle, 9000, NULL);
        for (int at = 0; at < 16; at++) CHECK(pool_range_free(range, blocks[(at * 7) % 16].handle) == 0);
    }
}

static void verify(void) {
    CHECK(pool_range_verify(range, NULL) == 0);
}

static void measure_stack(const char *name) {
    say(name);
    say(": create ");
    say_number(stack_bytes(create));
    say(", use ");
    say_number(stack_bytes(use));
    say(", verify ");
    say_number(stack_bytes(verify));
    say(" bytes of stack\n");
}

_Noreturn void begin(void) {
    run_tests();
    config.capacity_bytes = 8 << 20;
    config.granule_bytes = 64;
    measure_stack("best fit");
    config.placement = POOL_RANGE_PLACEMENT_FIRST_FIT;
    measure_stack("first fit");
    config.placement = POOL_RANGE_PLACEMENT_BUDDY;
    measure_stack("buddy");
    config.placement = POOL_RANGE_PLACEMENT_BEST_FIT;
    config.spans = 4;
    measure_stack("spans");
    say("all is well\n");
    end(0);
}

/* The stack is aligned as by a call. */
__asm__(".globl _start\n_start:\n    xor %ebp, %ebp\n    and $-16, %rsp\n    call begin\n");
