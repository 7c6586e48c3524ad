/*
 * Runs the README's example. The memory that it manages is never touched, and need not be there.
 */
#include "check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sdram_start(void);
unsigned char *picture_new(uint32_t pixels, uint64_t *handle);
const char *picture_end(uint64_t handle);

void fail(int line, const char *condition) {
    fprintf(stderr, "line %d: %s\n", line, condition);
    exit(1);
}

int main(void) {
    uint64_t first, second, none = 0;
    unsigned char *picture;
    CHECK(sdram_start() == 0);
    picture = picture_new(640 * 480, &first);
    CHECK(picture == (unsigned char *)0xC0000000u);
    picture = picture_new(1, &second);
    CHECK(picture != NULL && (uintptr_t)picture % 1024 == 0 && first != second);
    CHECK(picture_new(8 << 20, &none) == NULL && none == 0);
    CHECK(picture_end(first) == NULL);
    CHECK(strcmp(picture_end(first), "the handle's block was freed") == 0);
    CHECK(picture_end(second) == NULL);
    puts("all is well");
    return 0;
}
