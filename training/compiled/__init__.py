"""Gradient steps, perceptrons and recurrent units as native code for the CPU.

PyTorch owns parameters and optimizer state: native code reads and writes their memory. ``simd`` and ``matrix`` emit
LLVM code, of which ``network``, ``units`` and ``heads`` are made. From these, ``gradient`` emits the gradient of a
minibatch with the losses of ``policy_gradient``, ``recurrent_policy``, ``action_values`` and ``actor_critic``, and
``update`` the gradient step; ``program`` compiles and caches them. ``plan`` reads a model, ``learn`` and ``off_policy``
run updates, and ``perceptron`` and ``recurrence`` are operators of PyTorch. Models and algorithms without a plan run in
PyTorch.
"""
