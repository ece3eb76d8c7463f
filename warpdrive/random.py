"""Counter-based random numbers for kernel functions, bitwise reproducible across backends.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The key is the seed of the run;
the counter is (global replica index, agent, number of draws so far, 0). A stream thus does not depend on the backend,
the number of replicas or processes, or the order of execution of threads.

The state ``rng`` is a uint32 array ``[num_envs, num_agents, 4]`` that holds, for each agent, the seed's low and high
word, the global replica index, and the number of draws so far. It exists if a kernel function has a parameter ``rng``.

The functions of ``numba.cuda.random`` (xoroshiro128+) can be used in kernels as well; :func:`xoroshiro128p_states`
creates their states without a GPU.

The sampler's draws are numbered from 2**31. Draws for a whole replica, such as that of its start state in the pool,
have the agent index of no agent.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import cuda

from warpdrive.errors import DefinitionError
from warpdrive.kernels.kernel import device_function
from warpdrive.polynomials import cosine_of_turns, minus_two_log

SAMPLER_FIRST_DRAW = 1 << 31
"""Index of the sampler's first draw, chosen such that its draws never coincide with an environment's."""

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_HALF_WORD = np.uint64(32)
_UNIFORM_SHIFT, _UNIFORM_STEP = np.uint32(8), np.float32(2.0**-24)
_ONE = np.uint32(1)
_ZERO = np.float32(0.0)
_NO_AGENT = np.uint32(0xFFFFFFFF)


def initial_rng(
    seed: int, first_env: int, num_envs: int, num_agents: int, first_draw: int = 0
) -> npt.NDArray[np.uint32]:
    """Return the initial random state of consecutive replicas.

    Args:
        seed: The seed of the run.
        first_env: The global index of the first replica.
        num_envs: The number of replicas.
        num_agents: The number of agents per replica.
        first_draw: The initial number of draws.

    Returns:
        uint32 ``[num_envs, num_agents, 4]``.

    Raises:
        DefinitionError: If the seed is outside of 0 to 2**64 - 1, or a global index outside of 0 to 2**32 - 1.
    """
    if not 0 <= seed < 1 << 64:
        raise DefinitionError(f"seed is {seed}: it must lie between 0 and 2**64 - 1")
    if not 0 <= first_env <= (1 << 32) - num_envs:
        raise DefinitionError(
            f"first_env is {first_env}: the global indices of {num_envs} replicas from there must lie between 0 and "
            "2**32 - 1"
        )
    state = np.empty((num_envs, num_agents, 4), np.uint32)
    state[..., 0], state[..., 1] = seed & 0xFFFFFFFF, seed >> 32
    state[..., 2] = np.arange(first_env, first_env + num_envs, dtype=np.int64)[:, None]
    state[..., 3] = first_draw
    return state


def xoroshiro128p_states(count: int, seed: int, subsequence_start: int = 0) -> npt.NDArray[np.void]:
    """Return the states of ``numba.cuda.random.create_xoroshiro128p_states`` as a NumPy array, without a GPU.

    Integers and uniform numbers drawn from them match those on a GPU bit for bit; normal ones match to the last digits
    of ``log`` and ``cos``.

    Args:
        count: The number of states.
        seed: The seed.
        subsequence_start: The number of subsequences of 2**64 draws skipped before the first state.

    Returns:
        An array ``[count]`` with the fields ``s0`` and ``s1`` (uint64). Each state is 2**64 draws ahead of the previous
        one.

    Raises:
        DefinitionError: If a number is negative or does not fit into 64 bits.
    """
    from numba.cuda.random import init_xoroshiro128p_states_cpu, xoroshiro128p_dtype

    for name, value in (("count", count), ("seed", seed), ("subsequence_start", subsequence_start)):
        if not 0 <= value < 1 << 64:
            raise DefinitionError(f"{name} is {value}: it must lie between 0 and 2**64 - 1")
    states = np.zeros(count, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(states, np.uint64(seed), np.uint64(subsequence_start))
    return states


@device_function
def philox4x32(counter_0, counter_1, counter_2, counter_3, key_0, key_1):  # type: ignore[no-untyped-def]
    """Return four random words (uint32) of Philox4x32-10 for a counter of four words and a key of two.

    Args:
        counter_0: First word (uint32) of the counter, the least significant.
        counter_1: Second word.
        counter_2: Third word.
        counter_3: Fourth word.
        key_0: First word (uint32) of the key.
        key_1: Second word.

    Returns:
        Four uint32.
    """
    for _ in range(10):
        product_0 = _MULTIPLIER_0 * np.uint64(counter_0)
        product_1 = _MULTIPLIER_1 * np.uint64(counter_2)
        counter_0 = np.uint32(product_1 >> _HALF_WORD) ^ counter_1 ^ key_0
        counter_1 = np.uint32(product_1)
        counter_2 = np.uint32(product_0 >> _HALF_WORD) ^ counter_3 ^ key_1
        counter_3 = np.uint32(product_0)
        key_0 = np.uint32(key_0 + _WEYL_0)
        key_1 = np.uint32(key_1 + _WEYL_1)
    return counter_0, counter_1, counter_2, counter_3


@device_function
def draw(rng, env, agent):  # type: ignore[no-untyped-def]
    """Return the next four random words (uint32) of an agent's stream.

    Args:
        rng: ``[num_envs, num_agents, 4]`` uint32, random state.
        env: Index of the replica.
        agent: Index of the agent.

    Returns:
        Four uint32.
    """
    number = rng[env, agent, 3]
    rng[env, agent, 3] = np.uint32(number + _ONE)
    return philox4x32(
        rng[env, agent, 2], np.uint32(agent), number, np.uint32(0), rng[env, agent, 0], rng[env, agent, 1]
    )


@device_function
def uniform(rng, env, agent):  # type: ignore[no-untyped-def]
    """Return a number (float32) uniform in [0, 1), a multiple of 2**-24.

    Args:
        rng: ``[num_envs, num_agents, 4]`` uint32, random state.
        env: Index of the replica.
        agent: Index of the agent.

    Returns:
        A float32.
    """
    words = draw(rng, env, agent)
    return np.float32(words[0] >> _UNIFORM_SHIFT) * _UNIFORM_STEP


@device_function
def four_uniforms(rng, env, agent):  # type: ignore[no-untyped-def]
    """Return four numbers (float32) of one draw, each uniform in [0, 1) like those of :func:`uniform`.

    Args:
        rng: ``[num_envs, num_agents, 4]`` uint32, random state.
        env: Index of the replica.
        agent: Index of the agent.

    Returns:
        Four float32.
    """
    words = draw(rng, env, agent)
    return (
        np.float32(words[0] >> _UNIFORM_SHIFT) * _UNIFORM_STEP,
        np.float32(words[1] >> _UNIFORM_SHIFT) * _UNIFORM_STEP,
        np.float32(words[2] >> _UNIFORM_SHIFT) * _UNIFORM_STEP,
        np.float32(words[3] >> _UNIFORM_SHIFT) * _UNIFORM_STEP,
    )


@device_function
def normal(rng, env, agent):  # type: ignore[no-untyped-def]
    """Return a number (float32) from the standard normal distribution (Box and Muller, 1958); none is beyond 5.77.

    Args:
        rng: ``[num_envs, num_agents, 4]`` uint32, random state.
        env: Index of the replica.
        agent: Index of the agent.

    Returns:
        A float32.
    """
    words = draw(rng, env, agent)
    squared_radius = minus_two_log(np.float32((words[0] >> _UNIFORM_SHIFT) + _ONE) * _UNIFORM_STEP)
    radius = np.float32(math.sqrt(squared_radius))
    cosine = cosine_of_turns(np.float32(words[1] >> _UNIFORM_SHIFT) * _UNIFORM_STEP)
    return cuda.fma(radius, cosine, _ZERO)  # prevents contraction of the product with an addition in the caller


@device_function
def integer(rng, env, agent, n):  # type: ignore[no-untyped-def]
    """Return an integer (int32) from 0 to n - 1, each equally probable to within n / 2**32.

    Args:
        rng: ``[num_envs, num_agents, 4]`` uint32, random state.
        env: Index of the replica.
        agent: Index of the agent.
        n: Number of integers, from 1 to 2**31 - 1.

    Returns:
        An int32.
    """
    words = draw(rng, env, agent)
    return np.int32((np.uint64(words[0]) * np.uint64(n)) >> _HALF_WORD)


@device_function
def replica_integer(stream, env, n):  # type: ignore[no-untyped-def]
    """Return the next integer (int32) from 0 to n - 1 of a per-replica stream.

    The stream's agent index in the counter belongs to no agent.

    Args:
        stream: ``[num_envs, 4]`` uint32, laid out like one agent's part of ``rng``.
        env: Index of the replica.
        n: Number of integers.

    Returns:
        An int32.
    """
    number = stream[env, 3]
    stream[env, 3] = np.uint32(number + _ONE)
    words = philox4x32(stream[env, 2], _NO_AGENT, number, np.uint32(0), stream[env, 0], stream[env, 1])
    return np.int32((np.uint64(words[0]) * np.uint64(n)) >> _HALF_WORD)
