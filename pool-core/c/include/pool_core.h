/*
 * One range of offsets: which part of some memory is whose, kept outside that memory.
 *
 * The memory itself is never touched, so it may be anything that has addresses from 0 on: the SDRAM behind a
 * controller, a DSP's own memory, a buffer that is shared with another processor, sectors of a flash. The
 * program adds the offsets to its start. What is known of the blocks is in storage that the program lends, in
 * one piece, once: there is no heap, no operating system and no other state than a pointer (of
 * pool_core_on_panic).
 *
 * STORAGE. pool_range_storage_bytes says how much is enough for so many live blocks; for best fit and first
 * fit without spans, POOL_RANGE_STORAGE_BYTES(blocks) is the same as a constant. It is aligned to
 * POOL_RANGE_STORAGE_ALIGN, and stays where it is as long as the range is used.
 *
 * HANDLES. A block has a number that is never 0. A freed block's handle is an error wherever it is used (until
 * 2^31 more blocks were given out), so a double free is none; give each range a handle_seed of its own, and
 * another range's handle is one, too.
 *
 * ERRORS. Each function answers a pool_range_error, which is 0 for success, and has changed nothing when it is
 * another. Null pointers, misaligned ones, wrong handles, numbers out of range and storage that holds no range
 * are errors. Not noticed is a pointer that leads nowhere, and storage that others write to, though
 * pool_range_verify finds most of that.
 *
 * LOCKS AND INTERRUPTS. A range is used by one call at a time. The lock in its configuration, two functions,
 * sees to it; each call takes it once, and calls none of the program's functions in between. Without
 * a lock, a call that comes from an interrupt into another on the same core answers POOL_RANGE_ERROR_BUSY and
 * changes nothing. Between cores only a lock will do.
 *
 * TIME. Best fit: an allocation and a free take steps by the number of bits of a size, not of
 * blocks. First fit and buddy: by the bits of an offset. Functions that take longer say so.
 *
 * SYMBOLS. The program provides what a C compiler expects of any program: memcpy, memmove, memset and memcmp.
 * The library needs nothing else: no libc, no libgcc, no atomics.
 */


#ifndef POOL_CORE_H
#define POOL_CORE_H

#include <stddef.h>
#include <stdint.h>
/**
 * Storage for so many live blocks, wherever they lie, under best fit without spans, and first fit.
 */
#define POOL_RANGE_STORAGE_BYTES(blocks) \
    (POOL_RANGE_HEAD_BYTES + POOL_RANGE_ENTRY_BYTES * (2 * (size_t)(blocks) + 1))


/**
 * What a range's storage is aligned to.
 */
#define POOL_RANGE_STORAGE_ALIGN 32

/**
 * The bytes at the head of a range's storage, before its first entry.
 */
#define POOL_RANGE_HEAD_BYTES 6336

/**
 * The bytes of an entry, which describes a block, a free block or a span.
 */
#define POOL_RANGE_ENTRY_BYTES 32

/**
 * Take the high end of a free block instead of its low end. First fit also takes the highest
 * block that fits, buddy the upper half at each split.
 */
#define POOL_RANGE_HIGH_END 1

/**
 * Leave free blocks whole that are longer than the request's `split_limit_bytes`, unless they are
 * used up.
 */
#define POOL_RANGE_LIMIT_SPLIT 2

/**
 * Serve from outside spans, whatever the size.
 */
#define POOL_RANGE_OUTSIDE_SPANS 4

/**
 * Open no span for this request.
 */
#define POOL_RANGE_NO_NEW_SPAN 8

/**
 * The version of this header: a byte each for major, minor and patch.
 */
#define POOL_CORE_VERSION 256

/**
 * What the functions answer. Whatever is no success has changed nothing.
 */
enum pool_range_error
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Success.
     */
    POOL_RANGE_ERROR_NONE = 0,
    /**
     * A pointer is null that must not be, or not aligned to its type.
     */
    POOL_RANGE_ERROR_POINTER = 1,
    /**
     * The pointer is not that of a range: none was created there, it has ended, or its storage was
     * moved or overwritten.
     */
    POOL_RANGE_ERROR_NO_RANGE = 2,
    /**
     * A call on this range is under way: an interrupt came into it, or the lock does not lock.
     */
    POOL_RANGE_ERROR_BUSY = 3,
    /**
     * The lock has one function of two.
     */
    POOL_RANGE_ERROR_LOCK = 4,
    /**
     * The granule is not a power of two of at least 16 bytes.
     */
    POOL_RANGE_ERROR_GRANULE = 5,
    /**
     * The capacity is less than one granule, or more than 2^32 of them.
     */
    POOL_RANGE_ERROR_CAPACITY = 6,
    /**
     * There is no placement with this number.
     */
    POOL_RANGE_ERROR_PLACEMENT = 7,
    /**
     * A span is not a power of two from 64 to 4096 granules, or small requests are not from one
     * granule to half a span.
     */
    POOL_RANGE_ERROR_SPANS = 8,
    /**
     * The tolerance is over 100 percent.
     */
    POOL_RANGE_ERROR_TOLERANCE = 9,
    /**
     * The storage is not aligned to `POOL_RANGE_STORAGE_ALIGN` bytes.
     */
    POOL_RANGE_ERROR_STORAGE_ALIGNMENT = 10,
    /**
     * The storage is too small for even an empty range; or a machine's addresses are too few for
     * as much as was asked about.
     */
    POOL_RANGE_ERROR_STORAGE_SIZE = 11,
    /**
     * A size of zero.
     */
    POOL_RANGE_ERROR_ZERO_SIZE = 12,
    /**
     * The alignment is not a power of two.
     */
    POOL_RANGE_ERROR_ALIGNMENT = 13,
    /**
     * There is no such option.
     */
    POOL_RANGE_ERROR_OPTIONS = 14,
    /**
     * The size, or the size at that alignment, is larger than the whole range.
     */
    POOL_RANGE_ERROR_TOO_LARGE = 15,
    /**
     * No free block serves the request as things are.
     */
    POOL_RANGE_ERROR_OUT_OF_MEMORY = 16,
    /**
     * A free block serves it, but the storage is full: there are as many blocks as it has room
     * for.
     */
    POOL_RANGE_ERROR_OUT_OF_STORAGE = 17,
    /**
     * The handle never named a block of this range.
     */
    POOL_RANGE_ERROR_FOREIGN_HANDLE = 18,
    /**
     * The handle's block was freed.
     */
    POOL_RANGE_ERROR_STALE_HANDLE = 19,
    /**
     * The block cannot grow to that size where it lies.
     */
    POOL_RANGE_ERROR_NO_ROOM = 20,
    /**
     * The offset is in no live block, or the walk has come to the end of the range.
     */
    POOL_RANGE_ERROR_NO_BLOCK = 21,
    /**
     * The range is damaged: the program wrote into its storage, or the library has a fault.
     */
    POOL_RANGE_ERROR_DAMAGED = 22,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pool_range_error pool_range_error;
#else
typedef int32_t pool_range_error;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Which free block serves a request.
 */
enum pool_range_placement
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The smallest that fits. The default, and the least memory lost.
     */
    POOL_RANGE_PLACEMENT_BEST_FIT = 0,
    /**
     * The lowest that fits: long-lived blocks lie low, and the end of the range stays free.
     */
    POOL_RANGE_PLACEMENT_FIRST_FIT = 1,
    /**
     * Powers of two of granules that merge with their buddies: regular, at the cost of the
     * rounding.
     */
    POOL_RANGE_PLACEMENT_BUDDY = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pool_range_placement pool_range_placement;
#else
typedef uint32_t pool_range_placement;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A range in the caller's storage: at its start.
 */
typedef struct pool_range pool_range;

/**
 * The caller's lock, taken before each call on the range looks at it and given back at its end:
 * a mutex, a spin lock, or interrupts that are off meanwhile. Null functions: no lock.
 */
typedef struct pool_range_lock {
    /**
     * Takes the lock. It makes no call on this range.
     */
    void (*take)(void *context);
    /**
     * Gives it back.
     */
    void (*give)(void *context);
    /**
     * What both are told.
     */
    void *context;
} pool_range_lock;

/**
 * What a range is to be. All but the capacity may be zero.
 */
typedef struct pool_range_config {
    /**
     * Bytes of the memory that is managed, rounded down to a whole number of granules.
     */
    uint64_t capacity_bytes;
    /**
     * The unit of sizes and offsets, a power of two from 16 bytes. 0: 256.
     */
    uint64_t granule_bytes;
    /**
     * With spans, the size of one: a power of two from 64 to 4096 granules. 0: by the capacity,
     * where ranges below 2^14 granules have none.
     */
    uint64_t span_bytes;
    /**
     * With a `span_bytes` that is not 0, the largest size that comes from spans, at most half a
     * span. 0: a 16th of it.
     */
    uint64_t small_bytes;
    /**
     * A `pool_range_placement`. 0: best fit.
     */
    uint32_t placement;
    /**
     * Under best fit, how many spans can be open at a time: small blocks are cut from them, which
     * is faster and keeps them together, for some five bytes of storage for each of their
     * granules. 0: no spans.
     */
    uint32_t spans;
    /**
     * Set apart the handles of several ranges by giving each a number of its own.
     */
    uint32_t handle_seed;
    /**
     * How much longer than asked for a block may be, in hundredths, so that no crumbs are left
     * beside it. At most 100.
     */
    uint32_t tolerance_percent;
    /**
     * The caller's lock.
     */
    struct pool_range_lock lock;
} pool_range_config;

/**
 * A block: live, or free.
 */
typedef struct pool_range_block {
    /**
     * The name of a live block. 0: it is free.
     */
    uint64_t handle;
    /**
     * Where it lies: bytes from the start of the memory that is managed.
     */
    uint64_t offset_bytes;
    /**
     * How many bytes it has: what was asked for, rounded up.
     */
    uint64_t size_bytes;
} pool_range_block;

/**
 * A request for memory.
 */
typedef struct pool_range_request {
    /**
     * How many bytes, rounded up to granules.
     */
    uint64_t size_bytes;
    /**
     * The offset is a multiple of it: a power of two, or 0 for the granule's.
     */
    uint64_t align_bytes;
    /**
     * With `POOL_RANGE_LIMIT_SPLIT`: the longest free block that may be split.
     */
    uint64_t split_limit_bytes;
    /**
     * `POOL_RANGE_HIGH_END` and others, or 0.
     */
    uint32_t options;
    /**
     * Zero.
     */
    uint32_t reserved;
} pool_range_request;

/**
 * Where a walk over a range's blocks is. All zero: at the start.
 */
typedef struct pool_range_cursor {
    /**
     * Where it goes on.
     */
    uint64_t offset_bytes;
    /**
     * The library's: where it finds that faster.
     */
    uint64_t hint;
} pool_range_cursor;

/**
 * What a range has.
 */
typedef struct pool_range_stats {
    /**
     * Bytes that it manages.
     */
    uint64_t capacity_bytes;
    /**
     * Bytes of live blocks.
     */
    uint64_t live_bytes;
    /**
     * The most of them at once.
     */
    uint64_t peak_live_bytes;
    /**
     * Bytes that are free.
     */
    uint64_t free_bytes;
    /**
     * The largest request that would be served now, at the granule's alignment.
     */
    uint64_t largest_free_bytes;
    /**
     * Live blocks.
     */
    uint64_t live_blocks;
    /**
     * Of the storage, 32 bytes each: entries in use for blocks, free blocks and spans.
     */
    uint64_t entries;
    /**
     * How many there are.
     */
    uint64_t all_entries;
    /**
     * Spans that are open.
     */
    uint64_t spans;
} pool_range_stats;

/**
 * What is wrong with a range.
 */
typedef struct pool_range_damage {
    /**
     * What does not hold, in words: static, and not ended by a zero.
     */
    const char *what;
    /**
     * How many bytes of them.
     */
    size_t what_bytes;
    /**
     * The entry, granule or count that it was found at.
     */
    uint64_t at;
} pool_range_damage;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * How many bytes of storage are enough for so many live blocks, wherever they lie. A range works with less,
 * too, until it is full, and with more.
 */
pool_range_error pool_range_storage_bytes(const struct pool_range_config *config,
                                          uint32_t blocks,
                                          size_t *storage_bytes);

/**
 * Creates a range in storage, which it then is the start of. What the storage held does not matter; from now
 * on it is the range's, and stays where it is, until the range ends or is created anew.
 */
pool_range_error pool_range_create(const struct pool_range_config *config,
                                   void *storage,
                                   size_t storage_bytes,
                                   struct pool_range **range);

/**
 * Ends a range: its storage is the caller's again. Its blocks need not be freed.
 */
pool_range_error pool_range_end(struct pool_range *range);

/**
 * Gives out a block: `size_bytes` rounded up to granules (in spans and under buddy placement to a power of two
 * of them), at a multiple of `align_bytes`, a power of two or 0 for the granule's.
 */
pool_range_error pool_range_allocate(struct pool_range *range,
                                     uint64_t size_bytes,
                                     uint64_t align_bytes,
                                     struct pool_range_block *block);

/**
 * The same with all that can be asked for.
 */
pool_range_error pool_range_allocate_as(struct pool_range *range,
                                        const struct pool_range_request *request,
                                        struct pool_range_block *block);

/**
 * Frees a block. A handle that names no live block is an error that changes nothing.
 */
pool_range_error pool_range_free(struct pool_range *range, uint64_t block);

/**
 * Changes a block's size where it lies: its handle and offset stay. A shrink always succeeds, to no effect
 * where the storage is full; a growth does if what is behind the block is free. What the block then is goes
 * to `resized`, which may be null.
 */
pool_range_error pool_range_resize(struct pool_range *range,
                                   uint64_t block,
                                   uint64_t size_bytes,
                                   struct pool_range_block *resized);

/**
 * Whether a request would be served now, if the storage has room for it: out of memory if not.
 */
pool_range_error pool_range_fits(struct pool_range *range,
                                 const struct pool_range_request *request);

/**
 * The live block that a handle names.
 */
pool_range_error pool_range_get_block(struct pool_range *range,
                                      uint64_t block,
                                      struct pool_range_block *found);

/**
 * The live block that an offset lies in. Takes a step for each block before it.
 */
pool_range_error pool_range_get_block_at(struct pool_range *range,
                                         uint64_t offset_bytes,
                                         struct pool_range_block *found);

/**
 * The next block of a walk over all blocks, live and free, in the order of their offsets; no block at the end.
 * The range may change between two calls: the walk gives what is then where it goes on, which begins before
 * that if it has merged with what came before. It holds nothing and need not be ended.
 */
pool_range_error pool_range_next(struct pool_range *range,
                                 struct pool_range_cursor *cursor,
                                 struct pool_range_block *block);

/**
 * What a range has.
 */
pool_range_error pool_range_get_stats(struct pool_range *range, struct pool_range_stats *stats);

/**
 * Checks all that a range keeps: damaged if anything does not hold, and what goes to `damage`, which may be
 * null. Takes a step for each block, and for each granule of open spans.
 */
pool_range_error pool_range_verify(struct pool_range *range,
                                   struct pool_range_damage *damage);

/**
 * The version of the library: `POOL_CORE_VERSION` of the header that belongs to it.
 */
uint32_t pool_core_version(void);

/**
 * Names the function that is called where a call cannot go on, for its range's storage was
 * overwritten: it reports, and resets the machine or stops it, but does not come back. Null, as
 * at the start: an instruction that traps. Write the pointer before other threads make calls.
 */
void pool_core_on_panic(void (*halt)(void));

/**
 * An error in words, in static memory; of a number that is none too.
 */
const char *pool_range_error_text(int32_t error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* POOL_CORE_H */
