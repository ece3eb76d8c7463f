"""Copies of actors that act on other devices, or at other times, than the trained originals.

State that actors keep between steps, such as recurrent state and exploration noise, is then that of the copies.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from warpdrive.host_transfers import host_transfers_allowed
from warpdrive.training.models.base import Actor


class ActorCopies:
    """Copies of actors with the weights of the last refresh.

    Args:
        originals: Actors by policy tag.
        device: Device of the copies.

    Attributes:
        actors: The copies, by policy tag.
    """

    def __init__(self, originals: Mapping[str, Actor], device: torch.device) -> None:
        self.originals, self.device = dict(originals), device
        self.actors = {tag: _copied(actor, device) for tag, actor in self.originals.items()}

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the parameters and persistent buffers of the originals.

        State kept between steps is the copies' own. The addresses of their tensors do not change.
        """
        for tag, original in self.originals.items():
            learned, taken = original.state_dict(), self.actors[tag].state_dict()
            if not taken:
                continue
            sources = at([learned[name] for name in taken], next(iter(taken.values())).device)
            for source, target in zip(sources, taken.values(), strict=True):
                target.copy_(source)


def _copied(actor: Actor, device: torch.device) -> Actor:
    if not any(True for _ in (*actor.parameters(), *actor.buffers())):  # as a user's function: it has no device
        return actor
    return copy.deepcopy(actor).to(device).requires_grad_(False)


def at(tensors: Sequence[Tensor], device: torch.device) -> Sequence[Tensor]:
    """Return tensors on a device: unchanged if they are there, else copied through host memory.

    Tensors of one dtype are transferred together, since a transfer has a high fixed cost.
    """
    if all(tensor.device == device for tensor in tensors):
        return tensors
    alike: dict[torch.dtype, list[int]] = defaultdict(list)
    for index, tensor in enumerate(tensors):
        alike[tensor.dtype].append(index)
    arrived: list[Tensor] = list(tensors)
    with host_transfers_allowed():
        for indices in alike.values():
            flat = torch.cat([tensors[index].reshape(-1) for index in indices]).cpu().to(device)
            parts = flat.split([tensors[index].numel() for index in indices])
            for index, part in zip(indices, parts, strict=True):
                arrived[index] = part.view(tensors[index].shape)
    return arrived
