/*
 * What the tests say and how they end: with an operating system and without.
 */
#ifndef CHECK_H
#define CHECK_H

/* Ends the program, which has failed. */
void fail(int line, const char *condition);

/* All tests. */
void run_tests(void);

#define CHECK(condition)                     \
    do {                                     \
        if (!(condition)) {                  \
            fail(__LINE__, #condition);      \
        }                                    \
    } while (0)

#endif
