"""A hash of everything that an environment computes over many steps, to compare backends bit for bit."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from warpdrive.backends.interface import Backend
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.environment import Environment

ROLLOUT = 8


def state_hash(env: Environment, backend: str | Backend, replicas: int, num_steps: int, seed: int = 0) -> str:
    """Return the SHA-256 of all arrays after each step: state, rewards, observations, actions, random numbers.

    Actions are sampled on the device from random policy outputs, and recorded; episodes end and begin. Of zeros, which
    compare as equal, the sign is left out.

    Args:
        env: The environment.
        backend: The backend of its kernels.
        replicas: The number of replicas.
        num_steps: The number of steps over all replicas.
        seed: The seed of policy outputs, start states and random numbers.

    Returns:
        The hash, in hexadecimal.
    """
    wrapper = EnvWrapper(env, replicas, backend, seed, reset_pool_size=20)
    rollout, generator, found = wrapper.allocate_rollout(ROLLOUT), np.random.default_rng(seed), hashlib.sha256()
    for step in range(-(-num_steps // replicas)):
        if step % ROLLOUT == 0:
            rollout.begin()
        for tag in wrapper.policy_tags:
            outputs = generator.standard_normal(tuple(wrapper.logits(tag).shape), np.float32)
            wrapper.logits(tag).copy_(torch.from_numpy(outputs))
        wrapper.step_rollout(rollout)
        for name in sorted(wrapper.ctx.state_names):
            found.update(_bytes(wrapper.ctx[name]))
        for tag in wrapper.policy_tags:
            found.update(_bytes(rollout.of("log_probabilities", tag)[step % ROLLOUT]))
    wrapper.close()
    return found.hexdigest()


def _bytes(tensor: Any) -> bytes:
    array = tensor.cpu().numpy()
    return np.ascontiguousarray(array + 0 if array.dtype.kind == "f" else array).tobytes()
