"""A trained policy as a file for other programs: ONNX, or a program of ``torch.export``."""

from __future__ import annotations

import copy
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.errors import ExportError, nearest
from warpdrive.observations import Observations
from warpdrive.training.trained_policy import TrainedPolicy

FORMATS = (".onnx", ".pt2")
_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_TOLERANCE = 1e-6
"""Of logits, relative to the largest of them where that is more than 1."""
_BATCHES = (1, 7)  # numbers of observations that an exported policy is checked with
_REACH = 10.0  # of the observations that it is checked with
_TRACED = 2  # a batch of 1 would be taken for a constant

Program = Callable[..., tuple[Tensor, Tensor]]


class Deployed(nn.Module):
    """What is exported: observations in, the most probable actions and the logits out.

    Args:
        policy: on the CPU.
    """

    def __init__(self, policy: TrainedPolicy) -> None:
        super().__init__()
        self.model, self._policy = policy.model, policy

    def forward(self, observations: Observations, action_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """``[batch, *shape]``, by key where the space is a Dict -> actions as of ``TrainedPolicy.act``, logits."""
        logits = self.model.logits(observations)
        actions = self._policy.distribution.mode(logits, action_mask)
        return self._policy.fitted(actions, logits.shape[:1]), logits


def export_policy(policy: TrainedPolicy, path: str | Path, action_mask: bool = False) -> Path:
    """Write a policy to a file and check that what was written does the same.

    See ``TrainedPolicy.export``, which calls this.
    """
    path = Path(path)
    _check(policy, path, action_mask)
    alone = TrainedPolicy(
        policy.tag,
        copy.deepcopy(policy.model).cpu(),
        policy.observation_space,
        policy.action_space,
        policy.distribution,
    )
    deployed = Deployed(alone).eval()
    beside = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix.lower()}")
    try:
        with _quiet():
            program = torch.export.export(
                deployed, _inputs(alone, _TRACED, action_mask), dynamic_shapes=_dynamic_shapes(alone, action_mask)
            )
            if path.suffix.lower() == ".onnx":
                _write_onnx(program, alone, beside, action_mask)
                run = _onnx_runner(beside)
            else:
                torch.export.save(program, beside)
                run = torch.export.load(beside).module()
        for batch in _BATCHES:
            _compare(path, deployed, run, _inputs(alone, batch, action_mask))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def input_names(policy: TrainedPolicy, action_mask: bool = False) -> list[str]:
    """What the inputs of an ONNX file are called."""
    space = policy.observation_space
    seen = [f"observations_{key}" for key in sorted(space)] if isinstance(space, spaces.Dict) else ["observations"]
    return [*seen, *(["action_mask"] if action_mask else [])]


OUTPUT_NAMES = ("actions", "logits")


def _check(policy: TrainedPolicy, path: Path, action_mask: bool) -> None:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        hint = nearest(suffix, FORMATS) if suffix else ""
        raise ExportError(f"{path}: the name of an exported policy ends in .onnx (ONNX) or .pt2 (torch.export).{hint}")
    if path.is_dir() or not path.parent.is_dir():
        raise ExportError(f"{path}: {'is a folder; name a file in it' if path.is_dir() else 'there is no such folder'}")
    if policy.is_recurrent:
        raise ExportError(f"policy '{policy.tag}': found a recurrent model; only models without a memory are exported")
    if action_mask and isinstance(policy.action_space, spaces.Box):
        raise ExportError(f"policy '{policy.tag}': found action_mask, but {policy.action_space} has no choices")
    if suffix == ".onnx":
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ExportError(
                f"{path}: writing ONNX and checking it needs {' and '.join(missing)}, which "
                "pip install 'warpdrive[onnx]' brings; .pt2 needs nothing"
            )


def _inputs(policy: TrainedPolicy, batch: int, action_mask: bool) -> tuple[Any, ...]:
    """Return observations drawn from the space, the same each time, and a mask that always allows something."""
    draws = np.random.default_rng(batch)
    inputs: list[Any] = [_drawn(policy.observation_space, batch, draws)]
    if action_mask:
        choices = _choices(policy.action_space)
        allowed = [draws.random((batch, n)) < 0.5 for n in choices]
        for part in allowed:
            part[np.arange(batch), draws.integers(part.shape[1], size=batch)] = True
        inputs.append(torch.from_numpy(np.concatenate(allowed, axis=-1)))
    return tuple(inputs)


def _choices(space: Space[Any]) -> list[int]:
    return [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec]  # type: ignore[attr-defined]


def _drawn(space: Space[Any], batch: int, draws: np.random.Generator) -> Observations:
    if isinstance(space, spaces.Dict):
        return {key: _drawn(space[key], batch, draws) for key in sorted(space)}
    shape = (batch, *(space.shape or ()))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        centre = np.clip(0.0, space.low, space.high)  # spaces often end where numbers do, and models are for less
        low, high = np.maximum(space.low, centre - _REACH), np.minimum(space.high, centre + _REACH)
        return torch.from_numpy(draws.uniform(low, high, shape).astype(space.dtype))
    if isinstance(space, spaces.Box):
        return torch.from_numpy(draws.integers(space.low, space.high, shape, dtype=space.dtype, endpoint=True))
    most = space.n if isinstance(space, spaces.Discrete) else space.nvec  # type: ignore[attr-defined]
    return torch.from_numpy(draws.integers(most, size=shape))


def _dynamic_shapes(policy: TrainedPolicy, action_mask: bool) -> tuple[Any, ...]:
    batch = {0: torch.export.Dim("batch")}
    space = policy.observation_space
    seen = dict.fromkeys(sorted(space), batch) if isinstance(space, spaces.Dict) else batch
    return (seen, batch) if action_mask else (seen,)


def _write_onnx(program: Any, policy: TrainedPolicy, path: Path, action_mask: bool) -> None:
    written = torch.onnx.export(
        program,
        dynamo=True,
        input_names=input_names(policy, action_mask),
        output_names=OUTPUT_NAMES,
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

    def run(*inputs: Any) -> tuple[Tensor, Tensor]:
        flat = [tensor.numpy() for part in inputs for tensor in (part.values() if isinstance(part, dict) else [part])]
        actions, logits = session.run(list(OUTPUT_NAMES), dict(zip(names, flat, strict=True)))
        return torch.from_numpy(actions), torch.from_numpy(logits)

    return run


@torch.no_grad()
def _compare(path: Path, deployed: Deployed, run: Program, inputs: tuple[Any, ...]) -> None:
    actions, logits = deployed(*inputs)
    found_actions, found_logits = run(*inputs)
    allowed = _TOLERANCE * max(1.0, float(logits.abs().max()))
    difference = float((found_logits - logits).abs().max())
    same = (
        torch.allclose(found_actions, actions, rtol=_TOLERANCE, atol=allowed)
        if actions.is_floating_point()
        else torch.equal(found_actions, actions)
    )
    if not (difference <= allowed and same):
        raise ExportError(
            f"{path}: what was exported does not do what the policy does: logits differ by {difference:.2g} "
            f"(allowed: {allowed:.2g}), and actions are {'the same' if same else 'others'}; nothing was written"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves what the exporters say about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    former = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(former)
