"""Page of a game: one HTML file that needs no other files and no network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from warpdrive.arguments import check_within
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import DefinitionError, WarpDriveError, shown
from warpdrive.fused_step.binding import named_parameters
from warpdrive.per_replica import per_replica_attributes
from warpdrive.scene import fields, geometry
from warpdrive.scene.artist import check_shapes, scenery_of
from warpdrive.scene.page import described_scenery, framed, page
from warpdrive.spaces import SpaceArray, action_arrays
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.runtime.atomic_write import check_no_link, write_atomically
from warpdrive.training.web.game import Game, digest_of_steps
from warpdrive.training.web.program import Program, fitting_replicas, lengths_of, numbers_of, program_of

_ASSETS = Path(__file__).parent / "assets"
_MAX_SHAPES = 20_000
"""Shapes that a page can draw in each frame."""
_MOST_REPLICAS = 64
_LOOKS = 4
"""Replicas whose sceneries are compared."""
_LONGEST_TRAIL = 60
"""States of which a page remembers where shapes were."""
VERIFIED_STEPS, VERIFIED_REPLICAS = 10_000, 2
_DIGITS = "0123456789"
_KEYS = frozenset({"left", "right", "up", "down", "space", "enter", *_DIGITS, *map(chr, range(ord("a"), ord("z") + 1))})


@dataclass(frozen=True)
class PageOptions:
    """Options of a page.

    Attributes:
        title: Title; None for the name of the environment.
        about: Words below the title.
        replicas: Initial number of replicas.
        steps_per_second: Initial speed.
        greedy: If True, policies take their most probable action instead of sampling.
        verified_steps: Number of steps for which the page can check equality with the native backend.

    Raises:
        DefinitionError: If ``replicas`` or ``verified_steps`` is no integer of 1 or more, or ``steps_per_second`` no
            number greater than 0.
    """

    title: str | None = None
    about: str = ""
    replicas: int = 1
    steps_per_second: float = 10.0
    greedy: bool = False
    verified_steps: int = VERIFIED_STEPS

    def __post_init__(self) -> None:
        check_within(1, 1 << 31, replicas=self.replicas, verified_steps=self.verified_steps)
        speed = self.steps_per_second
        if isinstance(speed, bool) or not isinstance(speed, Real) or not 0 < speed < math.inf:
            raise DefinitionError(f"fps is {shown(speed)}, expected a number greater than 0")


@dataclass(frozen=True)
class WebPage:
    """Page and its contents.

    Displays itself as the result of a notebook cell.

    Attributes:
        html: The page.
        title: Its title.
        module_bytes: Bytes of the WebAssembly module.
        data_bytes: Bytes of weights, start states and constants.
        digest: Hash of the states that the page verifies, in hexadecimal digits.
        policies: Policy tags whose agents have a policy.
        program: The program.
    """

    html: str = field(repr=False)
    title: str
    module_bytes: int
    data_bytes: int
    digest: str
    policies: list[str]
    program: Program = field(repr=False)

    def write(self, path: Path) -> None:
        """Write the page to a file, which :func:`check_output` has checked; missing folders are made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.html)

    def _repr_html_(self) -> str:
        """Return the page in an iframe."""
        return framed(self.html, self.title)


def check_output(path: Path) -> None:
    """Check the name of a page's file before the page is made.

    Raises:
        WarpDriveError: If it does not end in ``.html``, or is a link.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise WarpDriveError(f"{path}: expected a name that ends in .html")
    check_no_link(path)


def web_page(env: EnvWrapper, policies: Mapping[str, TrainedPolicy], options: PageOptions | None = None) -> WebPage:
    """Return the page of an environment with policies.

    Args:
        env: Replicas of the environment on the CPU, of which the seed and the pool of start states are the page's.
        policies: Policies by tag; agents of other tags act uniformly at random.
        options: Options of the page.

    Returns:
        The page.

    Raises:
        KernelError: If a kernel cannot be compiled to WebAssembly; the message has its file and line.
        ExportError: If a policy is of a kind that pages cannot compute.
        DefinitionError: If ``controls`` or the pictures of the environment are invalid.
    """
    options = options or PageOptions()
    controls, scenery = controls_of(env), _scenery(env)
    compiled = env.like(fitting_replicas(lengths_of(env)), env.seed)
    game = Game(compiled, policies, options.greedy)
    program = program_of(game)
    verified = Game(env.like(VERIFIED_REPLICAS, env.seed), policies, options.greedy)
    digest = f"{digest_of_steps(verified, options.verified_steps):016x}"
    title = options.title or env.env.name
    environment = env.env
    shapes = env.num_agents * environment.shapes_per_agent if environment.draw is not None else 1
    data = {
        "title": title,
        "about": options.about,
        "program": {**program.packed(), "description": program.description},
        "tags": env.policy_tags,
        "numAgents": env.num_agents,
        "shapesPerAgent": int(environment.shapes_per_agent),
        "canDraw": environment.draw is not None,
        "episodeLength": int(environment.episode_length),
        "seed": str(env.seed),  # numbers of JavaScript have 53 bits
        "replicas": int(options.replicas),
        "maxReplicas": max(1, min(_MOST_REPLICAS, _MAX_SHAPES // max(shapes, 1))),
        "stepsPerSecond": float(options.steps_per_second),
        "actions": [_action(env, array) for array in action_arrays(environment)],
        "controls": controls,
        "settable": _settable(env, program),
        "kept": [name for name in compiled.ctx if name.startswith("sampler.logits_")],
        "longestTrail": _LONGEST_TRAIL if _has_trails(game) else 0,
        "scenery": scenery,
        "trail": {"opacity": geometry.OPACITY, "longestPart": geometry.LONGEST_PART},
        "verify": {
            "replicas": VERIFIED_REPLICAS,
            "seed": str(env.seed),
            "steps": int(options.verified_steps),
            "digest": digest,
            "inexact": [Path(place).name for place in program.inexact],
        },
    }
    html = page(_ASSETS / "page.html", [_ASSETS / "engine.js", _ASSETS / "play.js"], title, data)
    return WebPage(html, title, len(program.module), len(program.data), digest, list(policies), program)


def controls_of(env: EnvWrapper) -> dict[str, dict[str, Any]]:
    """Return the actions of human players by policy tag and key: the environment's, else digits for the first choices.

    Raises:
        DefinitionError: If the environment declares unknown keys or actions.
    """
    environment = env.env
    declared = environment.controls
    if not isinstance(declared, Mapping):
        raise _wrong(environment, f"controls is {shown(declared)}, expected a dict from keys to actions")
    by_tag = bool(declared) and set(declared) <= set(env.policy_tags)
    found = {}
    for tag in env.policy_tags:
        own = (declared.get(tag, {}) if by_tag else declared) or _digits(env.action_spaces[tag])
        for combination, action in own.items():
            _check_control(environment, env.action_spaces[tag], combination, action)
        found[tag] = {
            key: {str(place): value for place, value in action.items()} if isinstance(action, Mapping) else action
            for key, action in own.items()
        }
    return found


def _digits(space: spaces.Space[Any]) -> dict[str, Any]:
    if isinstance(space, spaces.Discrete):
        return {_DIGITS[number]: number for number in range(min(int(space.n), len(_DIGITS)))}
    return {}


def _check_control(environment: Any, space: spaces.Space[Any], combination: Any, action: Any) -> None:
    if combination == "" and action is None:
        return
    names = combination.split("+") if isinstance(combination, str) else [None]
    if combination != "" and not set(names) <= _KEYS:
        raise _wrong(
            environment,
            f"controls has the key {shown(combination)}, expected left, right, up, down, space, enter, a letter, a "
            "digit, several of them joined by '+', or '' for none",
        )
    if isinstance(space, spaces.Discrete):
        fits = isinstance(action, int) and 0 <= action < space.n
    else:
        count = int(np.prod(space.shape or (), dtype=np.int64))
        limits = space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else [np.inf] * count
        fits = isinstance(action, Mapping) and all(
            isinstance(place, int)
            and 0 <= place < count
            and isinstance(value, int | float if isinstance(space, spaces.Box) else int)
            and -math.inf < value < math.inf
            and (isinstance(space, spaces.Box) or 0 <= value < limits[place])
            for place, value in action.items()
        )
    if not fits:
        raise _wrong(environment, f"controls[{combination!r}] is {shown(action)}, expected an action of {space}")


def _wrong(environment: Any, message: str) -> DefinitionError:
    return DefinitionError(f"environment {type(environment).__name__}: {message}")


def _action(env: EnvWrapper, array: SpaceArray) -> dict[str, Any]:
    size = int(np.prod(array.shape[1:], dtype=np.int64))
    described: dict[str, Any] = {"name": array.name, "agents": list(array.agents), "size": size, "kind": "choices"}
    if isinstance(array.space, spaces.Box):
        bounds = (array.space.low, array.space.high)
        low, high = ([max(min(float(end), 1e30), -1e30) for end in bound.ravel()] for bound in bounds)
        described |= {"kind": "box", "low": low, "high": high}
    return described


def _settable(env: EnvWrapper, program: Program) -> list[dict[str, Any]]:
    """Return the float numbers of kernels, and the constants of replicas that are float numbers."""
    environment = env.env
    named = named_parameters([k for k in (environment.step, environment.observe, environment.reset) if k is not None])
    found = [
        {"name": name, "value": float(array["init"]["value"])}
        for name, array in numbers_of(program.description).items()
        if name in named
    ]
    for name in per_replica_attributes(environment):
        values = env.ctx[name]
        if values.dim() == 1 and values.is_floating_point() and values[0].isfinite():
            found.append({"name": name, "value": float(values[0])})
    return found


def _has_trails(game: Game) -> bool:
    if "draw" not in game.kernels:
        return False
    game.launch("draw")
    for name in {"shapes", "things"} & set(game.env.ctx):
        check_shapes(game.env.env, name, game.env.ctx[name].numpy())
    return bool((game.env.ctx["shapes"][..., fields.TRAIL] > 0).any())


def _scenery(env: EnvWrapper) -> dict[str, Any]:
    """Return the parts of the scenery that are equal in sampled states of several episodes."""
    environment = env.env
    if environment.draw is None:
        return {"view": [0, 1, 0, 1], "polygons": [], "texts": [], "images": []}
    replicas = env.like(_LOOKS, env.seed)
    scenes = []
    for steps in (0, 1, 1, 4, 16):
        for _ in range(steps):
            replicas.step()
        scenes += [described_scenery(scenery_of(environment, state)) for state in _states(replicas)]
    first, *others = scenes
    del first["caption"]  # of one state
    for kind in ("polygons", "texts", "images"):
        first[kind] = [part for part in first[kind] if all(part in other[kind] for other in others)]
    return first


def _states(env: EnvWrapper) -> Iterator[dict[str, Any]]:
    names = [name for name in env.ctx.state_names if "." not in name]
    for replica in range(env.num_envs):
        yield {name: env.ctx[name][replica].numpy().copy() for name in names}
