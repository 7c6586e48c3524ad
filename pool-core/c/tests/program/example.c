/* 8 MiB of SDRAM at 0xC0000000, in blocks of any size: 100 of them at once at most. */
#include "pool_core.h"

#define SDRAM ((unsigned char *)0xC0000000u)

static _Alignas(POOL_RANGE_STORAGE_ALIGN) unsigned char storage[POOL_RANGE_STORAGE_BYTES(100)];
static pool_range *sdram;

int sdram_start(void) {
    pool_range_config config = {0}; /* best fit, without a lock */
    config.capacity_bytes = 8u << 20;
    config.granule_bytes = 64;
    return pool_range_create(&config, storage, sizeof storage, &sdram);
}

/* A picture of so many pixels, aligned as the DMA wants it; null if there is no room. */
unsigned char *picture_new(uint32_t pixels, uint64_t *handle) {
    pool_range_block block;
    if (pool_range_allocate(sdram, 4u * (uint64_t)pixels, 1024, &block) != 0) {
        return NULL;
    }
    *handle = block.handle;
    return SDRAM + block.offset_bytes;
}

/* Frees it; what is wrong with the handle, if anything is. */
const char *picture_end(uint64_t handle) {
    pool_range_error error = pool_range_free(sdram, handle);
    return error == 0 ? NULL : pool_range_error_text(error);
}
