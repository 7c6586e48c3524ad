// Stands in for the CUDA runtime's header: what the shim uses of it.
#pragma once

typedef struct CUstream_st *cudaStream_t;
