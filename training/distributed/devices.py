"""Backends for the devices that a run configuration names."""

from __future__ import annotations

import torch

from warpdrive.backends.interface import Backend
from warpdrive.backends.loading import load_backend, name_for
from warpdrive.errors import BackendError, ConfigError


def backend_at(key: str, device: str | None, like: Backend) -> Backend:
    """Return the backend on another device for the kernels of ``like``; ``like`` itself if it is on that device.

    Args:
        key: Configuration key, for error messages.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:<number>"``; None: the device of ``like``.
        like: A backend.

    Returns:
        The backend.

    Raises:
        ConfigError: If this machine has no such device, or lacks a requirement for its use.
    """
    if device is None or _is_on(like, device):
        return like
    return _load(key, device, name_for(like.language, torch.device(device).type))


def rollout_backend(name: str, device: str, process_id: int = 0) -> Backend:
    """Return the backend ``name`` (of ``trainer.env_backend``) on a device; ``"auto"``: the one for Python there.

    Args:
        name: Name of the backend.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:<number>"``.
        process_id: Local rank of this process: with ``"cuda"`` the processes are distributed over the GPUs in turn.

    Returns:
        The backend.

    Raises:
        ConfigError: If this machine has no such device, lacks a requirement for its use, or the backend is for another
            device.
    """
    if name == "auto":
        name = name_for("Python", torch.device(device).type)
    return _load("trainer.rollout_device", device, name, process_id)


def check_rollout_device(device: str | None, backend: Backend) -> None:
    """Check that replicas are on the device of the run configuration.

    Raises:
        ConfigError: If they are on another one.
    """
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
