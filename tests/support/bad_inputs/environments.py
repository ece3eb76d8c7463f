"""Environments with mistakes, and files without an environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bad_inputs.verdict import Case, command

import warpdrive as wd

_SOUND = """\
import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd

{before}
@wd.kernel
def step({parameters}):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    {body}


class Bad(wd.Environment):
    name = "bad"
    step = step

    def __init__(self):
        self.num_agents, self.episode_length = 2, 5
        self.speed = 1.0
        self.policy_tags = {{"agent": [0, 1]}}
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        {in_constructor}

    def initial_state(self, rng):
        state = {{"x": np.zeros(2, np.float32), "observations": np.zeros((2, 2), np.float32)}}
        {in_state}
        return state

    {in_class}
"""
_PARTS = {
    "before": "",
    "parameters": "x, actions, rewards, speed",
    "body": "x[env, agent] += speed",
    "in_class": "",
    "in_constructor": "",
    "in_state": "",
}


def source(**parts: str) -> str:
    """Return the source of a working environment, with these parts replaced."""
    return _SOUND.format(**(_PARTS | parts))


def _mistakes(place: str, lines: str, *others: str) -> list[dict[str, str]]:
    return [{place: mistake} for mistake in (*lines.strip().splitlines(), *others)]


MISTAKES: list[dict[str, str]] = [
    *_mistakes(
        "in_constructor",
        r"""
del self.num_agents
del self.episode_length
del self.policy_tags
del self.observation_space
self.num_agents = 0
self.num_agents = -1
self.num_agents = 2.0
self.num_agents = '2'
self.num_agents = None
self.num_agents = True
self.num_agents = 10**10
self.num_agents = 10**400
self.num_agents = np.array(2)
self.num_agents = np.array([2])
self.num_agents = np.nan
self.num_agents = 3
self.num_agents = 2**31 - 1
self.num_agents = [2]
self.num_agents = np.float32(2)
self.episode_length = 0
self.episode_length = -5
self.episode_length = 5.0
self.episode_length = None
self.episode_length = 10**10
self.episode_length = '5'
self.episode_length = float('inf')
self.policy_tags = None
self.policy_tags = []
self.policy_tags = {}
self.policy_tags = {'agent': 0}
self.policy_tags = {'agent': [0]}
self.policy_tags = {'agent': [0, 1, 2]}
self.policy_tags = {'agent': [0, 0]}
self.policy_tags = {'agent': [0.0, 1.0]}
self.policy_tags = {'agent': ['0', '1']}
self.policy_tags = {5: [0, 1]}
self.policy_tags = {'a b': [0, 1]}
self.policy_tags = {'': [0, 1]}
self.policy_tags = {'a': [0, 1], 'b': []}
self.policy_tags = {'agent': [-1, 0, 1]}
self.policy_tags = {'a': [0], 'b': [0, 1]}
self.policy_tags = {'agent': None}
self.policy_tags = {'agent': range(2, 10**9)}
self.policy_tags = {'agent': range(10**9)}
self.policy_tags = {'agent': 'ab'}
self.policy_tags = {'agent': range(0, 10**30)}
self.policy_tags = {'agent': [10**400, 0]}
self.policy_tags = {'agent': {0, 1}}
self.policy_tags = {'agent': np.zeros((2, 2))}
self.policy_tags = {'agent': np.zeros(2)}
self.policy_tags = {'agent': [[0], [1]]}
self.policy_tags = {'agent': np.arange(2).reshape(2, 1)}
self.policy_tags = {'agent': np.int32(0)}
self.policy_tags = 'agent'
self.policy_tags = {'\x1b[31m': [0, 1]}
self.policy_tags = {'agent': np.array(0)}
self.policy_tags = {None: [0, 1]}
self.action_space = None
self.action_space = 3
self.action_space = spaces.Discrete
self.action_space = 'Discrete(3)'
self.action_space = spaces.Discrete(3, start=1)
self.action_space = spaces.Text(5)
self.action_space = {}
self.action_space = spaces.Box(-1, 1, (2,), np.float64)
self.action_space = spaces.Box(-1, 1, (2,), np.int32)
self.action_space = spaces.Tuple([spaces.Discrete(2)])
self.action_space = spaces.Dict({'a': spaces.Discrete(2)})
self.action_space = {'nobody': spaces.Discrete(2)}
self.action_space = {'agent': 5}
self.action_space = spaces.MultiBinary(3)
self.action_space = spaces.MultiDiscrete([[2, 3], [2, 3]])
self.action_space = spaces.Box(1, 1, (2,), np.float32)
self.action_space = spaces.Discrete(2**40)
self.action_space = spaces.Discrete(2**31 - 1)
self.action_space = {5: spaces.Discrete(2)}
self.action_space = spaces.MultiDiscrete([2**40, 2])
self.action_space = spaces.Box(-1, 1, (0,), np.float32)
self.action_space = spaces.Box(np.nan, 1, (2,), np.float32)
self.action_space = spaces.Discrete(0)
self.observation_space = None
self.observation_space = 5
self.observation_space = spaces.Text(5)
self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
self.observation_space = spaces.Dict({})
self.observation_space = spaces.Box(-1, 1, (2,), np.float64)
self.observation_space = spaces.Dict({'a b': spaces.Discrete(2)})
self.observation_space = spaces.Tuple([spaces.Discrete(2)])
self.observation_space = {'nobody': spaces.Discrete(2)}
self.observation_space = spaces.Box(-1, 1, (10**6, 10**6), np.float32)
self.observation_space = spaces.Graph(spaces.Discrete(2), None)
self.observation_space = spaces.Box(0, 1, (2,), np.complex64)
self.observation_space = spaces.Sequence(spaces.Discrete(2))
self.observation_space = spaces.Dict({'a': spaces.Dict({'b': spaces.Discrete(2)})})
self.observation_space = [spaces.Discrete(2)]
self.observation_space = {'agent': None}
self.observation_space = spaces.Box(-1, 1, (0,), np.float32)
self.speed = None
self.speed = 'fast'
self.speed = 10**10
self.speed = -(10**10)
self.speed = 10**400
self.speed = 1j
self.speed = [1.0]
self.speed = np.array(['a'])
self.speed = np.array([1j])
self.speed = np.array([None])
self.speed = {}
self.speed = np.zeros(2, 'M8[s]')
self.speed = np.zeros(2, np.longdouble)
self.speed = np.str_('a')
self.speed = np.zeros(2, '>f4')
self.speed = np.datetime64('2020')
self.speed = lambda: 1
self.speed = np.zeros((10**6, 0))
raise ValueError('no')
raise SystemExit(0)
raise SystemExit('no')
raise KeyError
1 / 0
assert False
self.nobody
import no_such_module
raise MemoryError
raise RecursionError
raise StopIteration
self.__init__()
raise Exception
self.num_agents.x = 5
self.name = 5
self.name = ''
self.name = None
self.step = None
self.step = lambda: 1
self.observe = 5
self.reset = lambda: 1
raise NotImplementedError
raise ValueError('\x1b[31ma\nb')
""",
    ),
    *_mistakes(
        "in_class",
        r"""
name = None
name = ''
name = 5
step = None
step = 5
step = lambda x: 1
observe = 5
reset = print
step = 'step'
def step(self): pass
cuda_twins = 5
cuda_twins = {'step': 5}
episode_length = property(lambda self: 1 / 0)
initial_state = None
initial_state = 5
speed = property(lambda self: 1 / 0)
num_agents = property(lambda self: 1 / 0)
num_agents = property(lambda self: 2)
policy_tags = property(lambda self: 5)
action_space = property(lambda self: {}['x'])
episode_length = property(lambda self: self.nobody)
observation_space = property(lambda self: exec('raise SystemExit'))
__init__ = lambda self, needed: None
__init__ = lambda: None
__new__ = lambda cls: 5
""",
    ),
    *_mistakes(
        "in_state",
        r"""
return None
return 5
return []
return [('x', np.zeros(2))]
return {}
return {'x': 'a'}
return {'x': None}
return {5: np.zeros(2)}
return {'a b': np.zeros(2)}
return {'': np.zeros(2)}
return {'class': np.zeros(2)}
return {'x': np.zeros(2, complex)}
return {'x': np.array(['a'])}
return {'x': [[1], [1, 2]]}
return {'x': object()}
return {'rewards': np.zeros(2)}
return {'terminated': True}
return {'actions': np.zeros(2)}
return {'rng': np.zeros(2)}
state['observations'] = np.zeros((2, 3), np.float32)
state['observations'] = np.zeros((2, 2), np.float64)
state['x'] = np.zeros(rng.integers(1, 9), np.float32)
state['x'] = np.zeros(2, rng.choice(['f4', 'i4']))
state['y' * int(rng.integers(1, 9))] = np.zeros(2)
raise ValueError('no')
raise SystemExit
1 / 0
self.nobody
del state['x']
state['x'] = np.zeros(2, '>f4')
state['x'] = np.zeros(2, 'M8[s]')
state['x'] = np.zeros(2, np.longdouble)
state['x'] = 10**400
state['x'] = np.zeros((10**9, 10**9), np.float32)
state['active'] = np.zeros(3, bool)
state['action_mask'] = np.zeros((2, 2), bool)
state['active'] = np.zeros(2)
return state['nobody']
import no_such_module
state = iter(state)
yield state
state['env.x'] = np.zeros(2)
state['x'] = {1, 2}
state['x'] = np.zeros(2, np.float32).tolist() + ['a']
state['timestep'] = np.int32(0)
state['x'] = np.zeros(2, [('a', 'f4')])
return lambda: 1
return state, {}
""",
    ),
    *_mistakes(
        "parameters",
        r"""
x, actions, rewards, spee
x, actions, rewards, extra=2.0
x, actions, rewards, speed, *rest
x, actions, **rest
self, x, actions
x, *, actions, speed
x, x2, speed
x, obsevations, speed
x, np, speed
x, speed, name
x, speed, policy_tags
x, speed, initial_state
x, speed, actions_agent
x, speed, __class__
x, speed, step
x, speed, action_mask_
x, speed, observation_space
""",
        "",
    ),
    *_mistakes(
        "body",
        r"""
x[env, agent] = 'a'
x[env, agent] = nobody
x[env, agent, 5, 5] = 1
speed = 5
speed += 1
print(nobody(x))
x[env, agent] = [i for i in range(3)]
yield 5
import os
open('a')
x[env, agent] = np.random.rand()
raise
with open('a'): pass
x[env, agent] = {}
global speed
x.nobody()
x[env, agent] = cuda.nobody()
cuda.shared.array(5)
x[env, agent] = cuda.shared.array((agent,), 'f4')[0]
x[env, 'a'] = 5
x['a'] = 5
x[env, agent] = None
x[env, agent] = x
actions[env, agent].y = 5
class A: pass
x[env, agent] = step(x)
await x
x[env, agent] = f'{agent}'
x[env, agent] = b'a'
x[env, agent] = 1j
x[env, agent] = ...
nonlocal speed
x[env, agent] = 10**30
rewards[env] = 'x'
eval('5')
exec('5')
""",
        "try:\n        pass\n    finally:\n        pass",
    ),
]

_FILES = {
    "syntax error": "def (:\n",
    "indentation error": "def f():\npass\n",
    "tabs and spaces": "if 1:\n\tx = 1\n        y = 2\n",
    "unclosed": "x = (\n",
    "missing module": "import no_such_module_at_all\n",
    "missing name": "from os import no_such_name\n",
    "exception": "raise ValueError('a\\nb')\n",
    "exception without text": "raise ValueError\n",
    "exception with escapes": "raise ValueError('\\x1b[31mred\\x07')\n",
    "exception with a long text": "raise ValueError('x' * 10000)\n",
    "sys.exit()": "import sys\nsys.exit()\n",
    "sys.exit(0)": "import sys\nsys.exit(0)\n",
    "sys.exit(3)": "import sys\nsys.exit(3)\n",
    "sys.exit('text')": "import sys\nsys.exit('text')\n",
    "quit()": "quit()\n",
    "exit()": "exit()\n",
    "SystemExit of a subclass": "class E(SystemExit): pass\nraise E\n",
    "infinite recursion": "def f(): f()\nf()\n",
    "empty": "",
    "NUL": "x = '\0'\n",
    "Latin-1": b"x = '\xfc'\n",
    "binary": bytes(range(256)),
    "wrong coding": "# coding: no-such-coding\n",
    "not a class": "Bad = 5\n",
    "a function": "def Bad(): pass\n",
    "a class of another kind": "class Bad: pass\n",
    "a gymnasium environment": "import gymnasium\nclass Bad(gymnasium.Env): pass\n",
    "an instance": "import warpdrive as wd\nclass A(wd.Environment): name = 'a'\nBad = A()\n",
    "the base class": "from warpdrive import Environment as Bad\n",
    "a module": "import os as Bad\n",
    "an empty subclass": "import warpdrive as wd\nclass Bad(wd.Environment): pass\n",
    "a subclass with a name": "import warpdrive as wd\nclass Bad(wd.Environment): name = 'x'\n",
    "an abstract class": "import abc, warpdrive as wd\nclass Bad(wd.Environment, abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\n",
    "a metaclass that raises": "class M(type):\n    def __call__(cls): raise ValueError('no')\nimport warpdrive as wd\nclass Bad(wd.Environment, metaclass=M): pass\n",
    "a module that raises on attributes": "def __getattr__(name): raise ValueError('no')\n",
    "a future import in the middle": "x = 1\nfrom __future__ import annotations\n",
    "the reserved step": "import warpdrive as wd\n@wd.kernel\nasync def step(x): pass\n",
    "a kernel of a lambda": "import warpdrive as wd\nstep = wd.kernel(lambda x: 5)\n",
    "a kernel of a number": "import warpdrive as wd\nstep = wd.kernel(5)\n",
    "a kernel of a class": "import warpdrive as wd\n@wd.kernel\nclass Bad: pass\n",
    "a kernel of a built-in": "import warpdrive as wd\nstep = wd.kernel(print)\n",
    "CUDA C that is missing": "import warpdrive as wd\nclass Bad(wd.Environment):\n    name = 'x'\n    step = wd.cuda_kernel('no_such.cu', 'f')\n",
    "itself": "import warpdrive as wd\nwd.registry.environment_class(__file__ + ':Bad')\n",
}
_DEFINE_SOMETHING = (
    *("the base class", "an empty subclass", "a subclass with a name", "an abstract class"),
    *("a metaclass that raises", "CUDA C that is missing"),
)
"""Files with a class whose parameters can be listed."""


def environments(folder: Path) -> Iterator[Case]:
    """Step environments with one mistake each."""
    for number, parts in enumerate(MISTAKES):
        path = folder / f"mistake_{number}.py"
        path.write_text(source(**parts))
        ((place, mistake),) = parts.items()
        told = f"{place}: {mistake}".replace("\n", " ")
        yield Case(told, lambda path=path: _stepped(path), keeps=folder if number % 10 == 0 else None)


def _stepped(path: Path) -> None:
    env = wd.EnvWrapper(env_name=f"{path}:Bad", num_envs=2, env_backend="cpu", reset_pool_size=8)
    env.step(np.zeros((2, 2), np.int32))


def files(folder: Path) -> Iterator[Case]:
    """Pass files without an environment to every command that takes one."""
    for number, (name, text) in enumerate(_FILES.items()):
        path = folder / f"file_{number}.py"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        run = folder / f"file_{number}.yaml"
        run.write_text(
            f"env: {{name: '{path}:Bad'}}\ntrainer: {{num_envs: 2, train_batch_size: 4, total_steps: 4}}\n"
            "policy: {agent: {algorithm: ppo}}\n"
        )
        yield command(f"{name}: train", "train", str(run), keeps=folder)
        yield command(f"{name}: check", "check", f"{path}:Bad")
        if name not in _DEFINE_SOMETHING:
            yield command(f"{name}: envs", "envs", f"{path}:Bad")
        yield Case(f"{name}: EnvWrapper", lambda path=path: wd.EnvWrapper(env_name=f"{path}:Bad", env_backend="cpu"))
    for place in (
        "",
        ":",
        ":Bad",
        "file_0.py",
        "file_0.py:",
        "no_such.py:Bad",
        "os.path",
        "os:",
        ".:Bad",
        "a..b:Bad",
        f"{folder}:Bad",
        "warpdrive:no_such",
        "carpole",
        "CartPole",
        "\x1b[31m",
        "a\0b",
        "x" * 5000,
        "a\nb:c",
        "-5",
        "\u00e9:x",
    ):
        yield command(f"place {place[:20]!r}: check", "check", "--steps=1", "--", place)
        yield Case(
            f"place {place[:20]!r}: EnvWrapper", lambda place=place: wd.EnvWrapper(env_name=place, env_backend="cpu")
        )
    names = (
        "",
        " ",
        "a b",
        "A",
        "5",
        "a/b",
        "../a",
        "class",
        "a.py",
        "\x1b[31m",
        "x" * 5000,
        ".",
        "-",
        "\u00e9 \u00e9",
    )
    for name in names:
        yield command(f"init {name[:20]!r}", "init", "--", name, keeps=folder)


class _Lying:
    """Object that claims to have every attribute."""

    def __getattr__(self, name: str) -> Any:
        return 5


def wrappers(folder: Path) -> Iterator[Case]:
    """Pass invalid environments, numbers of replicas and other arguments to the Python API."""
    import gymnasium

    from warpdrive.envs.cartpole import CartPole
    from warpdrive.training.config.load import load_config

    wd_env = wd.EnvWrapper(CartPole(), env_backend="cpu")
    for value in (
        5,
        "cartpol",
        None,
        [],
        {},
        CartPole,
        object(),
        _Lying(),
        wd_env,
        gymnasium.make("CartPole-v1"),
        np.zeros(3),
        sys,
        print,
        gymnasium.make_vec("CartPole-v1", num_envs=2),
        1.5,
        True,
        lambda: CartPole(),
        [CartPole()],
        wd.Environment,
        wd.Environment(),
    ):
        yield Case(f"EnvWrapper({type(value).__name__} {value!r:.30})", lambda value=value: wd.EnvWrapper(value))
    counts: list[Any] = [
        0,
        -1,
        1.5,
        "5",
        None,
        True,
        [],
        10**400,
        float("nan"),
        float("inf"),
        2**40,
        10**15,
        np.float32(2),
        1e30,
        2**63,
        {},
    ]
    for value in counts:
        for key in ("num_envs", "reset_pool_size"):
            if key == "reset_pool_size" and value is None:
                continue
            yield Case(
                f"EnvWrapper({key}={value!r:.20})",
                lambda key=key, value=value: wd.EnvWrapper(CartPole(), env_backend="cpu", **{key: value}),
                key,
            )
    for value in (-1, 1.5, "5", True, [], 10**400, float("nan"), 2**64):
        yield Case(
            f"EnvWrapper(seed={value!r:.20})",
            lambda value=value: wd.EnvWrapper(CartPole(), env_backend="cpu", seed=value),
            "seed",
        )
        yield Case(
            f"EnvWrapper(first_env={value!r:.20})",
            lambda value=value: wd.EnvWrapper(CartPole(), env_backend="cpu", first_env=value),
            "first_env",
        )
    for value in ("tpu", "", 5, [], "CPU ", "cuda", True, "cpu:1", {}, object(), "numba:99"):
        yield Case(
            f"EnvWrapper(env_backend={value!r:.20})", lambda value=value: wd.EnvWrapper(CartPole(), env_backend=value)
        )
    for value in (5, "x", [1], [("a", 1)], {"no_such": 1}, {5: 1}, {"": 1}):
        yield Case(
            f"EnvWrapper(env_config={value!r:.20})",
            lambda value=value: wd.EnvWrapper(env_name="cartpole", env_config=value, env_backend="cpu"),
        )
    for value in (5, [], {}, True, b"cartpole", object(), ""):
        yield Case(
            f"EnvWrapper(env_name={value!r:.20})", lambda value=value: wd.EnvWrapper(env_name=value, env_backend="cpu")
        )
    for value in (5, "x", None, [], {}, object()):
        yield Case(f"Trainer({value!r:.20})", lambda value=value: wd.Trainer(value, {}))
        yield Case(f"Trainer(env, {value!r:.20})", lambda value=value: wd.Trainer(wd_env, value))
        yield Case(f"load_config({value!r:.20})", lambda value=value: load_config(value))
    for value in (0, -1, 1.5, "5", None, [], 10**400, 2**50, float("nan"), True):
        yield Case(f"allocate_rollout({value!r:.20})", lambda value=value: wd_env.allocate_rollout(value), "num_steps")
    for value in (-1, 1, 1.5, "x", None, [], 10**400):
        yield Case(f"state({value!r:.20})", lambda value=value: wd_env.state(value))
    for value in ("nobody", 5, None, [], {}):
        for method in ("observations", "actions", "logits", "action_mask", "active", "act_at_random", "squash"):
            yield Case(f"{method}({value!r:.20})", lambda method=method, value=value: getattr(wd_env, method)(value))
