"""Modules of Numba kernels, and the constants that they import from ``warp_drive.numba_includes.env_config``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from warpdrive.errors import DefinitionError

CONFIG = "warp_drive.numba_includes.env_config"
_CLASSIC_CONTROL = "example_envs.single_agent.classic_control"
_MODULES = {
    "DummyEnv": "example_envs.dummy_env.test_step_numba",
    "TagGridWorld": "example_envs.tag_gridworld.tag_gridworld_step_numba",
    "TagContinuous": "example_envs.tag_continuous.tag_continuous_step_numba",
    **{
        f"ClassicControl{name}Env": f"{_CLASSIC_CONTROL}.{module}.{module}_step_numba"
        for name, module in {
            "CartPole": "cartpole",
            "MountainCar": "mountain_car",
            "ContinuousMountainCar": "continuous_mountain_car",
            "Acrobot": "acrobot",
            "Pendulum": "pendulum",
        }.items()
    },
}
"""Modules of kernels by the names of environments without a registrar."""

_sizes: dict[str, int] = {}


def set_sizes(num_envs: int, num_agents: int, blocks_per_env: int) -> None:
    """Set the constants of kernels that are imported next."""
    _sizes.update(wkNumberEnvs=num_envs, wkNumberAgents=num_agents, wkBlocksPerEnv=blocks_per_env)
    sys.modules.pop(CONFIG, None)


def fill(module: ModuleType) -> None:
    """Define the constants in a module. Raises :class:`ImportError` if none are set."""
    if not _sizes:
        raise ImportError(f"{CONFIG} exists only once an EnvWrapper or a function manager has set the sizes")
    vars(module).update(_sizes)


def forget() -> None:
    """Remove modules that contain the constants from ``sys.modules``, so that they are imported again."""
    for name, module in list(sys.modules.items()):
        if name != "__main__" and "wkNumberAgents" in (getattr(module, "__dict__", None) or {}):
            del sys.modules[name]


def module_of(env_name: str, registrar: Any = None) -> str:
    """Return the module of the kernels of an environment.

    Args:
        env_name: Name of the environment.
        registrar: Registrar that may know the module.

    Raises:
        DefinitionError: If there is none.
    """
    registered = None if registrar is None else registrar.get_cuda_env_src_path(env_name, env_backend="numba")
    module = registered or _MODULES.get(env_name)
    if module is None:
        raise DefinitionError(
            f"the environment '{env_name}' has no Numba kernels: register their module with "
            f"env_registrar.add_cuda_env_src_path('{env_name}', 'package.module', env_backend='numba')"
        )
    return str(module)
