"""A kernel with a breakpoint, which only Python can stop at."""

from base import Walk

import warpdrive as wd

EXPECTED = r"stopped_by_a_breakpoint.py:\d+: breakpoint\(\) needs .*wd.debug\(kernel\)\[blocks, threads\]"


@wd.kernel
def step(position, rewards):
    breakpoint()


class Broken(Walk):
    step = step
