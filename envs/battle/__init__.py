"""Two teams fight on a grid."""

from warpdrive.envs.battle.battle import Battle

__all__ = ["Battle"]
