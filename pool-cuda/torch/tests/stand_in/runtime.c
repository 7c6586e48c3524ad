/* Stands in for three functions of the CUDA runtime, which does not start over the simulated driver: one device, which
 * is current. */

int cudaGetDevice(int *device) {
    *device = 0;
    return 0;
}

int cudaSetDevice(int device) { return device != 0; }

int cudaGetDeviceCount(int *count) {
    *count = 1;
    return 0;
}
