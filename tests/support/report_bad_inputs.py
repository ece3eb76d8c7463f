"""Run all bad inputs, or those of some kinds, and print how many are handled correctly, and which are not.

python tests/support/report_bad_inputs.py [kind ...]
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from bad_inputs import kinds
from bad_inputs.verdict import verdict


def main() -> int:
    """Print the report; return 1 if a case is bad."""
    wanted = sys.argv[1:] or list(kinds.KINDS)
    good = total = 0
    for kind in wanted:
        began, cases, bad = time.monotonic(), 0, 0
        for case in kinds.in_a_folder(kinds.KINDS[kind]):
            cases += 1
            started = time.monotonic()
            why = verdict(case)
            took = time.monotonic() - started
            if why or took > 8:
                bad += bool(why)
                print(f"{kind}: {case.name} [{took:.1f} s]\n      {why}", flush=True)
        good, total = good + cases - bad, total + cases
        print(f"== {kind}: {cases - bad} of {cases} are good ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{good} of {total} are good: {good / max(total, 1):.2%}")
    return int(good < total)


if __name__ == "__main__":
    sys.exit(main())
