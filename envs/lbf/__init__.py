"""Players collect foods that one of them alone may not be able to lift."""

from warpdrive.envs.lbf.lbf import LevelBasedForaging

__all__ = ["LevelBasedForaging"]
