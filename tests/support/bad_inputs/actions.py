"""Actions that an environment cannot take, and observations that a policy cannot see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bad_inputs.verdict import Case

import warpdrive as wd

_ENVS, _AGENTS = 3, 1


def _of_any_space() -> list[Any]:
    """Values that no space contains."""
    floats = torch.zeros(3, 1)
    return [
        *("x", 5, 1.5, [], {}, (), object(), b"x", True, [[0], [0], [0]], {"agent": 0}, [None], float("nan"), print),
        *(
            np.zeros(0),
            np.zeros(()),
            np.zeros(3),
            np.zeros((1, 3)),
            np.zeros((3, 1, 1, 1)),
            np.zeros((4, 1)),
            np.zeros((2, 1)),
        ),
        *(
            np.zeros((3, 1), complex),
            np.zeros((3, 1), "U3"),
            np.zeros((3, 1), object),
            np.zeros((3, 1), "M8[s]"),
            np.zeros((3, 1), "S3"),
        ),
        *(np.zeros((3, 1), bool), np.zeros((3, 1), [("a", "f4")]), np.zeros((3, 1), "V4"), np.ma.masked_all((3, 1))),
        *(
            floats.to_sparse(),
            torch.zeros(3, 1, device="meta"),
            torch.zeros(3, 1, dtype=torch.complex64),
            torch.zeros(3, 1, dtype=torch.bool),
        ),
        *(
            torch.zeros(0),
            torch.zeros(()),
            torch.zeros(3),
            torch.zeros(1, 3),
            torch.zeros(3, 1, 1, 1),
            torch.nested.nested_tensor([torch.zeros(1)]),
        ),
        torch.zeros(3, 1, dtype=torch.float16),
        torch.zeros(3, 1, dtype=torch.int32).to_sparse(),
        torch.zeros(3, 1, dtype=torch.int32, device="meta"),
        torch.quantize_per_tensor(floats, 0.1, 0, torch.quint8),
        torch.zeros(3, 1, dtype=torch.bfloat16),
    ]


def _of_discrete() -> list[Any]:
    one = np.zeros((3, 1), np.int64)
    values = [-1, 2, 100, -(2**31), 2**31, 2**32, 2**40, -(2**40), 2**63 - 1, -(2**63), 2**32 + 1]
    wrong: list[Any] = []
    for value in values:
        given = one.copy()
        given[1, 0] = value
        wrong += [given, torch.from_numpy(given)]
    wrong += [
        np.full((3, 1), 2**64 - 1, np.uint64),
        np.full((3, 1), 2**32, np.uint64),
        np.full((3, 1), 2**32 - 1, np.uint32),
    ]
    wrong += [
        np.full((3, 1), 7, ">i4"),
        np.full((3, 1), -1, ">i8"),
        np.full((3, 1), 200, np.uint8),
        np.full((3, 1), -1, np.int8),
    ]
    wrong += [np.zeros((3, 1)), np.zeros((3, 1), np.float32), torch.zeros(3, 1), np.full((3, 1), np.nan)]
    return wrong


def _of_box() -> list[Any]:
    wrong: list[Any] = []
    for value in (np.nan, np.inf, -np.inf, 1e300, -1e300, 3.5e38):
        given = np.zeros((3, 1, 1))
        given[2] = value
        wrong += [given, torch.from_numpy(given)]
        if not np.isfinite(np.float32(value)):
            wrong += [given.astype(np.float32), given.astype(">f8"), given.astype(">f4")]
    wrong += [np.zeros((3, 1, 1), np.int32), np.zeros((3, 1, 2), np.float32), np.zeros((3, 1), np.float32)]
    wrong += [np.zeros((3, 1, 1), complex), np.zeros((3, 1, 1), np.longdouble), torch.zeros(3, 1, 1, dtype=torch.int64)]
    wrong += [
        torch.zeros(3, 1, 1, device="meta"),
        torch.zeros(3, 1, 1).to_sparse(),
        torch.zeros(3, 1, 1, dtype=torch.complex64),
    ]
    return wrong


def actions(folder: Path) -> Iterator[Case]:
    """Actions of the wrong kind, shape, dtype or range."""
    spaces: dict[str, tuple[wd.EnvWrapper, list[Any]]] = {
        "Discrete": (
            wd.EnvWrapper(env_name="cartpole", num_envs=3, env_backend="cpu"),
            _of_any_space() + _of_discrete(),
        ),
        "Box": (wd.EnvWrapper(env_name="pendulum", num_envs=3, env_backend="cpu"), _of_any_space() + _of_box()),
    }
    for space, (env, wrong) in spaces.items():
        for value in wrong:
            yield Case(f"{space}: {_told(value)}", lambda env=env, value=value: env.step(value))


def _told(value: Any) -> str:
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape) if not getattr(value, 'is_nested', False) else ''} {value.ravel()[-1] if isinstance(value, np.ndarray) and value.size else ''}"
    return f"{type(value).__name__} {value!r:.40}"


def observations(folder: Path) -> Iterator[Case]:
    """Invalid observations for a trained policy."""
    from warpdrive.training.config.load import load_config
    from warpdrive.training.trainer import Trainer, make_env

    config = load_config(
        "cartpole",
        [
            "trainer.num_envs=2",
            "trainer.train_batch_size=8",
            "trainer.total_steps=8",
            "trainer.env_backend=cpu",
            "trainer.torch_threads=1",
            f"saving.folder={folder}",
            "saving.tensorboard=false",
            "policy.agent.minibatches=1",
        ],
    )
    trainer = Trainer(make_env(config), config)
    trainer.save(folder / "checkpoint")
    policy = wd.load_policy(folder / "checkpoint")
    nan = np.zeros(4, np.float32)
    nan[2] = np.nan
    wrong: list[Any] = [
        *(
            None,
            "x",
            5,
            [],
            {},
            (),
            object(),
            b"x",
            [None] * 4,
            ["a"] * 4,
            {"agent": np.zeros(4)},
            print,
            1.5,
            [[0, 0, 0, 0], [0]],
        ),
        *(np.zeros(3), np.zeros(5), np.zeros((4, 1)), np.zeros((2, 3)), np.zeros(()), np.zeros((2, 2, 5)), np.zeros(0)),
        *(
            np.zeros(4, complex),
            np.zeros(4, "U3"),
            np.zeros(4, object),
            np.zeros(4, "M8[s]"),
            nan,
            np.full(4, np.inf),
            np.full(4, 1e300),
        ),
        *(
            torch.zeros(4, device="meta"),
            torch.zeros(4).to_sparse(),
            torch.zeros(3),
            torch.tensor(nan),
            torch.zeros(4, dtype=torch.complex64),
        ),
        *(
            np.full(4, -np.inf),
            np.full((2, 4), np.nan),
            torch.full((4,), torch.inf),
            [float("nan")] * 4,
            np.zeros(4, [("a", "f4")]),
        ),
    ]
    for value in wrong:
        yield Case(f"act({_told(value)})", lambda value=value: policy.act(value))
    good = np.zeros((2, 4), np.float32)
    for value in (
        "x",
        5,
        [],
        np.zeros(2, bool),
        np.zeros((2, 3), bool),
        [[True]],
        object(),
        {},
        "ab",
        np.zeros((2, 2), "U1"),
    ):
        yield Case(f"act(action_mask={_told(value)})", lambda value=value: policy.act(good, action_mask=value))
    for value in (
        "tpu",
        "cuda:99",
        "cuda",
        5,
        "",
        "cpu:x",
        object(),
        None,
        [],
        "mps",
        "meta",
        "xla",
        -1,
        "cuda:-1",
        1.5,
    ):
        yield Case(
            f"load_policy(device={value!r:.20})",
            lambda value=value: wd.load_policy(folder / "checkpoint", device=value),
        )
    for value in ("nobody", [], {}, "", object()):
        yield Case(f"load_policy(tag={value!r:.20})", lambda value=value: wd.load_policy(folder / "checkpoint", value))
        yield Case(
            f"load_policy(which={value!r:.20})", lambda value=value: wd.load_policy(folder / "checkpoint", which=value)
        )
        yield Case(
            f"load_policy(seed={value!r:.20})", lambda value=value: wd.load_policy(folder / "checkpoint", seed=value)
        )
    for value in (-1, 1.5, 2**64, 10**400, float("nan")):
        yield Case(
            f"load_policy(seed={value!r:.20})", lambda value=value: wd.load_policy(folder / "checkpoint", seed=value)
        )
    for value in (5, None, [], "", "no_such", "a\0b", object(), "x" * 5000, 1.5, b"x", str(folder), "/dev/null", "/"):
        yield Case(f"load_policy({value!r:.20})", lambda value=value: wd.load_policy(value))
        yield Case(f"Trainer.load({value!r:.20})", lambda value=value: wd.Trainer.load(value))
        yield Case(f"Trainer.resume({value!r:.20})", lambda value=value: wd.Trainer.resume(value))
    for value in ("x", "x.txt", "", ".onnx", "no/such/x.pt2", 5, None, "a\0b.pt2", "/proc/x.pt2", "x" * 5000 + ".pt2"):
        yield Case(f"export({value!r:.20})", lambda value=value: policy.export(value))
    for key, values in {
        "num_episodes": (0, -1, 1.5, "5", True, [], 10**400, 1e30, float("nan"), {}),
        "random": ("agent", 5, ["nobody"], [5], [None], {"x": 1}, [[]], True),
        "seed": (-1, 1.5, "5", [], 10**400, 2**64, float("nan"), True),
        "deterministic": (5, "x", [], 1.5),
    }.items():
        for value in values:
            yield Case(
                f"evaluate({key}={value!r:.20})",
                lambda key=key, value=value: trainer.evaluate(**{"num_episodes": 2, key: value}),
            )
    for value in (0, -1, 1.5, "5", [], 10**400, True, [5, -1], ["x"], [1.5], None):
        yield Case(f"fetch_episode({value!r:.20})", lambda value=value: trainer.fetch_episode(value))
    for value in (0, -1, 1.5, "5", [], True):
        yield Case(
            f"fetch_episode(max_steps={value!r:.20})", lambda value=value: trainer.fetch_episode(max_steps=value)
        )
