"""Which backend stands for a device that a run configuration names."""

from __future__ import annotations

import torch

from warpdrive.backends.interface import Backend, load_backend
from warpdrive.errors import BackendError, ConfigError

_BACKENDS = {("Python", "cpu"): "cpu", ("Python", "cuda"): "numba", ("CUDA C", "cpu"): "pycuda"}


def backend_at(key: str, device: str | None, like: Backend) -> Backend:
    """The backend on another device that runs what ``like`` runs; ``like`` itself where it is on that device.

    Args:
        key: of the run configuration, told in errors.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:<number>"``; None: where ``like`` is.
        like: a backend.

    Raises:
        ConfigError: this machine has no such device, or what is missing to use it.
    """
    if device is None or _is_on(like, device):
        return like
    return _load(key, device, _BACKENDS.get((like.language, torch.device(device).type), "pycuda"))


def rollout_backend(name: str, device: str, process_id: int = 0) -> Backend:
    """The backend ``name`` (of ``trainer.env_backend``) on a device; ``"auto"``: the one for Python there.

    Of several processes on this machine, ``process_id`` says which this is: of ``"cuda"`` they take turns at the GPUs.

    Raises:
        ConfigError: this machine has no such device, what is missing to use it, or the backend is for another.
    """
    if name == "auto":
        name = _BACKENDS["Python", torch.device(device).type]
    return _load("trainer.rollout_device", device, name, process_id)


def check_rollout_device(device: str | None, backend: Backend) -> None:
    """Raise ConfigError if replicas are on another device than the run configuration says."""
    if device is not None and not _is_on(backend, device):
        raise ConfigError(f"trainer.rollout_device: found '{device}', but the environment is on {backend.device}")


def _load(key: str, device: str, name: str, process_id: int = 0) -> Backend:
    index = torch.device(device).index
    try:
        backend = load_backend(name, process_id if index is None else index)
    except BackendError as error:
        raise ConfigError(f"{key}: found '{device}', which cannot be used: {error}") from error
    if not _is_on(backend, device):
        raise ConfigError(f"{key}: found '{device}', but the backend '{name}' here is on {backend.device}")
    return backend


def _is_on(backend: Backend, device: str) -> bool:
    wanted = torch.device(device)
    there = backend.device
    return there.type == wanted.type and wanted.index in (None, there.index or 0)
