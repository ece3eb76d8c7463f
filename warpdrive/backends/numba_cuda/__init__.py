"""The Numba CUDA backend: kernels compiled for GPUs by numba.cuda's compiler."""
