"""Two links swing up by a motor in the joint between them."""

from warpdrive.envs.acrobot.acrobot import Acrobot

__all__ = ["Acrobot"]
