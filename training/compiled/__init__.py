"""Updates and forward passes as native code for the CPU.

PyTorch owns parameters and optimizer state: native code reads and writes their memory. ``simd`` and ``matrix`` emit
LLVM code, ``network``, ``heads`` and ``update`` are made of them, ``program`` compiles and caches it, ``plan`` reads a
model, and ``learn`` runs the update. What has no plan is left to PyTorch.
"""
