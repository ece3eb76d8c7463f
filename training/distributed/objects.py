"""Serialisation of messages between processes, as pure data: reading a message never runs code.

Tensors, numbers, strings, and lists, tuples and dictionaries of these are saved by PyTorch, and loaded with
``weights_only=True``. Other supported types are registered here by name, and sent as their parts.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from warpdrive import errors
from warpdrive.errors import TeamError, WarpDriveError
from warpdrive.training.checkpoint.checkpoint import Checkpoint
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.schema import RunConfig
from warpdrive.training.evaluation import EvaluationResult
from warpdrive.training.reports import TrainingSummary

_NAME, _PARTS = "warpdrive.object", "parts"
_DATACLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Checkpoint, EvaluationResult, TrainingSummary)}
_READ: dict[str, Callable[[Any], Any]] = {
    "Path": Path,
    "RunFolder": RunFolder,
    "RunConfig": RunConfig.model_validate,
    "error": lambda parts: _error(*parts),
    **{name: lambda parts, kind=kind: kind(**parts) for name, kind in _DATACLASSES.items()},  # type: ignore[misc]
}


def encoded(value: Any) -> Tensor:
    """Serialise a value to a message, ``[bytes]`` uint8.

    Raises:
        TeamError: If the value contains an unsupported type.
    """
    file = io.BytesIO()
    torch.save(_plain(value), file)
    return torch.frombuffer(file.getbuffer(), dtype=torch.uint8)


def decoded(message: Tensor) -> Any:
    """Deserialise a message of ``encoded``.

    Raises:
        TeamError: If the message is malformed.
    """
    try:
        return _restored(torch.load(io.BytesIO(message.numpy().tobytes()), weights_only=True))
    except Exception as error:
        raise TeamError(f"cannot decode a message from another process: {type(error).__name__}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # plain text, whatever its class is
    if value is None or isinstance(value, (bool, int, float, bytes, Tensor)):
        return value
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_plain(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    name, parts = _named(value)
    return {_NAME: name, _PARTS: _plain(parts)}


def _named(value: Any) -> tuple[str, Any]:
    name = type(value).__name__
    if isinstance(value, Path):
        return "Path", str(value)
    if isinstance(value, RunFolder):
        return name, value.path
    if isinstance(value, RunConfig):
        return name, value.model_dump(mode="json")
    if isinstance(value, WarpDriveError):
        return "error", (name, str(value))
    if _DATACLASSES.get(name) is type(value):
        return name, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TeamError(f"found {name}, which cannot be sent to other processes")


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if _NAME in value:
            return _READ[value[_NAME]](_restored(value[_PARTS]))
        return {key: _restored(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_restored(part) for part in value)
    return value


def _error(name: str, message: str) -> WarpDriveError:
    kind = getattr(errors, name, None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, WarpDriveError) else WarpDriveError(message)
