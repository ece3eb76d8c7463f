"""A state that no device can hold."""

import numpy as np
from base import Walk

EXPECTED = r"array 'mood' of initial_state of Broken has dtype .*, which devices do not support"


class Broken(Walk):
    def initial_state(self, rng):
        return super().initial_state(rng) | {"mood": np.array(["happy"] * self.num_agents)}
