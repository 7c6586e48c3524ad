/* A kernel of one device that writes another's memory, which the one context has opened to the other. */
#include "program.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    begin(0);
    int (*cuCtxEnablePeerAccess)(Handle, unsigned) = find("cuCtxEnablePeerAccess");
    int (*cuModuleLoadData)(Handle *, const void *) = find("cuModuleLoadData");
    int (*cuModuleGetFunction)(Handle *, Handle, const char *) = find("cuModuleGetFunction");
    int (*cuLaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                          void **, void **) = find("cuLaunchKernel");
    static char text[1 << 20];
    FILE *file = fopen(argv[1], "rb");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);

    Handle first = context, module, mark;
    Address early, late_one;
    OK(cuMemAlloc(&early, MIB));
    begin(1);
    OK(cuModuleLoadData(&module, text));
    OK(cuModuleGetFunction(&mark, module, "pool_mark"));
    OK(cuCtxEnablePeerAccess(first, 0));
    CHECK(cuCtxEnablePeerAccess(first, 0) == 704);
    /* What is there, and what comes later. */
    OK(cuCtxSetCurrent(first));
    OK(cuMemAlloc(&late_one, 100 * MIB));
    OK(cuCtxSetCurrent(context));
    Address blocks[] = {early, late_one};
    for (int i = 0; i < 2; i++) {
        size_t bytes = MIB;
        unsigned char value = (unsigned char)(i + 1);
        uint64_t last = 0;
        void *arguments[] = {&blocks[i], &bytes, &value, &last};
        OK(cuLaunchKernel(mark, 32, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
        OK(cuCtxSynchronize());
        check_bytes(blocks[i], value, bytes);
        OK(cuMemFree(blocks[i]));
    }
    return end();
}
