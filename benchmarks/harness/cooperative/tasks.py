"""Tasks of the cooperative benchmark: our environment, the original it is evaluated in, and the unit of returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.cooperative import originals
from harness.cooperative.originals import Original


@dataclass(frozen=True, eq=False)
class Task:
    """Task of the benchmark.

    Attributes:
        name: Its name in the table.
        family: The group of tasks, one of ``FAMILIES``.
        environment: The name of our environment.
        parameters: Its parameters.
        original: Creates an instance of the original environment.
        steps: The number of steps of an episode.
        learning: The policy tags that are trained and whose rewards count.
        scale: Factor of the sum of all rewards of these agents.
        offset: Added to the scaled sum.
        key: The environment's id in EPyMARL; None if it has none.
        opponent: The network of EPyMARL that acts for the other agents: ``"prey"`` or ``"adversary"``.
    """

    name: str
    family: str
    environment: str
    parameters: dict[str, Any]
    original: Callable[[], Original]
    steps: int
    learning: tuple[str, ...] = ("agent",)
    scale: float = 1.0
    offset: float = 0.0
    key: str | None = None
    opponent: str | None = None
    others: tuple[str, ...] = field(default=())

    def team_return(self, rewards: float) -> float:
        """Convert the sum of all rewards of the learning agents to the unit of the table."""
        return self.scale * rewards + self.offset


FAMILIES = {
    "matrix": "Matrix games",
    "mpe": "Particle environments",
    "lbf": "Level-based foraging",
    "rware": "Multi-robot warehouse",
    "overcooked": "Overcooked",
}


def _matrix(name: str, table: list[list[float]], key: str, **parameters: Any) -> Task:
    return Task(
        f"matrix-{name}", "matrix", "matrix_game", parameters, lambda: originals.Matrix(table), 25,
        scale=1 / 2, key=f"matrixgames:{key}-nostate-v0",
    )  # fmt: skip


def _penalty(k: int) -> Task:
    table: list[list[float]] = [[-k, 0, 10], [0, 2, 0], [10, 0, -k]]
    return _matrix(f"penalty-{k}", table, f"penalty-{k}", payoff="penalty", penalty=float(-k))


def _foraging(name: str, players: int, foods: int, size: int, sight: int, coop: bool = False) -> Task:
    parameters = {"players": players, "max_num_food": foods, "field_size": size, "sight": sight, "force_coop": coop}
    seen = f"{sight}s-" if sight < size else ""
    kind = f"{seen}{size}x{size}-{players}p-{foods}f{'-coop' if coop else ''}"
    return Task(
        f"lbf-{name}", "lbf", "lbf", parameters, lambda: originals.Foraging(**parameters), 50,
        key=f"lbforaging:Foraging-{kind}-v3",
    )  # fmt: skip


def _warehouse(name: str, size: str, agents: int) -> Task:
    kind = f"rware-{size}-{agents}ag-v2"
    parameters = {"shelf_rows": {"tiny": 1, "small": 2}[size], "n_agents": agents, "request_queue_size": agents}
    return Task(
        f"rware-{name}", "rware", "rware", parameters, lambda: originals.Warehouse(kind), 500, key=f"rware:{kind}",
    )  # fmt: skip


def _particles(name: str, module: str, tag: str = "agent", padded: bool = False, **settings: Any) -> Task:
    opponent = settings.get("opponent")
    return Task(
        f"mpe-{name}", "mpe", module.rpartition("_")[0], {"padded": True} if padded else {},
        lambda: originals.Particles(module, tag, opponent), 25, learning=(tag,),
        key=f"pz-mpe-{module.replace('_', '-')}", **settings,
    )  # fmt: skip


def _kitchen(layout: str) -> Task:
    parameters = {"layout": layout, "encoding": "featurize_state"}
    return Task(
        f"overcooked-{layout}", "overcooked", "overcooked", parameters, lambda: originals.Kitchen(layout), 400,
        scale=1 / 2,
    )  # fmt: skip


TASKS = {
    task.name: task
    for task in (
        _matrix("climbing", [[11, -30, 0], [-30, 7, 0], [0, 6, 5]], "climbing", payoff="climbing"),
        *(_penalty(k) for k in (0, 25, 50, 75, 100)),
        _particles("speaker-listener", "simple_speaker_listener_v4", padded=True),
        # Until 2021 a reward was the sum of all distances, and an agent also collided with itself: -1 in every step.
        _particles("spread", "simple_spread_v3", scale=2.0, offset=-75.0),
        _particles("adversary", "simple_adversary_v3", "good_agent", scale=1 / 2, opponent="adversary",
                   others=("adversary",)),
        _particles("tag", "simple_tag_v3", "adversary", scale=1 / 3, opponent="prey", others=("good_agent",)),
        _foraging("8x8-2p-2f-coop", 2, 2, 8, 8, coop=True),
        _foraging("8x8-2p-2f-2s-coop", 2, 2, 8, 2, coop=True),
        _foraging("10x10-3p-3f", 3, 3, 10, 10),
        _foraging("10x10-3p-3f-2s", 3, 3, 10, 2),
        _foraging("15x15-3p-5f", 3, 5, 15, 15),
        _foraging("15x15-4p-3f", 4, 3, 15, 15),
        _foraging("15x15-4p-5f", 4, 5, 15, 15),
        _warehouse("tiny-2ag", "tiny", 2),
        _warehouse("tiny-4ag", "tiny", 4),
        _warehouse("small-4ag", "small", 4),
        *(_kitchen(layout) for layout in (
            "cramped_room", "asymmetric_advantages", "coordination_ring", "forced_coordination",
            "counter_circuit_o_1order",
        )),
    )
}  # fmt: skip


def chosen(names: list[str]) -> list[Task]:
    """Return the tasks with these names or of these families, in the order of the table; all for no names."""
    return [task for task in TASKS.values() if not names or {task.name, task.family} & set(names)]
