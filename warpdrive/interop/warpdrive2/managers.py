"""Managers of data, kernels, actions, resets and logs, by all their names."""

from __future__ import annotations

from warpdrive.interop.warpdrive2.controllers import (
    CUDAEnvironmentReset as CUDAEnvironmentReset,
    CUDALogController as CUDALogController,
    CUDASampler as CUDASampler,
    NumbaOUProcess as NumbaOUProcess,
)
from warpdrive.interop.warpdrive2.data_manager import CUDADataManager as CUDADataManager
from warpdrive.interop.warpdrive2.function_manager import (
    CUDAFunctionFeed as CUDAFunctionFeed,
    CUDAFunctionManager as CUDAFunctionManager,
)
from warpdrive.interop.warpdrive2.pycuda import PyCUDAFunctionManager as PyCUDAFunctionManager

NumbaDataManager = PyCUDADataManager = CUDADataManager
NumbaFunctionManager = CUDAFunctionManager
NumbaSampler = PyCUDASampler = CUDASampler
NumbaEnvironmentReset = PyCUDAEnvironmentReset = CUDAEnvironmentReset
NumbaLogController = PyCUDALogController = CUDALogController
