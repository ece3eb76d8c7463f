"""Imports of the server of ``forked_programs``."""

import gymnasium
import numba
import numba.cuda
import torch

numba.njit("int64(int64)")(lambda x: x + 1)

__all__ = ["gymnasium", "numba", "torch"]
