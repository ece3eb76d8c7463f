"""Start states that are drawn from NumPy's global random numbers, not from the generator that is handed over."""

import numpy as np
from base import Walk

EXPECTED = r"determinism .*(position|observations)\[.*with 4 replicas and the same seed"


class Broken(Walk):
    def initial_state(self, rng):
        return {"position": np.random.randint(0, 1000, self.num_agents).astype(np.int32) % self.length}
