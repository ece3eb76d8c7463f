"""Observations of small integers, and fractions stored in them."""

import numpy as np
from base import Walk
from gymnasium import spaces

EXPECTED = r"conversions .*'observations\[0, 0, 0\]' of int8, where it becomes 0.*> use an array of floats"


class Broken(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (1,), np.int8)
