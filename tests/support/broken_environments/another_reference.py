"""A reference that says something else than the kernels."""

from base import Walk

EXPECTED = r"reference .*rewards\[\d\] is \d after step \d+, and -?\d by reference_step"


class Broken(Walk):
    def reference_step(self, state, actions):
        after = super().reference_step(state, actions)
        return after | {"rewards": -after["rewards"]}
