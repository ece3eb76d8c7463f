"""Creation of TensorDicts without validation, which takes as long as a step."""

from __future__ import annotations

from tensordict import TensorDict

new_tensordict = getattr(TensorDict, "_new_unsafe", TensorDict)
"""Return a TensorDict of tensors that have the given ``batch_size`` (a ``torch.Size``) and ``device``."""
