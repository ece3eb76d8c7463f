"""Gradient steps and perceptrons as native code for the CPU.

PyTorch owns parameters and optimizer state: native code reads and writes their memory. ``simd`` and ``matrix`` emit
LLVM code, of which ``network``, ``heads`` and ``update`` are made; ``program`` compiles and caches it. ``plan`` reads a
model, ``learn`` runs the update, and ``perceptron`` is an operator of PyTorch. What has no plan is left to PyTorch.
"""
