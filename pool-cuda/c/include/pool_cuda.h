/*
 * Stream-ordered memory of CUDA devices, from a pool of the library's own.
 *
 * What cudaMallocAsync, cudaFreeAsync, cudaMalloc and cudaFree do, with less time and less memory. The
 * functions answer a cudaError_t (0: success) and leave everything as it was when they answer another;
 * poolLastErrorMessage says why. Any thread may call any of them. The library finds the driver when it is first called: it links nothing of CUDA, and where
 * there is no driver the functions answer cudaErrorInsufficientDriver (35).
 *
 * Each device has one pool, made at its first use, in its primary context: the one that the runtime uses.
 *
 * A hit, which is memory that was freed on the stream before, makes no call of the driver; with several
 * devices, on the legacy default stream, it asks which context is current.
 *
 * STREAMS. `stream` is a cudaStream_t (or CUstream), which is a pointer, of a primary context: one that was created, 0 or
 * cudaStreamLegacy (1), the legacy default stream, or cudaStreamPerThread (2), the calling thread's own.
 * The library keeps a stream that it was given: before it is destroyed, poolStreamDestroyed must be
 * called. If that is forgotten, the library may make a call with a handle that names nothing, which ends
 * the process as any such call does; a handle that is a new stream's by then is noticed by its number
 * (with a driver of CUDA 12 or newer) when the driver has to be asked anyway, though not at a hit.
 *
 * CAPTURES. A stream is to be announced before it is captured, by poolBeginCapture. Memory that is then
 * given out on it, freed on it or used on it belongs to the graph until poolReleaseGraph. Calls on a stream
 * that is captured and was not announced answer cudaErrorStreamCaptureUnsupported (900), unless they are
 * hits: those are not noticed.
 *
 * CONFIGURATION. POOL_CONF=key:value,... in the environment, read at the first call: limit, initial,
 * all_but, step, cache and watermark take sizes (2GiB), pages and free_sync 0 or 1. With a key that there is
 * not, each call answers 1 (invalid value), and the message lists those that there are.
 *
 * FORKS AND EXITS. In a forked child of a process that used CUDA, the functions answer
 * cudaErrorInitializationError (3), and while the process exits, cudaErrorCudartUnloading (4), unless no call
 * of the driver is needed. What is live then is the driver's to take back.
 */


#ifndef POOL_CUDA_H
#define POOL_CUDA_H

#include <stddef.h>
#include <stdint.h>

/**
 * A device's figures. Bytes are those of blocks as they were given out: requests rounded up.
 */
typedef struct poolStats {
    /**
     * Held by the program, each block at the size that it was given.
     */
    size_t liveBytes;
    /**
     * The most of them at once: exact while one thread uses the device, else off by as many MiB for each
     * thread as there are threads, and by 4 at most.
     */
    size_t peakLiveBytes;
    /**
     * Taken from the device.
     */
    size_t reservedBytes;
    /**
     * The most of them at once.
     */
    size_t peakReservedBytes;
    /**
     * Freed, and waiting for work of the device.
     */
    size_t deferredBytes;
    /**
     * The most that may be taken from the device; 0: as much as there is.
     */
    size_t limitBytes;
    /**
     * Blocks given out.
     */
    uint64_t allocations;
    /**
     * Blocks freed.
     */
    uint64_t frees;
    /**
     * Of the allocations, those that memory at hand served at once.
     */
    uint64_t hits;
    /**
     * Times that more was taken from the device.
     */
    uint64_t growths;
    /**
     * Calls of `poolTrim` that succeeded.
     */
    uint64_t trims;
} poolStats;

/**
 * A device's figures, of which PyTorch's names are made. Bytes are those of blocks as they were given out.
 */
typedef struct poolTorchStats {
    /**
     * Held by the program.
     */
    uint64_t liveBytes;
    /**
     * The most of them at once.
     */
    uint64_t peakLiveBytes;
    /**
     * All that were ever given out.
     */
    uint64_t allocatedBytes;
    /**
     * All that were ever freed.
     */
    uint64_t freedBytes;
    /**
     * Blocks given out.
     */
    uint64_t allocations;
    /**
     * Blocks freed.
     */
    uint64_t frees;
    /**
     * Of the allocations, those that the stream's own memory served at once.
     */
    uint64_t hits;
    /**
     * Taken from the device.
     */
    uint64_t reservedBytes;
    /**
     * The most of them at once.
     */
    uint64_t peakReservedBytes;
    /**
     * Freed, and waiting for work of the device or for a graph.
     */
    uint64_t deferredBytes;
    /**
     * Blocks that wait.
     */
    uint64_t deferredBlocks;
    /**
     * Free.
     */
    uint64_t freeBytes;
    /**
     * In caches of threads.
     */
    uint64_t cachedBytes;
    /**
     * The most that may be taken from the device; 0: as much as there is.
     */
    uint64_t limitBytes;
    /**
     * What the device has.
     */
    uint64_t totalBytes;
    /**
     * Of that, what nobody has taken, in any process; 0 if the driver does not say.
     */
    uint64_t deviceFreeBytes;
    /**
     * Stretches of memory that were taken from the device, and are not back.
     */
    uint64_t arenas;
    /**
     * Times that more was taken from the device.
     */
    uint64_t growths;
    /**
     * Calls of the device that give memory.
     */
    uint64_t deviceAllocations;
    /**
     * Calls of the device that take it back.
     */
    uint64_t deviceFrees;
    /**
     * Times that the host waited for the device.
     */
    uint64_t hostWaits;
    /**
     * Requests that were refused for want of memory.
     */
    uint64_t refusals;
} poolTorchStats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Gives out memory of the stream's device, aligned to 256 bytes, that work queued on the stream from now
 * on may use. Work on other streams has to be ordered behind it by the program. Zero bytes are a null
 * pointer and no error.
 *
 * 1 (invalid value): devPtr is null. 2 (memory allocation): there is no such block, nor can one be made
 * within the limit and the device's memory. 201 (no such context): a default stream, and the current
 * context is not its device's primary one, which is not noticed at a hit. 400 (invalid handle): a stream
 * of such a context. 900: see
 * CAPTURES. Else the code of the call of the driver that failed. *devPtr is written at success alone.
 */
int poolMallocAsync(void **devPtr, size_t size, void *stream);

/**
 * Takes memory back, which serves again behind the work that is queued now on the stream and on the one
 * that it was given out on. The stream may be of another device. Work on any other stream that uses it
 * has to be ordered before by the program, or said by poolRecordStream. Null is no error, and nothing
 * happens.
 *
 * 1 (invalid value): no live block of the library's begins at devPtr; it was freed already, or is of
 * another allocator. Else as poolMallocAsync, and the block is live still.
 */
int poolFreeAsync(void *devPtr, void *stream);

/**
 * Says that work on a stream, what is queued now and what will be until the block is freed, uses a block: it
 * serves again behind that work too. The stream may be of another device.
 *
 * 1 (invalid value): no live block of the library's begins at devPtr. Else as poolMallocAsync.
 */
int poolRecordStream(void *devPtr, void *stream);

/**
 * Says that a stream is about to be destroyed, or that the library is not to keep it any more. Its free
 * memory serves others once its work so far is done. A stream that the library does not know is no error.
 *
 * 1 (invalid value): a default stream, which has no end. 900: the stream is announced as captured.
 */
int poolStreamDestroyed(void *stream);

/**
 * Says that a stream is about to be captured into a graph, to which the program gives a number of its
 * own. Until the capture's end is announced nothing is waited for on that device, and nothing goes back to
 * it. Captures with the same number share memory, so that their graphs must not run at once.
 *
 * 900: the stream is announced already.
 */
int poolBeginCapture(void *stream, uint64_t graph);

/**
 * Says that a capture has ended, well or not. 1: none was announced for the stream.
 */
int poolEndCapture(void *stream);

/**
 * Says that a graph of a device is launched no more: what is its own serves again once all work of the
 * device so far is done. 1: there is no such graph. 900: it is being captured.
 */
int poolReleaseGraph(int device, uint64_t graph);

/**
 * Sets the most bytes that the library takes from a device; 0: as many as there are. What it has beyond
 * that goes back as far as nothing uses it; the rest stays, and nothing more is taken. 101 (invalid
 * device): there is none with this number, which is the runtime's.
 */
int poolSetLimit(int device, size_t bytes);

/**
 * Gives memory back to a device that nothing uses, while more than `keep` bytes stay. No work of the
 * device is waited for: memory that it may still use stays.
 */
int poolTrim(int device, size_t keep);

/**
 * Starts a device's peaks anew from what is there now.
 */
int poolResetPeaks(int device);

/**
 * Writes a device's figures; all zero for one that was not used. 1: stats is null.
 */
int poolGetStats(int device, struct poolStats *stats);

/**
 * The code of the last of this thread's calls that failed; 0 if none has. It stays until another fails.
 */
int poolLastError(void);

/**
 * Why the last of this thread's calls that failed did: text for a person, of one line or several. Where
 * memory is short it says what was asked, what there is in which state, and what would help. It is valid
 * until another call of this thread fails; empty if none has.
 */
const char *poolLastErrorMessage(void);

/**
 * Gives out memory of the current device that work on any stream may use from now on, aligned to 256
 * bytes, as `cudaMalloc` does: nothing that is queued still uses it. Zero bytes are a null pointer and no
 * error. As with the runtime, the primary context of its current device is made current on a thread that
 * has none.
 *
 * 1 (invalid value): `devPtr` is null. 2 (memory allocation): there is no such block, nor can one be made
 * within the limit and the device's memory. 201 (no such context): the current context is not its
 * device's primary one. `*devPtr` is written at success alone.
 */
int poolMalloc(void **devPtr, size_t size);

/**
 * Takes memory back, as `cudaFree` does, whichever of the library's functions gave it out. It serves again
 * once all work of its device so far is done. That is not waited for, unless `POOL_CONF` has `free_sync:1`.
 * What is not the pool's is passed on to the runtime's `cudaFree`, or else to the driver. Null is no error.
 *
 * 1 (invalid value): no live block begins at `devPtr`.
 */
int poolFree(void *devPtr);

/**
 * Writes a device's figures; all zero for one that was not used. 1: `stats` is null. 101 (invalid device):
 * there is none with this number.
 */
int pool_torch_stats(int device, struct poolTorchStats *stats);

/**
 * Gives back to all devices what nothing uses.
 */
int pool_torch_empty_cache(void);

/**
 * Sets the most that is taken from a device, as a part of its memory: 1 is all of it. 1 (invalid value): the
 * fraction is not from 0 to 1.
 */
int pool_torch_set_fraction(double fraction, int device);

/**
 * Opens a pool, by a number of two parts that the program chooses, made if there is none: a stream is
 * about to be captured into a graph whose memory it is. Several graphs may share one, if they do not run at
 * once. Each call is one use, which `pool_torch_release_pool` gives back.
 */
int pool_torch_begin_pool(int device, uint64_t first, uint64_t second, void *stream);

/**
 * Closes a pool that was opened once more than closed: the capture of the stream is over, well or not. 1: it
 * is not open.
 */
int pool_torch_end_pool(int device, uint64_t first, uint64_t second, void *stream);

/**
 * Makes a pool if there is none, and counts one use more.
 */
int pool_torch_hold_pool(int device, uint64_t first, uint64_t second);

/**
 * Gives a use of a pool back. After the last one its graphs are launched no more: what is theirs serves
 * again once all work of the device so far is done. 1: there is no such pool.
 */
int pool_torch_release_pool(int device, uint64_t first, uint64_t second);

/**
 * How many uses of a pool there are; none of one that is not there.
 */
uint64_t pool_torch_pool_uses(int device, uint64_t first, uint64_t second);

/**
 * `pool_torch_allocate` for a program that takes null as success, as PyTorch does: where there is no
 * memory the process ends, and says why.
 */
void *pool_torch_malloc(size_t size, int device, void *stream);

/**
 * `pool_torch_release` for a program that takes no answer: what is not freed is said on the standard
 * error, with the size, which is not looked at otherwise.
 */
void pool_torch_free(void *ptr, size_t size, int device, void *stream);

/**
 * Gives out memory of a device that work queued on a stream of it may use, aligned to 256 bytes. Null where
 * there is none, and for zero bytes: `poolLastError` and `poolLastErrorMessage` say why.
 */
void *pool_torch_allocate(size_t size, int device, void *stream);

/**
 * The same for a stream whose memory is a pool's that is open, by the pool's number of two parts. If the
 * stream is captured, the memory is the graphs' that share the pool.
 */
void *pool_torch_allocate_in_pool(size_t size, int device, void *stream, uint64_t first, uint64_t second);

/**
 * Gives out a segment for an allocator that lends it to whichever stream it likes, as PyTorch's own does: nothing
 * that is queued still uses it. The stream is the one that the allocator works for: if it is captured, which
 * nobody need have announced, the capture stays whole. `poolFree` takes a segment back. Null as for
 * `pool_torch_allocate`.
 */
void *pool_torch_allocate_segment(size_t size, int device, void *stream);

/**
 * Takes memory back, behind the work that is queued now on a stream of the device and on those that were
 * noted for it. If nothing can be recorded in the stream, it is taken back behind all work of the device.
 * Null is no error.
 *
 * 1 (invalid value): no live block begins at `ptr`.
 */
int pool_torch_release(void *ptr, int device, void *stream);

/**
 * Says that work on a stream, of whichever device, uses a block until that is freed. A stream that is
 * neither a default one nor listed may be destroyed before: then all work of the device is waited for.
 *
 * 1 (invalid value): no live block begins at `ptr`. Null is no error.
 */
int pool_torch_record_stream(void *ptr, void *stream);

/**
 * Where the allocation begins that a block is, and its bytes: a block is one by itself. Null if none begins
 * at `ptr`.
 */
void *pool_torch_base(void *ptr, size_t *size);

/**
 * Says which streams of a device are never destroyed, as those of PyTorch's own pool: the library may keep
 * them. The default streams need not be listed. What was listed before stays so.
 *
 * 1 (invalid value): `streams` is null and `count` is not 0. 101 (invalid device).
 */
int pool_torch_list_streams(int device, void *const *streams, size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* POOL_CUDA_H */
