"""How closely the environments' kernels follow their references: the table of docs/environments.md.

python benchmarks/agreement.py
"""

from __future__ import annotations

import argparse
import itertools
import re
from pathlib import Path

import warpdrive as wd
from warpdrive.envs.agreement import CASES, Agreement, Case, compare

PAGE = Path(__file__).parents[1] / "docs" / "environments.md"
BEGIN, END = "<!-- agreement -->", "<!-- end of agreement -->"
HEAD = [
    "| environment | reference | compared | steps | episodes | largest difference | allowed | doubtful |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
]


def line(name: str, variant: str, case: Case, num_steps: int, whole_episodes: bool) -> tuple[str, Agreement]:
    """Return a line of the table, and what it tells."""
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
    return f"| {' | '.join(cells)} |", found


def main() -> None:
    """Compare, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100_000, help="how many are compared in each line (100,000)")
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
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
        table = "\n".join([BEGIN, *lines, END])
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: table, PAGE.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main()
