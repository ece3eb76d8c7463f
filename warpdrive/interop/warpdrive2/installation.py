"""Modules of WarpDrive 2 by name, in place of the package ``warp_drive``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from warpdrive.errors import nearest
from warpdrive.module_aliases import Alias, Package, install_in_children

NAME = "warp_drive"
_OWN = "warpdrive.interop.warpdrive2."
_HOMES = {
    "env_wrapper": "env_wrapper",
    "env_cpu_gpu_consistency_checker": "consistency",
    "utils.common": "common",
    **dict.fromkeys(("utils.constants", "utils.data_feed"), "data_feed"),
    **dict.fromkeys(
        ("utils.gpu_environment_context", "utils.env_registrar", "utils.recursive_obs_dict_to_spaces_dict"),
        "environments",
    ),
    **dict.fromkeys(("managers.data_manager", "managers.function_manager"), "managers"),
    **{
        f"managers.{kind}_managers.{kind}_{part}_manager": "managers"
        for kind in ("numba", "pycuda")
        for part in ("data", "function")
    },
    **{
        f"training.utils.{name}": home
        for name, home in {
            "data_loader": "placeholders",
            "param_scheduler": "schedules",
            "ring_buffer": "ring_buffer",
            "vertical_scaler": "vertical_scaler",
            "child_process_base": "processes",
            **{f"device_child_process.child_process_{kind}": "processes" for kind in ("base", "numba", "pycuda")},
            **{f"distributed_train.distributed_trainer_{kind}": "processes" for kind in ("numba", "pycuda")},
        }.items()
    },
    **{f"training.models.{name}": "models" for name in ("factory", "model_base", "fully_connected")},
    "training.models.fully_connected_actor_critic": "models",
    **{f"training.algorithms.policygradient.{name}": "losses" for name in ("a2c", "ppo", "ddpg")},
    **{f"training.trainers.trainer_{name}": "trainer" for name in ("base", "a2c", "ddpg")},
    "training.trainer": "trainer",
    "training.pytorch_lightning": "lightning",
    "training.example_training_script": "training_script",
    **{f"training.scripts.example_training_script_{kind}": "training_script" for kind in ("numba", "pycuda")},
    **{f"training.example_training_script_{kind}": "training_script" for kind in ("numba", "pycuda")},
    "numba_includes.env_config": "",
    "numba_includes.test_build": "",
}
"""Modules of this package that replace those below ``warp_drive``; without one, a module of constants."""

_EXAMPLES = {
    **{f"dummy_env.{name}": "example_kernels" for name in ("test_step_numba", "tutorial_basics")},
    "tag_continuous.generate_rollout_animation": "example_envs",
    **{
        f"{folder}.{folder.rpartition('.')[2]}{suffix}": home
        for folder in (
            *("tag_gridworld", "tag_continuous"),
            *(
                f"single_agent.classic_control.{name}"
                for name in ("cartpole", "acrobot", "mountain_car", "continuous_mountain_car", "pendulum")
            ),
        )
        for suffix, home in (("", "example_envs"), ("_step_numba", "example_kernels"))
    },
}
"""Modules of this package that replace those below ``example_envs``."""


def _packages_of(names: Iterable[str]) -> set[str]:
    return {name.rsplit(".", depth)[0] for name in names for depth in range(1, name.count(".") + 1)}


_PACKAGES, _EXAMPLE_PACKAGES = _packages_of(_HOMES), _packages_of(_EXAMPLES)


class _Finder(MetaPathFinder):
    """Finder of ``warp_drive`` and its modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of ``warp_drive``. Raises :class:`ModuleNotFoundError` if there is none."""
        first, _, below = fullname.partition(".")
        if first != NAME:
            return None
        if not below or below in _PACKAGES:
            return ModuleSpec(fullname, Package(), is_package=True)
        if below not in _HOMES:
            hint = nearest(below, _HOMES)
            raise ModuleNotFoundError(f"warpdrive.interop.warpdrive2 has no module '{fullname}'.{hint}", name=fullname)
        return ModuleSpec(fullname, Alias(_OWN + _HOMES[below]) if _HOMES[below] else _Sizes())


class _FallbackFinder(MetaPathFinder):
    """Import finder of modules that programs use with ``warp_drive``, if there are no other modules of these names."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of ``gym``, as one of ``gymnasium``, or of ``example_envs``."""
        first, _, below = fullname.partition(".")
        if not _is_missing(first):
            return None
        if first == "gym":
            home = f"gymnasium{fullname[3:]}"
            try:
                spec = importlib.util.find_spec(home)
            except ModuleNotFoundError:
                return None
            return spec and ModuleSpec(fullname, Alias(home), is_package=spec.submodule_search_locations is not None)
        if not below or below in _EXAMPLE_PACKAGES:
            return ModuleSpec(fullname, Package(), is_package=True)
        return ModuleSpec(fullname, Alias(_OWN + _EXAMPLES[below])) if below in _EXAMPLES else None


def _is_missing(package: str) -> bool:
    """Return True for a package that programs use with ``warp_drive``, if it is not installed."""
    return package in ("gym", "example_envs") and PathFinder.find_spec(package) is None


class _Sizes(Package):
    """Loader of the module with the constants of kernels."""

    def exec_module(self, module: ModuleType) -> None:
        """Define the constants."""
        from warpdrive.interop.warpdrive2.kernel_modules import CONFIG, fill

        if module.__name__ == CONFIG:
            fill(module)


_installed_numba_cuda = False
_finders = (_Finder(), _FallbackFinder())


def is_installed() -> bool:
    """Return True between :func:`install` and :func:`uninstall`."""
    return _finders[0] in sys.meta_path


def install() -> None:
    """Make ``warp_drive`` the modules of this package, for modules imported from now on, also in child processes.

    Without a GPU, ``numba.cuda`` is replaced by :mod:`warpdrive.numba_cuda`, and ``torch.cuda`` reports one device,
    which is the CPU. If not installed, ``gym`` and ``example_envs`` are provided as well, by ``gymnasium`` and
    environments of this package.
    """
    global _installed_numba_cuda
    if is_installed():
        return
    _forget()
    sys.meta_path[:0] = _finders
    from warpdrive.interop.warpdrive2.devices import on_gpu

    if not on_gpu():
        from warpdrive import numba_cuda
        from warpdrive.interop.warpdrive2.torch_cuda import replace_torch_cuda

        _installed_numba_cuda = not numba_cuda.is_installed()
        numba_cuda.install()
        replace_torch_cuda()
    install_in_children(install, is_installed)


def uninstall() -> None:
    """Undo :func:`install`, for modules imported from now on."""
    global _installed_numba_cuda
    if not is_installed():
        return
    from warpdrive import numba_cuda
    from warpdrive.interop.warpdrive2.torch_cuda import restore_torch_cuda

    sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in _finders]
    _forget()
    restore_torch_cuda()
    if _installed_numba_cuda:
        numba_cuda.uninstall()
        _installed_numba_cuda = False


def _forget() -> None:
    for name in list(sys.modules):
        first = name.partition(".")[0]
        if first == NAME or _is_missing(first):
            del sys.modules[name]
