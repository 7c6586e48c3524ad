/*
 * The tests as a program of an operating system.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

void fail(int line, const char *condition) {
    fprintf(stderr, "line %d: %s\n", line, condition);
    exit(1);
}

int main(void) {
    run_tests();
    puts("all is well");
    return 0;
}
