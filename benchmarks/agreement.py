"""Measure the agreement of the environments' kernels with their references: the table of docs/environments/index.md.

    python benchmarks/agreement.py                            # writes the table
    python benchmarks/agreement.py --steps 1000 --no-write    # fewer steps, print only

Kernels and references take the same actions, step by step from the same states, or over whole episodes from the same
start states. The table reports the largest difference of any observation or reward. The exit code is 1 if episodes end
at different steps.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # reference_agreement lies there

from reference_agreement import CASES, Agreement, Case, compare

import warpdrive as wd
from harness.agreement.table import options_of, row, write_table

HEAD = [
    "| environment | reference | compared | steps | episodes | largest difference | allowed | doubtful |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
]


def line(name: str, variant: str, case: Case, num_steps: int, whole_episodes: bool) -> tuple[str, Agreement]:
    """Return a row of the table, and the agreement it reports."""
    env = wd.make(name, **case.variants[variant])
    found = compare(env, case, num_steps, whole_episodes=whole_episodes, seed=17)
    how = "whole episodes" if whole_episodes else "step by step"
    allowed = case.episode_tolerance if whole_episodes else case.step_tolerance
    cells = [
        f"`{name}`{variant}",
        case.reference,
        how,
        f"{found.steps:,}",
        f"{found.episodes:,}",
        f"{found.largest:.1e}",
        f"{allowed:.0e}",
        str(found.doubtful),
    ]
    return row(cells), found


def main() -> None:
    """Compare all environments, and print and write the table."""
    options = options_of(__doc__)
    lines, disagreements = list(HEAD), []
    for name, case in CASES.items():
        comparisons = [False] + [True] * (case.episode_tolerance is not None)
        for variant, whole_episodes in itertools.product(case.variants, comparisons):
            text, found = line(name, variant, case, options.steps, whole_episodes)
            lines.append(text)
            print(text, flush=True)
            disagreements += found.wrong_ends
    if disagreements:
        raise SystemExit("episodes ended at different steps:\n" + "\n".join(disagreements[:10]))
    if not options.no_write:
        write_table("agreement", lines)


if __name__ == "__main__":
    main()
