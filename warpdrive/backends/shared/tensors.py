"""Recognition of PyTorch tensors without importing PyTorch, which takes a second; before it is, there are none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import torch


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """Return True if a value is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return isinstance(value, getattr(torch, "Tensor", ()))
