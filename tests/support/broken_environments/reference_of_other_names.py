"""A reference that returns an array under a name that the kernels do not have."""

from base import Walk

EXPECTED = r"reference_step returned 'positions', expected one of .*Did you mean 'position'"


class Broken(Walk):
    def reference_step(self, state, actions):
        after = super().reference_step(state, actions)
        return after | {"positions": after.pop("position")}
