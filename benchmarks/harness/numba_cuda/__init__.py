"""Eight kernels of the field as programs of ``numba.cuda``, and the same computations by hand."""
