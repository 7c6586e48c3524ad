// What CuPy calls. It takes null as success, so a refusal has to be thrown: here, after the library's function
// has returned.

#include <cstddef>
#include <cstdio>
#include <new>
#include <string>

#include "pool_cuda.h"

namespace {

// Python sees a MemoryError with this text.
class Refusal final : public std::bad_alloc {
  public:
    explicit Refusal(std::string text) : text_(std::move(text)) {}
    const char *what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

}  // namespace

// No stream is named, neither here nor at the free: nothing that is queued still uses the memory.
extern "C" void *pool_shim_cupy_malloc(void *, size_t size, int device) {
    void *block = nullptr;
    if (poolMalloc(&block, size) != 0)
        throw Refusal("pool-cuda: " + std::to_string(size) + " bytes on device " + std::to_string(device) + ": " +
                      poolLastErrorMessage());
    return block;
}

// The block serves again behind all work of its device.
extern "C" void pool_shim_cupy_free(void *, void *block, int) {
    if (poolFree(block) != 0) std::fprintf(stderr, "pool-cuda: a block was not freed: %s\n", poolLastErrorMessage());
}
