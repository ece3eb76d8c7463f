"""Games of the Atari 2600, emulated on the device."""

from warpdrive.envs.atari.atari import Atari

__all__ = ["Atari"]
