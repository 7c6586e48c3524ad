/* Forks and ends of processes; the argument says which. */
#include "program.h"
#include <pthread.h>
#include <signal.h>

static int wait_for(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void use_once(void) {
    Address block, other;
    OK(cuMemAlloc(&block, MIB));
    OK(cuMemAllocAsync(&other, 5000, NULL));
    fill(block, 1, MIB, NULL);
    check_bytes(block, 1, MIB);
    OK(cuMemFree(block));
    OK(cuMemFreeAsync(other, NULL));
}

static volatile int stop;

/* Holds whatever it holds when the process is forked. */
static void *churn(void *unused) {
    Address block;
    OK(cuCtxSetCurrent(context));
    while (!stop) {
        OK(cuMemAlloc(&block, 300000));
        OK(cuMemFree(block));
        OK(cuMemAllocAsync(&block, 3 * MIB, NULL));
        OK(cuMemFreeAsync(block, NULL));
    }
    return unused;
}

static Address kept[2];

static void free_late(void) {
    /* Before the driver ends this succeeds, and afterwards it says so. */
    int code = cuMemFree(kept[0]);
    if (code != 0 && code != 4) _exit(9);
    code = cuMemFreeAsync(kept[1], NULL);
    if (code != 0 && code != 4) _exit(9);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (!strcmp(argv[1], "exit")) atexit(free_late);
    if (!strcmp(argv[1], "first")) {
        /* The child has a driver, and the parent none yet. */
        pid_t child = fork();
        if (!child) {
            begin(0);
            use_once();
            size_t before = calls();
            use_once();
            CHECK((calls() == before) == is_preloaded());
            exit(0);
        }
        CHECK(wait_for(child) == 0);
        begin(0);
        use_once();
        return end();
    }
    begin(0);
    use_once();
    if (!strcmp(argv[1], "fork")) {
        pthread_t threads[2];
        Address block;
        OK(cuMemAlloc(&block, 3 * MIB));
        for (int i = 0; i < 2; i++) OK(pthread_create(&threads[i], NULL, churn, NULL));
        for (int i = 0; i < 10; i++) {
            pid_t child = fork();
            if (!child) {
                /* A child has no driver, and is told so, by the driver. */
                Address own;
                size_t free_bytes, total;
                int codes[] = {cuMemAlloc(&own, 4096), cuMemAllocAsync(&own, 4096, NULL), cuMemFree(block),
                               cuMemFreeAsync(block, NULL), cuMemGetInfo(&free_bytes, &total)};
                for (int j = 0; j < 5; j++) if (codes[j] != 3) _exit(10 + j);
                if (i % 2) exit(0);
                _exit(0);
            }
            CHECK(wait_for(child) == 0);
        }
        stop = 1;
        for (int i = 0; i < 2; i++) OK(pthread_join(threads[i], NULL));
        OK(cuMemFree(block));
        return end();
    }
    OK(cuMemAlloc(&kept[0], 5 * MIB));
    OK(cuMemAllocAsync(&kept[1], 5000, NULL));
    fill(kept[0], 1, 5 * MIB, NULL);
    if (!strcmp(argv[1], "kill")) {
        pid_t child = fork();
        if (!child) {
            execl(argv[0], argv[0], "killed", NULL);
            _exit(1);
        }
        CHECK(WTERMSIG(wait_for(child)) == SIGKILL);
    }
    if (!strcmp(argv[1], "killed")) raise(SIGKILL);
    if (!strcmp(argv[1], "reset")) {
        /* All that is in the context is gone, and the program goes on. */
        int (*reset)(int) = find("cuDevicePrimaryCtxReset_v2"), device;
        OK(cuDeviceGet(&device, 0));
        OK(reset(device));
        size_t before = count("cuMemAlloc_v2");
        Address block;
        OK(cuMemAlloc(&block, 4096));
        OK(cuMemFree(block));
        CHECK(count("cuMemAlloc_v2") == before + 1);
        if (is_preloaded()) CHECK(cuMemFree(kept[0]) == 1);
    }
    return end();
}
