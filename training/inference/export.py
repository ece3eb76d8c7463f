"""Export of a trained policy to a file: ONNX, or a program of ``torch.export``.

The exported module computes actions and logits from observations. The file is loaded again and its outputs are
compared.
"""

from __future__ import annotations

import copy
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.arguments import check_path
from warpdrive.errors import ExportError, nearest, one_line
from warpdrive.observations import Observations, tensors
from warpdrive.training.runtime.atomic_write import replace_file

if TYPE_CHECKING:
    from warpdrive.training.inference.trained_policy import TrainedPolicy

FORMATS = (".onnx", ".pt2")
_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_TOLERANCE = 1e-6
"""Tolerance of logits, relative to the largest of them if it is more than 1."""
_BATCHES = (1, 7)  # numbers of observations that an exported policy is checked with
_REACH = 10.0  # of the observations that it is checked with
_TRACED = 2  # a batch of 1 would be taken for a constant

Inputs = tuple[Observations, dict[str, Tensor]]
"""Observations, and the other inputs by name."""
Program = Callable[..., tuple[Tensor, ...]]


class Deployed(nn.Module):
    """Exported module: maps observations to the most probable actions and the logits.

    Args:
        policy: Trained policy on the CPU.
    """

    def __init__(self, policy: TrainedPolicy) -> None:
        super().__init__()
        self.model, self._policy = policy.model, policy

    def forward(
        self, observations: Observations, action_mask: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Compute the most probable actions and the logits.

        Args:
            observations: ``[batch, *shape]``, by key for a Dict space.
            action_mask: ``[batch, choices]`` bool, False for choices that are not allowed; None: all are.
            state: ``[batch, state_size]`` float32, recurrent state; None for other policies.

        Returns:
            Actions as of ``TrainedPolicy.act``, logits ``[batch, num_logits]``, and if the policy is recurrent the next
            state.
        """
        if state is None:
            outputs: tuple[Tensor, ...] = (self.model.logits(observations),)
        else:
            outputs = self.model.step(observations, state)
        actions = self._policy.distribution.mode(outputs[0], action_mask)
        return self._policy.fitted(actions, outputs[0].shape[:1]), *outputs


def export_policy(policy: TrainedPolicy, path: str | Path, action_mask: bool = False) -> Path:
    """Write a policy to a file and check that the file computes the same.

    See ``TrainedPolicy.export``, which calls this.

    Args:
        policy: The policy.
        path: The file.
        action_mask: If True, the file takes a mask of allowed choices.

    Returns:
        ``path``.

    Raises:
        ExportError: If the policy cannot be exported, or the file does not compute the same.
    """
    check_path(path=path)
    path = Path(path)
    _check(policy, path, action_mask)
    alone = type(policy)(
        policy.tag,
        copy.deepcopy(policy.model).cpu(),
        policy.observation_space,
        policy.action_space,
        policy.distribution,
    )
    deployed = Deployed(alone).eval()
    beside = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix.lower()}")
    try:
        beside.touch()
    except OSError as error:  # before seconds of work, and in other words than those of PyTorch
        raise ExportError(f"{one_line(str(path))}: cannot be written: {error.strerror}") from error
    try:
        with _quiet():
            observations, others = _inputs(alone, _TRACED, action_mask)
            rows = {0: torch.export.Dim("batch")}
            dynamic_shapes = {"observations": _like(observations, rows), **dict.fromkeys(others, rows)}
            program = torch.export.export(deployed, (observations,), others, dynamic_shapes=dynamic_shapes)
            if path.suffix.lower() == ".onnx":
                _write_onnx(program, alone, beside, action_mask)
                run = _onnx_runner(beside)
            else:
                torch.export.save(program, beside)
                run = torch.export.load(beside).module()
        for batch in _BATCHES:
            _compare(path, deployed, run, _inputs(alone, batch, action_mask))
        replace_file(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def input_names(policy: TrainedPolicy, action_mask: bool = False) -> list[str]:
    """Return the names of the inputs of an ONNX file."""
    space = policy.observation_space
    seen = [f"observations_{key}" for key in sorted(space)] if isinstance(space, spaces.Dict) else ["observations"]
    return [*seen, *(["action_mask"] if action_mask else []), *(["state"] if policy.is_recurrent else [])]


def output_names(policy: TrainedPolicy) -> list[str]:
    """Return the names of the outputs of an ONNX file."""
    return ["actions", "logits", *(["next_state"] if policy.is_recurrent else [])]


def _check(policy: TrainedPolicy, path: Path, action_mask: bool) -> None:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        hint = nearest(suffix, FORMATS) if suffix else ""
        raise ExportError(f"{path}: the name of an exported policy ends in .onnx (ONNX) or .pt2 (torch.export).{hint}")
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        description = "is a folder; name a file in it" if os.path.isdir(path) else "no such folder"
        raise ExportError(f"{one_line(str(path))}: {description}")
    if action_mask and isinstance(policy.action_space, spaces.Box):
        raise ExportError(
            f"policy '{policy.tag}': found action_mask, but {policy.action_space} has no discrete actions"
        )
    if suffix == ".onnx":
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ExportError(
                f"{path}: exporting to ONNX requires {' and '.join(missing)}: pip install 'warpdrive[onnx]'; .pt2 "
                "needs no other package"
            )


def _inputs(policy: TrainedPolicy, batch: int, action_mask: bool) -> Inputs:
    """Return reproducible samples of the spaces, with a mask that always allows something."""
    draws = np.random.default_rng(batch)
    others: dict[str, Tensor] = {}
    if action_mask:
        allowed = [draws.random((batch, n)) < 0.5 for n in _choices(policy.action_space)]
        for part in allowed:
            part[np.arange(batch), draws.integers(part.shape[1], size=batch)] = True
        others["action_mask"] = torch.from_numpy(np.concatenate(allowed, axis=-1))
    if policy.is_recurrent:
        others["state"] = torch.from_numpy(draws.uniform(-1, 1, (batch, policy.model.state_size)).astype(np.float32))
    return _drawn(policy.observation_space, batch, draws), others


def _choices(space: Space[Any]) -> list[int]:
    return [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec]  # type: ignore[attr-defined]


def _drawn(space: Space[Any], batch: int, draws: np.random.Generator) -> Observations:
    if isinstance(space, spaces.Dict):
        return {key: _drawn(space[key], batch, draws) for key in sorted(space)}
    shape = (batch, *(space.shape or ()))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        centre = np.clip(0.0, space.low, space.high)  # bounds are often the limits of the dtype
        low, high = np.maximum(space.low, centre - _REACH), np.minimum(space.high, centre + _REACH)
        return torch.from_numpy(draws.uniform(low, high, shape).astype(space.dtype))
    if isinstance(space, spaces.Box):
        return torch.from_numpy(draws.integers(space.low, space.high, shape, dtype=space.dtype, endpoint=True))
    most = space.n if isinstance(space, spaces.Discrete) else space.nvec  # type: ignore[attr-defined]
    return torch.from_numpy(draws.integers(most, size=shape))


def _like(observations: Observations, rows: Any) -> Any:
    return dict.fromkeys(observations, rows) if isinstance(observations, dict) else rows


def _write_onnx(program: Any, policy: TrainedPolicy, path: Path, action_mask: bool) -> None:
    written = torch.onnx.export(
        program,
        dynamo=True,
        input_names=input_names(policy, action_mask),
        output_names=output_names(policy),
        verbose=False,
    )
    assert written is not None
    for value in (*written.model.graph.inputs, *written.model.graph.outputs):
        assert value.shape is not None
        value.shape[0] = "batch"
    written.model.metadata_props["policy_tag"] = policy.tag
    written.save(path, external_data=False)


def _onnx_runner(path: Path) -> Program:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def run(observations: Observations, **others: Tensor) -> tuple[Tensor, ...]:
        flat = [tensor.numpy() for tensor in (*tensors(observations), *others.values())]
        return tuple(torch.from_numpy(output) for output in session.run(None, dict(zip(names, flat, strict=True))))

    return run


@torch.no_grad()
def _compare(path: Path, deployed: Deployed, run: Program, inputs: Inputs) -> None:
    actions, *numbers = deployed(inputs[0], **inputs[1])
    found_actions, *found_numbers = run(inputs[0], **inputs[1])
    allowed = _TOLERANCE * max(1.0, *(float(part.abs().max()) for part in numbers))
    difference = max(float((found - part).abs().max()) for found, part in zip(found_numbers, numbers, strict=True))
    same = (
        torch.allclose(found_actions, actions, rtol=_TOLERANCE, atol=allowed)
        if actions.is_floating_point()
        else torch.equal(found_actions, actions)
    )
    if not (difference <= allowed and same):
        raise ExportError(
            f"{path}: the exported model does not match the policy: logits differ by {difference:.2g} "
            f"(tolerance: {allowed:.2g}), and actions are {'equal' if same else 'different'}; nothing was written"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporters' messages about optional packages."""
    logger = logging.getLogger("torch.onnx")
    former = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(former)
