# %% [markdown]
# # Kernels in CUDA C
#
# An environment's kernels can be written in CUDA C instead of Python: because you have CUDA code already, because you
# are porting an environment that used PyCUDA, or because you want to control every instruction. Does it compute the
# same as the Python kernels?
#
# This notebook writes a small game in both languages, compares the versions bit for bit, finds a deliberate mistake,
# and trains a policy with the CUDA C version. It takes about 20 seconds on two cores; no GPU is needed, only a C++
# compiler (`g++` or `clang++`). With a GPU and `pip install "warpdrive[pycuda]"` the same cells run there.

# %%
# In a hosted notebook (Colab, Kaggle): upload a source checkout or wheel of WarpDrive, and run the next line without its #.
# %pip install --quiet "./warpdrive"

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from gymnasium import spaces
from numba import cuda, float32

import warpdrive as wd

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["WARPDRIVE_CUDA_ON_HOST"] = "1"
print("CUDA C runs on", "the GPU" if GPU else "the CPU cores of this machine")

# %% [markdown]
# The backend that runs CUDA C is called `pycuda`. On a GPU it compiles with NVRTC. With the environment variable
# `WARPDRIVE_CUDA_ON_HOST=1` the C++ compiler of the machine compiles the same source, and runs it on the CPU,
# barriers included. This is for development and tests: it does not predict the speed of a GPU.
#
# ## The game
#
# Eight fireflies flash in cycles, each at a slightly different pace. In every step each one may speed up a little,
# slow down a little, or do nothing. The closer their phases are to each other, the higher the reward of all. The
# reward is the length of the mean of the unit vectors with these phases: 1 in unison, near 0 if they are spread over
# the circle.
#
# ## The kernels in CUDA C

# %%
FIREFLIES = r"""
// Fireflies pull their phases together. One thread is one firefly of one replica.

#define TURN 6.2831853f

WD_KERNEL void reset(float *phase, unsigned int *rng) {
    const int env = wd_env(), agent = wd_agent();
    phase[wd_index(phase, env, agent)] = wd_uniform(rng, env, agent) * TURN;
}

WD_KERNEL void step(float *phase, const int *actions, float *rewards, const float *pace, float nudge, int num_agents) {
    const int env = wd_env(), agent = wd_agent();
    float &own = phase[wd_index(phase, env, agent)];
    own = own + pace[agent] + nudge * (actions[wd_index(actions, env, agent)] - 1);
    if (own >= TURN) own -= TURN;
    wd_barrier();  // all phases are up to date

    WD_SHARED(float, crowd, 2);
    if (agent < 2) {  // the first adds up the cosines, the second the sines
        float sum = 0.0f;
        for (int other = 0; other < num_agents; ++other) {
            const float angle = phase[wd_index(phase, env, other)];
            sum += agent == 0 ? wd_cos(angle) : wd_sin(angle);
        }
        crowd[agent] = sum / num_agents;
    }
    wd_barrier();  // the sums are complete
    rewards[wd_index(rewards, env, agent)] = wd_sqrt(crowd[0] * crowd[0] + crowd[1] * crowd[1]);
}

WD_KERNEL void observe(const float *phase, float *observations, int num_agents) {
    const int env = wd_env(), agent = wd_agent();
    const float own = phase[wd_index(phase, env, agent)];
    float ahead = 0.0f, beside = 0.0f;
    for (int other = 0; other < num_agents; ++other) {
        const float angle = phase[wd_index(phase, env, other)] - own;
        ahead += wd_sin(angle);
        beside += wd_cos(angle);
    }
    observations[wd_index(observations, env, agent, 0)] = ahead / num_agents;
    observations[wd_index(observations, env, agent, 1)] = beside / num_agents;
}
"""
written = Path("fireflies.cu").write_text(FIREFLIES)

# %% [markdown]
# This is ordinary CUDA C with some functions and macros of the library:
#
# - `WD_KERNEL void name(...)` declares a kernel function. **Its parameters are bound by name**, as those of a Python
#   kernel: `actions`, `rewards`, `observations`, `rng` are arrays of the library, `phase` comes from `initial_state`,
#   and `pace`, `nudge` and `num_agents` are attributes of the environment.
# - `wd_index(x, env, agent, ...)` is the offset of an element. All extents but the number of replicas are
#   compile-time constants, so this costs no more than hand-written index arithmetic.
# - `wd_barrier()` is `__syncthreads()`, `WD_SHARED` an array in shared memory, and `wd_sin`, `wd_cos`, `wd_sqrt`,
#   `wd_uniform` are the functions of `wd.math` and `wd.random`.
#
# ## The environment
#
# The class is the same as for Python kernels, only `step`, `observe` and `reset` refer to the file.


# %%
class Fireflies(wd.Environment):
    """Fireflies that learn to flash in unison; kernels in CUDA C."""

    name = "fireflies"
    step = wd.cuda_kernel("fireflies.cu", "step")
    observe = wd.cuda_kernel("fireflies.cu", "observe")
    reset = wd.cuda_kernel("fireflies.cu", "reset")

    def __init__(self, num_agents=8, nudge=0.15, episode_length=50):
        self.num_agents, self.nudge, self.episode_length = num_agents, nudge, episode_length
        self.pace = np.linspace(0.25, 0.35, num_agents, dtype=np.float32)  # radians per step
        self.policy_tags = {"firefly": range(num_agents)}
        self.observation_space = spaces.Box(-1.01, 1.01, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        return {"phase": np.zeros(self.num_agents, np.float32)}


env = wd.EnvWrapper(Fireflies(), num_envs=200, env_backend="pycuda", seed=5)
observations, rewards, *_ = env.step()  # random actions
print(observations.shape, f"mean reward {rewards.mean():.3f}")

# %% [markdown]
# ## Mistakes that are found before a launch
#
# When an environment is created, parameters are compared with its arrays and attributes. Each of these variants has
# one mistake:


# %%
def variant(file, *replacements, text=FIREFLIES):
    """Write a copy of the CUDA C source with replacements, and return an environment class that uses it."""
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after)
    Path(file).write_text(text)
    kernels = {name: wd.cuda_kernel(Path.cwd() / file, name) for name in ("step", "observe", "reset")}
    return type("Variant", (Fireflies,), kernels)


def message_of(environment):
    try:
        wd.EnvWrapper(environment, num_envs=2, env_backend="pycuda").step()
    except wd.KernelError as error:
        return without_folder(error)


def without_folder(error):
    return str(error).replace(f"{Path.cwd()}{os.sep}", "")


for number, replacement in enumerate(
    [
        ("void step(float *phase", "void step(int *phase"),
        ("float nudge", "float nugde"),
        ("float sum = 0.0f;", "float sum = 0.0f"),
    ]
):
    print(message_of(variant(f"mistake_{number}.cu", replacement)()), end="\n\n")

# %% [markdown]
# A barrier that some threads do not reach is undefined behaviour on a GPU, and usually not reported. On the CPU it is
# an error that names the line.

# %%
early_return = ("    wd_barrier();  // the sums", "    if (agent == 5) return;\n    wd_barrier();  // the sums")
if GPU:
    print("skipped: on a GPU such a barrier is not detected")
else:
    print(message_of(variant("mistake_3.cu", early_return)()))

# %% [markdown]
# ## The same kernels in Python
#
# For comparison, this is the same game for `numba.cuda`. The order of operations is the same, and every number is a
# float32: `np.float32(num_agents)` is explicit because in Python a float32 divided by an integer is a float64.

# %%
TURN, ZERO = np.float32(6.2831853), np.float32(0)


@wd.kernel
def reset(phase, rng):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    phase[env, agent] = wd.random.uniform(rng, env, agent) * TURN


@wd.kernel
def step(phase, actions, rewards, pace, nudge, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    own = phase[env, agent] + pace[agent] + nudge * np.float32(actions[env, agent] - 1)
    phase[env, agent] = own - TURN if own >= TURN else own
    cuda.syncthreads()
    crowd = cuda.shared.array(2, float32)
    if agent < 2:
        total = ZERO
        for other in range(num_agents):
            total += wd.math.cos(phase[env, other]) if agent == 0 else wd.math.sin(phase[env, other])
        crowd[agent] = total / np.float32(num_agents)
    cuda.syncthreads()
    rewards[env, agent] = wd.math.sqrt(crowd[0] * crowd[0] + crowd[1] * crowd[1])


# %%
@wd.kernel
def observe(phase, observations, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    ahead, beside = ZERO, ZERO
    for other in range(num_agents):
        angle = phase[env, other] - phase[env, agent]
        ahead += wd.math.sin(angle)
        beside += wd.math.cos(angle)
    observations[env, agent, 0] = ahead / np.float32(num_agents)
    observations[env, agent, 1] = beside / np.float32(num_agents)


@wd.kernel
def draw(shapes, phase, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place = TURN * np.float32(agent) / np.float32(num_agents)
    x, y = wd.math.cos(place), wd.math.sin(place)
    glow = np.float32(0.5) + np.float32(0.5) * wd.math.cos(phase[env, agent])
    wd.draw.circle(shapes, 0, x, y, np.float32(0.08) + np.float32(0.17) * glow, wd.draw.YELLOW)
    wd.draw.style(shapes, 0, np.float32(0.15) + np.float32(0.85) * glow, wd.draw.GREY, 0)


class FirefliesTwice(Fireflies):
    """The game with Python kernels, and CUDA C for the backend that compiles it."""

    step, observe, reset, draw = step, observe, reset, draw
    cuda_twins = {name: wd.cuda_kernel("fireflies.cu", name) for name in ("step", "observe", "reset")}
    view = (-1.4, 1.4, -1.4, 1.4)


# %% [markdown]
# With `cuda_twins` an environment has both: Python kernels for the backends `cpu` and `numba`, CUDA C for `pycuda`.
# The keys are the names of the Python functions.
#
# ## Bit for bit
#
# Both versions get the same seed and the same random actions for 200 steps, four episodes with resets. How many numbers
# differ?


# %%
def differences(first, second, steps=200, num_envs=200):
    """Step two environments alike; return per step the fraction of numbers that differ, and the largest difference."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(steps):
        actions = torch.randint(0, 3, (num_envs, first.num_agents), dtype=torch.int32, generator=generator)
        results = [[each.cpu() for each in env.step(actions)[:2]] for env in (first, second)]
        phases = [env.ctx["phase"].cpu() for env in (first, second)]
        pairs = [phases, *zip(*results, strict=True)]  # phases, observations, rewards
        unequal = torch.cat([(a != b).flatten() for a, b in pairs]).float().mean()
        found.append((unequal.item(), max((a - b).abs().max().item() for a, b in pairs)))
    return np.array(found)


def replicas(environment, backend):
    return wd.EnvWrapper(environment, num_envs=200, env_backend=backend, seed=5)


same = differences(replicas(FirefliesTwice(), "cpu"), replicas(FirefliesTwice(), "pycuda"))
print(f"different numbers: {same[:, 0].max():.0%}; largest difference: {same[:, 1].max()}")

# %% [markdown]
# None, although the first version was compiled from Python by LLVM and the second from C by another compiler. There
# are four reasons:
#
# - the functions of `wd.math` and `wd_...` are the same sequence of float32 operations everywhere, while `sin` of a C
#   library, of LLVM and of a GPU differ in the last digits;
# - `a * b + c` is never contracted to one operation with one rounding, unless you write `fmaf`;
# - random numbers depend on the seed, the replica and the agent only;
# - sums are taken in a fixed order, here by one thread.
#
# ## One missing letter
#
# `6.2831853` without `f` is a double. The kernel still compiles and the fireflies still behave as before, but start
# phases and wraps are computed in float64 and then rounded. This is also slow on most GPUs.

# %%
Careless = variant("careless.cu", ("6.2831853f", "6.2831853"))
careless = differences(replicas(FirefliesTwice(), "cpu"), replicas(Careless(), "pycuda"))
print(f"largest difference: {careless[:, 1].max():.1e}")

_, axes = plt.subplots(figsize=(6, 2.4), dpi=80, layout="tight")
axes.plot(100 * same[:, 0], label="6.2831853f")
axes.plot(100 * careless[:, 0], label="6.2831853")
axes.set(xlabel="step", ylabel="numbers that differ, %", ylim=(-3, 103))
axes.legend()
plt.show()

# %% [markdown]
# A difference in the last digit would not matter to this game. But once results differ for a known reason, a
# comparison no longer reveals unknown ones.
#
# ## The comparison as a test
#
# `wd.testing.check_environment` compares all backends of the machine in this way, and also checks the Python kernels
# for races and other errors ([Checking kernels](08_checking_kernels.ipynb)). Few agents and short episodes suffice.
# Here the CUDA C has a mistake that is hard to see: `agent < 2` has become `agent < 1`, so the sines are not added
# up.

# %%
small = {"num_agents": 3, "episode_length": 6}
wd.testing.check_environment(FirefliesTwice(**small))  # raises nothing

mistaken = variant("mistaken.cu", ("if (agent < 2)", "if (agent < 1)"))


class Wrong(FirefliesTwice):
    """The same Python kernels, and CUDA C that differs."""

    cuda_twins = {name: getattr(mistaken, name) for name in ("step", "observe", "reset")}


try:
    wd.testing.check_environment(Wrong(**small))
except AssertionError as error:
    print(without_folder(error))

# %% [markdown]
# ## Training
#
# Training works with kernels in either language. Here it uses the CUDA C version.

# %%
config = {
    "name": "fireflies",
    "trainer": {"num_envs": 100, "train_batch_size": 2000, "total_steps": 60_000, "env_backend": "pycuda"},
    "policy": {
        "firefly": {"algorithm": "ppo", "lr": 3e-3, "gamma": 0.9, "minibatches": 8, "model": {"hidden": [32, 32]}}
    },
}
trainer = wd.Trainer(wd.EnvWrapper(FirefliesTwice(), num_envs=100, env_backend="pycuda", seed=1), config)
trainer.train()
for name, random in [("random", ["firefly"]), ("trained", [])]:
    result = trainer.evaluate(num_episodes=200, random=random)
    print(f"{name:8} mean reward per step {result.mean_return['firefly'] / 50:.2f}")

# %%
wd.replay(trainer, seed=4, width=300, fps=10)

# %% [markdown]
# At first the phases are spread over the circle; then all fireflies flash together, although each has its own pace.
#
# ## On a GPU
#
# This cell needs a GPU, and is skipped without one. It compares the two languages for many replicas.

# %%
if GPU:
    for backend in ("numba", "pycuda"):
        env = wd.EnvWrapper(FirefliesTwice(), num_envs=10_000, env_backend=backend)
        env.step()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(1000):
            env.step()
        end.record()
        torch.cuda.synchronize()
        print(f"{backend}: {1000 * 10_000 / start.elapsed_time(end) / 1e3:.1f} million environment steps per second")
else:
    print("skipped: there is no GPU")

# %% [markdown]
# ## What was learned
#
# - `wd.cuda_kernel("file.cu", "name")` in place of a Python kernel; parameters are bound by name and checked by type.
# - The backend `pycuda` runs it on a GPU; with `WARPDRIVE_CUDA_ON_HOST=1` it runs on the CPU, where barriers that are
#   not reached are errors.
# - `cuda_twins` gives one environment both languages. Then the Python kernels are checked for races, and both are
#   compared.
# - With `wd_...` functions, `f` after literals and sums in a fixed order, both languages give the same bits.
#
# ## Exercises
#
# **Exercise 1.** In C, `%` has the sign of the dividend, so `-1 % 5` is `-1` in C. Eight walkers go left (action 0),
# stay (1) or go right (2) on a ring. Complete the string `WALK`, so that it computes what the Python kernel `walk`
# does.


# %%
@wd.kernel
def walk(place, actions, rewards, ring):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = (place[env, agent] + actions[env, agent] - 1) % ring
    rewards[env, agent] = place[env, agent]


# %% tags=["exercise"]
WALK = r"""
WD_KERNEL void walk(int *place, const int *actions, float *rewards, int ring) {
    const int env = wd_env(), agent = wd_agent();
    int &own = place[wd_index(place, env, agent)];
    // your line here
    rewards[wd_index(rewards, env, agent)] = own;
}
"""


# %% tags=["check"]
def check_walk(text):
    if "your line here" in text:
        return "not answered yet"
    Path("walk.cu").write_text(text)

    class Walkers(wd.Environment):
        name, num_agents, episode_length, ring = "walkers", 8, 1000, 5
        policy_tags = {"walker": range(8)}
        step = wd.cuda_kernel(Path.cwd() / "walk.cu", "walk")
        observation_space, action_space = spaces.Box(0, 5, (1,), np.float32), spaces.Discrete(3)

        def initial_state(self, rng):
            return {"place": np.zeros(8, np.int32), "observations": np.zeros((8, 1), np.float32)}

    try:
        env = wd.EnvWrapper(Walkers(), num_envs=50, env_backend="pycuda")
    except wd.KernelError as error:
        return str(error)
    generator, expected = np.random.default_rng(0), np.zeros((50, 8), np.int64)
    for number in range(100):
        actions = generator.integers(0, 3, (50, 8), dtype=np.int32)
        expected = (expected + actions - 1) % 5
        place = env.step(actions)[1].cpu().numpy()
        if (place != expected).any():
            which = tuple(np.argwhere(place != expected)[0])
            return f"step {number}: a walker is at {place[which]:.0f}, expected {expected[which]}"
    return "correct"


print("Exercise 1:", check_walk(WALK))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# WALK = r"""
# WD_KERNEL void walk(int *place, const int *actions, float *rewards, int ring) {
#     const int env = wd_env(), agent = wd_agent();
#     int &own = place[wd_index(place, env, agent)];
#     own = (own + actions[wd_index(actions, env, agent)] - 1 + ring) % ring;
#     rewards[wd_index(rewards, env, agent)] = own;
# }
# """
# ```
#
# </details>

# %% [markdown]
# **Exercise 2.** Lazy fireflies: let an action other than 1 cost 0.1. Change a copy of `FIREFLIES` with
# `str.replace`, so that each firefly's reward is the one of the crowd, minus `0.1f` if the firefly hurried or slowed
# down. Define `LAZY`, the whole CUDA C source.

# %% tags=["exercise"]
LAZY = FIREFLIES.replace("", "")


# %% tags=["check"]
def check_lazy(text):
    if text == FIREFLIES:
        return "not answered yet"
    lazy = variant("lazy.cu", text=text)()
    try:
        changed = wd.EnvWrapper(lazy, num_envs=50, env_backend="pycuda", seed=3)
    except wd.KernelError as error:
        return str(error)
    plain = wd.EnvWrapper(Fireflies(), num_envs=50, env_backend="pycuda", seed=3)
    for actions in torch.randint(0, 3, (20, 50, 8), dtype=torch.int32, generator=torch.Generator().manual_seed(0)):
        found, before = changed.step(actions)[1].cpu(), plain.step(actions)[1].cpu()
        expected = before - 0.1 * (actions != 1)
        if not torch.allclose(found, expected, atol=1e-5):
            which = tuple((found - expected).abs().argmax().unsqueeze(0).tolist())
            return f"a reward is {found.flatten()[which]:.3f}, expected {expected.flatten()[which]:.3f}"
    return "correct"


print("Exercise 2:", check_lazy(LAZY))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# LAZY = FIREFLIES.replace(
#     "wd_sqrt(crowd[0] * crowd[0] + crowd[1] * crowd[1]);",
#     "wd_sqrt(crowd[0] * crowd[0] + crowd[1] * crowd[1])\n"
#     "        - (actions[wd_index(actions, env, agent)] == 1 ? 0.0f : 0.1f);",
# )
# ```
#
# </details>

# %% [markdown]
# ## Where next
#
# - [CUDA C](../docs/guides/cuda_c.md): all functions, types and differences from Python kernels.
# - [Checking kernels](08_checking_kernels.ipynb): races, bounds and other errors, found without a GPU.
# - [Coming from WarpDrive 2](14_coming_from_warpdrive2.ipynb), whose environments were CUDA C.
