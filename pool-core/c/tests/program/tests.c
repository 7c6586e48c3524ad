/*
 * The library against a row of granules, each free or some block's: any operations, wrong handles and
 * pointers, storage that is full, locks. Runs with an operating system and without.
 */
#include "check.h"
#include "pool_core.h"

enum { GRANULE = 64, GRANULES = 2048, BLOCKS = 128, STEPS = 20000 };

static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char storage[128 * 1024];
static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char other_storage[POOL_RANGE_STORAGE_BYTES(8)];

/* Numbers that look random, the same in each run. */
static uint32_t state = 1;

static uint32_t below(uint32_t bound) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % bound;
}

/* The model: which granules are taken, and the live blocks. */
static unsigned char taken[GRANULES];
static pool_range_block live[BLOCKS];
static uint64_t taken_granules, live_blocks, longest_run;

static void fill(const pool_range_block *block, unsigned char is_taken) {
    uint64_t first = block->offset_bytes / GRANULE, end = first + block->size_bytes / GRANULE;
    CHECK(block->offset_bytes % GRANULE == 0 && block->size_bytes % GRANULE == 0);
    CHECK(first < end && end <= GRANULES);
    for (uint64_t granule = first; granule < end; granule++) {
        CHECK(taken[granule] != is_taken);
        taken[granule] = is_taken;
    }
}

static void count(void) {
    uint64_t run = 0;
    taken_granules = live_blocks = longest_run = 0;
    for (int granule = 0; granule < GRANULES; granule++) {
        run = taken[granule] ? 0 : run + 1;
        longest_run = run > longest_run ? run : longest_run;
        taken_granules += taken[granule];
    }
    for (int block = 0; block < BLOCKS; block++) live_blocks += live[block].handle != 0;
}

/* Whether a row of granules that starts at a multiple of align is free. */
static int has_room(uint64_t granules, uint64_t align) {
    for (uint64_t first = 0; first + granules <= GRANULES; first += align) {
        uint64_t granule = first;
        while (granule < first + granules && !taken[granule]) granule++;
        if (granule == first + granules) return 1;
    }
    return 0;
}

static int equal(const pool_range_block *a, const pool_range_block *b) {
    return a->handle == b->handle && a->offset_bytes == b->offset_bytes && a->size_bytes == b->size_bytes;
}

/* The range has what the model has: its figures, and each block in a walk over all. */
static void compare(pool_range *range, int has_spans, int is_buddy) {
    pool_range_stats stats;
    pool_range_block block, found;
    pool_range_cursor cursor = {0, 0};
    pool_range_error error;
    uint64_t end = 0, seen = 0;
    CHECK(pool_range_verify(range, NULL) == 0);
    count();
    CHECK(pool_range_get_stats(range, &stats) == 0);
    CHECK(stats.capacity_bytes == GRANULES * GRANULE);
    CHECK(stats.live_bytes == taken_granules * GRANULE && stats.live_blocks == live_blocks);
    CHECK(stats.free_bytes + stats.live_bytes == stats.capacity_bytes);
    CHECK(stats.peak_live_bytes >= stats.live_bytes && stats.entries <= stats.all_entries);
    if (!has_spans && !is_buddy) CHECK(stats.largest_free_bytes == longest_run * GRANULE);
    while ((error = pool_range_next(range, &cursor, &block)) == 0) {
        CHECK(block.offset_bytes == end && block.size_bytes > 0);
        end += block.size_bytes;
        CHECK(cursor.offset_bytes == end);
        for (uint64_t at = block.offset_bytes / GRANULE; at < end / GRANULE; at++) {
            CHECK(taken[at] == (block.handle != 0));
        }
        error = pool_range_get_block_at(range, end - 1, &found);
        if (block.handle == 0) {
            CHECK(error == POOL_RANGE_ERROR_NO_BLOCK);
            continue;
        }
        seen++;
        CHECK(error == 0 && equal(&found, &block));
        CHECK(pool_range_get_block(range, block.handle, &found) == 0 && equal(&found, &block));
    }
    CHECK(error == POOL_RANGE_ERROR_NO_BLOCK && end == GRANULES * GRANULE && seen == live_blocks);
    CHECK(pool_range_get_block_at(range, end, &found) == POOL_RANGE_ERROR_NO_BLOCK);
    CHECK(pool_range_get_block_at(range, UINT64_MAX, &found) == POOL_RANGE_ERROR_NO_BLOCK);
}

/* A handle that names no block of the range, which is an error for all that take one. */
static void misuse(pool_range *range, uint64_t handle) {
    pool_range_block block = {1, 2, 3}, same = block;
    pool_range_error error = pool_range_free(range, handle);
    CHECK(error == POOL_RANGE_ERROR_STALE_HANDLE || error == POOL_RANGE_ERROR_FOREIGN_HANDLE);
    CHECK(pool_range_get_block(range, handle, &block) == error);
    CHECK(pool_range_resize(range, handle, 1, &block) == error);
    CHECK(equal(&block, &same));
}

static void allocate(pool_range *range, int number, int has_spans, int is_buddy) {
    pool_range_request request = {0};
    pool_range_block block;
    uint64_t granules, align = 1;
    pool_range_error error, fits;
    request.size_bytes = 1 + below(below(2) ? 8 * GRANULE : 100 * GRANULE);
    granules = (request.size_bytes + GRANULE - 1) / GRANULE;
    if (is_buddy) {
        while (align < granules) align *= 2;
        granules = align;
    }
    if (below(4) == 0) {
        request.align_bytes = (uint64_t)GRANULE << below(5);
        if (request.align_bytes / GRANULE > align) align = request.align_bytes / GRANULE;
    }
    if (below(4) == 0) request.options |= POOL_RANGE_HIGH_END;
    if (below(4) == 0) request.options |= POOL_RANGE_OUTSIDE_SPANS;
    if (below(4) == 0) request.options |= POOL_RANGE_NO_NEW_SPAN;
    fits = pool_range_fits(range, &request);
    if (request.options == 0 && below(2)) {
        error = pool_range_allocate(range, request.size_bytes, request.align_bytes, &block);
    } else {
        error = pool_range_allocate_as(range, &request, &block);
    }
    if (error == 0) {
        CHECK(fits == 0 && block.handle != 0);
        CHECK(block.size_bytes >= request.size_bytes);
        CHECK(has_spans || block.size_bytes == granules * GRANULE);
        CHECK(request.align_bytes == 0 || block.offset_bytes % request.align_bytes == 0);
        fill(&block, 1);
        live[number] = block;
        return;
    }
    CHECK(error == POOL_RANGE_ERROR_OUT_OF_MEMORY && fits == error);
    /* What is free in a row is a free block, but for spans; over-aligned, one with room to spare is. */
    if (!has_spans) CHECK(!has_room(is_buddy ? granules : granules + align - 1, is_buddy ? align : 1));
}

static void resize(pool_range *range, pool_range_block *block) {
    pool_range_block resized;
    uint64_t size_bytes = 1 + below(100 * GRANULE);
    pool_range_error error = pool_range_resize(range, block->handle, size_bytes, below(2) ? &resized : NULL);
    if (error != 0) {
        CHECK(error == POOL_RANGE_ERROR_NO_ROOM && size_bytes > block->size_bytes);
        return;
    }
    CHECK(pool_range_get_block(range, block->handle, &resized) == 0);
    CHECK(resized.offset_bytes == block->offset_bytes && resized.size_bytes >= size_bytes);
    fill(block, 0);
    fill(&resized, 1);
    *block = resized;
}

/* Any operations under a placement, with spans and without. */
static void operate(uint32_t placement, uint32_t spans) {
    pool_range_config config = {0};
    pool_range *range = NULL;
    pool_range_block block;
    size_t storage_bytes;
    int is_buddy = placement == POOL_RANGE_PLACEMENT_BUDDY;
    config.capacity_bytes = GRANULES * GRANULE + 1;
    config.granule_bytes = GRANULE;
    config.placement = placement;
    config.spans = spans;
    config.span_bytes = 128 * GRANULE;
    CHECK(pool_range_storage_bytes(&config, BLOCKS, &storage_bytes) == 0);
    CHECK(storage_bytes <= sizeof storage);
    if (!is_buddy && spans == 0) CHECK(storage_bytes == POOL_RANGE_STORAGE_BYTES(BLOCKS));
    for (size_t at = 0; at < sizeof storage; at++) storage[at] = (unsigned char)below(256);
    CHECK(pool_range_create(&config, storage, storage_bytes, &range) == 0);
    CHECK((void *)range == (void *)storage);
    compare(range, spans != 0, is_buddy);
    for (int step = 0; step < STEPS; step++) {
        int number = (int)below(BLOCKS);
        if (live[number].handle == 0) {
            allocate(range, number, spans != 0, is_buddy);
        } else if (below(3) == 0) {
            resize(range, &live[number]);
        } else {
            uint64_t handle = live[number].handle;
            CHECK(pool_range_free(range, handle) == 0);
            fill(&live[number], 0);
            live[number].handle = 0;
            misuse(range, handle);
            misuse(range, 0);
            misuse(range, ~handle);
            misuse(range, (uint64_t)(below(1 << 24) + 1) << 40 | below(1 << 24));
        }
        if (step % 64 == 0) compare(range, spans != 0, is_buddy);
    }
    for (int number = 0; number < BLOCKS; number++) {
        if (live[number].handle == 0) continue;
        CHECK(pool_range_free(range, live[number].handle) == 0);
        fill(&live[number], 0);
        live[number].handle = 0;
    }
    compare(range, spans != 0, is_buddy);
    CHECK(pool_range_allocate(range, GRANULES * GRANULE, 0, &block) == 0 && block.offset_bytes == 0);
    CHECK(pool_range_end(range) == 0);
    CHECK(pool_range_end(range) == POOL_RANGE_ERROR_NO_RANGE);
    CHECK(pool_range_free(range, block.handle) == POOL_RANGE_ERROR_NO_RANGE);
    /* What lies behind the storage is as it was. */
    for (size_t at = storage_bytes; at < sizeof storage; at++) storage[at] = 0xa5;
    CHECK(pool_range_create(&config, storage, storage_bytes, &range) == 0);
    while (pool_range_allocate(range, 1, 0, &block) == 0) continue;
    for (size_t at = storage_bytes; at < sizeof storage; at++) CHECK(storage[at] == 0xa5);
}

/* Storage for a few blocks: full, it refuses more, and changes nothing. */
static void fill_storage(uint32_t placement) {
    pool_range_config config = {0};
    pool_range_stats before, after;
    pool_range *range;
    pool_range_block blocks[64], block;
    size_t storage_bytes;
    int number = 0;
    pool_range_error error;
    config.capacity_bytes = 1 << 20;
    config.placement = placement;
    CHECK(pool_range_storage_bytes(&config, 4, &storage_bytes) == 0);
    CHECK(pool_range_create(&config, other_storage, sizeof other_storage, &range) == 0 || placement == 2);
    CHECK(pool_range_create(&config, storage, storage_bytes, &range) == 0);
    /* Blocks with holes between them take most. */
    while ((error = pool_range_allocate(range, 1, 0, &blocks[number])) == 0 && number < 63) number++;
    CHECK(error == POOL_RANGE_ERROR_OUT_OF_STORAGE && number >= 4);
    for (int at = 0; at < number; at += 2) CHECK(pool_range_free(range, blocks[at].handle) == 0);
    for (int at = 1; at < number; at += 2) CHECK(pool_range_get_block(range, blocks[at].handle, &block) == 0);
    do {
        CHECK(pool_range_get_stats(range, &before) == 0);
        error = pool_range_allocate(range, 300, 4096, &block);
    } while (error == 0);
    CHECK(error == POOL_RANGE_ERROR_OUT_OF_STORAGE);
    CHECK(pool_range_get_stats(range, &after) == 0);
    CHECK(before.live_bytes == after.live_bytes && before.entries == after.entries);
    CHECK(before.largest_free_bytes == after.largest_free_bytes);
    CHECK(pool_range_verify(range, NULL) == 0);
    CHECK(pool_range_free(range, blocks[1].handle) == 0);
    CHECK(pool_range_allocate(range, 1, 0, &block) == 0);
    CHECK(pool_range_verify(range, NULL) == 0);
}

/* What is wrong is an error of its own. */
static void refuse(void) {
    pool_range_config good = {0}, config;
    pool_range *range = NULL;
    pool_range_block block;
    pool_range_stats stats;
    pool_range_cursor cursor = {0, 0};
    pool_range_request request = {0};
    size_t bytes = 0;
    good.capacity_bytes = 1 << 20;
#define REFUSED(field, value, error)                                                     \
    config = good;                                                                       \
    config.field = value;                                                                \
    CHECK(pool_range_create(&config, storage, sizeof storage, &range) == error && !range); \
    CHECK(pool_range_storage_bytes(&config, 1, &bytes) == error && bytes == 0)
    REFUSED(capacity_bytes, 255, POOL_RANGE_ERROR_CAPACITY);
    REFUSED(capacity_bytes, UINT64_MAX, POOL_RANGE_ERROR_CAPACITY);
    REFUSED(granule_bytes, 8, POOL_RANGE_ERROR_GRANULE);
    REFUSED(granule_bytes, 48, POOL_RANGE_ERROR_GRANULE);
    REFUSED(placement, 3, POOL_RANGE_ERROR_PLACEMENT);
    REFUSED(tolerance_percent, 101, POOL_RANGE_ERROR_TOLERANCE);
    REFUSED(tolerance_percent, 256, POOL_RANGE_ERROR_TOLERANCE);
    REFUSED(lock.take, (void (*)(void *))(size_t)1, POOL_RANGE_ERROR_LOCK);
    good.spans = 1;
    REFUSED(span_bytes, 100, POOL_RANGE_ERROR_SPANS);
    good.spans = 0;

    CHECK(pool_range_storage_bytes(NULL, 1, &bytes) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_storage_bytes(&good, 1, NULL) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_create(NULL, storage, sizeof storage, &range) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_create(&good, NULL, sizeof storage, &range) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_create(&good, storage, sizeof storage, NULL) == POOL_RANGE_ERROR_POINTER);
    for (int off = 1; off < 32; off++) {
        CHECK(pool_range_create(&good, storage + off, 10000, &range) == POOL_RANGE_ERROR_STORAGE_ALIGNMENT);
    }
    for (size_t size = 0; size < POOL_RANGE_STORAGE_BYTES(0); size++) {
        CHECK(pool_range_create(&good, storage, size, &range) == POOL_RANGE_ERROR_STORAGE_SIZE);
    }
    CHECK(range == NULL);
    for (size_t at = 0; at < sizeof storage; at++) storage[at] = 0;
    CHECK(pool_range_verify((pool_range *)(void *)storage, NULL) == POOL_RANGE_ERROR_NO_RANGE);

    CHECK(pool_range_create(&good, storage, POOL_RANGE_STORAGE_BYTES(0), &range) == 0);
    CHECK(pool_range_allocate(range, 1 << 20, 0, &block) == 0);
    CHECK(pool_range_free(range, block.handle) == 0);
    CHECK(pool_range_allocate(range, 1, 0, &block) == POOL_RANGE_ERROR_OUT_OF_STORAGE);

    CHECK(pool_range_create(&good, storage, sizeof storage, &range) == 0);
    CHECK(pool_range_allocate(range, 0, 0, &block) == POOL_RANGE_ERROR_ZERO_SIZE);
    CHECK(pool_range_allocate(range, 1, 3, &block) == POOL_RANGE_ERROR_ALIGNMENT);
    CHECK(pool_range_allocate(range, UINT64_MAX, 0, &block) == POOL_RANGE_ERROR_TOO_LARGE);
    CHECK(pool_range_allocate(range, UINT64_MAX - 255, UINT64_C(1) << 63, &block) == POOL_RANGE_ERROR_TOO_LARGE);
    CHECK(pool_range_allocate(range, (1 << 20) + 1, 0, &block) == POOL_RANGE_ERROR_TOO_LARGE);
    CHECK(pool_range_allocate(range, 1, 0, NULL) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_allocate(range, 1, 0, (pool_range_block *)(void *)((char *)&block + 1)) ==
          POOL_RANGE_ERROR_POINTER);
    request.size_bytes = 1;
    request.options = 16;
    CHECK(pool_range_allocate_as(range, &request, &block) == POOL_RANGE_ERROR_OPTIONS);
    request.options = UINT32_C(1) << 31;
    CHECK(pool_range_allocate_as(range, &request, &block) == POOL_RANGE_ERROR_OPTIONS);
    request.options = 0;
    request.reserved = 1;
    CHECK(pool_range_fits(range, &request) == POOL_RANGE_ERROR_OPTIONS);
    CHECK(pool_range_allocate_as(range, NULL, &block) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_fits(range, NULL) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_get_stats(range, NULL) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_next(range, NULL, &block) == POOL_RANGE_ERROR_POINTER);
    CHECK(pool_range_next(range, &cursor, NULL) == POOL_RANGE_ERROR_POINTER && cursor.offset_bytes == 0);
    CHECK(pool_range_get_stats(range, &stats) == 0 && stats.live_blocks == 0 && stats.entries == 1);

    /* A free block that is longer than the limit serves only whole. */
    request.reserved = 0;
    request.options = POOL_RANGE_LIMIT_SPLIT;
    request.split_limit_bytes = 1 << 16;
    CHECK(pool_range_fits(range, &request) == POOL_RANGE_ERROR_OUT_OF_MEMORY);
    request.size_bytes = 1 << 20;
    CHECK(pool_range_allocate_as(range, &request, &block) == 0);
    CHECK(pool_range_resize(range, block.handle, 0, NULL) == POOL_RANGE_ERROR_ZERO_SIZE);
    CHECK(pool_range_resize(range, block.handle, (1 << 20) + 1, NULL) == POOL_RANGE_ERROR_NO_ROOM);
    CHECK(pool_range_resize(range, block.handle, UINT64_MAX, NULL) == POOL_RANGE_ERROR_NO_ROOM);

    /* Another range's handle, with seeds apart; no range, and one that was moved. */
    good.handle_seed = 7;
    CHECK(pool_range_create(&good, other_storage, sizeof other_storage, &range) == 0);
    misuse(range, block.handle);
    CHECK(pool_range_allocate(range, 1, 0, &block) == 0);
    misuse((pool_range *)(void *)storage, block.handle);
    for (size_t at = 0; at < sizeof other_storage; at++) storage[at] = other_storage[at];
    range = (pool_range *)(void *)storage;
    CHECK(pool_range_free(range, block.handle) == POOL_RANGE_ERROR_NO_RANGE);
    CHECK(pool_range_free(NULL, block.handle) == POOL_RANGE_ERROR_POINTER);
    range = (pool_range *)(void *)(other_storage + 1);
    CHECK(pool_range_free(range, block.handle) == POOL_RANGE_ERROR_POINTER);
    range = (pool_range *)(void *)(other_storage + 32);
    CHECK(pool_range_free(range, block.handle) == POOL_RANGE_ERROR_NO_RANGE);
    CHECK(pool_range_error_text(-1) != NULL && pool_range_error_text(0)[0] == 's');
    CHECK(pool_core_version() == POOL_CORE_VERSION);
}

/* The lock is taken and given back once by each call, also by one that fails. */
static int held, takes, gives;

static void take(void *context) {
    CHECK(context == &held && !held);
    held = 1;
    takes++;
}

static void give(void *context) {
    CHECK(context == &held && held);
    held = 0;
    gives++;
}

static void lock(void) {
    pool_range_config config = {0};
    pool_range *range;
    pool_range_block block;
    pool_range_request request = {0};
    pool_range_stats stats;
    pool_range_cursor cursor = {0, 0};
    int calls = 0;
    config.capacity_bytes = 1 << 20;
    config.lock.take = take;
    config.lock.give = give;
    config.lock.context = &held;
    CHECK(pool_range_create(&config, storage, sizeof storage, &range) == 0 && takes == 0);
#define LOCKED(call)                                           \
    call;                                                      \
    calls++;                                                   \
    CHECK(takes == calls && gives == calls && !held)
    LOCKED(CHECK(pool_range_allocate(range, 1, 0, &block) == 0));
    LOCKED(CHECK(pool_range_allocate(range, 0, 0, &block) != 0));
    LOCKED(CHECK(pool_range_allocate(range, 1, 0, NULL) != 0));
    LOCKED(CHECK(pool_range_allocate_as(range, &request, &block) != 0));
    LOCKED(CHECK(pool_range_allocate_as(range, NULL, &block) != 0));
    LOCKED(CHECK(pool_range_resize(range, block.handle, 1000, NULL) == 0));
    LOCKED(CHECK(pool_range_resize(range, 0, 1000, NULL) != 0));
    LOCKED(CHECK(pool_range_fits(range, &request) != 0));
    LOCKED(CHECK(pool_range_get_block(range, block.handle, &block) == 0));
    LOCKED(CHECK(pool_range_get_block_at(range, 0, &block) == 0));
    LOCKED(CHECK(pool_range_next(range, &cursor, &block) == 0));
    LOCKED(CHECK(pool_range_get_stats(range, &stats) == 0));
    LOCKED(CHECK(pool_range_verify(range, NULL) == 0));
    LOCKED(CHECK(pool_range_free(range, block.handle) == 0));
    LOCKED(CHECK(pool_range_free(range, block.handle) != 0));
    LOCKED(CHECK(pool_range_end(range) == 0));
    CHECK(pool_range_end(range) == POOL_RANGE_ERROR_NO_RANGE && takes == calls);
}

void run_tests(void) {
    for (uint32_t placement = 0; placement < 3; placement++) {
        operate(placement, 0);
        fill_storage(placement);
    }
    operate(POOL_RANGE_PLACEMENT_BEST_FIT, 8);
    operate(POOL_RANGE_PLACEMENT_BEST_FIT, 2);
    refuse();
    lock();
}
