"""A reference that cannot run."""

from base import Walk

EXPECTED = r"reference_with_a_mistake.py:\d+: reference_step raised KeyError in step 1: 'velocity'"


class Broken(Walk):
    def reference_step(self, state, actions):
        return super().reference_step(state, actions) | {"velocity": state["velocity"]}
